package reference

import "github.com/lowpack/lowpack/formats/model"

// rmsNorm is N13; w already holds 1 + w where the model asks for it, and is nil for ones. It reports
// whether the mean square is finite (N4).
func rmsNorm(x, w []float32, eps float32) ([]float32, bool) {
	m := float32(dot(x, x) / float32(len(x)))
	v := 1 / sqrt(m+eps)
	y := make([]float32, len(x))
	for i := range x {
		if y[i] = float32(x[i] * v); w != nil {
			y[i] = float32(y[i] * w[i])
		}
	}
	return y, finite(m)
}

// quantize is N14: int8 codes of one vector and their activation scale. It reports whether all of x is finite (N4).
func quantize(x []float32) (q []int8, scale float32, ok bool) {
	a := maxabs(x)
	if !finite(a) {
		return nil, 0, false
	}
	b := max(a, 1e-5)
	s := maxActivation / b
	q = make([]int8, len(x))
	for i, v := range x {
		q[i] = int8(max(-maxActivation, min(maxActivation, round(float32(v*s)))))
	}
	return q, b / maxActivation, true
}

// quantize16 is N83: the planes h and l of the codes 255·h + l, and their scales.
func quantize16(x []float32) (planes [][]int8, scales []float32, ok bool) {
	a := maxabs(x)
	if !finite(a) {
		return nil, nil, false
	}
	const most = 32512
	b := max(a, 1e-5)
	s := most / b
	h, l := make([]int8, len(x)), make([]int8, len(x))
	for i, v := range x {
		q := max(-most, min(most, round(float32(v*s))))
		high := round(float32(q / 255)) // no tie, nor near one: 255 is odd
		h[i], l[i] = int8(high), int8(q-255*high)
	}
	d := float32(b / most)
	return [][]int8{h, l}, []float32{float32(255 * d), d}, true
}

// scoring is how a head makes scores of products: the visible positions start at first. A sink of −Inf is none.
type scoring struct {
	scale, limit, sink float32
	slope              float32 // of ALiBi; 0 = none
	first              int
}

// attend is N18 for one head of one token: the KV of the visible positions, in ascending order.
func attend(q *stored, keys, values []*stored, s scoring) []float32 {
	z := make([]float32, len(keys))
	for j, k := range keys {
		z[j] = softcap(float32(score(q, k)*s.scale), s.limit)
		if s.slope != 0 {
			z[j] += float32(s.slope * float32(s.first+j))
		}
	}
	m := s.sink
	for _, v := range z {
		m = max(m, v)
	}
	for j, v := range z {
		z[j] = exp(v - m)
	}
	total := sum(z) + exp(s.sink-m)
	o := make([]float32, len(q.x))
	for j, v := range values {
		v.addTo(o, z[j])
	}
	for i := range o {
		o[i] = o[i] / total
	}
	return o
}

// clampedSwiglu is N19 for the activation of that name.
func clampedSwiglu(alpha, limit float32) func(gate, up float32) float32 {
	return func(gate, up float32) float32 {
		g, u := min(gate, limit), min(max(up, -limit), limit)+1
		return float32(silu(float32(alpha*g))*u) / alpha
	}
}

// gateOf is N19.
func gateOf(d *model.Description) func(gate, up float32) float32 {
	if d.Activation == "clamped_swiglu" {
		return clampedSwiglu(d.GateAlpha, d.GateLimit)
	}
	act := activations[d.Activation]
	if act == nil { // the parameters are a block's
		return nil
	}
	return func(gate, up float32) float32 { return float32(act(gate) * up) }
}

// activations by their names in a Description (N10).
var activations = map[model.Activation]func(float32) float32{"silu": silu, "relu2": relu2, "gelu_tanh": geluTanh,
	"gelu": gelu, "relu": relu}

// ArgMax is the position of the largest value, the first one among equals (N21).
func ArgMax(x []float32) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}

// Top returns the positions of the n largest values, larger first, the smaller position first among equals (N21).
func Top(x []float32, n int) []int {
	top := make([]int, 0, n+1)
	for i, v := range x {
		at := len(top)
		for at > 0 && v > x[top[at-1]] {
			at--
		}
		if at < n {
			top = append(top, 0)
			copy(top[at+1:], top[at:])
			top[at] = i
			top = top[:min(len(top), n)]
		}
	}
	return top
}
