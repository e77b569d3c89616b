package engine

import (
	"math"

	"github.com/lowpack/lowpack/internal/tensor"
)

// order gives tokens one after another in the order of N21, without sorting those that nobody asks for: a heap.
type order struct {
	heap  []candidate // what is left, the first on top
	taken []weighted
	first float32 // largest logit
	t     float32 // temperature
}

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

// fill starts over with the tokens of logits.
func (o *order) fill(logits []float32, temperature float32) {
	o.t = temperature
	o.heap, o.taken = o.heap[:len(logits)], o.taken[:0]
	for i, z := range logits {
		o.heap[i] = candidate{z, int32(i)}
	}
	for i := len(o.heap)/2 - 1; i >= 0; i-- {
		o.sink(i)
	}
	o.first = o.heap[0].logit
}

// scaled is the exponent of a token's weight. The difference comes first: a quotient of logits could overflow.
func (o *order) scaled(logit float32) float32 { return (logit - o.first) / o.t }

// weight is an exponential, which is at most 1, as a multiple of 1/one to the nearest integer, ties to even.
func weight(e float32) uint64 { return uint64(math.RoundToEven(float64(e) * one)) }

// at is token i of the order.
func (o *order) at(i int) weighted {
	for len(o.taken) <= i {
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
