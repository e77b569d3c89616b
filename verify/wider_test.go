package verify

import (
	"path/filepath"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/verify/internal/sample"
)

// TestWiderCodes: codes of 3 bits, with zero points and with minima, take 3 bits. As earlier builds stored them, in 4,
// they still are those of the checkpoint, and a changed one is found.
func TestWiderCodes(t *testing.T) {
	for name, minima := range map[string]bool{"gptq-b3-asym-g32-v1": false, "mlx-b3-g64": true} {
		t.Run(name, func(t *testing.T) {
			source := shared.Path(t, "data/packed/"+name)
			f := openPacked(t, tinymodel.Converted(t, source, packed.Recipe{Golden: "none"}))
			m, wide := widened(t, f, source)
			if wide == 0 || m.Quantized[wide-1].Minima != nil != minima {
				t.Fatalf("%d tensors of int3, minima %t", wide, m.Quantized[0].Minima != nil)
			}
			path := filepath.Join(t.TempDir(), "model.safetensors")
			m.Write(t, path)
			if bad := failed(run(t, path, Options{Source: source})); len(bad) > 0 {
				t.Fatal(bad)
			}
			m.Quantized[wide-1].Matrix.Codes[5] ^= 1
			m.Write(t, path)
			if bad := failed(run(t, path, Options{Source: source})); len(bad) == 0 {
				t.Error("a changed code was not found")
			}
		})
	}
}

// widened is what a file holds, with codes of int3 as int4; those of tensors with minima count from −8 then. It returns
// the number of the last such tensor too, from 1 on.
func widened(t *testing.T, f *packed.File, source string) (m *sample.Model, last int) {
	t.Helper()
	in := f.Manifest()
	m = &sample.Model{Family: in.Family, Recipe: in.Recipe, Activation: in.Activation}
	for _, s := range in.Sources {
		m.Sources = append(m.Sources, filepath.Join(source, s.Name))
	}
	for _, p := range in.Plain {
		stored, err := f.Tensor(p.Name)
		if err != nil {
			t.Fatal(err)
		}
		m.Plain = append(m.Plain, sample.Plain{Data: stored.Data,
			Info: packed.Info{Name: p.Name, DType: p.DType, Shape: p.Shape}})
	}
	for i := range in.Packed {
		q := quantizedOf(t, f, &in.Packed[i])
		if q.Layout.Alphabet == pack.Int3.Name {
			last = i + 1
			q.Layout, q.Matrix.Alphabet = pack.Spec{Name: "vnni4i", Alphabet: pack.Int4.Name}, pack.Int4
			for k := range q.Matrix.Codes {
				if q.Minima != nil {
					q.Matrix.Codes[k] -= 4
				}
			}
		}
		m.Quantized = append(m.Quantized, q)
	}
	return m, last
}

// quantizedOf reads a quantized tensor.
func quantizedOf(t *testing.T, f *packed.File, e *packed.Entry) sample.Quantized {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	l, err := pack.Open(e.Layout)
	must(err)
	a, err := pack.FindAlphabet(e.Layout.Alphabet)
	must(err)
	q := sample.Quantized{Name: e.Name, Layout: e.Layout, Scale: e.Scale, Quantizer: e.Quantizer,
		Matrix: pack.NewMatrix(e.MatrixShape(), a)}
	stored, err := f.Tensor(e.Name + packed.PackedSuffix)
	must(err)
	must(l.Unpack(q.Matrix, stored.Data))
	q.Scales, err = packed.Scales(f, e)
	must(err)
	if e.Zero {
		q.Zeros, err = packed.Zeros(f, e)
		must(err)
	}
	q.Minima, err = packed.Minima(f, e)
	must(err)
	return q
}
