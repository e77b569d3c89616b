package main

import (
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// embeddingBound bounds |Δ| of an element of an embedding over the root mean square of its elements, between a model
// with float weights here and sentence-transformers in float64 and float32. Measured: at most 8.5e-7 and 1.8e-6;
// sentence-transformers in float32 differs from its float64 by up to 1.5e-6.
const embeddingBound = 5e-6

// TestInteropEmbeddings: checkpoints that sentence-transformers saves, of a base model with a tokenizer that ends texts
// with a special token, pooled by the last token and by the mean, become packed files whose server gives the embeddings
// of sentence-transformers, to the openai package too, as base64 and as numbers.
func TestInteropEmbeddings(t *testing.T) {
	const key = "secret"
	dir, source := t.TempDir(), filepath.Join(t.TempDir(), "miniature")
	tinymodel.Miniature(t, "qwen3-0.6b", source)
	texts := []string{"Hello there", "The river ran down to the old mill.",
		strings.Repeat("A clock is a thing that tells the time of day. ", 6), "ü"}
	var answers map[string]struct{ Vectors, Exact [][]float64 }
	out := interop.Python(t, "sentence-transformers", "testdata/sentence_transformers_save.py",
		append([]string{source, dir}, texts...)...)
	if err := json.Unmarshal(out, &answers); err != nil || len(answers) != 3 {
		t.Fatalf("%v: %d answers", err, len(answers))
	}
	for name, want := range answers {
		checkpoint, file := filepath.Join(dir, name), filepath.Join(dir, name+".safetensors")
		for _, args := range [][]string{{"convert", checkpoint, "-o", file, "--quant", "none"},
			{"verify", file, "--source", checkpoint}} {
			if o := command(t, args...); o.code != 0 {
				t.Fatalf("%v: %s", args, o.out)
			}
		}
		s := serveFile(t, "", file, "--api-key", key)
		var got [][]float64
		out := interop.Python(t, "openai", "testdata/openai_embeddings.py", append([]string{s.url, key}, texts...)...)
		if err := json.Unmarshal(out, &got); err != nil || len(got) != len(texts) {
			t.Fatalf("%v: %s", err, out)
		}
		for i := range texts {
			exact, single := distance(got[i], want.Exact[i]), distance(got[i], want.Vectors[i])
			t.Logf("%s, text %d: %.1e from float64, %.1e from float32, which are apart by %.1e", name, i, exact, single,
				distance(want.Vectors[i], want.Exact[i]))
			if !(exact <= embeddingBound) || !(single <= embeddingBound) {
				t.Errorf("%s, text %d: distances %g and %g", name, i, exact, single)
			}
		}
	}
}

// distance is the largest difference of two elements over the root mean square of the second vector.
func distance(got, want []float64) (d float64) {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	sum := 0.0
	for i, x := range want {
		d = max(d, math.Abs(got[i]-x)) // NaN stays NaN
		sum += x * x
	}
	return d / math.Sqrt(sum/float64(len(want)))
}
