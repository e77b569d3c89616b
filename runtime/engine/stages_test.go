//go:build amd64 && !purego

package engine

import (
	"errors"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/verify/reference"
)

// stagedModels are changes of longModel: rotations that depend on the length of the text, from 40 tokens on.
var stagedModels = map[string]func(*model.Description){
	"longrope": func(d *model.Description) {
		d.Rope.OriginalMaxPositions = 40
		d.Rope.LongRope = &model.LongRope{Short: []float64{1, 1.5, 2, 2, 3, 3, 4, 4},
			Long: []float64{1, 2, 3, 5, 8, 13, 21, 34}, Extension: 8}
	},
	"longrope, local base": func(d *model.Description) {
		d.Rope.OriginalMaxPositions, d.Rope.LocalTheta = 40, 500
		d.Rope.LongRope = &model.LongRope{Short: []float64{1, 1.5, 2, 2, 3, 3, 4, 4},
			Long: []float64{1, 2, 3, 5, 8, 13, 21, 34}, Attention: 1.25}
	},
	"dynamic": func(d *model.Description) { d.Rope.OriginalMaxPositions, d.Rope.Dynamic = 40, 3 },
}

// TestStagesEqualReference: the logits of every position are those of the reference, whatever is computed at once.
func TestStagesEqualReference(t *testing.T) {
	for name, change := range stagedModels {
		t.Run(name, func(t *testing.T) {
			v, d := longModel(t, change)
			ref, err := reference.New(v, d)
			if err != nil {
				t.Fatal(err)
			}
			text := tokensOf(70, 1)
			want, err := ref.Logits(t.Context(), text)
			if err != nil {
				t.Fatal(err)
			}
			if early, _ := ref.Logits(t.Context(), text[:40]); !slices.EqualFunc(early, want[:40], slices.Equal) {
				t.Fatal("later tokens change the logits of earlier ones")
			}
			e, err := build(v, d, Options{Threads: 2, Context: 128, Batch: 16, Page: 32, Sequences: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			for _, cut := range []int{1, 7, 39, 40, 41, 60, 70} {
				s := opened(t, e)
				var got [][]float32
				for from := 0; from < len(text); from += cut {
					got = append(got, rowsOf(t, s, text[from:min(from+cut, len(text))])...)
				}
				for i := range got {
					if !slices.Equal(got[i], want[i]) {
						t.Fatalf("in chunks of %d: position %d differs", cut, i)
					}
				}
				s.Close()
			}
			states, err := ref.Hidden(t.Context(), text)
			if err != nil {
				t.Fatal(err)
			}
			for _, cut := range []int{7, 41, 70} {
				if got := hiddenBy(t, e, text, cut); !slices.Equal(got, slices.Concat(states...)) {
					t.Errorf("other hidden states in chunks of %d", cut)
				}
			}
			if got := hidden(t, e, text, 33); !slices.Equal(got, slices.Concat(states[37:]...)) {
				t.Error("other hidden states of the end of a prompt")
			}
			if got := logits(t, e, text, 1); !slices.Equal(got[0], want[69]) {
				t.Error("other logits after a prompt")
			}
			if got := logits(t, e, text[:60], 30); !slices.EqualFunc(got, want[30:60], slices.Equal) {
				t.Error("other logits after the second half of a prompt")
			}
		})
	}
}

// rowsOf appends tokens and returns the logits after each.
func rowsOf(t *testing.T, s *Sequence, tokens []int) (rows [][]float32) {
	t.Helper()
	vocab := s.e.desc.Vocab
	flat := make([]float32, len(tokens)*vocab)
	if err := s.e.Forward(t.Context(), []Chunk{{Seq: s, Tokens: tokens, Logits: flat}}); err != nil {
		t.Fatal(err)
	}
	for ; len(flat) > 0; flat = flat[vocab:] {
		rows = append(rows, flat[:vocab])
	}
	return rows
}

// TestSpeculationAcrossStages is TestSpeculationChangesNothing for texts that reach other rotations.
func TestSpeculationAcrossStages(t *testing.T) {
	for name, change := range stagedModels {
		t.Run(name, func(t *testing.T) {
			v, d := longModel(t, change)
			e, err := build(v, d, Options{Context: 96, Batch: 16, Page: 32, Threads: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			r := Request{Prompt: tokensOf(31, 1), MaxTokens: 25, Sampling: Sampling{RepetitionPenalty: 1.2}}
			if speculateEveryWay(t, e, r, 3, 15) == 0 {
				t.Error("no guess was right: this test shows nothing")
			}
		})
	}
}

// TestStagePages: a text that reaches other rotations leaves the pages that others share alone, needs free ones for
// that, and is left as it was without them; a sequence resumes with the rotations of its pages.
func TestStagePages(t *testing.T) {
	v, d := longModel(t, stagedModels["longrope"])
	e, err := build(v, d, Options{Threads: 1, Context: 96, Page: 32, Sequences: 4, CacheTokens: 192})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	text := tokensOf(60, 1)
	s := opened(t, e)
	last(t, s, text[:36])
	f, err := s.Fork()
	if err != nil {
		t.Fatal(err)
	}
	long := last(t, s, text[36:]) // two pages of its own, two of the fork
	other := opened(t, e)
	last(t, other, text[:1])
	if _, free := e.Pages(); free != 1 || s.Stage() != 1 || f.Stage() != 0 {
		t.Errorf("%d pages are free; stages %d and %d", free, s.Stage(), f.Stage())
	}
	if n := f.DraftRoom(15); n != 3 {
		t.Errorf("a draft of %d tokens behind the 37th", n)
	}
	held := f.Pages(36)
	batch := []Chunk{{Seq: other, Tokens: text[1:9]}, {Seq: f, Tokens: text[36:]}}
	if err := e.Forward(t.Context(), batch); !errors.Is(err, pack.ErrLimit) || batch[0].Err != nil ||
		batch[1].Err != err || other.Len() != 9 {
		t.Errorf("two pages where one is free: %v; the other chunk: %v, %d tokens", err, batch[0].Err, other.Len())
	}
	if f.Len() != 36 || f.Stage() != 0 {
		t.Errorf("%d tokens of stage %d after an error", f.Len(), f.Stage())
	}
	other.Close()
	longHeld := s.Pages(60)
	s.Close()
	f.Close()
	for _, n := range []int{60, 59, 36, 35} {
		r, err := e.Resume(longHeld, n)
		if err != nil {
			t.Fatal(err)
		}
		if r.Stage() != 1 {
			t.Errorf("resumed at %d of long rotations: stage %d", n, r.Stage())
		}
		rest := append(slices.Clone(text[n:]), 3)
		e.Release(held...)
		held = nil
		if got := last(t, r, rest[:1]); !slices.Equal(got, fresh(t, e, append(slices.Clone(text[:n]), rest[0]))) {
			t.Errorf("resumed at %d: other logits", n)
		}
		r.Close()
	}
	if s = opened(t, e); !slices.Equal(last(t, s, text), long) {
		t.Error("other logits at the end")
	}
	s.Close()
	e.Release(longHeld...)
	if all, free := e.Pages(); free != all {
		t.Errorf("%d of %d pages are free", free, all)
	}
}

// TestMixedStages: of pages with different rotations a sequence resumes with the first that have the same ones.
func TestMixedStages(t *testing.T) {
	v, d := longModel(t, stagedModels["longrope"])
	e, err := build(v, d, Options{Threads: 1, Context: 96, Page: 32, Sequences: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	text := tokensOf(70, 1)
	s := opened(t, e)
	last(t, s, text[:32])
	short := s.Pages(32)
	last(t, s, text[32:])
	long := s.Pages(70)
	s.Close()
	r, err := e.Resume([]Page{short[0], long[1], long[2]}, 70)
	if err != nil {
		t.Fatal(err)
	}
	if r.Len() != 32 || !slices.Equal(last(t, r, text[32:]), fresh(t, e, text)) {
		t.Errorf("%d tokens, or other logits", r.Len())
	}
	r.Close()
	e.Release(append(short, long...)...)
}

// TestGemmaMemory: the KV cache of Gemma 3 27B, whose layers see 1024 positions but for every sixth, takes at most
// 1.1 times what its windows and its other layers hold of 128k tokens.
func TestGemmaMemory(t *testing.T) {
	d := &model.Description{Config: model.Config{Layers: 62, KVHeads: 16, Heads: 32, HeadDim: 128, SlidingWindow: 1024}}
	global := 0
	for i := range d.Layers {
		b := model.Block{Local: (i+1)%6 != 0, Q: model.Linear{Weight: "q"}}
		if !b.Local {
			global++
		}
		d.Blocks = append(d.Blocks, b)
	}
	for typ, row := range map[CacheType]int{CacheF32: 512, CacheF16: 256, CacheI8: 132, CacheI4: 68} {
		const context = 128 << 10
		needed := 2 * 16 * row * (global*context + (62-global)*1024)
		got := CacheBytesAt(d, typ, context)
		t.Logf("%s: %.2f GiB, needed are %.2f, all positions of all layers take %.2f", typ, float64(got)/(1<<30),
			float64(needed)/(1<<30), float64(CacheBytesPerToken(d, typ)*context)/(1<<30))
		if float64(got) > 1.1*float64(needed) {
			t.Errorf("%s: %d bytes, %d are needed", typ, got, needed)
		}
	}
}
