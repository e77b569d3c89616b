package packed

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// TestBeside writes and reads entries with scales of every type, zero points, orders and experts.
func TestBeside(t *testing.T) {
	for _, c := range []struct {
		scale       Scale
		alphabet    pack.Alphabet
		scales      []float32
		zero, order bool
		experts     int
	}{
		{Scale{Kind: ScaleTensor}, pack.Ternary, []float32{0.75}, false, false, 0},
		{Scale{Kind: ScaleTensor, DType: ScaleF16}, pack.Ternary, []float32{0.75, 0x1p-24}, true, true, 2},
		{Scale{Kind: ScaleRow, DType: ScaleBF16, Signed: true}, pack.Int4, []float32{-0x1p127, 0x1p-130, 5},
			true, false, 0},
		{Scale{Kind: ScaleRow, DType: ScaleF16, Signed: true}, pack.Int8, []float32{-65504, 0x1p-24, 5},
			false, true, 1},
		{Scale{Kind: ScaleGroup, Group: 32, DType: ScaleE8M0}, pack.E2M1, []float32{0x1p-128, 0x1p126, 1},
			false, true, 3},
		{Scale{Kind: ScaleGroup, Group: 64, DType: ScaleF32, Signed: true}, pack.Int4, []float32{-0.1, 0.2, 0},
			true, true, 5},
	} {
		e := Entry{Name: "w", Shape: []int{35, 100}, Scale: c.scale, Zero: c.zero, Order: c.order, Quantizer: "test"}
		if c.experts > 0 {
			e.Shape = append([]int{c.experts}, e.Shape...)
		}
		name := "vnni4i"
		if c.alphabet.Name == pack.Int8.Name {
			name = "vnni4"
		}
		l, err := pack.Open(pack.Spec{Name: name, Alphabet: c.alphabet.Name})
		if err != nil {
			t.Fatal(err)
		}
		e.Layout = l.Spec()
		if e.Bytes, err = l.PackedSize(e.MatrixShape()); err != nil {
			t.Fatal(err)
		}
		f, codes := writeEntry(t, &e, l, c.alphabet, c.scales)
		got := &f.Manifest().Packed[0]
		for i := range e.Experts() {
			m, err := Codes(f, got, i)
			if err != nil || !slices.Equal(m.Codes, codes.Codes[i*35*100:(i+1)*35*100]) {
				t.Errorf("%v: codes of matrix %d differ: %v", c.scale, i, err)
			}
			order, err := Order(f, got, i)
			if err != nil || (order != nil) != c.order || c.order && (order[0] != 99 || order[99] != 0) {
				t.Errorf("%v: order %v, %v", c.scale, order, err)
			}
		}
		scales, err := Scales(f, got)
		zeros, errZeros := Zeros(f, got)
		if err != nil || errZeros != nil || (zeros != nil) != c.zero || c.zero && len(zeros) != len(scales) {
			t.Errorf("%v: %d scales, %d zero points, %v, %v", c.scale, len(scales), len(zeros), err, errZeros)
		}
		for i, s := range scales {
			if s != c.scales[i%len(c.scales)] || c.zero && zeros[i] != int8(i) {
				t.Fatalf("%v: scale %d is %v", c.scale, i, s)
			}
		}
		if first, last := got.Unit(0, 0), got.Unit(got.Rows()-1, 99); first != 0 || last != len(scales)-1 {
			t.Errorf("%v: the first weight has scale %d, the last one %d of %d", c.scale, first, last, len(scales))
		}
		size := int64(0)
		for _, info := range f.Tensors() {
			x, _ := f.Tensor(info.Name)
			size += int64(len(x.Data))
		}
		if got.AllBytes() != size || got.Bits() != 8*float64(size)/float64(got.Weights()) {
			t.Errorf("%v: %d bytes in all, %v bits per weight; the file has %d", c.scale, got.AllBytes(),
				got.Bits(), size)
		}
	}
}

// writeEntry writes a file of one entry, zero point i for scale number i, and the columns in reverse order.
func writeEntry(t *testing.T, e *Entry, l pack.Layout, a pack.Alphabet, scales []float32) (*File, *pack.Matrix) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x")
	w, err := Create(path, Contents{Manifest: Manifest{Tool: "test", Packed: []Entry{*e}}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	all := pack.NewMatrix(pack.Shape{M: e.Rows(), K: e.MatrixShape().K}, a)
	for i := range all.Codes {
		all.Codes[i] = a.Values[i*7%len(a.Values)]
	}
	stored := &w.Manifest().Packed[0]
	stored.CodesSHA = CodesDigest(all)
	b := make([]byte, e.StoredBytes())
	for i := range e.Experts() {
		one := *all
		one.Shape = e.MatrixShape()
		one.Codes = all.Codes[i*one.M*one.K:][:one.M*one.K]
		if err := l.Pack(b[i*e.Stride():][:e.Bytes], &one); err != nil {
			t.Fatal(err)
		}
	}
	data := map[string][]byte{PackedSuffix: b}
	n, _ := e.ScaleCount()
	for i := range e.Experts() * n {
		if data[ScaleSuffix], err = stored.Scale.AppendScale(data[ScaleSuffix], scales[i%len(scales)]); err != nil {
			t.Fatal(err)
		}
		data[ZeroSuffix] = append(data[ZeroSuffix], byte(i))
	}
	for i := range e.Experts() * all.K {
		data[OrderSuffix] = binary.LittleEndian.AppendUint32(data[OrderSuffix], uint32(all.K-1-i%all.K))
	}
	for _, suffix := range []string{PackedSuffix, ScaleSuffix, ZeroSuffix, OrderSuffix} {
		if _, err := w.frame.lookup("w" + suffix); err != nil {
			continue
		}
		if err := w.WriteTensor("w"+suffix, data[suffix]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, all
}

// TestAppendScale: a scale is stored exactly or rejected: every value of the narrow types, and the values next to it.
func TestAppendScale(t *testing.T) {
	for _, s := range []Scale{{DType: ScaleF16, Signed: true}, {DType: ScaleBF16, Signed: true}, {DType: ScaleE8M0}} {
		patterns := 1 << 16
		if s.DType == ScaleE8M0 {
			patterns = 1 << 8
		}
		for p := range patterns {
			stored := binary.LittleEndian.AppendUint16(nil, uint16(p))[:scaleTypes[s.DType].Size()]
			x := s.Widened(stored)[0]
			got, err := s.AppendScale(nil, x)
			if finite := !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0); finite != (err == nil) ||
				finite && !bytes.Equal(got, stored) {
				t.Fatalf("%s: %v: %x instead of %x, %v", s.DType, x, got, stored, err)
			}
			next := math.Nextafter32(x, 1e9)
			if _, err := s.AppendScale(nil, next); err == nil && x != 0 && x != next {
				t.Fatalf("%s: the neighbour of %v is taken", s.DType, x)
			}
		}
	}
	if _, err := (Scale{DType: ScaleF32}).AppendScale(nil, -1); !errors.Is(err, pack.ErrUnsupported) {
		t.Errorf("a negative scale among unsigned ones: %v", err)
	}
}

// TestMinima: minima require group-wise float scales, and the zero point is then always the lowest code (F25).
func TestMinima(t *testing.T) {
	good := Entry{Name: "w", Shape: []int{2, 64}, Layout: pack.Spec{Name: "vnni4i", Alphabet: pack.Int4.Name},
		Scale: Scale{Kind: ScaleGroup, Group: 32, DType: ScaleF16}, Min: true}
	if err := good.checkForm(); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(e *Entry){
		"zero points":      func(e *Entry) { e.Zero = true },
		"a scale per row":  func(e *Entry) { e.Scale.Kind, e.Scale.Group = ScaleRow, 0 },
		"scales of a byte": func(e *Entry) { e.Scale.DType, e.Layout.Alphabet = ScaleE8M0, pack.E2M1.Name },
	} {
		e := good
		change(&e)
		if err := e.checkForm(); !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	v := fakeView{"w" + MinSuffix: {Name: "w" + MinSuffix, Data: []byte{0, 0xbc, 0, 0x40, 0, 0x80, 0xff, 0x7b}}}
	minima, err := Minima(v, &good)
	if err != nil || !slices.Equal(minima, []float32{-1, 2, 0, 65504}) {
		t.Errorf("%v, %v", minima, err)
	}
	if zeros, err := Zeros(v, &good); err != nil || !slices.Equal(zeros, []int8{-8, -8, -8, -8}) {
		t.Errorf("%v, %v", zeros, err)
	}
	for _, bad := range [][]byte{{0, 0x7c}, {0, 0xfc}, {1, 0x7c}} {
		copy(v["w"+MinSuffix].Data[2:], bad)
		if _, err := Minima(v, &good); !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("% x: %v", bad, err)
		}
	}
	v["w"+MinSuffix] = Tensor{Name: "w" + MinSuffix, Data: make([]byte, 6)}
	if _, err := MinimaOf(v, &good, 0); !errors.Is(err, pack.ErrCorrupt) {
		t.Errorf("three minima: %v", err)
	}
}

// fakeView has tensors only.
type fakeView map[string]Tensor

func (fakeView) Manifest() *Manifest                  { return nil }
func (v fakeView) Tensor(name string) (Tensor, error) { return v[name], nil }
func (fakeView) Embedded(string) ([]byte, bool)       { return nil, false }
