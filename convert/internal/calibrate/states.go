package calibrate

import (
	"context"
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/runtime/engine"
)

// States has the Gram matrix of the hidden states that the output head multiplies in some windows.
type States struct {
	n    int
	gram []float64 // lower triangle
}

// HeadStates computes some windows of tokens with the floats of v. The hidden states are those after the final norm
// (N79), so that the head itself is not computed.
func HeadStates(ctx context.Context, threads int, v packed.View, windows [][]int,
	progress func(done, total int64)) (*States, error) {
	longest, total, done := 0, 0, 0
	for _, w := range windows {
		longest, total = max(longest, len(w)), total+len(w)
	}
	e, err := engine.New(v, engine.Options{Threads: threads, Context: longest})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	n := e.Description().Hidden
	x := make([]float32, total*n)
	for _, w := range windows {
		if err := hiddenStates(ctx, e, w, x[done*n:][:len(w)*n]); err != nil {
			return nil, fmt.Errorf("calibration: %w", err)
		}
		done += len(w)
		progress(int64(done), int64(total))
	}
	h, _, err := vectors{n: n, x: x}.grams(ctx, threads)
	return &States{n, h}, err
}

// hiddenStates fills in the hidden states of one window.
func hiddenStates(ctx context.Context, e *engine.Engine, window []int, x []float32) error {
	s, err := e.NewSequence()
	if err != nil {
		return err
	}
	defer s.Close()
	return e.Forward(ctx, []engine.Chunk{{Seq: s, Tokens: window, Hidden: x}})
}

// Use says what a table is for: its rows are the embeddings of tokens, or hidden states multiply them, or both.
type Use struct{ Embeds, Heads bool }

// Choice chooses the codes of a table (N84).
type Choice struct {
	Columns []float32 // what squared errors cost, by column
	feed    *feedback // nil = the nearest codes
}

// PlainChoice is that of an embedding of n columns, of which all count alike.
func PlainChoice(n int) *Choice { return &Choice{Columns: slices.Repeat([]float32{1}, n)} }

// Choice returns how the codes of a head are chosen, by error feedback or as the nearest ones. If it is the embedding
// too, the mean of the diagonal of the Gram matrix is added to each element of the diagonal: codes may then make up for
// errors of the logits only as far as the embeddings bear it.
func (s *States) Choice(ctx context.Context, threads int, u Use, feed bool) (*Choice, error) {
	h, mean := slices.Clone(s.gram), 0.0
	for i := range s.n {
		mean += h[i*s.n+i]
	}
	mean /= float64(s.n)
	columns := make([]float32, s.n)
	for i := range s.n {
		if u.Embeds {
			h[i*s.n+i] += mean
		}
		columns[i] = float32(h[i*s.n+i])
	}
	if !feed {
		return &Choice{Columns: columns}, nil
	}
	f, _, err := newFeedback(ctx, threads, h, s.n)
	if err != nil {
		return nil, fmt.Errorf("what the output head multiplies: %w", err)
	}
	return &Choice{f.weights, f}, nil
}

// Codes chooses scales and codes of rows, from row on. z is of floats of 32 bits, and has the columns of the choice.
func (c *Choice) Codes(z *quantize.Quantizer, row int, codes []int8, w []float32) error {
	if c.feed == nil {
		return z.Quantize(codes, row, quantize.FloatBytes(w))
	}
	t, n := target{feedback: c.feed}, rowsAtOnce*c.feed.n
	values := make([]float32, min(n, len(w)))
	for at := 0; at < len(w); at += n {
		end := min(at+n, len(w))
		from := row + at/c.feed.n
		rows := between(from, from+(end-at)/c.feed.n)
		if err := t.choose(z, rows, codes[at:end], w[at:end], values[:end-at]); err != nil {
			return err
		}
	}
	return nil
}

// coding is that of a table in a form whose scales the choice makes.
func (c *Choice) coding() coding {
	if c.feed == nil {
		return nearest
	}
	return c.feed.fed
}
