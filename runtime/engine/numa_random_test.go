//go:build amd64 && !purego

package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestNUMAOfRandomModels: nodes and modes change no bit of the logits of mixtures of experts, and of matrices with
// minima.
func TestNUMAOfRandomModels(t *testing.T) {
	tokens := []int{1, 2, 3, 1, 0}
	onNodes(t, 2)
	experts, minima := 0, 0
	for seed := range uint64(24) {
		of := []features{everyFeature, minimaAlone, expertsBeside}[seed%3]
		v, d := randomModel(t, rand.New(rand.NewPCG(seed, 7)), of)
		var want [][]float32
		for _, mode := range []NUMA{NUMAOff, NUMADistribute, NUMACopy} {
			e, err := build(v, d, Options{Threads: 3, NUMA: mode})
			if err != nil {
				t.Fatalf("%d, %s: %v", seed, mode, err)
			}
			got := logits(t, e, tokens, len(tokens))
			if mode == NUMAOff {
				want = got
			} else if !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("%d, %s: other logits", seed, mode)
			}
			for i := range e.weights.blocks {
				if e.weights.blocks[i].experts != nil {
					experts++
				}
			}
			for _, f := range e.weights.projections() {
				if slices.ContainsFunc(f.matrices, func(m matrix) bool { return m.minima != nil }) {
					minima++
				}
			}
			e.Close()
		}
	}
	if experts == 0 || minima == 0 {
		t.Errorf("%d layers have experts, %d projections have minima", experts, minima)
	}
}
