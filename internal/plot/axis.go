package plot

import (
	"math"
	"strconv"
	"strings"
)

// Axis describes one direction of a chart.
type Axis struct {
	Label string
	Log   bool // decades; values ≤ 0 are not drawn
	// Zero makes a linear axis start at 0. Bars and columns always do.
	Zero bool
	// Integer keeps ticks at whole numbers.
	Integer bool
	// Format prints a tick or value; nil stands for Short.
	Format func(float64) string
}

// Short prints three significant digits, with a decimal prefix from 10,000 on.
func Short(v float64) string {
	if a := math.Abs(v); a != 0 && (a < 1e-3 || a >= 1e15) {
		return strconv.FormatFloat(v, 'g', 3, 64)
	} else if a < 1e4 {
		return trim(v)
	}
	return strings.Replace(prefixed(v), " ", "", 1)
}

// Bytes prints a size with a decimal prefix.
func Bytes(v float64) string { return prefixed(v) + "B" }

// Ops prints a rate of operations with a decimal prefix.
func Ops(v float64) string { return prefixed(v) + "op/s" }

// Percent prints a share of one.
func Percent(v float64) string { return trim(v*100) + "%" }

// prefixed prints v, a space and the decimal prefix of its unit.
func prefixed(v float64) string {
	for _, p := range []struct {
		size float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= p.size {
			return trim(v/p.size) + " " + p.name
		}
	}
	return trim(v) + " "
}

// trim prints three significant digits without trailing zeros.
func trim(v float64) string {
	if a := math.Abs(v); a >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	s := strconv.FormatFloat(v, 'g', 3, 64)
	if strings.ContainsAny(s, "e") {
		return s
	}
	if strings.Contains(s, ".") {
		s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	}
	return s
}

func (a *Axis) format(v float64) string {
	if a.Format != nil {
		return a.Format(v)
	}
	return Short(v)
}

// scale maps values of an axis to coordinates.
type scale struct {
	*Axis
	lo, hi   float64 // in value space, or its log10
	from, to float64 // coordinates of lo and hi
	ticks    []float64
}

// newScale covers the values with round ends. It reports false when no value can be drawn.
func newScale(a *Axis, values []float64, from, to float64, ticks int) (*scale, bool) {
	s := &scale{Axis: a, lo: math.Inf(1), hi: math.Inf(-1), from: from, to: to}
	for _, v := range values {
		if s.drawable(v) {
			s.lo, s.hi = min(s.lo, s.value(v)), max(s.hi, s.value(v))
		}
	}
	if s.lo > s.hi {
		return s, false
	}
	if a.Log {
		s.decades()
	} else {
		s.round(ticks)
	}
	return s, true
}

func (s *scale) drawable(v float64) bool { return finite(v) && (!s.Log || v > 0) }

func (s *scale) value(v float64) float64 {
	if s.Log {
		return math.Log10(v)
	}
	return v
}

// at is the coordinate of a drawable value.
func (s *scale) at(v float64) float64 {
	return s.from + (s.value(v)-s.lo)/(s.hi-s.lo)*(s.to-s.from)
}

// decades rounds to 1, 2 or 5 times a power of ten, and labels as many of them as are readable.
func (s *scale) decades() {
	steps := []float64{1, 2, 5}
	lo, hi := math.Floor(s.lo+1e-9), math.Ceil(s.hi-1e-9)
	if lo == hi {
		hi++
	}
	if hi-lo > 3 {
		steps = steps[:1]
	}
	var ticks []float64
	for d := lo; d <= hi; d++ {
		for _, m := range steps {
			ticks = append(ticks, m*math.Pow(10, d))
		}
	}
	// Drop what lies outside the data, but keep one tick beyond each end.
	first, last := 0, len(ticks)-1
	for first+1 < last && math.Log10(ticks[first+1]) <= s.lo+1e-9 {
		first++
	}
	for last-1 > first && math.Log10(ticks[last-1]) >= s.hi-1e-9 {
		last--
	}
	s.lo, s.hi = math.Log10(ticks[first]), math.Log10(ticks[last])
	for every, i := (last-first)/8+1, first; i <= last; i += every {
		s.ticks = append(s.ticks, ticks[i])
	}
}

// round widens the range to multiples of a 1, 2 or 5 step.
func (s *scale) round(n int) {
	if s.Zero {
		s.lo, s.hi = min(s.lo, 0), max(s.hi, 0)
	}
	if s.hi == s.lo {
		s.hi = s.lo + max(1e-12, math.Abs(s.lo)*0.1, float64(b2i(s.lo == 0)))
	}
	step := niceStep((s.hi - s.lo) / float64(n))
	if s.Integer {
		step = max(1, step)
	}
	s.lo, s.hi = math.Floor(s.lo/step+1e-9)*step, math.Ceil(s.hi/step-1e-9)*step
	for i := 0; i <= int(math.Round((s.hi-s.lo)/step)); i++ {
		s.ticks = append(s.ticks, s.lo+float64(i)*step)
	}
	// A multiple of the step that should be zero may be a rounding error away from it.
	for i, v := range s.ticks {
		if math.Abs(v) < step*1e-9 {
			s.ticks[i] = 0
		}
	}
}

func niceStep(raw float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 5} {
		if raw <= m*power*(1+1e-9) {
			return m * power
		}
	}
	return 10 * power
}
