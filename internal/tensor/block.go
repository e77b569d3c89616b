package tensor

import (
	"math"

	"github.com/lowpack/lowpack/internal/fma"
)

// The definitions of what the assembly does. Each takes any number of elements; lanes count from the first.

// sumSquaresGo adds x[i]² to lane i mod 16.
func sumSquaresGo(l *lanes, x []float32) {
	for i, v := range x {
		l[i%Lanes] = fma.Float32(v, v, l[i%Lanes])
	}
}

// maxAbsGo raises lane i mod 16 to the bits of |x[i]|.
func maxAbsGo(l *bits, x []float32) {
	for i, v := range x {
		l[i%Lanes] = max(l[i%Lanes], math.Float32bits(v)&^(1<<31))
	}
}

// normalizeGo sets y = (x·v)·w and raises the lanes to the bits of |y|.
func normalizeGo(l *bits, y, x, w []float32, v float32) {
	for i := range y {
		y[i] = float32(x[i]*v) * w[i]
	}
	maxAbsGo(l, y)
}

// quantizeGo sets q to x·s, rounded to even and clamped to −127 … 127.
func quantizeGo(q []int8, x []float32, s float32) {
	for i := range q {
		q[i] = int8(min(max(round(float32(x[i]*s)), -127), 127))
	}
}

// quantizePlanesGo sets 255·high + low to x·s, rounded to even and clamped to −32512 … 32512; |low| ≤ 127.
func quantizePlanesGo(high, low []int8, x []float32, s float32) {
	for i := range high {
		high[i], low[i] = SplitCode(int(min(max(round(float32(x[i]*s)), -MaxCode16), MaxCode16)))
	}
}

// SplitCode returns the planes of a code from −MaxCode16 to MaxCode16: it is 255·high + low, |low| ≤ 127.
func SplitCode(q int) (high, low int8) {
	h := (q+127+255*128)/255 - 128 // q / 255 to the nearest integer
	return int8(h), int8(q - 255*h)
}

// quantizeGroupsGo quantizes groups of so many blocks of 16 elements (N14): codes in q, scales in d.
func quantizeGroupsGo(q []int8, d, x []float32, blocks int) {
	for g := range d {
		at, size := Lanes*blocks*g, Lanes*blocks
		var top bits
		maxAbsGo(&top, x[at:][:size])
		b := max(foldBits(&top), minMaxAbs)
		d[g] = b / 127
		quantizeGo(q[at:][:size], x[at:][:size], 127/b)
	}
}

// scaleRowsGo sets y = (float(acc)·w)·d, with one w per element.
func scaleRowsGo(y []float32, acc []int32, w []float32, d float32) {
	for i := range y {
		y[i] = float32(float32(acc[i])*w[i]) * d
	}
}

// scaleAllGo sets y = (float(acc)·w)·d.
func scaleAllGo(y []float32, acc []int32, w, d float32) {
	for i := range y {
		y[i] = float32(float32(acc[i])*w) * d
	}
}

// scaleAddGo adds float(acc)·w to y.
func scaleAddGo(y []float32, acc []int32, w []float32) {
	for i := range y {
		y[i] = fma.Float32(float32(acc[i]), w[i], y[i])
	}
}

// scaleAddAllGo adds float(acc)·d to y.
func scaleAddAllGo(y []float32, acc []int32, d float32) {
	for i := range y {
		y[i] = fma.Float32(float32(acc[i]), d, y[i])
	}
}

// scaleAddBothGo adds (float(acc)·d)·w to y.
func scaleAddBothGo(y []float32, acc []int32, w []float32, d float32) {
	for i := range y {
		y[i] = fma.Float32(float32(float32(acc[i])*d), w[i], y[i])
	}
}

func addGo(y, x []float32) {
	for i := range y {
		y[i] += x[i]
	}
}

// butterflyGo sets y and z to their sums and differences.
func butterflyGo(y, z []float32) {
	for i, v := range y {
		y[i], z[i] = v+z[i], v-z[i]
	}
}

func timesGo(y []float32, c float32) {
	for i := range y {
		y[i] *= c
	}
}

func multiplyGo(y, x []float32) {
	for i := range y {
		y[i] *= x[i]
	}
}

func divideGo(y, x []float32, s float32) {
	for i := range y {
		y[i] = x[i] / s
	}
}

func relu2Go(y, gate, up []float32) {
	for i := range y {
		y[i] = Relu2(gate[i]) * up[i]
	}
}

func siluGo(y, gate, up []float32) {
	for i := range y {
		y[i] = Silu(gate[i]) * up[i]
	}
}

func geluTanhGo(y, gate, up []float32) {
	for i := range y {
		y[i] = GeluTanh(gate[i]) * up[i]
	}
}

func softCapGo(y []float32, c float32) {
	for i := range y {
		y[i] = SoftCap(y[i], c)
	}
}

// maxGo raises lane i mod 16 to x[i].
func maxGo(l *lanes, x []float32) {
	for i, v := range x {
		if v > l[i%Lanes] {
			l[i%Lanes] = v
		}
	}
}

// weighGo replaces the scores z by e^(c·z−m), where m is the largest of them and of the lanes l[0], which become m, and
// adds them to the lanes l[1].
func weighGo(l *[2]lanes, z []float32, c float32) {
	timesGo(z, c)
	maxGo(&l[0], z)
	m := l[0][0]
	for _, v := range l[0] {
		if v > m {
			m = v
		}
	}
	for i := range l[0] {
		l[0][i] = m
	}
	expSumGo(&l[1], z, m)
}

// expSumGo sets z = exp(z − m) and adds it to lane i mod 16.
func expSumGo(l *lanes, z []float32, m float32) {
	for i, v := range z {
		z[i] = Exp(v - m)
		l[i%Lanes] += z[i]
	}
}

// rotateGo sets y and z to the pairs (a[i], b[i]), rotated by the angles with cosine c[i] and sine s[i].
func rotateGo(y, z, a, b, c, s []float32) {
	for i := range y {
		p, q := a[i], b[i]
		y[i] = fma.Float32(-q, s[i], float32(p*c[i]))
		z[i] = fma.Float32(p, s[i], float32(q*c[i]))
	}
}
