package tensor

// Rope holds the frequencies of a rotary embedding: pair i of a head turns by position · Rope[i] radians (N17).
type Rope []float64

// NewRope returns the dim/2 frequencies theta^(−2i/dim).
func NewRope(theta float64, dim int) Rope {
	inv := make(Rope, dim/2)
	for i := range inv {
		inv[i] = power(theta, float64(2*i)/float64(dim))
	}
	return inv
}

// Linear divides all frequencies by factor: positions are interpolated.
func (r Rope) Linear(factor float64) {
	for i := range r {
		r[i] /= factor
	}
}

// Llama3 stretches the long waves by factor, leaves the short ones alone and blends between (N17; Llama 3.1). old is
// the number of positions of the original training.
func (r Rope) Llama3(factor, low, high, old float64) {
	for i, inv := range r {
		w := 6.283185307179586 / inv
		switch {
		case w < old/high:
		case w > old/low:
			r[i] = inv / factor
		default:
			t := (old/w - low) / (high - low)
			r[i] = inv * ((1-t)/factor + t)
		}
	}
}

// Turn is the rotation of one position: the cosine and sine of each pair.
type Turn struct{ Cos, Sin []float32 }

// At fills t with the rotation of a position.
func (r Rope) At(position int, t Turn) {
	for i, inv := range r {
		s, c := SinCos(float64(position) * inv)
		t.Cos[i], t.Sin[i] = float32(c), float32(s)
	}
}

// Apply rotates one head in place, half-split: x[i] pairs with x[i+len(Cos)]; what lies beyond stays.
func (t Turn) Apply(x []float32) {
	h := len(t.Cos)
	n := whole(h)
	rotate(x[:n], x[h:h+n], t.Cos[:n], t.Sin[:n])
	rotateGo(x[n:h], x[h+n:2*h], t.Cos[n:], t.Sin[n:])
}
