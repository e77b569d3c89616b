package quantize

import (
	"fmt"
	"math"

	"github.com/lowpack/lowpack/pack"
)

// rowStat holds the statistics of one row of floats that its scale depends on.
type rowStat struct {
	abs      float64 // Σ |w|
	pos, neg uint32  // float32 bits of the largest weight > 0 and of the largest −w > 0; 0 = none
}

// measureRow sums a row in float64: |w| is exact there and each addition is rounded once.
func measureRow(d DType, src []byte) (r rowStat) {
	var s sums
	n := whole(len(src)/d.Size()) * d.Size()
	measureBlocks(&s, d, src[:n])
	measureGo(&s, d, src[n:])
	r.abs = join(&s.abs)
	for i := range lanes {
		r.pos = max(r.pos, uint32(max(s.pos[i], 0)))
		if s.neg[i]>>31 != 0 {
			r.neg = max(r.neg, s.neg[i]&^(1<<31))
		}
	}
	return r
}

// finite refuses a row, or its part from column first on, that holds NaN or infinity, and names the column.
func (r *rowStat) finite(d DType, row, first int, src []byte) error {
	const infinity = 0x7f800000
	if r.pos < infinity && r.neg < infinity {
		return nil
	}
	var w [1]float32
	for col := range len(src) / d.Size() {
		d.Widen(w[:], src[col*d.Size():])
		if v := float64(w[0]); math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%w: the weight in row %d, column %d is %v", pack.ErrCorrupt, row, first+col, v)
		}
	}
	return nil
}

// stat holds the statistics of the weights that share a scale, the input of a fit.
type stat struct {
	mean     float32 // of |w|
	pos, neg float32 // the largest w and the largest −w, at least 0
}

func (s stat) maxAbs() float32 { return max(s.pos, s.neg) }

// extreme returns the weight of largest magnitude, the negative one at a tie, so that their order does not matter.
func (s stat) extreme() float32 {
	if s.pos > s.neg {
		return s.pos
	}
	return -s.neg
}

func (r *rowStat) stat(n int) stat {
	return stat{float32(r.abs / float64(n)), math.Float32frombits(r.pos), math.Float32frombits(r.neg)}
}

// total joins the rows of a tensor, in ascending order.
func total(rows []rowStat) (t rowStat) {
	for _, r := range rows {
		t.abs += r.abs
		t.pos, t.neg = max(t.pos, r.pos), max(t.neg, r.neg)
	}
	return t
}
