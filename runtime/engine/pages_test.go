//go:build amd64 && !purego

package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/internal/testkit/race"
	"github.com/lowpack/lowpack/verify/reference"
)

// pagedModel is a small model whose heads are wide, so that a page of the cache holds few positions.
func pagedModel(t *testing.T, window int) (*view, *model.Description) {
	m := &maker{rand.New(rand.NewPCG(uint64(window), 9)), t, newView("{}"), false}
	c := model.Config{
		Hidden: 16, Intermediate: 24, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 256, Vocab: 40, MaxPositions: 1024, NormEps: 1e-5,
		Activation: "silu", SlidingWindow: window, Rope: model.Rope{Theta: 10000, Dim: 256},
	}
	d := &model.Description{Family: "paged", Config: c}
	d.Embed = m.floats("embed", d.Vocab, d.Hidden)
	d.FinalNorm, d.Head = m.norm("norm", d.Hidden, 1), d.Embed
	for i := range d.Layers {
		b := m.block(fmt.Sprintf("%d.", i), &d.Config)
		b.Local = window > 0 && i == 0
		d.Blocks = append(d.Blocks, b)
	}
	return m.v, d
}

// TestPages compares with the reference at context depths of several pages, for every format of it, with windows that
// begin inside a page, at its border and within one: every way to share the work of attention visits all pages that a token
// sees, and all of their rows.
func TestPages(t *testing.T) {
	for _, window := range race.Few(1, []int{131, 0, 5, 100, 128}) {
		v, d := pagedModel(t, window)
		ref, err := reference.New(v, d)
		if err != nil {
			t.Fatal(err)
		}
		for _, cache := range caches {
			page := tensor.CacheType(cache).PageRows(d.HeadDim)
			tokens := make([]int, min(3*page+5, 400))
			r := rand.New(rand.NewPCG(uint64(page), uint64(window)))
			for i := range tokens {
				tokens[i] = r.IntN(d.Vocab)
			}
			judge, err := ref.WithCache(string(cache))
			if err != nil {
				t.Fatal(err)
			}
			want, err := judge.Logits(context.Background(), tokens)
			if err != nil {
				t.Fatal(err)
			}
			if len(tokens) <= 2*page {
				t.Fatalf("%d tokens do not fill several pages of %d", len(tokens), page)
			}
			for name, c := range map[string]struct {
				o    Options
				long int
			}{
				"prefill":                   {Options{Threads: 2}, longText},
				"decode":                    {Options{Threads: 2, Batch: 1}, longText},
				"decode, shared by pages":   {Options{Threads: 2, Batch: 1}, 1},
				"decode of one worker":      {Options{Threads: 1, Batch: 1}, 1},
				"prefill of several chunks": {Options{Threads: 3, Batch: 7}, longText},
			} {
				c.o.Cache, c.o.Context = cache, len(tokens)
				e, err := build(v, d, c.o)
				if err != nil {
					t.Fatal(err)
				}
				e.pass.attention.long = c.long
				for i, row := range logits(t, e, tokens, len(tokens)) {
					if !slices.Equal(row, want[i]) {
						t.Fatalf("window %d, cache %s, %s: the logits of position %d differ; a page has %d", window, cache, name, i, page)
					}
				}
				e.Close()
			}
		}
	}
}
