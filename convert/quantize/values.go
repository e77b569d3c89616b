package quantize

import (
	"fmt"
	"math"
	"slices"

	"github.com/lowpack/lowpack/pack"
)

// rowScale is the result of an exact rule for a row.
type rowScale struct {
	scale float32 // 0: all weights are zero
	zeros int32   // zero weights in a row of nonzero scale, if the alphabet has no zero
}

// Try reports why one row of weights does not fit an exact rule, nil if it does: with a scale per group of columns, or
// per row if group is 0.
func (r Rule) Try(d DType, row int, src []byte, group int) error {
	kind, k := PerGroup, len(src)/d.Size()
	if group == 0 {
		kind, group = PerRow, k
	}
	for from := 0; from < k; from += group {
		if _, err := r.measure(d, row, from, src[from*d.Size():min(from+group, k)*d.Size()], kind); err != nil {
			return err
		}
	}
	return nil
}

// measure finds the scale of the weights of a row, from column on, and refuses weights that do not fit the rule.
func (r *Rule) measure(d DType, row, column int, src []byte, kind ScaleKind) (rowScale, error) {
	stat := measureRow(d, src)
	if err := stat.finite(d, row, column, src); err != nil {
		return rowScale{}, err
	}
	if stat.pos == 0 && stat.neg == 0 {
		return rowScale{}, nil
	}
	s, err := r.exact(r, d, src, math.Float32frombits(max(stat.pos, stat.neg)))
	if err == nil && kind == PerGroup && s.zeros > 0 {
		err = fmt.Errorf("%d weights are zero beside ±%v", s.zeros, s.scale)
	}
	switch {
	case err == nil:
		return s, nil
	case kind == PerGroup:
		return s, fmt.Errorf("%w: %s: row %d, group at column %d: %w", pack.ErrUnsupported, r.Name, row, column, err)
	}
	return s, fmt.Errorf("%w: %s: row %d: %w", pack.ErrUnsupported, r.Name, row, err)
}

// maxZeros of a row of signs, as a share of its weights: more than one in 256 count as a separate level. (A weight that
// training leaves at exactly zero is far rarer; in a ternary row, a third of the weights are zero.)
const maxZeros = 256

// oneMagnitude is a row of signs, or of signs and zeros, times a scale, which is the largest magnitude.
func oneMagnitude(r *Rule, d DType, src []byte, most float32) (rowScale, error) {
	zeros, n := 0, len(src)/d.Size()
	count := &zeros
	if r.Alphabet.Name == pack.Ternary.Name {
		count = nil
	}
	switch {
	case !signsOf(d, src, most, count):
		return rowScale{}, more(r, d, src, 1)
	case count != nil && most < 0x1p-126:
		return rowScale{}, fmt.Errorf("a scale of %v is too small", most)
	case zeros > n/maxZeros:
		return rowScale{}, fmt.Errorf("%d of %d weights are zero, which is neither +%v nor −%v", zeros, n, most, most)
	}
	return rowScale{most, int32(zeros)}, nil
}

// signsOf reports whether all weights are 0 or ± magnitude, that is, whether signs and that scale are exact. It adds
// the number of zeros to zeros unless that is nil.
func signsOf(d DType, src []byte, magnitude float32, zeros *int) bool {
	var codes [1024]int8
	signs := signs()
	for size := d.Size(); len(src) > 0; {
		n := min(len(codes), len(src)/size)
		signs.codes(codes[:n], d, src[:n*size])
		if measureError(codes[:n], d, src[:n*size], magnitude).miss != 0 {
			return false
		}
		if zeros != nil {
			for _, c := range codes[:n] {
				*zeros += 1 - int(c&1)
			}
		}
		src = src[n*size:]
	}
	return true
}

// more reports which weight of a row has one magnitude too many.
func more(r *Rule, d DType, src []byte, most int) error {
	var seen []float32
	var w [1]float32
	for col := range len(src) / d.Size() {
		d.Widen(w[:], src[col*d.Size():])
		m := max(w[0], -w[0])
		known := m == 0
		for _, s := range seen {
			known = known || s == m
		}
		if known {
			continue
		}
		if len(seen) == most {
			return fmt.Errorf("more than %d magnitudes: %v and, in column %d, %v", most, seen[0], col, m)
		}
		seen = append(seen, m)
	}
	return nil
}

// lattice is a row of codes times a scale, rounded to the type of the checkpoint.
func lattice(r *Rule, d DType, src []byte, _ float32) (rowScale, error) {
	s := levelSet{dtype: d}
	values := r.Alphabet.Values
	if col := s.scan(src, len(values)); col >= 0 {
		return rowScale{}, fmt.Errorf("more than %d different values besides zero, the last of them in column %d",
			len(values), col)
	}
	if s.zero && !slices.Contains(values, 0) {
		return rowScale{}, fmt.Errorf("zero is a weight beside %v, and none of the codes", s.least())
	}
	scale, ok := s.onLattice(values)
	if !ok {
		return rowScale{}, fmt.Errorf("no scale gives back all of its %d values as codes %d to %d, not even up to "+
			"their rounding to %s", s.n,
			values[0], values[len(values)-1], d)
	}
	return rowScale{scale: scale}, nil
}

// fixValues determines the scales: one per tensor if all rows agree and the job leaves it open, else one per row.
func (q *Quantizer) fixValues() error {
	common, one := float32(0), true
	for _, v := range q.found {
		if v.scale != 0 && common == 0 {
			common = v.scale
		}
		one = one && (v.scale == 0 || v.scale == common)
		q.replaced += int(v.zeros)
	}
	switch kinds := q.rule.Kinds; {
	case q.job.Kind == PerTensor && !one:
		return fmt.Errorf("%w: %s: rows hold different magnitudes; they need one scale per row", pack.ErrUnsupported,
			q.rule.Name)
	case q.job.Kind == "" && one && kinds[0] == PerTensor:
		q.job.Kind = PerTensor
	case q.job.Kind == "":
		q.job.Kind = PerRow
	}
	if q.job.Kind == PerTensor {
		q.scales, q.found = []float32{common}, nil
		return nil
	}
	q.scales = make([]float32, len(q.found))
	for m, v := range q.found {
		q.scales[m] = v.scale
	}
	q.found = nil
	return nil
}

// Replaced returns the number of zeros that an exact rule turned into +1 because its alphabet has no zero. It is known
// after Fix.
func (q *Quantizer) Replaced() int { return q.replaced }

// codesOf writes the codes of a row that an exact rule has accepted.
func (r *Rule) codesOf(dst []int8, d DType, src []byte, scale float32) {
	u := unit{scale: scale}
	switch r.Alphabet.Name {
	case pack.Ternary.Name:
		u.ladder = signs()
	case pack.Int1.Name, pack.Int2Odd.Name:
		u.ladder = oddLadder(r.Alphabet.Values, scale)
	default:
		_, u.a = step(scale)
	}
	r.codes(dst, d, src, &u)
}

// signs is the ladder of sign(w).
func signs() ladder {
	return ladder{at: [3]float32{0, math.SmallestNonzeroFloat32, float32(math.Inf(1))}, first: -1, stride: 1}
}

// oddLadder returns the ladder of codes ±1, or ±1 and ±3, whose middle is zero. Zero counts as +1.
func oddLadder(values []int8, scale float32) ladder {
	if len(values) == 2 {
		return ladder{at: [3]float32{0, float32(math.Inf(1)), float32(math.Inf(1))}, first: -1, stride: 2}
	}
	between := max(2*scale, math.SmallestNonzeroFloat32)
	return ladder{at: [3]float32{-min(between, math.MaxFloat32), 0, between}, first: -3, stride: 2}
}
