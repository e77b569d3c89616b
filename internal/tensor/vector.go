package tensor

import (
	"math"

	"github.com/lowpack/lowpack/internal/kernel"
)

// Sum is N5.
func Sum(x []float32) float32 {
	var l lanes
	for i, v := range x {
		l[i%Lanes] += v
	}
	return fold(&l)
}

// MaxAbs is N7: the largest magnitude of x, 0 for none; a NaN counts as larger than everything.
func MaxAbs(x []float32) float32 {
	var l bits
	n := whole(len(x))
	maxAbs(&l, x[:n])
	maxAbsGo(&l, x[n:])
	return foldBits(&l)
}

// RMSNorm sets y to the norm of x with the weights w (N13), all of one length. It returns MaxAbs(y), which Quantize
// wants next, and whether the mean square is finite (N4).
func RMSNorm(y, x, w []float32, eps float32) (maxabs float32, finite bool) {
	n := whole(len(x))
	mean := SumSquares(x) / float32(len(x))
	v := 1 / float32(math.Sqrt(float64(mean+eps)))
	var top bits
	normalize(&top, y[:n], x[:n], w[:n], v)
	normalizeGo(&top, y[n:], x[n:], w[n:], v)
	return foldBits(&top), IsFinite(mean)
}

// SumSquares is the dot product of x with itself (N6).
func SumSquares(x []float32) float32 {
	var squares lanes
	n := whole(len(x))
	sumSquares(&squares, x[:n])
	sumSquaresGo(&squares, x[n:])
	return fold(&squares)
}

// LayerNorm is RMSNorm of x less its mean (N40). y may be x.
func LayerNorm(y, x, w []float32, eps float32) (maxabs float32, finite bool) {
	mean := Sum(x) / float32(len(x))
	for i, v := range x {
		y[i] = v - mean
	}
	return RMSNorm(y, y, w, eps)
}

// Clamp limits y to ±c; NaN stays NaN.
func Clamp(y []float32, c float32) {
	for i, v := range y {
		y[i] = min(max(v, -c), c)
	}
}

// Quantize sets q to the codes −127 … 127 of the activations x, whose MaxAbs is maxabs, and returns the activation
// scale d: x ≈ q·d (N14). finite is false when x is not finite, and q then undefined.
func Quantize(q []int8, x []float32, maxabs float32) (d float32, finite bool) {
	b := max(maxabs, minMaxAbs)
	s := 127 / b
	n := whole(len(x))
	quantize(q[:n], x[:n], s)
	quantizeGo(q[n:len(x)], x[n:], s)
	return b / 127, IsFinite(maxabs)
}

// QuantizeGroups is Quantize of each group of columns of x; the last one may be shorter. d receives the scales. Where x
// is not finite, the codes and the scale of its group are undefined.
func QuantizeGroups(q []int8, d, x []float32, group int) {
	n := 0
	if group%Lanes == 0 {
		n = len(x) / group
		quantizeGroups(q[:n*group], d[:n], x[:n*group], group/Lanes)
	}
	for g := n; g < len(d); g++ {
		lo, hi := g*group, min((g+1)*group, len(x))
		d[g], _ = Quantize(q[lo:hi], x[lo:hi], MaxAbs(x[lo:hi]))
	}
}

// QuantizePlanes sets h and l to the planes of the codes 255·h + l, −32512 … 32512, of the activations x, whose MaxAbs
// is maxabs: x ≈ h·dh + l·dl, where dh and dl are the activation scales of the planes (N83). finite is as in Quantize.
func QuantizePlanes(h, l []int8, x []float32, maxabs float32) (dh, dl float32, finite bool) {
	b := max(maxabs, minMaxAbs)
	s := MaxCode16 / b
	n := whole(len(x))
	quantizePlanes(h[:n], l[:n], x[:n], s)
	quantizePlanesGo(h[n:len(x)], l[n:len(x)], x[n:], s)
	dl = b / MaxCode16
	return 255 * dl, dl, IsFinite(maxabs)
}

// QuantizePlaneGroups is QuantizePlanes of each group of columns of x; the last one may be shorter. dh and dl receive
// the scales.
func QuantizePlaneGroups(h, l []int8, dh, dl, x []float32, group int) {
	for g := range dl {
		lo, hi := g*group, min((g+1)*group, len(x))
		dh[g], dl[g], _ = QuantizePlanes(h[lo:hi], l[lo:hi], x[lo:hi], MaxAbs(x[lo:hi]))
	}
}

// MaxCode16 is the largest 255·h + l of two int8 codes (N83).
const MaxCode16 = 127*255 + 127

const minMaxAbs = 1e-5 // N14: an all-zero vector does not divide by zero

// ScaleRows sets y[i] = (acc[i]·w[i])·d: the sums of a quantized linear layer with one scale per row (N15). acc may
// share the memory of y.
func ScaleRows(y []float32, acc []int32, w []float32, d float32) {
	n := whole(len(y))
	scaleRows(y[:n], acc[:n], w[:n], d)
	scaleRowsGo(y[n:], acc[n:], w[n:], d)
}

// ScaleAll is ScaleRows with one scale for all rows.
func ScaleAll(y []float32, acc []int32, w, d float32) {
	n := whole(len(y))
	scaleAll(y[:n], acc[:n], w, d)
	scaleAllGo(y[n:], acc[n:], w, d)
}

// ScaleAdd adds acc[i]·w[i] to y[i]: one group of a quantized linear layer with group-wise scales (N15).
func ScaleAdd(y []float32, acc []int32, w []float32) {
	n := whole(len(y))
	scaleAdd(y[:n], acc[:n], w[:n])
	scaleAddGo(y[n:], acc[n:], w[n:])
}

// ScaleAddAll adds acc[i]·d to y[i]: one group of activations, for weights that are scaled afterwards (N15).
func ScaleAddAll(y []float32, acc []int32, d float32) {
	n := whole(len(y))
	scaleAddAll(y[:n], acc[:n], d)
	scaleAddAllGo(y[n:], acc[n:], d)
}

// ScaleAddBoth adds (acc[i]·d)·w[i] to y[i]: one block of columns that share scales of weights and of activations
// (N15).
func ScaleAddBoth(y []float32, acc []int32, w []float32, d float32) {
	n := whole(len(y))
	scaleAddBoth(y[:n], acc[:n], w[:n], d)
	scaleAddBothGo(y[n:], acc[n:], w[n:], d)
}

// BlockScales holds these three functions.
var BlockScales = kernel.Arithmetic{Weights: ScaleAdd, Activations: ScaleAddAll, Both: ScaleAddBoth}

// Add adds x to y, elementwise (N20).
func Add(y, x []float32) {
	n := whole(len(y))
	add(y[:n], x[:n])
	addGo(y[n:], x[n:])
}

// Times multiplies y by c.
func Times(y []float32, c float32) {
	n := whole(len(y))
	times(y[:n], c)
	timesGo(y[n:], c)
}

// Multiply multiplies y by x, elementwise.
func Multiply(y, x []float32) {
	n := whole(len(y))
	multiply(y[:n], x[:n])
	multiplyGo(y[n:], x[n:])
}

// SoftCaps sets y to SoftCap(y, c).
func SoftCaps(y []float32, c float32) {
	n := whole(len(y))
	softCap(y[:n], c)
	softCapGo(y[n:], c)
}

// A Gate computes N19, elementwise: y may be gate or up. Neither is kept.
type Gate func(y, gate, up []float32)

// Gates has the activations of the gated MLP by their names in model descriptions.
var Gates = map[string]Gate{"relu2": Relu2Gate, "silu": SiluGate, "gelu_tanh": GeluTanhGate, "gelu": GeluGate,
	"relu": ReluGate}

// Relu2Gate is the Gate of Relu2.
func Relu2Gate(y, gate, up []float32) {
	n := whole(len(y))
	relu2(y[:n], gate[:n], up[:n])
	relu2Go(y[n:], gate[n:], up[n:])
}

// SiluGate is the Gate of Silu.
func SiluGate(y, gate, up []float32) {
	n := whole(len(y))
	silu(y[:n], gate[:n], up[:n])
	siluGo(y[n:], gate[n:], up[n:])
}

// GeluTanhGate is the Gate of GeluTanh.
func GeluTanhGate(y, gate, up []float32) {
	n := whole(len(y))
	geluTanh(y[:n], gate[:n], up[:n])
	geluTanhGo(y[n:], gate[n:], up[n:])
}

// Softmax replaces the scores z by e^(z−max z) and returns their sum (N18); the division comes last, in Divide. There
// is at least one score.
func Softmax(z []float32) (sum float32) { return softmax(z, 1, float32(math.Inf(-1))) }

// softmax is Softmax of the scores times c, with one more score beside them, which is counted in the maximum and, at
// the end, in the sum.
func softmax(z []float32, c, beside float32) (sum float32) {
	var l [2]lanes
	for i := range l[0] {
		l[0][i] = beside
	}
	z, rest := z[:whole(len(z))], z[whole(len(z)):]
	timesGo(rest, c)
	maxGo(&l[0], rest)
	weigh(&l, z, c)
	m := l[0][0]
	if len(rest) > 0 {
		expRest(&l[1], rest, m)
	}
	return fold(&l[1]) + Exp(beside-m)
}

// expRest is expSum of what is behind whole lanes.
func expRest(l *lanes, z []float32, m float32) {
	var block lanes
	for i := copy(block[:], z); i < Lanes; i++ {
		block[i] = float32(math.Inf(-1)) // which adds e^−∞ = +0 to a lane
	}
	expSum(l, block[:], m)
	copy(z, block[:])
}

// ClampedGate is the Gate of gpt-oss: silu(α·g)·(u + 1)/α, with values of at most limit, and up values of at least
// −limit.
func ClampedGate(alpha, limit float32) Gate {
	return func(y, gate, up []float32) {
		for i := range y {
			gate[i], up[i] = min(gate[i], limit), min(max(up[i], -limit), limit)+1
		}
		Times(gate, alpha)
		SiluGate(y, gate, up)
		Divide(y, y, alpha)
	}
}

// Divide sets y to x / s.
func Divide(y, x []float32, s float32) {
	n := whole(len(y))
	divide(y[:n], x[:n], s)
	divideGo(y[n:], x[n:], s)
}
