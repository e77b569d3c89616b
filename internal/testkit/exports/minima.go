package exports

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/pack"
)

// WithMinima is a packed file of the same codes with scales of another type, where their columns allow it, and with
// minima beside group-wise scales (FORMAT F25). Minima are the lowest codes times their scales, moved by up to half a
// scale, so that weights are about as large as before; every 29th has the sign of its scale, so that sums are rounded.
func WithMinima(t *testing.T, source string, dtype packed.ScaleType) string {
	t.Helper()
	f, err := packed.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, changed, r := *f.Manifest(), map[string][]byte{}, rand.New(rand.NewPCG(39, 25))
	m.Packed = append([]packed.Entry(nil), m.Packed...)
	for i := range m.Packed {
		if e := &m.Packed[i]; e.Scale.Kind == packed.ScaleGroup {
			scales, minima := minimaOf(t, f, e, r)
			e.Min, e.Scale = true, typed(e, dtype)
			changed[e.Name+packed.ScaleSuffix] = stored(t, e, scales)
			changed[e.Name+packed.MinSuffix] = stored(t, e, minima)
		}
	}
	path := filepath.Join(t.TempDir(), "minima.safetensors")
	w, err := packed.Create(path, packed.Contents{Manifest: m})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for i, s := range m.Sources {
		w.Manifest().Sources[i].SHA256 = s.SHA256
	}
	write := func(name string) {
		data, known := changed[name]
		if !known {
			x, err := f.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			data = append([]byte(nil), x.Data...)
		}
		if err := w.WriteTensor(name, data); err != nil {
			t.Fatal(err)
		}
	}
	for i := range m.Packed {
		e := &m.Packed[i]
		w.Manifest().Packed[i].CodesSHA = e.CodesSHA
		write(e.Name + packed.PackedSuffix)
		for _, b := range e.Beside() {
			write(e.Name + b.Suffix)
		}
	}
	for _, p := range m.Plain {
		write(p.Name)
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	return path
}

// typed is the scale of an entry in another type. F16I8 takes whole blocks of small groups.
func typed(e *packed.Entry, dtype packed.ScaleType) packed.Scale {
	if dtype == packed.ScaleF16I8 && (e.Scale.Group > 32 || e.MatrixShape().K%packed.FactorColumns != 0) {
		dtype = packed.ScaleF16
	}
	return packed.Scale{Kind: packed.ScaleGroup, Group: e.Scale.Group, DType: dtype, Signed: true}
}

// minimaOf are scales of an entry and minima for them.
func minimaOf(t *testing.T, f *packed.File, e *packed.Entry, r *rand.Rand) (scales, minima []float32) {
	t.Helper()
	a, err := pack.FindAlphabet(e.Layout.Alphabet)
	if err != nil {
		t.Fatal(err)
	}
	if scales, err = packed.Scales(f, e); err != nil {
		t.Fatal(err)
	}
	for i, s := range scales {
		x := float32(a.Values[0]) + r.Float32() - 0.5
		if i%29 == 0 {
			x = r.Float32() / 3
		}
		minima = append(minima, s*x)
	}
	return scales, minima
}

// stored are numbers in the type of the scales of an entry, rounded.
func stored(t *testing.T, e *packed.Entry, numbers []float32) (data []byte) {
	t.Helper()
	var err error
	if e.Scale.DType == packed.ScaleF16I8 {
		for n := packed.FactorColumns / e.Scale.Group; len(numbers) > 0; numbers = numbers[n:] {
			half, integers := factors(numbers[:n])
			if data, err = e.Scale.AppendFactors(data, half, integers); err != nil {
				t.Fatal(err)
			}
		}
		return data
	}
	for _, x := range numbers {
		switch e.Scale.DType {
		case packed.ScaleF16:
			x = float16.Widen(float16.Narrow(x))
		case packed.ScaleBF16:
			x = float16.WidenBrain(float16.NarrowBrain(float64(x)))
		}
		if data, err = e.Scale.AppendScale(data, x); err != nil {
			t.Fatal(err)
		}
	}
	return data
}

// factors are a float16 and integers whose products are near the numbers.
func factors(numbers []float32) (half float32, integers []int8) {
	largest := 0.0
	for _, x := range numbers {
		largest = max(largest, math.Abs(float64(x)))
	}
	half = float16.Widen(float16.Narrow(float32(largest / 120)))
	for _, x := range numbers {
		integers = append(integers, int8(math.Round(float64(x)/max(float64(half), 1e-30))))
	}
	return half, integers
}
