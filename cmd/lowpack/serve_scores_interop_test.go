package main

import (
	"encoding/json"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/scoring"
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
		scores, order := ranking(t, serveFile(t, "", file), query, documents)
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

// TestInteropCohere: the cohere package gets the scores and the order of plain requests, all digits, from /v2/rerank
// and /v1/rerank, and understands errors.
func TestInteropCohere(t *testing.T) {
	const key = "secret"
	file := tinymodel.Scored(t, scoring.Scoring{True: 300, False: 17, Activation: scoring.Sigmoid,
		Format: scoring.Flat})
	s := serveFile(t, "", file, "--api-key", key, "--model-name", "reranker")
	query := "Where did the river run?"
	documents := []string{"Hello there", "The river ran down to the old mill.", "ü", "A clock tells the time of day."}
	out := interop.Python(t, "cohere", "testdata/cohere_rerank.py",
		append([]string{s.url, key, "reranker", query}, documents...)...)
	var pairs [][2]float64
	if err := json.Unmarshal(out, &pairs); err != nil || len(pairs) != len(documents) {
		t.Fatalf("%v: %s", err, out)
	}
	scores, order := ranking(t, s, query, documents)
	for i, p := range pairs {
		if order[i] != int(p[0]) || scores[order[i]] != p[1] {
			t.Errorf("place %d: document %v with score %v; want %d with %v", i, p[0], p[1], order[i], scores[order[i]])
		}
	}
}

// ranking asks a server for the scores of documents, and returns them in the order of the documents, and that order of
// the documents in which they came.
func ranking(t *testing.T, s *served, query string, documents []string) (scores []float64, order []int) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"query": query, "documents": documents})
	if err != nil {
		t.Fatal(err)
	}
	status, text := s.send(http.MethodPost, "/v1/rerank", string(body), http.Header{"X-Api-Key": {"secret"}})
	var a struct {
		Results []struct {
			Index int
			Score float64 `json:"relevance_score"`
		}
	}
	if err := json.Unmarshal(text, &a); err != nil || len(a.Results) != len(documents) {
		t.Fatalf("%d %s: %v", status, text, err)
	}
	scores = slices.Repeat([]float64{math.NaN()}, len(documents))
	for _, one := range a.Results {
		scores[one.Index], order = one.Score, append(order, one.Index)
	}
	return scores, order
}
