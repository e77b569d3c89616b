//go:build amd64 && !purego

package engine

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/race"
	"github.com/lowpack/lowpack/verify/reference"
)

// pagedModel is a small model with wide heads, so that a page of the cache holds few positions.
func pagedModel(t *testing.T, window int) (*view, *model.Description) {
	m := &maker{rand.New(rand.NewPCG(uint64(window), 9)), t, newView("{}"), everyFeature}
	c := model.Config{
		Hidden:       16,
		Intermediate: 24,
		Layers:       2,
		Heads:        4,
		KVHeads:      2,
		HeadDim:      256,
		Vocab:        40,
		MaxPositions: 1024,
		NormEps:      1e-5,
		Activation:   "silu", SlidingWindow: window, Rope: model.Rope{Theta: 10000, Dim: 256},
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

// pagesCase is a window, a KV cache format and the positions per page; 0 = the default of the format.
type pagesCase struct {
	window int
	cache  CacheType
	page   int
}

// pagesCases have windows that start inside a page, at its border and within one, in every format with pages of 32
// positions, the shortest and the default of float32, and one window with the page sizes of each of the other formats.
// LOWPACK_LONG=1 has all windows with these.
func pagesCases() (list []pagesCase) {
	for _, window := range []int{33, 0, 5, 20, 32, 64} {
		for _, cache := range caches {
			list = append(list, pagesCase{window, cache, tensor.CacheBlock})
		}
	}
	if !long.All {
		return append(list, pagesCase{100, CacheF16, 0}, pagesCase{131, CacheI8, 0},
			pagesCase{131, CacheI4, 0})
	}
	for _, window := range []int{131, 0, 5, 100, 128} {
		for _, cache := range caches {
			list = append(list, pagesCase{window, cache, 0})
		}
	}
	return list
}

// TestPages compares with the reference at context depths of several pages: every way to divide the work of attention
// visits all pages in the attention span of a token, and all of their rows.
func TestPages(t *testing.T) {
	for _, c := range race.Few(3, pagesCases()) {
		t.Run(fmt.Sprintf("window %d, cache %s, page %d", c.window, c.cache, c.page), func(t *testing.T) {
			testPages(t, c)
		})
	}
}

func testPages(t *testing.T, c pagesCase) {
	v, d := pagedModel(t, c.window)
	page := cmp.Or(c.page, tensor.CacheType(c.cache).PageRows(d.HeadDim))
	tokens := make([]int, min(3*page+5, 400))
	if len(tokens) <= 2*page {
		t.Fatalf("%d tokens do not fill several pages of %d", len(tokens), page)
	}
	r := rand.New(rand.NewPCG(uint64(page), uint64(c.window)))
	for i := range tokens {
		tokens[i] = r.IntN(d.Vocab)
	}
	ref, err := reference.New(v, d)
	if err != nil {
		t.Fatal(err)
	}
	judge, err := ref.WithCache(string(c.cache))
	if err != nil {
		t.Fatal(err)
	}
	want, err := judge.Logits(context.Background(), tokens)
	if err != nil {
		t.Fatal(err)
	}
	for name, way := range map[string]struct {
		o    Options
		long int
	}{
		"prefill":                   {Options{Threads: 2}, longText},
		"decode":                    {Options{Threads: 2, Batch: 1}, longText},
		"decode, shared by pages":   {Options{Threads: 2, Batch: 1}, 1},
		"decode of one worker":      {Options{Threads: 1, Batch: 1}, 1},
		"prefill of several chunks": {Options{Threads: 3, Batch: 7}, longText},
	} {
		way.o.Cache, way.o.Page, way.o.Context = c.cache, c.page, len(tokens)
		e, err := build(v, d, way.o)
		if err != nil {
			t.Fatal(err)
		}
		e.pass.attention.long = way.long
		for i, row := range logits(t, e, tokens, len(tokens)) {
			if !slices.Equal(row, want[i]) {
				t.Fatalf("%s: the logits of position %d differ; a page has %d", name, i, page)
			}
		}
		e.Close()
	}
}
