package pack

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func repackBlocks(t *testing.T, b Blocks, s Shape, src []byte) []byte {
	t.Helper()
	a, err := FindAlphabet(b.Spec().Alphabet)
	if err != nil {
		t.Fatal(err)
	}
	m := NewMatrix(s, a)
	scales := make([]float32, s.M*s.K/b.BlockSize())
	if err := b.UnpackBlocks(m, scales, src); err != nil {
		t.Fatal(err)
	}
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
	again := make([]byte, len(src))
	if err := b.PackBlocks(again, m, scales); err != nil {
		t.Fatal(err)
	}
	return again
}

// TestBlocksByFormula: the fast way through a block format gives the bytes of the address formula, and the codes back.
func TestBlocksByFormula(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, info := range Layouts() {
		if info.Block == 0 || info.Name == "tq1_0" { // digits of base 3 have no other way
			continue
		}
		opened, err := OpenBlocks(info.Name)
		if err != nil {
			t.Fatal(err)
		}
		b := opened.(*blocks)
		m := NewMatrix(Shape{M: 5, K: 3 * info.Block}, info.Alphabets[0])
		randomize(r, m.Codes, m.Alphabet)
		want := make([]byte, b.size(m.Shape))
		b.write(want, m, m.Shape)
		got := bytes.Repeat([]byte{0xFF}, len(want))
		if !b.packFast(got, m, m.Shape) {
			t.Fatalf("%s: the fast way refuses what the formula takes", info.Name)
		}
		for i := range m.M * m.K / info.Block {
			clear(b.scaleOf(got, i)) // which PackBlocks writes
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: byte %d differs from the address formula", info.Name, firstDifference(got, want))
		}
		again := NewMatrix(m.Shape, m.Alphabet)
		if !b.unpackFast(again, m.Shape, got) || !slices.Equal(again.Codes, m.Codes) {
			t.Errorf("%s: unpacked codes differ", info.Name)
		}
	}
}

func TestBlockRefusals(t *testing.T) {
	one := func(name string) (Blocks, Shape, []byte) {
		b, err := OpenBlocks(name)
		if err != nil {
			t.Fatal(err)
		}
		s := Shape{1, b.BlockSize()}
		n, err := b.PackedSize(s)
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]byte, n)
		if err := b.Quantize(dst, s, make([]float32, s.K)); err != nil {
			t.Fatalf("%s: a block of zeros: %v", name, err)
		}
		return b, s, dst
	}
	for _, info := range Layouts() {
		if info.Block == 0 {
			continue
		}
		b, s, _ := one(info.Name)
		if _, err := b.PackedSize(Shape{2, s.K + 1}); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: a row that is not a whole number of blocks: %v", info.Name, err)
		}
		x := make([]float32, s.K)
		x[3] = float32(math.Inf(-1))
		n, _ := b.PackedSize(s)
		if err := b.Quantize(make([]byte, n), s, x); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: an infinite weight: %v", info.Name, err)
		}
		if _, err := Open(Spec{Name: info.Name}); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s opened as a layout of codes: %v", info.Name, err)
		}
	}
	bad := []struct {
		layout string
		at     int
		value  byte
		why    string
	}{
		{"tq1_0", 0, 0x01, "a byte that no five trits give"},
		{"tq1_0", 47, 0x4F, "a byte that no five trits give"},
		{"tq1_0", 48, 0x80, "a fifth trit where there are four"},
		{"tq1_0", 53, 0x7C, "an infinite scale"},
		{"tq2_0", 0, 0x57, "the unused code 3"},
		{"tq2_0", 65, 0xFC, "an infinite scale"},
		{"mxfp4", 1, 0x08, "negative zero"},
		{"mxfp4", 0, 0xFF, "a scale that is not a number"},
	}
	for _, c := range bad {
		b, s, src := one(c.layout)
		src[c.at] = c.value
		err := Dequantize(b, make([]float32, s.K), s, src)
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s with %s: %v", c.layout, c.why, err)
		}
	}
	for _, c := range []struct {
		layout string
		scale  float32
		stored float32
		ok     bool
	}{
		{"q8_0", 1.0 / 3, 0.33325195, true}, {"q8_0", -2, -2, true}, {"q8_0", 70000, 0, false},
		{"tq1_0", float32(math.NaN()), 0, false},
		{"mxfp4", 0.25, 0.25, true}, {"mxfp4", 0.75, 0, false}, {"mxfp4", 0, 0, false}, {"mxfp4", -1, 0, false},
		{"mxfp4", 0x1p-128, 0x1p-128, true}, {"mxfp4", 0x1p127, 0, false},
	} {
		b, _, _ := one(c.layout)
		stored, err := b.StoredScale(c.scale)
		if (err == nil) != c.ok || c.ok && stored != c.stored {
			t.Errorf("%s: scale %v is stored as %v (%v), want %v", c.layout, c.scale, stored, err, c.stored)
		}
	}
}
