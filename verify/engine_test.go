package verify

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/race"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/verify/reference"
)

// apart are models that differ from the first of their family and kind of weights in more than sizes: in the rotary
// embedding, in blocks that share weights.
var apart = []string{"llama-3.1-8b", "mobilellm-125m-layer-share", "qwen2.5-1.5b-yarn", "phi-3-mini-128k"}

// TestMiniatures: the engine agrees with the reference, to the bit, on miniatures of the bundled models as they come,
// --quant auto: one per family and kind of weights and those apart, all of them if LOWPACK_LONG is set. Family by
// family, this is the whole line: convert, golden outputs, every level of verification.
func TestMiniatures(t *testing.T) {
	seen := map[string]bool{}
	for _, like := range race.Few(6, synth.Likes()) {
		o, err := synth.Find(like.Name)
		if err != nil {
			t.Fatal(err)
		}
		o.Mini = true
		c, err := synth.New(o)
		if err != nil {
			t.Fatalf("%s: %v", like.Name, err)
		}
		kind := c.Description.Family + " " + string(c.Weights)
		if seen[kind] && !slices.Contains(apart, like.Name) && !long.All {
			continue
		}
		seen[kind] = true
		dir := t.TempDir() + "/model"
		if err := c.Write(context.Background(), dir, nil); err != nil {
			t.Fatalf("%s: %v", like.Name, err)
		}
		p, err := convert.NewPlan(context.Background(), dir, convert.Options{})
		if err != nil {
			t.Errorf("%s: %v", like.Name, err)
			continue
		}
		path := t.TempDir() + "/packed.safetensors"
		_, err = p.Run(context.Background(), path)
		p.Close()
		if err != nil {
			t.Errorf("%s: %v", like.Name, err)
			continue
		}
		r := run(t, path, Options{Source: dir})
		positions := 0
		for _, check := range r.Checks {
			if check.Level == Logits && check.Verdict == Pass {
				positions++
			}
		}
		if bad := failed(r); len(bad) > 0 || positions < 2*40 {
			t.Errorf("%s: %d positions, %v", like.Name, positions, bad)
		}
	}
	for _, name := range apart {
		if _, err := synth.Find(name); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d kinds of models", len(seen))
}

// TestCacheFormats: the same for every format of the KV cache, on a trained model.
func TestCacheFormats(t *testing.T) {
	f, d := tinymodel.Open(t, tinymodel.Converted(t, shared.Testdata(t, "tiny-bitnet"), packed.Recipe{Golden: "none"}))
	judge, err := reference.New(f, d)
	if err != nil {
		t.Fatal(err)
	}
	tokens := []int{2552, 2140, 392, 725, 258, 558, 439, 308, 258, 444, 645, 11, 462, 308, 258, 444, 645}
	var before float32
	for _, format := range engine.CacheTypes() {
		m, err := judge.WithCache(string(format))
		if err != nil {
			t.Fatal(err)
		}
		want, err := m.Logits(context.Background(), tokens)
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.New(f, engine.Options{Cache: format})
		if err != nil {
			t.Fatal(err)
		}
		seq, err := e.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, len(tokens)*d.Vocab)
		if err := e.Forward(context.Background(), []engine.Chunk{{Seq: seq, Tokens: tokens, Logits: got}}); err != nil {
			t.Fatal(err)
		}
		e.Close()
		for p := range want {
			for i, v := range want[p] {
				if g := got[p*d.Vocab+i]; math.Float32bits(g) != math.Float32bits(v) {
					t.Fatalf("cache %s: position %d, logit %d: %v, the reference says %v", format, p, i, g, v)
				}
			}
		}
		if last := want[len(want)-1][0]; last == before {
			t.Errorf("cache %s gives the logits of the format before it: the test proves nothing", format)
		} else {
			before = last
		}
	}
}
