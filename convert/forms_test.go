package convert

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// form is a packed matrix with everything that may be stored with its codes.
type form struct {
	entry  packed.Entry
	matrix *pack.Matrix
	scales []float32
	zeros  []int8
	minima []float32
	order  []int32
}

// newForm fills a matrix with random codes, scales representable in their type, and zero points and a column order as
// in the entry.
func newForm(t *testing.T, r *rand.Rand, e packed.Entry) *form {
	t.Helper()
	a, err := pack.FindAlphabet(e.Layout.Alphabet)
	if err != nil {
		t.Fatal(err)
	}
	l, err := pack.Open(e.Layout)
	if err != nil {
		t.Fatal(err)
	}
	e.Quantizer, e.Layout = "test", l.Spec()
	if e.Bytes, err = l.PackedSize(e.MatrixShape()); err != nil {
		t.Fatal(err)
	}
	f := &form{entry: e, matrix: pack.NewMatrix(e.MatrixShape(), a)}
	for i := range f.matrix.Codes {
		f.matrix.Codes[i] = a.Values[r.IntN(len(a.Values))]
	}
	n, err := e.ScaleCount()
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		s := float32(math.Ldexp(1, r.IntN(9)-4))
		if e.Scale.DType != packed.ScaleE8M0 {
			s *= 1 + float32(r.IntN(128))/128
		}
		if e.Scale.Signed && r.IntN(2) == 0 {
			s = -s
		}
		f.scales = append(f.scales, s)
		if e.Min {
			f.minima = append(f.minima, float32(r.IntN(64)-32)/16)
		}
		if e.Zero {
			f.zeros = append(f.zeros, int8(r.IntN(16)-8))
		}
	}
	if e.Order {
		for _, k := range r.Perm(f.matrix.K) {
			f.order = append(f.order, int32(k))
		}
	}
	return f
}

// forms are all types of scales, with and without sign, zero points and order.
func forms(t *testing.T) []*form {
	r := rand.New(rand.NewPCG(20, 2))
	spec := func(layout string, a pack.Alphabet) pack.Spec { return pack.Spec{Name: layout, Alphabet: a.Name} }
	group := func(n int, dtype packed.ScaleType, signed bool) packed.Scale {
		return packed.Scale{Kind: packed.ScaleGroup, Group: n, DType: dtype, Signed: signed}
	}
	var list []*form
	for _, e := range []packed.Entry{
		{Name: "a", Shape: []int{33, 100}, Layout: spec("vnni4i", pack.Int4), Scale: group(32, packed.ScaleF16, true)},
		{Name: "b", Shape: []int{33, 100}, Layout: spec("vnni4i", pack.Int4), Scale: group(64, packed.ScaleBF16, false),
			Zero: true, Order: true},
		{Name: "c", Shape: []int{40, 96}, Layout: spec("vnni4i", pack.E2M1), Scale: group(32, packed.ScaleE8M0, false),
			Order: true},
		{Name: "d", Shape: []int{5, 70}, Layout: spec("vnni4i", pack.Int2),
			Scale: packed.Scale{Kind: packed.ScaleRow, DType: packed.ScaleF32, Signed: true}, Zero: true},
		{Name: "e", Shape: []int{33, 100}, Layout: spec("vnni4i", pack.Int4), Scale: group(32, packed.ScaleBF16, true),
			Min: true, Order: true},
		{Name: "f", Shape: []int{33, 100}, Layout: spec("vnni4i", pack.IQ4NL), Scale: group(32, packed.ScaleF16, true)},
		{Name: "g", Shape: []int{33, 100}, Layout: spec("vnni4p", pack.Int6), Scale: group(32, packed.ScaleF16, true)},
		{Name: "h", Shape: []int{40, 90}, Layout: spec("vnni4p", pack.Int5), Scale: group(64, packed.ScaleF16, true),
			Min: true},
		{Name: "i", Shape: []int{5, 70}, Layout: spec("vnni4p", pack.Int3), Scale: group(32, packed.ScaleF16, true),
			Zero: true},
	} {
		list = append(list, newForm(t, r, e))
	}
	return list
}

// writeForms writes a packed file of weights alone.
func writeForms(t *testing.T, list []*form) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "forms.safetensors")
	c := packed.Contents{Manifest: packed.Manifest{Tool: "test",
		Recipe: packed.Recipe{Quant: QuantAuto, Layout: "vnni4i", Golden: "none"}}}
	c.Manifest.Activation = packed.Activation{Kind: packed.ActivationGroup, Size: 32}
	for _, f := range list {
		c.Manifest.Packed = append(c.Manifest.Packed, f.entry)
	}
	w, err := packed.Create(path, c)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for i, f := range list {
		for suffix, data := range f.stored(t) {
			if err := w.WriteTensor(f.entry.Name+suffix, data); err != nil {
				t.Fatal(err)
			}
		}
		w.Manifest().Packed[i].CodesSHA = packed.CodesDigest(f.matrix)
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	return path
}

// stored returns the tensors of a form.
func (f *form) stored(t *testing.T) map[string][]byte {
	t.Helper()
	l, err := pack.Open(f.entry.Layout)
	if err != nil {
		t.Fatal(err)
	}
	list := map[string][]byte{packed.PackedSuffix: make([]byte, f.entry.StoredBytes())}
	if err := l.Pack(list[packed.PackedSuffix][:f.entry.Bytes], f.matrix); err != nil {
		t.Fatal(err)
	}
	blobs, err := scaleBlob(f.entry.Scale, f.scales)
	if err != nil {
		t.Fatal(err)
	}
	list[packed.ScaleSuffix] = blobs[0].Data
	if f.minima != nil {
		how := f.entry.Scale
		how.Signed = true
		if blobs, err = scaleBlob(how, f.minima); err != nil {
			t.Fatal(err)
		}
		list[packed.MinSuffix] = blobs[0].Data
	}
	if f.zeros != nil {
		list[packed.ZeroSuffix] = packed.CodeBytes(f.zeros)
	}
	for _, k := range f.order {
		list[packed.OrderSuffix] = binary.LittleEndian.AppendUint32(list[packed.OrderSuffix], uint32(k))
	}
	return list
}

// weight is (code − zero)·scale of a row and an element of the vector, by FORMAT F9, F23 and F24.
func (f *form) weight(row, element int) float32 {
	column := element
	for j, k := range f.order {
		if int(k) == element {
			column = j
		}
	}
	unit, perRow := row, len(f.scales)/f.matrix.M
	if f.entry.Scale.Kind == packed.ScaleGroup {
		unit = row*perRow + column/f.entry.Scale.Group
	}
	code := int(f.matrix.Codes[row*f.matrix.K+column])
	if f.zeros != nil {
		code -= int(f.zeros[unit])
	}
	if f.minima != nil {
		return float32(float32(code-int(f.matrix.Values[0]))*f.scales[unit]) + f.minima[unit]
	}
	return float32(float64(code) * float64(f.scales[unit]))
}

// TestRepackForms: everything stored with the codes survives a change of layout and back, byte for byte.
func TestRepackForms(t *testing.T) {
	list := forms(t)
	from := writeForms(t, list)
	dir := t.TempDir()
	for _, layout := range []string{"blocked", "vnni4i-64"} {
		there, back := filepath.Join(dir, "there-"+layout), filepath.Join(dir, "back-"+layout)
		if _, err := Repack(context.Background(), from, there, RepackOptions{Layout: layout}); err != nil {
			t.Fatal(err)
		}
		f, err := packed.Open(there)
		if err != nil {
			t.Fatal(err)
		}
		checkForms(t, f, list)
		f.Close()
		if _, err := Repack(context.Background(), there, back, RepackOptions{Layout: "vnni4i"}); err != nil {
			t.Fatal(err)
		}
		f, err = packed.Open(back)
		if err != nil {
			t.Fatal(err)
		}
		checkForms(t, f, list)
		f.Close()
		again := filepath.Join(dir, "again-"+layout)
		if _, err := Repack(context.Background(), from, again, RepackOptions{Layout: "vnni4i"}); err != nil {
			t.Fatal(err)
		}
		a, errA := os.ReadFile(back)
		b, errB := os.ReadFile(again)
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("%s and back: other bytes", layout)
		}
	}
}

// checkForms compares the file with what was written.
func checkForms(t *testing.T, f *packed.File, list []*form) {
	t.Helper()
	if a := f.Manifest().Activation; a.String() != "group:32" {
		t.Errorf("activation scales became %v", a)
	}
	for i, want := range list {
		e := &f.Manifest().Packed[i]
		if e.Scale != want.entry.Scale || e.Zero != want.entry.Zero || e.Min != want.entry.Min ||
			e.Order != want.entry.Order || e.CodesSHA != packed.CodesDigest(want.matrix) {
			t.Errorf("%s became %+v", e.Name, e)
		}
		for suffix, data := range want.stored(t) {
			if suffix == packed.PackedSuffix {
				continue
			}
			if x, err := f.Tensor(e.Name + suffix); err != nil || !bytes.Equal(x.Data, data) {
				t.Errorf("%s%s differs: %v", e.Name, suffix, err)
			}
		}
	}
}

// TestUnpackForms: unpacked floats are (code − zero)·scale, in the order that the columns had.
func TestUnpackForms(t *testing.T) {
	list := forms(t)
	dir := filepath.Join(t.TempDir(), "unpacked")
	if _, err := Unpack(context.Background(), writeForms(t, list), dir, UnpackOptions{Form: FormF32}); err != nil {
		t.Fatal(err)
	}
	weights := readWeights(t, dir)
	for _, f := range list {
		checkFloats(t, f, weights[f.entry.Name].data)
	}
}

// TestUnpackGroups: the same for quantizer output, with scales of two bytes and of one.
func TestUnpackGroups(t *testing.T) {
	for quant, scale := range map[string]string{"int3": "group:32", "int4": "group:32", "int5": "row",
		"int6": "group:64", "int8": "group:64", "int2": "group:32", "iq4nl": "group:64", "mxfp4": "", "q2_0": ""} {
		path := converted(t, floatsAlone(t),
			packed.Recipe{Quant: quant, Scale: scale, Golden: "none", AllowLossy: true})
		dir := filepath.Join(t.TempDir(), "unpacked")
		if _, err := Unpack(context.Background(), path, dir, UnpackOptions{Form: FormF32}); err != nil {
			t.Fatal(err)
		}
		f, err := packed.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		weights := readWeights(t, dir)
		for _, e := range f.Manifest().Packed {
			m, err := packed.Codes(f, &e, 0)
			if err != nil {
				t.Fatal(err)
			}
			scales, err := packed.Scales(f, &e)
			if err != nil {
				t.Fatal(err)
			}
			checkFloats(t, &form{entry: e, matrix: m, scales: scales}, weights[e.Name].data)
		}
		f.Close()
	}
}

// checkFloats compares F32 weights with the dequantized weights of a form.
func checkFloats(t *testing.T, f *form, data []byte) {
	t.Helper()
	if len(data) != 4*len(f.matrix.Codes) {
		t.Fatalf("%s: %d bytes", f.entry.Name, len(data))
	}
	for i := range f.matrix.Codes {
		got := math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		if want := f.weight(i/f.matrix.K, i%f.matrix.K); got != want {
			t.Fatalf("%s: row %d, column %d: %v, want %v", f.entry.Name, i/f.matrix.K, i%f.matrix.K, got, want)
		}
	}
}
