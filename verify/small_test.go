package verify

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/tokenizer/texts"
	"github.com/lowpack/lowpack/verify/internal/sample"
	"github.com/lowpack/lowpack/verify/reference"
)

// small is a file of weights alone: three quantized tensors of odd shapes with the three kinds of scales, a passthrough
// tensor, an embedded file, golden products; about 18 KB.
func small(t testing.TB) *sample.Model {
	r := rand.New(rand.NewPCG(1, 2))
	quantized := func(name, layout string, m *pack.Matrix, s packed.Scale, scales int) sample.Quantized {
		a := m.Alphabet
		q := sample.Quantized{Name: name, Matrix: m, Layout: pack.Spec{Name: layout, Alphabet: a.Name}, Scale: s,
			Quantizer: "test"}
		for i := range q.Matrix.Codes {
			q.Matrix.Codes[i] = a.Values[r.IntN(len(a.Values))]
		}
		for range scales {
			q.Scales = append(q.Scales, 0.001+r.Float32())
		}
		return q
	}
	m := &sample.Model{
		Quantized: []sample.Quantized{
			quantized("a.weight", "vnni4i", pack.NewMatrix(pack.Shape{M: 33, K: 70}, pack.Ternary),
				packed.Scale{Kind: packed.ScaleTensor}, 1),
			quantized("b.weight", "i2", pack.NewMatrix(pack.Shape{M: 21, K: 52}, pack.Ternary),
				packed.Scale{Kind: packed.ScaleRow}, 21),
			quantized("c.weight", "blocked", pack.NewMatrix(pack.Shape{M: 19, K: 64}, pack.Int2),
				packed.Scale{Kind: packed.ScaleGroup, Group: 32}, 19*2),
		},
		Plain: []sample.Plain{
			sample.F32("norm", []float32{1, 2, 3, 4, 5}, 5),
			sample.Embed("tokenizer.json", `{"model": "none"}`),
		},
		Recipe: packed.Recipe{Golden: "kernel"},
	}
	return withGolden(t, m)
}

// withGolden adds golden outputs as the recipe says.
func withGolden(t testing.TB, m *sample.Model) *sample.Model {
	t.Helper()
	f := m.Open(t)
	d, err := packed.Describe(f)
	if m.Family != "" && err != nil {
		t.Fatal(err)
	}
	encoded, err := texts.From(f.Embedded)
	if err != nil && m.Family != "" {
		t.Fatal(err)
	}
	plan, err := golden.Plan(m.Recipe.Golden, f.Manifest(), d, encoded)
	if err != nil {
		t.Fatal(err)
	}
	b, err := reference.Record(context.Background(), f, d, plan, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.GoldenSize, m.Golden = len(b), func(packed.View) []byte { return b }
	return m
}

// file writes a packed file and returns its path.
func file(t testing.TB, m *sample.Model) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	m.Write(t, path)
	return path
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func run(t testing.TB, path string, o Options) *Report {
	t.Helper()
	r, err := Run(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// failed are the failures of a report.
func failed(r *Report) (list []Check) {
	for _, c := range r.Checks {
		if c.Verdict == Fail {
			list = append(list, c)
		}
	}
	return list
}
