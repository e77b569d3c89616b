package tensor

import "math"

// Rope is a rotary embedding: pair i of a head is rotated by position · Inv[i] radians, and grows by Amplitude (N17).
type Rope struct {
	Inv       []float64
	Amplitude float64
}

// NewRope returns the dim/2 frequencies theta^(−2i/dim).
func NewRope(theta float64, dim int) Rope {
	inv := make([]float64, dim/2)
	for i := range inv {
		inv[i] = power(theta, float64(2*i)/float64(dim))
	}
	return Rope{inv, 1}
}

// Alpha makes the base of the frequencies theta·alpha^(dim/(dim−2)), dim at least 4.
func (r Rope) Alpha(alpha float64) {
	dim := 2 * len(r.Inv)
	for i := range r.Inv {
		r.Inv[i] *= power(alpha, float64(2*i)/float64(dim-2))
	}
}

// Linear divides all frequencies by factor: positions are interpolated.
func (r Rope) Linear(factor float64) {
	for i := range r.Inv {
		r.Inv[i] /= factor
	}
}

// Divide divides each frequency by a factor of its own.
func (r Rope) Divide(factors []float64) {
	for i := range r.Inv {
		r.Inv[i] /= factors[i]
	}
}

// Llama3 stretches the long waves by factor, leaves the short ones alone and blends between (N17; Llama 3.1). old is
// the number of positions of the original training.
func (r Rope) Llama3(factor, low, high, old float64) {
	for i, inv := range r.Inv {
		w := 6.283185307179586 / inv
		switch {
		case w < old/high:
		case w > old/low:
			r.Inv[i] = inv / factor
		default:
			t := (old/w - low) / (high - low)
			r.Inv[i] = inv * ((1-t)/factor + t)
		}
	}
}

// Yarn divides by factor the frequencies of pairs that make less than slow rotations within old positions, leaves those
// alone that make more than fast rotations, and blends between (N17). whole rounds the ends of the blend outwards.
func (r Rope) Yarn(theta, factor, fast, slow, old float64, whole bool) {
	dim := float64(2 * len(r.Inv))
	low, high := pairOf(fast, dim, theta, old), pairOf(slow, dim, theta, old)
	if whole {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, dim-1)
	if low == high {
		high += 0.001
	}
	for i, inv := range r.Inv {
		t := min(max((float64(i)-low)/(high-low), 0), 1)
		r.Inv[i] = float64(inv/factor*t) + float64(inv*(1-t))
	}
}

// pairOf is the pair, with a fraction, that makes so many rotations within old positions.
func pairOf(rotations, dim, theta, old float64) float64 {
	return dim * Ln64(old/(rotations*6.283185307179586)) / (2 * Ln64(theta))
}

// Rotation is the rotation of one position: the cosine and sine of each pair.
type Rotation struct{ Cos, Sin []float32 }

// At fills t with the rotation of a position.
func (r Rope) At(position int, t Rotation) {
	for i, inv := range r.Inv {
		s, c := SinCos(float64(position) * inv)
		t.Cos[i], t.Sin[i] = float32(c*r.Amplitude), float32(s*r.Amplitude)
	}
}

// ApplyPairs sets y, which may be x, to a rotated head: x[2i] pairs with x[2i+1]; what lies beyond 2·len(Cos) stays.
func (t Rotation) ApplyPairs(y, x []float32) {
	var first, second [pairsAtOnce]float32
	for at := 0; at < len(t.Cos); at += pairsAtOnce {
		n := min(pairsAtOnce, len(t.Cos)-at)
		a, b := first[:n], second[:n]
		for i := range n {
			a[i], b[i] = x[2*(at+i)], x[2*(at+i)+1]
		}
		cos, sin, m := t.Cos[at:][:n], t.Sin[at:][:n], whole(n)
		rotate(a[:m], b[:m], a[:m], b[:m], cos[:m], sin[:m])
		rotateGo(a[m:], b[m:], a[m:], b[m:], cos[m:], sin[m:])
		for i := range n {
			y[2*(at+i)], y[2*(at+i)+1] = a[i], b[i]
		}
	}
	copy(y[2*len(t.Cos):], x[2*len(t.Cos):])
}

// pairsAtOnce is the number of pairs that are separated, rotated and joined at once: few enough for the stack.
const pairsAtOnce = 64

// Apply sets y, which may be x, to a rotated head, half-split: x[i] pairs with x[i+len(Cos)]; what lies beyond stays.
func (t Rotation) Apply(y, x []float32) {
	h := len(t.Cos)
	n := whole(h)
	rotate(y[:n], y[h:h+n], x[:n], x[h:h+n], t.Cos[:n], t.Sin[:n])
	rotateGo(y[n:h], y[h+n:2*h], x[n:h], x[h+n:2*h], t.Cos[n:], t.Sin[n:])
	copy(y[2*h:], x[2*h:])
}
