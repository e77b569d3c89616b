// Package calibrate runs the float model over a text and collects statistics of the inputs of its linear layers.
package calibrate

import (
	"context"
	"fmt"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/runtime/engine"
)

// Columns returns the mean square of every element of the vectors that the linear layers of the blocks read while a
// model computes some windows of tokens, keyed by weight name; for experts, the mean is over the vectors that any
// expert of the block reads. v holds the weights as floats; threads are the workers (0 = one per CPU).
//
// Squares of float32 are exact in float64, and are added up in the order of the tokens: as the engine's floats are
// identical everywhere, so are the results, for any number of threads.
func Columns(ctx context.Context, threads int, v packed.View, windows [][]int,
	progress func(done, total int64)) (map[string][]float32, error) {
	longest, total, done := 0, int64(0), int64(0)
	for _, w := range windows {
		longest = max(longest, len(w))
		total += int64(len(w))
	}
	o := observer{}
	e, err := engine.New(v, engine.Options{Threads: threads, Context: longest, Observe: o.observe})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	for _, w := range windows {
		if err := run(ctx, e, w); err != nil {
			return nil, fmt.Errorf("calibration: %w", err)
		}
		done += int64(len(w))
		progress(done, total)
	}
	return o.means(), nil
}

// run computes one window.
func run(ctx context.Context, e *engine.Engine, window []int) error {
	s, err := e.NewSequence()
	if err != nil {
		return err
	}
	defer s.Close()
	return e.Forward(ctx, []engine.Chunk{{Seq: s, Tokens: window}})
}

// squares has the sums of the squares of n vectors.
type squares struct {
	sums []float64
	n    int
}

// observer has the squares so far, by the names of weights.
type observer map[string]*squares

func (o observer) observe(in engine.Input) [][]float32 {
	o.add(in.Weights, in.Vectors, in.Size)
	return nil
}

// add accumulates the vectors that some weights multiply. Weights that read the same vectors share their sums.
func (o observer) add(weights []string, x []float32, in int) {
	s := o[weights[0]]
	if s == nil {
		s = &squares{sums: make([]float64, in)}
		for _, name := range weights {
			o[name] = s
		}
	}
	for ; len(x) > 0; x = x[in:] {
		for i, v := range x[:in] {
			s.sums[i] += float64(v) * float64(v)
		}
		s.n++
	}
}

func (o observer) means() map[string][]float32 {
	means := map[string][]float32{}
	for name, s := range o {
		m := make([]float32, len(s.sums))
		for i, x := range s.sums {
			m[i] = float32(x / float64(s.n))
		}
		means[name] = m
	}
	return means
}
