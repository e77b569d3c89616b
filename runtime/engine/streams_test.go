//go:build amd64 && !purego

package engine

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/verify/reference"
)

// besideModel is a random model with residual streams, inputs of layers, and a block that reads keys and values of
// another one.
func besideModel(t *testing.T) (*view, *model.Description) {
	t.Helper()
	for seed := uint64(1); ; seed++ {
		v, d := randomModel(t, rand.New(rand.NewPCG(seed, 52)), everyFeature)
		shares := slices.ContainsFunc(d.Blocks, func(b model.Block) bool { return b.KVOf != 0 })
		if d.Streams != nil && d.LayerInputs != nil && shares && d.Positions == "" && !d.Rope.Staged() {
			d.MaxPositions = 2048
			return v, d
		}
	}
}

// TestSharedCaches is TestLatentCaches for a model whose blocks share keys and values.
func TestSharedCaches(t *testing.T) {
	v, d := besideModel(t)
	cachesEqualReference(t, v, d)
}

// TestSharedCacheBytes: a block that reads the keys and values of another one has none, and a step reads them twice.
func TestSharedCacheBytes(t *testing.T) {
	v, d := besideModel(t)
	own := 0
	for i := range d.Blocks {
		if d.Blocks[i].Caches() {
			own++
		}
	}
	_, row := tensor.CacheF32.Row(d.HeadDim)
	if n := CacheBytesPerToken(d, CacheF32); n != int64(own*2*d.KVHeads*row) || own == len(d.Blocks) {
		t.Errorf("%d bytes per token for %d of %d blocks", n, own, len(d.Blocks))
	}
	e, err := build(v, d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if n, want := e.CacheBytes(1), d.AttentionLayers()*2*d.KVHeads*row; n != want {
		t.Errorf("a step reads %d bytes, not %d", n, want)
	}
}

// TestQuantiles: of the normal distribution, against those of SciPy for the shares as float32.
func TestQuantiles(t *testing.T) {
	for share, want := range map[float32]float64{0: 0, 0.5: 0, 0.95: 1.6448536, 0.999: 3.0902362, 0.01: -2.3263479,
		0.975: 1.9599640, 0.98: 2.0537489, 0.02: -2.0537489, 0.3: -0.52440051} {
		if got := float64(quantileOf(share)); math.Abs(got-want) > 2e-6 {
			t.Errorf("%v: %v, not %v", share, got, want)
		}
	}
}

// TestOnePassShares: keys and values that later blocks read outlast their block in a text of one pass.
func TestOnePassShares(t *testing.T) {
	v, d := besideModel(t)
	ref, err := reference.New(v, d)
	if err != nil {
		t.Fatal(err)
	}
	tokens := []int{3, 1, 4, 1, 5, 9, 2, 6}
	want, err := ref.Logits(context.Background(), tokens)
	if err != nil {
		t.Fatal(err)
	}
	e, err := build(v, d, Options{OnePass: true, Batch: len(tokens)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for i, row := range logits(t, e, tokens, len(tokens)) {
		if !slices.Equal(row, want[i]) {
			t.Fatalf("other logits at position %d", i)
		}
	}
}
