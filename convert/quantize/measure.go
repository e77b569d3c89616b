package quantize

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/lowpack/lowpack/pack"
)

// lanes is the number of partial sums of a row. Element k of a row belongs to lane k mod lanes, so that a loop, two
// 512-bit or four 256-bit registers per sum give the same bits.
const lanes = 32

// rowStat is what one row of floats says about its scale.
type rowStat struct {
	sum    float64 // of |w|
	square float64 // of w²
	lo, hi int32   // smallest and largest key of the row's type
}

// measureRow sums a row in float64: |w| and w² are exact there, each addition is rounded once, lanes are joined by
// joinLanes.
func measureRow(d DType, src []byte) rowStat {
	var sum, square [lanes]float64
	s := rowStat{lo: math.MaxInt32, hi: math.MinInt32}
	add := func(i int, w float32, key int32) {
		v := float64(w)
		sum[i%lanes] += math.Abs(v)
		square[i%lanes] += float64(v * v)
		s.lo, s.hi = min(s.lo, key), max(s.hi, key)
	}
	switch d {
	case F32:
		for i := range len(src) / 4 {
			b := binary.LittleEndian.Uint32(src[4*i:])
			add(i, math.Float32frombits(b), key32(b))
		}
	case BF16:
		for i := range len(src) / 2 {
			b := binary.LittleEndian.Uint16(src[2*i:])
			add(i, math.Float32frombits(uint32(b)<<16), int32(key16(b)))
		}
	case F16:
		for i := range len(src) / 2 {
			b := binary.LittleEndian.Uint16(src[2*i:])
			add(i, fromHalf(b), int32(key16(b)))
		}
	}
	s.sum, s.square = joinLanes(&sum), joinLanes(&square)
	return s
}

// joinLanes adds the upper half of the lanes to the lower half until one is left.
func joinLanes(l *[lanes]float64) float64 {
	for n := lanes / 2; n > 0; n /= 2 {
		for i := range n {
			l[i] += l[i+n]
		}
	}
	return l[0]
}

// finite refuses a row, or the part of it from column first on, that holds NaN or infinity, and says where.
func (s *rowStat) finite(d DType, row, first int, src []byte) error {
	most := d.maxKey()
	if s.hi <= most && s.lo >= -most-1 {
		return nil
	}
	w := make([]float32, 1)
	for col := range len(src) / d.Size() {
		d.Widen(w, src[col*d.Size():])
		if v := float64(w[0]); math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%w: the weight in row %d, column %d is %v", pack.ErrCorrupt, row, first+col, v)
		}
	}
	return nil
}

// stat is what a fit sees of the weights that share a scale.
type stat struct {
	mean   float32 // of |w|
	lo, hi float32 // smallest and largest weight
}

func (s stat) maxAbs() float32 { return max(-s.lo, s.hi) }

func (s *rowStat) stat(d DType, n int) stat {
	return stat{mean: float32(s.sum / float64(n)), lo: d.value(s.lo), hi: d.value(s.hi)}
}

// total joins the rows of a tensor, in ascending order.
func total(rows []rowStat) rowStat {
	t := rowStat{lo: math.MaxInt32, hi: math.MinInt32}
	for _, r := range rows {
		t.sum += r.sum
		t.square += r.square
		t.lo, t.hi = min(t.lo, r.lo), max(t.hi, r.hi)
	}
	return t
}
