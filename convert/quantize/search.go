package quantize

import (
	"fmt"
	"math"

	"github.com/lowpack/lowpack/pack"
)

// search finds scales by calibration: among the candidates for the weights w of a unit, it chooses the one with the
// least weighted error Σ h·(w − s·code)² over the columns, where h is the mean square of a column's inputs. The code of
// a weight follows from w and s as usual.
type search struct {
	tries func(base float32) []float32       // scales to try, given the one that the rule has without calibration
	unit  func(scale float32) (s, a float32) // as fit returns them, for a scale that is rounded
	turns int                                // how often a scale that is tried is improved by least squares
}

// searchInts tries scales of either sign, since the end of the alphabet that clips less is not always that of the
// largest weight. Candidates range from clipping more than half of the range to clipping nothing: weights of nearly
// irrelevant columns may be clipped.
var searchInts = &search{
	tries: func(base float32) (list []float32) {
		for i := range 17 {
			f := 1.12 - float32(0.04*float32(i)) // not fused
			list = append(list, base*f, -base*f)
		}
		return list
	},
	unit: step, turns: 2,
}

// searchFew tries scales that clip more and more of the weights: with two bits or fewer the best one clips many. They
// stay positive.
var searchFew = &search{
	tries: func(base float32) (list []float32) {
		for i := range 20 {
			list = append(list, base*(1-float32(0.04*float32(i))))
		}
		return list
	},
	unit: step, turns: 2,
}

// searchPowers tries the powers of two on both sides; 2^−128 is the least that mxfp4 stores.
var searchPowers = &search{
	tries: func(base float32) []float32 { return []float32{base * 2, max(base/2, 0x1p-128)} },
	unit:  func(s float32) (float32, float32) { return s, 1 / (2 * s) },
}

// Calibrates reports whether the scales of a rule can be chosen by calibration, for rows or groups.
func (r Rule) Calibrates() bool { return r.search != nil }

// Calibrating lists the names of the rules whose scales can be chosen by calibration.
func Calibrating() (names []string) {
	for _, r := range rules {
		if r.Calibrates() {
			names = append(names, r.Name)
		}
	}
	return names
}

// checkColumns refuses importances of columns that a job has no use for.
func (j *Job) checkColumns(r Rule) error {
	switch {
	case j.Columns == nil:
		return nil
	case !r.Calibrates() || j.Kind == PerTensor:
		return fmt.Errorf("%w: quantizer %s with one scale per %s does not calibrate", pack.ErrUnsupported,
			r.Name, j.Kind)
	case len(j.Columns) != j.Shape.K:
		return fmt.Errorf("%w: %d importances for %d columns", pack.ErrUnsupported, len(j.Columns), j.Shape.K)
	}
	return nil
}

// mostGroup is the number of weights of the largest units whose search takes no memory of the heap: the usual groups.
const mostGroup = 128

// calibrated returns the best unit for weights of the columns that h belongs to. The rule's unit stays unless another
// one is better; codes is scratch. All sums run over ascending columns, each operation rounded once.
func (q *Quantizer) calibrated(u unit, codes []int8, src []byte, h []float32) unit {
	var few [mostGroup]float64
	hw := append(few[:0], make([]float64, len(h))...)
	eachBlock(q.job.DType, src, func(k int, w []float32) {
		for i, x := range w {
			hw[k+i] = float64(h[k+i]) * float64(x) // exact
		}
	})
	how, best := q.rule.search, u
	most, _ := q.gain(&u, codes, src, h, hw)
	for _, s := range how.tries(u.scale) {
		for range 1 + how.turns {
			s = q.round(s)
			if s == 0 || math.IsInf(float64(s), 0) || s != s {
				break
			}
			scale, a := how.unit(s)
			if scale == 0 {
				break
			}
			v := newUnit(&q.rule, scale, a)
			g, better := q.gain(&v, codes, src, h, hw)
			if g > most {
				most, best = g, v
			}
			s = better
		}
	}
	return best
}

// gain returns by how much a unit reduces the weighted error compared with all zeros, Σ h·w² − Σ h·(w − s·code)², and
// the best scale for its codes.
func (q *Quantizer) gain(u *unit, codes []int8, src []byte, h []float32, hw []float64) (gain float64, better float32) {
	q.rule.codes(codes, q.job.DType, src, u)
	var wc, cc float64
	for i, code := range codes {
		c := float64(code)
		wc += float64(hw[i] * c)
		cc += float64(float64(h[i]) * float64(c*c)) // exact product
	}
	s := float64(u.scale)
	return float64(s * (2*wc - float64(s*cc))), float32(wc / cc)
}

// Nearest returns the code that another value would get at a row and column whose scale is already chosen, and its
// dequantized value.
func (q *Quantizer) Nearest(row, column int, value float32) (code int8, rounded float32) {
	s := q.scaleOf(row, column)
	_, a := q.rule.search.unit(s)
	code = q.rule.code(value, a)
	return code, float32(s * float32(code)) // prevents fusing with the caller's operation
}

// mostMissed bounds the squared error of a row whose codes error feedback chose, as a multiple of that of the nearest
// codes (N38). Below it, codes that a file holds can be told from others without the text of the calibration.
const mostMissed = 64

// Strays reports whether the codes of a row, whose scales are already chosen, miss its weights by more than those of
// error feedback may: Σ (w − scale·code)² is more than 64 times that of the nearest codes, or a scale is zero that is
// not for these weights alone (N38).
func (q *Quantizer) Strays(row int, codes []int8, w []float32) bool {
	var missed, least float64
	for k, v := range w {
		if k%q.group() == 0 && q.vanished(row, k, w[k:min(k+q.group(), len(w))]) {
			return true
		}
		scale := float64(q.scaleOf(row, k))
		nearest, _ := q.Nearest(row, k, v)
		e, n := float64(v)-scale*float64(codes[k]), float64(v)-scale*float64(nearest) // products are exact
		missed += float64(e * e)
		least += float64(n * n)
	}
	return missed > mostMissed*least
}

// vanished reports whether the scale of a unit is zero, and that of the rule for its weights is not.
func (q *Quantizer) vanished(row, column int, w []float32) bool {
	if q.scaleOf(row, column) != 0 {
		return false
	}
	r := measureRow(F32, FloatBytes(w))
	u, err := q.fit(r.stat(len(w)), row)
	return err == nil && u.scale != 0
}

// Adopt takes codes and scales of some rows chosen elsewhere for the weights in src.
func (q *Quantizer) Adopt(row int, codes []int8, scales []float32, src []byte) {
	k, size, group := q.job.Shape.K, q.job.DType.Size(), q.group()
	q.room.Do(q.allocate)
	copy(q.scales[row*q.groups():], scales)
	for m := row; len(codes) > 0; m, codes, src = m+1, codes[k:], src[k*size:] {
		for at := 0; at < k; at += group {
			end := min(at+group, k)
			q.note(m, codes[at:end], src[at*size:end*size], q.scaleOf(m, at))
		}
	}
}

// scaleOf returns the scale of a weight, for rules with per-row or group-wise scales.
func (q *Quantizer) scaleOf(row, column int) float32 {
	return q.scales[row*q.groups()+column/q.group()]
}
