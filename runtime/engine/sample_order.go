package engine

import (
	"math"

	"github.com/lowpack/lowpack/internal/tensor"
)

// order yields tokens in the order of N21, lazily: a heap of the tokens within a band of logits, refilled with the next
// lower band when it is empty. The first band holds all that most draws need.
type order struct {
	logits []float32
	heap   []candidate // rest of the band, the first on top
	taken  []weighted
	first  float32 // largest logit
	t      float32 // temperature
	bands  int     // so far
	lower  float32 // end of the last band
}

// Bands end at logits whose weights are e⁻⁸, e⁻¹⁶ and e⁻³² of the largest; the last one is unbounded, so that a few
// passes reach every token.
const (
	firstBand = 8
	mostBands = 4
)

type candidate struct {
	logit float32
	id    int32
}

// weighted is a token with its weight (N29).
type weighted struct {
	weight uint64
	id     int32
}

func (a candidate) before(b candidate) bool {
	return a.logit > b.logit || a.logit == b.logit && a.id < b.id
}

// fill restarts with the tokens of logits, which must not change until the last call of at.
func (o *order) fill(logits []float32, temperature float32) {
	o.logits, o.heap, o.taken = logits, o.heap[:0], o.taken[:0]
	o.first, o.t, o.bands = logits[ArgMax(logits)], temperature, 0
}

// next fills the heap with the next band.
func (o *order) next() {
	upper := o.lower
	if o.bands == 0 {
		upper = float32(math.Inf(1))
	}
	o.lower = o.first - o.t*float32(int(firstBand)<<o.bands)
	if o.bands++; o.bands == mostBands {
		o.lower = float32(math.Inf(-1))
	}
	for i, z := range o.logits {
		if z >= o.lower && z < upper {
			o.heap = append(o.heap, candidate{z, int32(i)})
		}
	}
	for i := len(o.heap)/2 - 1; i >= 0; i-- {
		o.sink(i)
	}
}

// scaled is the exponent of a token's weight. The difference comes first: a quotient of logits could overflow.
func (o *order) scaled(logit float32) float32 { return (logit - o.first) / o.t }

// weight is an exponential, which is at most 1, as a multiple of 1/one to the nearest integer, ties to even.
func weight(e float32) uint64 { return uint64(math.RoundToEven(float64(e) * one)) }

// at returns token i of the order.
func (o *order) at(i int) weighted {
	for len(o.taken) <= i {
		for len(o.heap) == 0 && o.bands < mostBands {
			o.next()
		}
		top, last := o.heap[0], len(o.heap)-1
		o.heap[0] = o.heap[last]
		o.heap = o.heap[:last]
		o.sink(0)
		o.taken = append(o.taken, weighted{weight(tensor.Exp(o.scaled(top.logit))), top.id})
	}
	return o.taken[i]
}

// sink moves element i down to its place.
func (o *order) sink(i int) {
	for {
		child := 2*i + 1
		if child >= len(o.heap) {
			return
		}
		if right := child + 1; right < len(o.heap) && o.heap[right].before(o.heap[child]) {
			child = right
		}
		if !o.heap[child].before(o.heap[i]) {
			return
		}
		o.heap[i], o.heap[child] = o.heap[child], o.heap[i]
		i = child
	}
}
