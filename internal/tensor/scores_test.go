package tensor

import (
	"math/rand/v2"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/fence"
)

// TestScores compares a transposed block of keys, and its products with four queries, with their definitions: any
// numbers, rows and vectors any distance apart, and nothing written beside them.
func TestScores(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r, end := rand.New(rand.NewPCG(21, 22)), fence.New(t, 256<<10)
		for width := Lanes; width <= 20*Lanes; width += Lanes {
			for _, random := range []func(*rand.Rand, int) []float32{numbers, ordinary} {
				cols := width + Lanes*r.IntN(3)
				w := encode(F32, random(r, CacheBlock*cols))
				keys, block := make([]float32, width*CacheBlock), make([]float32, width*CacheBlock)
				for at := 0; at < CacheBlock; at += Lanes {
					transpose(keys[at:], w[4*at*cols:], 4*cols, width)
					transposeGo(block[at:], w[4*at*cols:], 4*cols, width)
				}
				if d := differ(keys, block); d != "" {
					t.Fatalf("%d columns: %s", width, d)
				}
				ldz, ldq := CacheBlock+r.IntN(9), width+r.IntN(9)
				q := fence.Tail[float32](end, (scoreTile-1)*ldq+width)
				copy(q, random(r, len(q)))
				z := ordinary(r, scoreTile*ldz)
				want := clone(z)
				scores(z, ldz, keys, q, ldq, width, 0.37, make([]float32, partialSums))
				scoresGo(Vectors{want, ldz}, keys, Vectors{q, ldq}, width, 0.37)
				if d := differ(z, want); d != "" {
					t.Fatalf("width %d: %s", width, d)
				}
			}
		}
	})
}
