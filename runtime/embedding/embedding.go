// Package embedding makes one vector of the hidden states of a text (docs/NUMERICS.md, N80).
//
// The hidden states come in any pieces, in the order of the tokens; the bits of the vector depend on the states alone.
package embedding

import (
	"math"
	"slices"

	"github.com/lowpack/lowpack/formats/pooling"
)

// Vector gathers the hidden states of one text.
type Vector struct {
	pooling pooling.Pooling
	hidden  int
	tokens  int
	sum     []float64 // of the mean
	last    []float32 // hidden state of the last token
	room    []float32
}

// New returns the vector of a text without tokens; hidden states have the given size.
func New(p pooling.Pooling, hidden int) *Vector {
	v := &Vector{pooling: p, hidden: hidden, last: make([]float32, hidden)}
	if p.Mode == pooling.Mean {
		v.sum = make([]float64, hidden)
	}
	return v
}

// Whole reports whether the vector needs the hidden states of all tokens, and not of the last one alone.
func (v *Vector) Whole() bool { return v.pooling.Mode == pooling.Mean }

// Room returns memory for the hidden states, of the last ones of the next n tokens, that Add is to be called with; ends
// says that these tokens end the text. The next call uses it again.
func (v *Vector) Room(n int, ends bool) []float32 {
	switch {
	case v.Whole():
	case ends:
		n = 1
	default:
		n = 0
	}
	v.room = slices.Grow(v.room[:0], n*v.hidden)[:n*v.hidden]
	return v.room
}

// Add takes hidden states, one after another, [n][hidden] float32.
func (v *Vector) Add(states []float32) {
	for ; len(states) > 0; states = states[v.hidden:] {
		copy(v.last, states[:v.hidden])
		for i := range v.sum {
			v.sum[i] += float64(states[i])
		}
		v.tokens++
	}
}

// Result returns the first dimensions elements of the vector, at least one and at most hidden; where the pooling
// normalizes, these have length 1.
func (v *Vector) Result(dimensions int) []float32 {
	y := make([]float32, dimensions)
	copy(y, v.last)
	if v.pooling.Mode == pooling.Mean {
		for i := range y {
			y[i] = float32(v.sum[i] / float64(v.tokens))
		}
	}
	if v.pooling.Normalize {
		normalize(y)
	}
	return y
}

// leastLength is what a shorter vector is divided by: that of sentence-transformers (torch.nn.functional.normalize).
const leastLength = 1e-12

// normalize divides a vector by its length.
func normalize(y []float32) {
	sum := 0.0
	for _, x := range y {
		sum += float64(float64(x) * float64(x)) // no fused multiply-add
	}
	length := max(math.Sqrt(sum), leastLength)
	for i, x := range y {
		y[i] = float32(float64(x) / length)
	}
}
