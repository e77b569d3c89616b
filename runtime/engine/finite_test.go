package engine

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/race"
	"github.com/lowpack/lowpack/pack"
)

// set changes one float of a tensor.
func (v *view) set(t *testing.T, name string, i int, x float32) {
	changed := v.tensors[name]
	changed.Data = slices.Clone(changed.Data) // other views have it too
	v.tensors[name] = changed
	data := changed.Data
	switch changed.DType {
	case "F32":
		copy(data[4*i:], bytesOf([]float32{x}))
	case "BF16":
		copy(data[2*i:], bytesOf([]float32{x})[2:])
	default:
		t.Fatal(v.tensors[name].DType)
	}
}

// TestNonFinite: values that overflow are an error that says where, not a result.
func TestNonFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	const layer2 = "model.layers.2."
	for name, c := range map[string]struct {
		damage func(v *view)
		step   string
		at     int
	}{
		"embedding": {func(v *view) { v.set(t, "model.embed_tokens.weight", 9*256+3, nan) }, "attention of layer 0", 2},
		"norm":      {func(v *view) { v.set(t, layer2+"input_layernorm.weight", 5, inf) }, "attention of layer 2", 0},
		"scale": {func(v *view) { v.set(t, layer2+"mlp.up_proj.weight.scale", 0, 3e38) },
			"feed-forward of layer 2", 0},
		"mean square": {func(v *view) { v.set(t, layer2+"mlp.up_proj.weight.scale", 0, 1e20) },
			"feed-forward of layer 2", 0},
		"attention": {func(v *view) { v.set(t, layer2+"self_attn.v_proj.weight.scale", 0, 3e38) },
			"attention of layer 2", 0},
		"head":         {func(v *view) { v.set(t, "model.norm.weight", 1, nan) }, "output head", 3},
		"only one row": {func(v *view) { v.set(t, "model.embed_tokens.weight", 2000*256, inf) }, "output head", 3},
		"last position": {func(v *view) { v.set(t, "model.embed_tokens.weight", 11*256, inf) },
			"attention of layer 0", 3},
	} {
		t.Run(name, func(t *testing.T) {
			v := tiny(t)
			c.damage(v)
			for _, device := range append([]string{"cpu"}, devices...) {
				if slow(device) && !strings.Contains("scale, head", name) {
					continue // the other steps are noted by the same kernels
				}
				for _, layers := range divisionsOn(device) {
					o := Options{Threads: 2, Device: device, DeviceLayers: layers, Context: 64}
					nonFinite(t, engine(t, v, o), c.step, c.at)
				}
			}
		})
	}
}

// TestNonFiniteQuery: a query that is quantized has to be finite, also where a soft cap and a key of zeros would make
// finite scores of it.
func TestNonFiniteQuery(t *testing.T) {
	v := tiny(t)
	v.set(t, "model.layers.0.self_attn.q_proj.weight.scale", 0, 3e38)
	d := engine(t, v, Options{}).desc
	changed := *d
	changed.Blocks = slices.Clone(d.Blocks)
	changed.Blocks[0].NoRope, changed.AttnSoftcap = true, 5
	for _, cache := range []CacheType{CacheI8, CacheI4} {
		for _, name := range append([]string{"cpu"}, devices...) {
			o := Options{Device: name, Context: 64, Cache: cache}
			if slow(name) && cache != CacheI8 || lacks(t, name, o) { // TestKernels has the flags of all formats
				continue
			}
			e, err := build(v, &changed, o)
			if err != nil {
				t.Fatal(err)
			}
			nonFinite(t, e, "attention of layer 0", 0)
			e.Close()
		}
	}
}

// TestQueriesOverflow: sums of a transformed query that overflow are noted, as a bound of scores would hide them.
func TestQueriesOverflow(t *testing.T) {
	for x, finite := range map[float32]bool{1e36: true, 1e37: false} {
		var k splitTask
		q := slices.Repeat([]float32{x}, 64)
		if !k.spreadQuery(q) || q[0] != x {
			t.Errorf("%g: a query that is not transformed: %v", x, q[0])
		}
		if k.spread, k.coded = true, true; k.spreadQuery(q) != finite {
			t.Errorf("%g: not %v: %v", x, finite, q[0])
		}
	}
}

// nonFinite expects an error of a sequence.
func nonFinite(t *testing.T, e *Engine, step string, at int) {
	t.Helper()
	s := sequence(t, e)
	err := e.Forward(context.Background(),
		[]Chunk{{Seq: s, Tokens: []int{7, 8, 9, 11}, Logits: make([]float32, e.desc.Vocab)}})
	var n *NonFinite
	if !errors.As(err, &n) || !errors.Is(err, pack.ErrCorrupt) || !strings.Contains(n.Step, step) ||
		n.Position != at || n.Chunk != 0 {
		t.Fatalf("%v; want position %d, %s", err, at, step)
	}
	if s.Len() != 0 {
		t.Errorf("%d tokens stay", s.Len())
	}
}

// brokenTokens makes the embeddings of tokens 2000 and 2001 infinite: sequences with these tokens overflow in layer 0.
// The head is not tied, so no other sequence does.
func brokenTokens(t *testing.T, screened bool) *view {
	v := trainedHead(t)
	if !screened {
		v.manifest.Packed = slices.DeleteFunc(slices.Clone(v.manifest.Packed),
			func(e packed.Entry) bool { return e.Name == packed.ScreenName })
	}
	v.set(t, "model.embed_tokens.weight", 2000*256, float32(math.Inf(1)))
	v.set(t, "model.embed_tokens.weight", 2001*256+7, float32(math.NaN()))
	return v
}

// TestNonFiniteIsOneSequence: in a batch only the chunk that overflows fails, and its error has its index, position and
// step. The others get the same logits as alone, and so does the failed sequence when it goes on with other tokens:
// nothing of what it left in its cache is read.
func TestNonFiniteIsOneSequence(t *testing.T) {
	for _, cache := range race.Few(1, caches) {
		for _, screened := range []bool{false, true} {
			for _, batch := range []int{1, 3, 64} { // tokens per pass: failures in the first, a middle and the last one
				e := engine(t, brokenTokens(t, screened), Options{Threads: 2, Sequences: 4, Batch: batch, Cache: cache})
				alone := engine(t, brokenTokens(t, screened), Options{Cache: cache})
				prompts := [][]int{{5, 6, 7, 8}, {9, 10, 2000, 11, 2001, 12, 13}, {14}, {2001, 15}}
				chunks := make([]Chunk, len(prompts))
				for i, tokens := range prompts {
					chunks[i] = Chunk{Seq: sequence(t, e), Tokens: tokens,
						Logits: make([]float32, e.desc.Vocab), Top: 1}
				}
				err := e.Forward(context.Background(), chunks)
				wantNonFinite(t, chunks[1].Err, NonFinite{1, 2, "attention of layer 0"})
				wantNonFinite(t, chunks[3].Err, NonFinite{3, 0, "attention of layer 0"})
				if err != chunks[1].Err || !strings.Contains(err.Error(),
					"sequence 1 of the batch, position 2: the attention of layer 0") {
					t.Errorf("the error of the batch is %v", err)
				}
				for i, n := range []int{4, 0, 1, 0} {
					if chunks[i].Seq.Len() != n {
						t.Errorf("sequence %d has %d tokens, want %d", i, chunks[i].Seq.Len(), n)
					}
				}
				for i := range chunks { // the failed ones get another text
					if chunks[i].Err != nil {
						chunks[i].Tokens = []int{21 + i}
					} else {
						sameTop(t, alone, chunks[i].Tokens, chunks[i].Logits)
						prompts[i], chunks[i].Tokens = append(prompts[i], 30), []int{30}
					}
				}
				if err := e.Forward(context.Background(), chunks); err != nil {
					t.Fatal(err)
				}
				sameTop(t, alone, prompts[0], chunks[0].Logits)
				sameTop(t, alone, []int{22}, chunks[1].Logits)
				sameTop(t, alone, prompts[2], chunks[2].Logits)
				sameTop(t, alone, []int{24}, chunks[3].Logits)
			}
		}
	}
}

func wantNonFinite(t *testing.T, err error, want NonFinite) {
	t.Helper()
	var n *NonFinite
	if !errors.As(err, &n) || *n != want {
		t.Errorf("%v; want %+v", err, want)
	}
}

// sameTop compares the largest logit with the result of an engine that computes the tokens alone.
func sameTop(t *testing.T, alone *Engine, tokens []int, got []float32) {
	t.Helper()
	want := logits(t, alone, tokens, 1)[0]
	if i := ArgMax(want); ArgMax(got) != i || got[i] != want[i] {
		t.Errorf("%v: token %d (%v) comes first, want %d (%v)", tokens, ArgMax(got), got[ArgMax(got)], i, want[i])
	}
}

// TestScreenedNonFinite: with a candidate filter a non-finite value is the same error as without one: inputs of the
// head that are not finite, rows whose logits overflow in either direction, and rows of which only a partial sum does.
func TestScreenedNonFinite(t *testing.T) {
	nan := float32(math.NaN())
	tokens := []int{7, 8, 9, 11}
	known := engine(t, tiny(t), Options{})
	logits(t, known, tokens, 1)
	x := slices.Clone(known.pass.x[:known.desc.Hidden])
	order := order21(x) // positions of the largest inputs, descending
	for name, fill := range map[string]func(i int, row []float32){
		"input of the head": func(int, []float32) {},
		"overflow upwards": func(i int, row []float32) {
			for k := range row {
				if i == 300 {
					row[k] = float32(math.Copysign(3e38, float64(x[k])))
				}
			}
		},
		"overflow downwards": func(i int, row []float32) {
			for k := range row {
				if i == 300 {
					row[k] = float32(math.Copysign(3e38, -float64(x[k])))
				}
			}
		},
		"partial sum": func(i int, row []float32) { // two products that overflow and would cancel
			if i == 300 {
				clear(row)
				row[order[0]], row[order[len(order)-1]] = 3e38, 3e38
			}
		},
	} {
		for _, screened := range []bool{true, false} {
			v := withHead(t, fill)
			if name == "input of the head" {
				v.set(t, "model.norm.weight", 1, nan)
			}
			if !screened {
				v.manifest.Packed = slices.DeleteFunc(v.manifest.Packed,
					func(e packed.Entry) bool { return e.Name == packed.ScreenName })
			}
			e := engine(t, v, Options{Threads: 2, Sequences: 2})
			chunks := []Chunk{
				{Seq: sequence(t, e), Tokens: []int{3}},
				{Seq: sequence(t, e), Tokens: tokens, Logits: make([]float32, e.desc.Vocab), Top: 1},
			}
			err := e.Forward(context.Background(), chunks)
			if err == nil {
				t.Errorf("%s, screened: %v: token %d and no error", name, screened, ArgMax(chunks[1].Logits))
			}
			wantNonFinite(t, err, NonFinite{1, 3, "output head"})
			if chunks[0].Err != nil || chunks[0].Seq.Len() != 1 {
				t.Errorf("%s: the other sequence: %v, %d tokens", name, chunks[0].Err, chunks[0].Seq.Len())
			}
		}
	}
}
