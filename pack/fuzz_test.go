package pack

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// damage changes packed bytes from a place on. No changes at all leave what Pack has written, a few are damage, many
// are noise.
func damage(src []byte, at uint16, changes []byte) {
	for i, c := range changes {
		src[(int(at)+i)%len(src)] ^= c
	}
}

// fill takes codes of the alphabet by bytes, which are repeated to the end.
func fill(codes []int8, a Alphabet, by []byte) {
	for i := range codes {
		c := byte(0)
		if len(by) > 0 {
			c = by[i%len(by)]
		}
		codes[i] = a.Values[int(c)%len(a.Values)]
	}
}

// FuzzUnpack damages packed matrices of every layout: the bytes are refused, or they are what Pack writes for the codes
// in them. The first bytes choose layout, alphabet and shape.
func FuzzUnpack(f *testing.F) {
	layouts := everyLayout(f)
	for i := range layouts {
		by := make([]byte, 115)
		r := rand.New(rand.NewPCG(9, uint64(i)))
		for j := range by {
			by[j] = byte(r.Uint32())
		}
		f.Add(uint8(i), uint8(4), uint8(22), by, uint16(0), []byte{})
		f.Add(uint8(i), uint8(4), uint8(22), by, uint16(7*i), []byte{1, 0, 0x80})
		f.Add(uint8(i), uint8(4), uint8(22), by, uint16(7*i), by)
	}
	f.Fuzz(func(t *testing.T, which, rows, columns uint8, codes []byte, at uint16, changes []byte) {
		l := layouts[int(which)%len(layouts)]
		m := NewMatrix(Shape{1 + int(rows)%70, 1 + int(columns)}, alphabetOf(t, l))
		fill(m.Codes, m.Alphabet, codes)
		src := packed(t, l, m)
		good := bytes.Clone(src)
		damage(src, at, changes)
		checkUnpackAny(t, l, m.Shape, src)
		if bytes.Equal(src, good) {
			again := NewMatrix(m.Shape, m.Alphabet)
			if err := l.Unpack(again, src); err != nil || !slices.Equal(again.Codes, m.Codes) {
				t.Fatalf("%s %v: other codes come back, or %v", label(l), m.Shape, err)
			}
		}
	})
}

// FuzzUnpackBlocks does the same to blocks with their scales inside.
func FuzzUnpackBlocks(f *testing.F) {
	var formats []Blocks
	for _, info := range Layouts() {
		if info.Block != 0 {
			b, err := OpenBlocks(info.Name)
			if err != nil {
				f.Fatal(err)
			}
			formats = append(formats, b)
			which := uint8(len(formats) - 1)
			f.Add(which, uint8(0), []byte{1, 2, 0}, uint16(0), []byte{})
			f.Add(which, uint8(1), []byte{7, 2, 200, 13}, uint16(0), []byte{0x55, 0x3C, 0x80})
		}
	}
	f.Fuzz(func(t *testing.T, which, blocks uint8, codes []byte, at uint16, changes []byte) {
		b := formats[int(which)%len(formats)]
		n := 1 + int(blocks)%3
		s := Shape{1, n * b.BlockSize()}
		m := NewMatrix(s, alphabetOfBlocks(t, b))
		fill(m.Codes, m.Alphabet, codes)
		scales := make([]float32, n)
		for i := range scales {
			scales[i] = float32(uint(1) << i) // every format has powers of two
		}
		size, err := b.PackedSize(s)
		if err != nil {
			t.Fatal(err)
		}
		src := make([]byte, size)
		if err := b.PackBlocks(src, m, scales); err != nil {
			t.Fatal(err)
		}
		damage(src, at, changes)
		if err := b.UnpackBlocks(m, scales, src); err != nil {
			return
		}
		if again := repackBlocks(t, b, s, src); !bytes.Equal(again, src) {
			t.Fatalf("%s: codes and scales pack to other bytes, first at %d", b.Spec().Name,
				firstDifference(again, src))
		}
	})
}
