package embedding

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/pooling"
)

// vectorOf returns the vector of hidden states that come in pieces of some tokens.
func vectorOf(p pooling.Pooling, states []float32, hidden, piece, dimensions int) []float32 {
	v := New(p, hidden)
	for from := 0; from < len(states); from += piece * hidden {
		part := states[from:min(len(states), from+piece*hidden)]
		room := v.Room(len(part)/hidden, from+len(part) == len(states))
		copy(room, part[len(part)-len(room):])
		v.Add(room)
	}
	return v.Result(dimensions)
}

// TestPieces: the vector has the same bits in whatever pieces the hidden states come.
func TestPieces(t *testing.T) {
	const hidden, tokens = 24, 50
	r := rand.New(rand.NewPCG(1, 2))
	states := make([]float32, hidden*tokens)
	for i := range states {
		states[i] = float32(r.NormFloat64())
	}
	for _, mode := range []pooling.Mode{pooling.LastToken, pooling.Mean} {
		p := pooling.Pooling{Mode: mode, Normalize: true}
		want := vectorOf(p, states, hidden, tokens, hidden)
		for piece := 1; piece < tokens; piece++ {
			if got := vectorOf(p, states, hidden, piece, hidden); !slices.Equal(got, want) {
				t.Fatalf("%s: other bits in pieces of %d tokens", mode, piece)
			}
		}
	}
}

// TestResult: exact numbers of both modes, cut and normalized.
func TestResult(t *testing.T) {
	states := []float32{1, 2, 3, 4, 5, 8, 16, 32}
	for _, c := range []struct {
		p    pooling.Pooling
		want []float32
	}{
		{pooling.Pooling{Mode: pooling.LastToken}, []float32{5, 8, 16, 32}},
		{pooling.Pooling{Mode: pooling.LastToken}, []float32{5, 8}},
		{pooling.Pooling{Mode: pooling.Mean}, []float32{3, 5, 9.5, 18}},
		{pooling.Pooling{Mode: pooling.Mean}, []float32{3}},
		{pooling.Pooling{Mode: pooling.Mean, Normalize: true}, []float32{1}},
		{pooling.Pooling{Mode: pooling.LastToken, Normalize: true},
			[]float32{float32(5 / math.Sqrt(89)), float32(8 / math.Sqrt(89))}},
	} {
		if got := vectorOf(c.p, states, 4, 1, len(c.want)); !slices.Equal(got, c.want) {
			t.Errorf("%v, %d elements: %v, want %v", &c.p, len(c.want), got, c.want)
		}
	}
	zero := make([]float32, 4)
	if got := vectorOf(pooling.Pooling{Mode: pooling.Mean, Normalize: true}, zero, 4, 1, 4); !slices.Equal(got, zero) {
		t.Errorf("the zero vector becomes %v", got)
	}
}

// TestMeanRounding: the mean of many states of mixed sizes is that of exact arithmetic, rounded once, or its neighbour.
func TestMeanRounding(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	states := make([]float32, 20000)
	sum := new(big.Float).SetPrec(300)
	for i := range states {
		states[i] = float32(r.NormFloat64() * math.Pow(10, float64(r.IntN(9)-4)))
		sum.Add(sum, big.NewFloat(float64(states[i])))
	}
	exact, _ := new(big.Float).Quo(sum, big.NewFloat(float64(len(states)))).Float32()
	got := vectorOf(pooling.Pooling{Mode: pooling.Mean}, states, 1, 7, 1)[0]
	if got != exact && got != math.Nextafter32(exact, got) {
		t.Errorf("%v, exact %v", got, exact)
	}
}
