//go:build amd64 && !purego

package engine

import (
	"context"
	"fmt"
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
		if d.Streams != nil && d.LayerInputs != nil && shares && d.Positions == "" && !d.Rope.Staged() &&
			d.Global == nil {
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

// sharedWindows is longModel with residual streams, inputs of layers, and three more blocks: two with windows and one
// without read the keys and values of the first blocks.
func sharedWindows(t *testing.T, change func(*model.Description)) (*view, *model.Description) {
	t.Helper()
	v, d := longModel(t, change)
	m := &maker{rand.New(rand.NewPCG(7, 8)), t, v, everyFeature}
	for i, of := range []int{3, 2, 1} {
		prefix := fmt.Sprintf("%d.", 3+i)
		b := m.block(prefix, &d.Config)
		b.Q = m.linear(prefix+"own", d.Hidden, d.Heads*d.HeadDim)
		b.AttnGate, b.K, b.V, b.KNorm = model.Linear{}, model.Linear{}, model.Linear{}, model.Norm{}
		b.KVOf, b.Local, b.NoRope = of, d.Blocks[of-1].Local, false
		d.Blocks = append(d.Blocks, b)
	}
	d.Layers = len(d.Blocks)
	m.streams(d)
	m.layerInputs(d)
	return v, d
}

// TestSharedWindows: blocks that read the keys and values of others, with a window and without, give the logits of the
// reference where windows are held apart; and texts that grow, go back, fork, resume and have drafts those of texts
// that were computed at once.
func TestSharedWindows(t *testing.T) {
	for name, change := range map[string]func(*model.Description){
		"windows": nil,
		"chunks":  func(d *model.Description) { d.Chunked = true },
		"windows and longrope": func(d *model.Description) {
			stagedModels["longrope"](d)
			d.Rope.OriginalMaxPositions = 120
		},
	} {
		t.Run(name, func(t *testing.T) {
			v, d := sharedWindows(t, change)
			e := windowedTexts(t, v, d)
			r := Request{Prompt: tokensOf(110, 1), MaxTokens: 25, Sampling: Sampling{RepetitionPenalty: 1.2}}
			if speculateEveryWay(t, e, r, 3, 15) == 0 {
				t.Error("no guess was right: this test shows nothing")
			}
		})
	}
}

// windowedTexts compares a long text with the reference, and texts that grow, go back, fork and resume with texts that
// were computed at once, where windows are held apart. It returns the engine of the latter.
func windowedTexts(t *testing.T, v *view, d *model.Description) *Engine {
	t.Helper()
	longTextEqualsReference(t, v, d, 700)
	e, err := build(v, d, Options{Context: 1200, Sequences: 4, Batch: 16, Page: 32, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	randomTexts(t, e, rand.New(rand.NewPCG(7, 8)))
	allReturned(t, e)
	return e
}

// TestSharedWindowBytes: of blocks with windows, those that read the keys and values of others have none.
func TestSharedWindowBytes(t *testing.T) {
	v, d := sharedWindows(t, nil)
	e, err := build(v, d, Options{Context: 2048, Batch: 48, Page: 32})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	_, row := tensor.CacheF32.Row(d.HeadDim)
	layer := 2 * d.KVHeads * row // bytes of a token: two layers have windows of their own, one all positions
	pages := 2*((testWindow+2*32-3)/32+1) + 1 + 48/32
	if n, want := len(e.windows.memory.Bytes)+len(e.pages.memory.Bytes), (pages*32*2+2048)*layer; n != want {
		t.Errorf("%d bytes of windows and pages, not %d", n, want)
	}
	if n, want := e.CacheBytes(1000), (2*1000+4*testWindow)*layer; n != want {
		t.Errorf("a step reads %d bytes, not %d", n, want)
	}
}

// TestSharedWithoutWindow: where a block without a window reads the keys and values of one with a window, all
// positions are held.
func TestSharedWithoutWindow(t *testing.T) {
	v, d := sharedWindows(t, nil)
	d.Blocks[5].Local = false
	ref, err := reference.New(v, d)
	if err != nil {
		t.Fatal(err)
	}
	text := tokensOf(300, 4)
	want, err := ref.Logits(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	e, err := build(v, d, Options{Context: 2048, Batch: 16, Page: 32, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if got := logits(t, e, text, 1); !slices.Equal(got[0], want[299]) {
		t.Error("other logits after 300 tokens")
	}
}
