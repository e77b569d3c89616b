//go:build amd64 && !purego

package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/verify/reference"
)

const testWindow = 40

// longModel is a small model with two layers that have a sliding window and one that has none.
func longModel(t *testing.T, change func(*model.Description)) (*view, *model.Description) {
	m := &maker{rand.New(rand.NewPCG(5, 6)), t, newView("{}"), everyFeature}
	d := &model.Description{Family: "long", Config: model.Config{Hidden: 64, Intermediate: 24, Layers: 3, Heads: 2,
		KVHeads: 1, HeadDim: 16, Vocab: 40, MaxPositions: 4096, NormEps: 1e-5, Activation: "silu",
		Rope: model.Rope{Theta: 10000, Dim: 16}, SlidingWindow: testWindow}}
	d.Embed = m.floats("embed", d.Vocab, d.Hidden)
	d.FinalNorm, d.Head = m.norm("norm", d.Hidden, 1), d.Embed
	for i, prefix := range []string{"0.", "1.", "2."} {
		b := m.block(prefix, &d.Config)
		b.Local, b.NoRope = i != 1, false
		d.Blocks = append(d.Blocks, b)
	}
	if change != nil {
		change(d)
	}
	return m.v, d
}

// windowEngine is an engine of longModel with pages of 32 tokens.
func windowEngine(t *testing.T, o Options) *Engine {
	t.Helper()
	v, d := longModel(t, nil)
	o.Page = 32
	if o.Context == 0 {
		o.Context = 2048
	}
	e, err := build(v, d, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// allReturned checks that no page and no anchor is in use.
func allReturned(t *testing.T, e *Engine) {
	t.Helper()
	if all, free := e.Pages(); free != all {
		t.Errorf("%d of %d pages are free", free, all)
	}
	if w := &e.windows; len(w.free) != len(w.users) {
		t.Errorf("%d of %d pages of windows are free", len(w.free), len(w.users))
	}
}

// TestWindowMemory: layers with a window hold no more than windows and a pass, and the logits are those of an engine
// that holds all positions, for any chunks, batches and threads, and any type of cache.
func TestWindowMemory(t *testing.T) {
	text := tokensOf(1500, 1)
	for _, typ := range caches {
		whole := windowEngine(t, Options{Batch: 2048, Cache: typ, Threads: 1})
		if whole.windowed() {
			t.Fatal("an engine with long passes has pages for windows")
		}
		want := logits(t, whole, text, 40)
		for _, o := range []Options{{Batch: 7, Threads: 1}, {Batch: 64, Threads: 3}} {
			o.Cache = typ
			e := windowEngine(t, o)
			all := len(whole.pages.memory.Bytes)
			if got := len(e.windows.memory.Bytes) + len(e.pages.memory.Bytes); 2*got > all {
				t.Errorf("%d bytes for windows and pages, %d for all positions", got, all)
			}
			if !slices.EqualFunc(logits(t, e, text, 40), want, slices.Equal) {
				t.Errorf("batch %d: other logits in one chunk", o.Batch)
			}
			s := opened(t, e)
			for from := 0; from < 1460; from += 73 {
				last(t, s, text[from:from+73])
			}
			for i, id := range text[1460:] {
				if !slices.Equal(last(t, s, []int{id}), want[i]) {
					t.Fatalf("batch %d: other logits at position %d", o.Batch, 1460+i)
				}
			}
			if held := len(e.windows.users) - len(e.windows.free); held > (testWindow+2*32-3)/32+1 {
				t.Errorf("a sequence holds %d pages of windows", held)
			}
			s.Close()
			allReturned(t, e)
		}
	}
}

// TestLongTextsEqualReference: behind many windows and chunks, pages and passes, and behind other rotations, the logits
// are those of the reference. LOWPACK_LONG=1 has texts of 12k tokens.
func TestLongTextsEqualReference(t *testing.T) {
	count := 1500
	if long.All {
		count = 12 << 10
	}
	for name, change := range map[string]func(*model.Description){
		"windows": nil,
		"chunks":  func(d *model.Description) { d.Chunked = true },
		"windows and longrope": func(d *model.Description) {
			stagedModels["longrope"](d)
			d.Rope.OriginalMaxPositions = 700
		},
	} {
		t.Run(name, func(t *testing.T) {
			v, d := longModel(t, change)
			d.MaxPositions = count
			longTextEqualsReference(t, v, d, count)
		})
	}
}

// longTextEqualsReference compares a text in chunks of 1 to 500 tokens with the reference, in an engine that holds
// windows apart.
func longTextEqualsReference(t *testing.T, v *view, d *model.Description, count int) {
	t.Helper()
	ref, err := reference.New(v, d)
	if err != nil {
		t.Fatal(err)
	}
	e, err := build(v, d, Options{Context: count, Batch: 48, Page: 32, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if !e.windowed() {
		t.Fatal("layers with windows hold all positions")
	}
	text := tokensOf(count, 4)
	want, err := ref.Logits(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	s := opened(t, e)
	for from, n := 0, 1; from < count; from, n = from+n, 1+(n*7+from)%500 {
		n = min(n, count-from)
		if got := last(t, s, text[from:from+n]); !slices.Equal(got, want[from+n-1]) {
			t.Fatalf("other logits at position %d", from+n-1)
		}
	}
}

// TestChunksOfTexts: layers that see the chunk of a token alone hold no other, but for a page of tokens before.
func TestChunksOfTexts(t *testing.T) {
	v, d := longModel(t, func(d *model.Description) { d.Chunked, d.SlidingWindow = true, 96 })
	e, err := build(v, d, Options{Context: 2048, Batch: 16, Page: 32, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s := opened(t, e)
	for n, want := range map[int]int{97: 4, 128: 1, 192: 3, 193: 4, 224: 1} {
		s.Truncate(0)
		last(t, s, tokensOf(n, 3))
		if held := len(e.windows.users) - len(e.windows.free); held != want {
			t.Errorf("%d tokens: %d pages of windows, want %d", n, held, want)
		}
	}
	s.Close()
	allReturned(t, e)
}

// TestWindowRewind: a sequence that goes back to any position goes on with the same bits, and computes nothing once
// more where its window is still there.
func TestWindowRewind(t *testing.T) {
	e := windowEngine(t, Options{Threads: 1, Batch: 16})
	text, rest := tokensOf(300, 1), tokensOf(9, 2)
	for _, n := range []int{299, 284, 269, 268, 200, 97, 96, 33, 32, 31, 1, 0} {
		want := fresh(t, e, append(slices.Clone(text[:n]), rest...))
		s := opened(t, e)
		last(t, s, text[:70])
		last(t, s, text[70:])
		if s.Truncate(n); s.Len() != n {
			t.Fatalf("%d tokens, want %d", s.Len(), n)
		}
		if again := s.behind(); (again > 0) != (n > 0 && n < 268) {
			t.Errorf("truncated to %d: %d tokens are computed once more", n, again)
		}
		if got := last(t, s, rest); !slices.Equal(got, want) {
			t.Errorf("truncated to %d: other logits", n)
		}
		s.Close()
		allReturned(t, e)
	}
}

// TestWindowShared: pages that outlive their sequence, with anchors and when these have gone, and forks give the same
// bits; so does a start that was found to be shared.
func TestWindowShared(t *testing.T) {
	e := windowEngine(t, Options{Threads: 1, Batch: 16, Sequences: 3})
	prompt, rest := tokensOf(400, 1), tokensOf(20, 5)
	s := opened(t, e)
	last(t, s, prompt[:150])
	held := s.Pages(150)
	last(t, s, prompt[150:])
	held = append(held, s.Pages(400)...)
	s.Close()
	want := map[int][]float32{}
	for _, anchors := range []bool{true, false} {
		for _, n := range []int{0, 1, 32, 140, 150, 300, 390, 399, 400} {
			if want[n] == nil {
				want[n] = fresh(t, e, append(slices.Clone(prompt[:n]), rest...))
			}
			r, err := e.Resume(held[5:], n)
			if err != nil {
				t.Fatal(err)
			}
			from := r.Len()
			good := map[int]int{140: 140, 150: 150, 300: 150, 390: 390, 399: 399, 400: 400}
			if anchors && from != good[n] || !anchors && from != 0 {
				t.Errorf("resumed at %d: %d tokens are there, anchors %v", n, from, anchors)
			}
			f, err := r.Fork()
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range []*Sequence{r, f} {
				if got := last(t, x, append(slices.Clone(prompt[from:n]), rest...)); !slices.Equal(got, want[n]) {
					t.Errorf("resumed at %d: other logits", n)
				}
			}
			if again, _ := e.anchored(r.pages, n/32*32); n == 300 && anchors && again != 288 {
				t.Errorf("the shared start of 288 tokens has an anchor at %d", again)
			}
			r.Close()
			f.Close()
		}
		for e.windows.evict() {
		}
	}
	e.Release(held...)
	allReturned(t, e)
}

// TestWindowErrors: a chunk that fails, or a pass that is ended, leaves the sequence as it was, however many passes
// were behind it.
func TestWindowErrors(t *testing.T) {
	e := windowEngine(t, Options{Threads: 1, Batch: 16, Context: 2048})
	text, rest := tokensOf(300, 1), tokensOf(9, 2)
	want := fresh(t, e, append(slices.Clone(text), rest...))
	s := opened(t, e)
	last(t, s, text)
	ctx, stop := context.WithCancel(t.Context())
	count := 0
	passes := cancelAfter{ctx, func() bool { count++; return count > 40 }}
	if err := e.Forward(passes, []Chunk{{Seq: s, Tokens: tokensOf(900, 3)}}); !errors.Is(err, context.Canceled) {
		t.Fatalf("a pass that is ended: %v", err)
	}
	stop()
	if s.Len() != 300 || s.behind() != 0 {
		t.Errorf("%d tokens after an error, %d to be computed once more", s.Len(), s.behind())
	}
	row := e.weights.embed.floats.Data()[39*e.weights.embed.rowBytes:][:e.weights.embed.rowBytes]
	good := slices.Clone(row)
	for i := range row { // token 39 is NaN in all types
		row[i] = 0xff
	}
	tokens := slices.DeleteFunc(tokensOf(500, 3), func(id int) bool { return id == 39 })
	chunk := []Chunk{{Seq: s, Tokens: append(tokens, 39)}}
	if err := e.Forward(t.Context(), chunk); !errors.Is(err, pack.ErrCorrupt) {
		t.Fatalf("a token that overflows: %v", err)
	}
	copy(row, good)
	if s.Len() != 300 || s.behind() != 0 || !slices.Equal(last(t, s, rest), want) {
		t.Errorf("%d tokens after a chunk that failed, or other logits", s.Len())
	}
	s.Close()
	allReturned(t, e)
}

// cancelAfter is a context that ends when asked often enough.
type cancelAfter struct {
	context.Context
	over func() bool
}

func (c cancelAfter) Err() error {
	if c.over() {
		return context.Canceled
	}
	return nil
}

// TestRandomTexts: sequences that grow, go back, fork, end and resume at random give the bits of sequences that were
// computed at once, in all models whose tokens may have to be computed once more.
func TestRandomTexts(t *testing.T) {
	factors := func(x float64) []float64 { return []float64{1, 1.5, x, 3, 4, 5, x, x} }
	for name, change := range map[string]func(*model.Description){
		"windows": nil,
		"chunks":  func(d *model.Description) { d.Chunked = true },
		"windows and longrope": func(d *model.Description) {
			d.Rope.OriginalMaxPositions = 500
			d.Rope.LongRope = &model.LongRope{Short: factors(2), Long: factors(7), Extension: 8}
		},
		"windows and dynamic": func(d *model.Description) { d.Rope.OriginalMaxPositions, d.Rope.Dynamic = 560, 4 },
		"longrope": func(d *model.Description) {
			d.SlidingWindow, d.Rope.OriginalMaxPositions = 0, 500
			d.Rope.LongRope = &model.LongRope{Short: factors(2), Long: factors(7), Extension: 8}
		},
	} {
		t.Run(name, func(t *testing.T) {
			v, d := longModel(t, change)
			e, err := build(v, d, Options{Context: 1280, Sequences: 4, Batch: 16, Page: 32, Threads: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if e.windowed() != (d.SlidingWindow > 0) {
				t.Fatalf("windows: %v", e.windowed())
			}
			randomTexts(t, e, rand.New(rand.NewPCG(7, 8)))
			allReturned(t, e)
		})
	}
}

// randomTexts is a walk of TestRandomTexts. The last sequence computes what is expected.
func randomTexts(t *testing.T, e *Engine, r *rand.Rand) {
	type text struct {
		seq *Sequence
		ids []int
	}
	var texts []text
	var held []Page
	var heldIDs []int
	for range 60 {
		if len(texts) == 0 {
			texts = append(texts, text{opened(t, e), nil})
		}
		i := r.IntN(len(texts))
		x := &texts[i]
		switch r.IntN(6) {
		case 0:
			x.seq.Truncate(r.IntN(len(x.ids) + 1))
			x.ids = x.ids[:x.seq.Len()]
		case 1:
			if len(texts) < 3 {
				f, err := x.seq.Fork()
				if err != nil {
					t.Fatal(err)
				}
				texts = append(texts, text{f, slices.Clone(x.ids)})
			}
		case 2:
			e.Release(held...)
			held, heldIDs = x.seq.Pages(x.seq.Len()), slices.Clone(x.ids)
			x.seq.Close()
			texts = slices.Delete(texts, i, i+1)
		case 3:
			if len(texts) < 3 {
				n := r.IntN(len(heldIDs) + 1)
				s, err := e.Resume(held, n)
				if err != nil {
					t.Fatal(err)
				}
				texts = append(texts, text{s, slices.Clone(heldIDs[:s.Len()])})
			}
		default:
			n := min(1+r.IntN(200), e.opt.Context-len(x.ids))
			if n == 0 {
				continue
			}
			ids := make([]int, n)
			for j := range ids {
				ids[j] = r.IntN(e.desc.Vocab)
			}
			x.ids = append(x.ids[:len(x.ids):len(x.ids)], ids...)
			if r.IntN(4) == 0 { // a prompt without logits
				if err := e.Forward(t.Context(), []Chunk{{Seq: x.seq, Tokens: ids}}); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if !slices.Equal(last(t, x.seq, ids), fresh(t, e, x.ids)) {
				t.Fatalf("other logits behind %d tokens", len(x.ids))
			}
		}
	}
	for _, x := range texts {
		x.seq.Close()
	}
	e.Release(held...)
}
