package device_test

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/plaindevice"
	"github.com/lowpack/lowpack/internal/testkit/seed"
	"github.com/lowpack/lowpack/runtime/device"
)

// TestTop: the largest logits of a pass are those among all logits, of vocabularies for which a device goes through
// parts once, twice and three times; the others are −Inf.
func TestTop(t *testing.T) {
	const in, tokens = 4, 3
	r := seed.Rand(t)
	for _, vocab := range []int{5, device.TopMost, device.TopPart, device.TopPart + 1, 65 * device.TopPart} {
		head := device.Matrix{Name: "head", Rows: vocab}
		for range vocab * in { // of few values, so that many logits are equal
			head.Data = binary.LittleEndian.AppendUint32(head.Data, math.Float32bits(float32(r.IntN(5)-2)))
		}
		m := &device.Model{Hidden: in, Heads: 1, KVHeads: 1, HeadDim: 4, Vocab: vocab,
			Norm: device.NormWeights{Kind: device.NormRMS, Weights: []float32{1, 1, 1, 1}},
			Head: device.Linear{In: in, Out: vocab, Matrices: []device.Matrix{head}}}
		shape := device.Shape{Tokens: tokens, Rows: tokens, Context: 8, Pages: 1, PageRows: 8}
		p, err := device.Load(plaindevice.New(plaindevice.Options{}), m, shape)
		if err != nil {
			t.Fatal(err)
		}
		run := &device.Input{Tokens: make([]device.Token, tokens), Pages: []uint32{0}, H: normal(r, tokens*in), Span: 1}
		if err := p.Run(run); err != nil {
			t.Fatal(err)
		}
		rows := []uint32{2, 0}
		all, top := rowsOf(vocab), rowsOf(vocab)
		if err := p.Logits(rows, all); err != nil {
			t.Fatal(err)
		}
		if err := p.Top(rows, top); err != nil {
			t.Fatal(err)
		}
		for i, z := range all {
			if !slices.Equal(top[i], largest(z, device.TopMost)) {
				t.Errorf("vocabulary of %d, row %d: other logits", vocab, i)
			}
		}
	}
}

func rowsOf(n int) [][]float32 { return [][]float32{make([]float32, n), make([]float32, n)} }

// largest is logits of which all but the n largest are −Inf; of equal ones the first stay.
func largest(z []float32, n int) []float32 {
	ids := make([]int, len(z))
	for i := range ids {
		ids[i] = i
	}
	slices.SortStableFunc(ids, func(a, b int) int {
		switch {
		case z[a] > z[b]:
			return -1
		case z[a] < z[b]:
			return 1
		}
		return 0
	})
	left := slices.Repeat([]float32{float32(math.Inf(-1))}, len(z))
	for _, id := range ids[:min(n, len(ids))] {
		left[id] = z[id]
	}
	return left
}
