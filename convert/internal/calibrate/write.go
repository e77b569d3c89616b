package calibrate

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/runtime/engine"
)

// Writing configures Write.
type Writing struct {
	Threads  int
	Tokens   int    // of all texts together
	Room     int    // most tokens of a text, without Begin
	Begin    int    // token in front of every text, not counted as its; −1 = none
	Openings []int  // tokens that a text can begin with
	End      []int  // tokens that end a text, which does not include them
	Seed     uint64 // of the first text; each further one adds 1
	Progress func(done, total int64)
}

// The number of texts that are written at once changes the texts. It depends on nothing but the model.
const (
	mostTexts = 16
	mostCache = 1 << 30 // bytes of their keys and values, unless a single text needs more
)

// goldenRatio is its fractional part in 64 bits: the multiples are spread evenly.
const goldenRatio = 0x9e3779b97f4a7c15

// Write returns texts that the model of v samples from its own distribution (N73), in the order in which they begin.
func Write(ctx context.Context, v packed.View, o Writing) ([][]int, error) {
	if len(o.Openings) == 0 {
		return nil, errors.New("calibration: the model has no token that a text can begin with")
	}
	d, err := packed.Describe(v)
	if err != nil {
		return nil, err
	}
	longest := o.Room
	if o.Begin >= 0 {
		longest++
	}
	each := max(1, int64(longest)*engine.CacheBytesPerToken(d, engine.CacheF32)) // 0 without attention
	n := max(1, min(mostTexts, mostCache/each))
	e, err := engine.New(v, engine.Options{Threads: o.Threads, Context: longest, Sequences: int(n)})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	w := &writer{Writing: o, engine: e, texts: int(n)}
	for w.done < o.Tokens {
		if err := w.step(ctx); err != nil {
			return nil, fmt.Errorf("calibration text: %w", err)
		}
		o.Progress(int64(min(w.done, o.Tokens)), int64(o.Tokens))
	}
	return w.whole(), nil
}

// writer is the state of Write.
type writer struct {
	Writing
	engine *engine.Engine
	texts  int // that are written at once
	begun  []*ownText
	open   []*ownText
	done   int // tokens of all texts
}

// ownText is a text with its opening.
type ownText struct {
	opening    int
	seq        *engine.Sequence
	generation *engine.Generation
	next       engine.Chunk
}

// step adds a token to every text that is open, after it has opened as many as are written at once.
func (w *writer) step(ctx context.Context) error {
	for len(w.open) < w.texts {
		if err := w.begin(); err != nil {
			return err
		}
	}
	batch := make([]engine.Chunk, len(w.open))
	for i, t := range w.open {
		batch[i] = t.next
	}
	if err := w.engine.Forward(ctx, batch); err != nil {
		return err
	}
	w.open = slices.DeleteFunc(w.open, w.ends)
	return nil
}

// begin opens a text.
func (w *writer) begin() (err error) {
	seed := w.Seed + uint64(len(w.begun))
	at, _ := bits.Mul64(seed*goldenRatio, uint64(len(w.Openings)))
	t := &ownText{opening: w.Openings[at]}
	t.generation, err = w.engine.NewGeneration(engine.Request{MaxTokens: max(1, w.Room-1), StopTokens: w.End,
		Sampling: engine.Sampling{Temperature: 1, Seed: seed}})
	if err != nil {
		return err
	}
	if t.seq, err = w.engine.NewSequence(); err != nil {
		return err
	}
	tokens := []int{t.opening}
	if w.Begin >= 0 {
		tokens = []int{w.Begin, t.opening}
	}
	t.next = t.generation.Chunk(t.seq, tokens, make([]float32, w.engine.Description().Vocab))
	w.begun, w.open = append(w.begun, t), append(w.open, t)
	w.done++
	return nil
}

// ends samples the next token of a text, and reports whether that was its last one.
func (w *writer) ends(t *ownText) bool {
	piece, reason := t.generation.Next(t.next.Logits)
	if piece.Token >= 0 {
		w.done++
	}
	if reason != "" {
		t.seq.Close()
		return true
	}
	t.next = t.generation.Chunk(t.seq, []int{piece.Token}, t.next.Logits)
	return false
}

// whole returns as many tokens as were asked for.
func (w *writer) whole() (texts [][]int) {
	left := w.Tokens
	for _, t := range w.begun {
		text := append([]int{t.opening}, t.generation.Tokens()...)
		text = text[:min(len(text), left)]
		if left -= len(text); len(text) > 0 {
			texts = append(texts, text)
		}
	}
	return texts
}
