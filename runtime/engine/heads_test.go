//go:build amd64 && !purego

package engine

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/verify/reference"
)

// twoSizes is a model whose blocks without a window have heads of another size than those with one.
func twoSizes(t *testing.T, from func(*testing.T, func(*model.Description)) (*view, *model.Description)) (*view,
	*model.Description) {
	t.Helper()
	v, d := from(t, nil)
	m := &maker{rand.New(rand.NewPCG(9, 8)), t, v, everyFeature}
	m.twoShapes(d)
	return v, d
}

// TestHeadsOfTwoSizes: heads of two sizes give the logits of the reference where windows are held apart, and texts that
// grow, go back, fork and resume those of texts that were computed at once. The KV cache has room for what each block
// holds.
func TestHeadsOfTwoSizes(t *testing.T) {
	v, d := twoSizes(t, sharedWindows)
	e := windowedTexts(t, v, d)
	bytes := func(s model.HeadShape) int {
		_, row := tensor.CacheF32.Row(s.HeadDim)
		return 2 * s.KVHeads * row
	}
	local, global := bytes(model.HeadShape{KVHeads: d.KVHeads, HeadDim: d.HeadDim}), bytes(*d.Global)
	if n, want := e.CacheBytes(1000), 2*1000*global+4*testWindow*local; n != want || local == global {
		t.Errorf("a step reads %d bytes, not %d", n, want)
	}
	if n, want := CacheBytesPerToken(d, CacheF32), int64(global+2*local); n != want {
		t.Errorf("%d bytes of a token, not %d", n, want)
	}
	if n, want := int(e.bytesPerToken()), global; n != want {
		t.Errorf("%d bytes of a token in pages, not %d", n, want)
	}
}

// TestOnePassOfTwoSizes: heads of two sizes have memory of their own in a text of one pass, and queries have nothing of
// blocks whose heads are wider.
func TestOnePassOfTwoSizes(t *testing.T) {
	v, d := twoSizes(t, longModel)
	ref, err := reference.New(v, d)
	if err != nil {
		t.Fatal(err)
	}
	tokens := tokensOf(40, 3)
	want, err := ref.Logits(t.Context(), tokens)
	if err != nil {
		t.Fatal(err)
	}
	e, err := build(v, d, Options{OnePass: true, Batch: len(tokens)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for i := range e.pass.attention.q {
		e.pass.attention.q[i] = float32(math.NaN())
	}
	for i, row := range logits(t, e, tokens, len(tokens)) {
		if !slices.Equal(row, want[i]) {
			t.Fatalf("other logits at position %d", i)
		}
	}
}
