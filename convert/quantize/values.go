package quantize

import (
	"fmt"
	"math"

	"github.com/lowpack/lowpack/pack"
)

// rowValues are the magnitudes that a row of few-valued weights holds, as float32 bits without sign.
type rowValues struct {
	small, large uint32 // besides zero; large = 0: there is one at most; both 0: all weights are zero
}

// levels of the exact rules: how many magnitudes a row may hold, and whether zero is a value too.
func (r *Rule) levels() (magnitudes int, zero bool) {
	if r.Alphabet.Name == pack.Ternary.Name {
		return 1, true
	}
	return 2, false
}

// measure finds the magnitudes of a row and refuses a row that does not fit the rule.
func (v *rowValues) measure(r *Rule, d DType, row int, src []byte) error {
	*v = rowValues{}
	stat := measureRow(d, src)
	if err := stat.finite(d, row, 0, src); err != nil {
		return err
	}
	if most := max(stat.pos, stat.neg); r.Alphabet.Name == pack.Ternary.Name && signsOf(d, src, most) {
		v.small = most
		return nil
	}
	return v.search(r, d, row, src)
}

// signsOf reports whether all weights are 0 or ± the float with the given bits: whether signs and that scale miss nothing.
func signsOf(d DType, src []byte, magnitude uint32) bool {
	var codes [1024]int8
	signs := signs()
	for size := d.Size(); len(src) > 0; {
		n := min(len(codes), len(src)/size)
		signs.codes(codes[:n], d, src[:n*size])
		if measureError(codes[:n], d, src[:n*size], math.Float32frombits(magnitude)).miss != 0 {
			return false
		}
		src = src[n*size:]
	}
	return true
}

// search looks at one weight after the other.
func (v *rowValues) search(r *Rule, d DType, row int, src []byte) error {
	most, zero := r.levels()
	var w [1]float32
	for col := range len(src) / d.Size() {
		d.Widen(w[:], src[col*d.Size():])
		mag := math.Float32bits(w[0]) &^ (1 << 31)
		switch {
		case mag == 0 && !zero:
			return fmt.Errorf("%w: %s: the weight in row %d, column %d is zero, which is none of four levels", pack.ErrUnsupported, r.Name, row, col)
		case mag != 0 && !v.add(mag, most):
			return fmt.Errorf("%w: %s: row %d holds more than %d magnitudes: %v was found before %v in column %d",
				pack.ErrUnsupported, r.Name, row, most, math.Float32frombits(v.small), math.Float32frombits(mag), col)
		}
	}
	return v.ratio(r, d, row)
}

// add enters a magnitude and reports whether there are still at most most of them.
func (v *rowValues) add(mag uint32, most int) bool {
	switch {
	case mag == v.small || mag == v.large:
	case v.small == 0:
		v.small = mag
	case v.large == 0 && most == 2:
		v.small, v.large = min(v.small, mag), max(v.small, mag)
	default:
		return false
	}
	return true
}

// ratio demands that the larger of two levels is three times the smaller one, up to the rounding of both to the type of
// the checkpoint: half a unit each, which is up to 2⁻⁸ (BF16), 2⁻¹¹ (F16), 2⁻²⁴ (F32) of the value (just above a power of two).
func (v *rowValues) ratio(r *Rule, d DType, row int) error {
	if v.large == 0 {
		return nil
	}
	tolerance := map[DType]float64{BF16: 0x1p-7, F16: 0x1p-10, F32: 0x1p-23}[d]
	a, b := float64(math.Float32frombits(v.small)), float64(math.Float32frombits(v.large))
	if math.Abs(b-3*a) > b*tolerance {
		return fmt.Errorf("%w: %s: row %d holds the magnitudes %v and %v; four levels lie at ±a and ±3a", pack.ErrUnsupported, r.Name, row, a, b)
	}
	return nil
}

// fixValues settles the scales: one per tensor where all rows agree and the job leaves it open, else one per row.
func (q *Quantizer) fixValues() error {
	common, one := uint32(0), true
	for _, v := range q.values {
		if v.small != 0 && common == 0 {
			common = v.small
		}
		one = one && (v.small == 0 || v.small == common)
	}
	switch kinds := q.rule.Kinds; {
	case q.job.Kind == PerTensor && !one:
		return fmt.Errorf("%w: %s: rows hold different magnitudes; they need one scale per row", pack.ErrUnsupported, q.rule.Name)
	case q.job.Kind == "" && one && kinds[0] == PerTensor:
		q.job.Kind = PerTensor
	case q.job.Kind == "":
		q.job.Kind = PerRow
	}
	if q.job.Kind == PerTensor {
		q.scales = []float32{math.Float32frombits(common)}
		return nil
	}
	q.scales = make([]float32, len(q.values))
	for m, v := range q.values {
		q.scales[m] = math.Float32frombits(v.small)
	}
	return nil
}

// ladder gives the codes of a row that measure has accepted: its magnitudes lie between the thresholds.
func (v *rowValues) ladder(r *Rule) ladder {
	if r.Alphabet.Name == pack.Ternary.Name {
		return signs()
	}
	between := float32(math.Inf(1))
	if v.large != 0 {
		between = (math.Float32frombits(v.small) + math.Float32frombits(v.large)) / 2
	}
	return ladder{at: [3]float32{-min(between, math.MaxFloat32), 0, between}, first: -3, stride: 2}
}

// signs is the ladder of sign(w).
func signs() ladder {
	return ladder{at: [3]float32{0, math.SmallestNonzeroFloat32, float32(math.Inf(1))}, first: -1, stride: 1}
}
