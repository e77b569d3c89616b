package main

import (
	"encoding/json"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// TestInteropScores: cross-encoders over a causal model that sentence-transformers saves, with a prompt, a sigmoid and
// contents that are texts, and with one token, no activation and contents that are lists, become packed files whose
// server gives the scores and the order of sentence-transformers.
func TestInteropScores(t *testing.T) {
	dir, source := t.TempDir(), filepath.Join(t.TempDir(), "miniature")
	tinymodel.Miniature(t, "qwen3-0.6b", source)
	query := "Where did the river run?"
	documents := []string{"The river ran down to the old mill.", "Hello there", "ü", "",
		strings.Repeat("A clock is a thing that tells the time of day. ", 6)}
	var answers map[string]struct {
		Scores, Exact []float64
		Order         []int
	}
	out := interop.Python(t, "sentence-transformers", "testdata/sentence_transformers_rank.py",
		append([]string{source, dir, query}, documents...)...)
	if err := json.Unmarshal(out, &answers); err != nil || len(answers) != 2 {
		t.Fatalf("%v: %d answers: %s", err, len(answers), out)
	}
	for name, want := range answers {
		checkpoint, file := filepath.Join(dir, name), filepath.Join(dir, name+".safetensors")
		for _, args := range [][]string{{"convert", checkpoint, "-o", file, "--quant", "none"},
			{"verify", file, "--source", checkpoint}} {
			if o := command(t, args...); o.code != 0 {
				t.Fatalf("%v: %s", args, o.out)
			}
		}
		scores, order := ranking(t, serveFile(t, "", file).url, query, documents)
		exact, single := distance(scores, want.Exact), distance(scores, want.Scores)
		t.Logf("%s: %.1e from float64, %.1e from float32, which are apart by %.1e", name, exact, single,
			distance(want.Scores, want.Exact))
		if !(exact <= embeddingBound) || !(single <= embeddingBound) {
			t.Errorf("%s: %v, want %v", name, scores, want.Exact)
		}
		if !slices.Equal(order, want.Order) {
			t.Errorf("%s: order %v, want %v", name, order, want.Order)
		}
	}
}

// ranking asks a server for the scores of documents, and returns them in the order of the documents, and that order of
// the documents in which they came.
func ranking(t *testing.T, url, query string, documents []string) (scores []float64, order []int) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"query": query, "documents": documents})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.Post(url+"/v1/rerank", "application/json", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var a struct {
		Results []struct {
			Index int
			Score float64 `json:"relevance_score"`
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil || len(a.Results) != len(documents) {
		t.Fatalf("%v: %+v", err, a)
	}
	scores = slices.Repeat([]float64{math.NaN()}, len(documents))
	for _, one := range a.Results {
		scores[one.Index], order = one.Score, append(order, one.Index)
	}
	return scores, order
}
