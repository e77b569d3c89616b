// Package fmacheck holds a fused multiply-add of float32 against exact arithmetic. There are two of them, written apart
// from each other (internal/fma and verify/reference), and one set of cases.
package fmacheck

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// Run compares fma with exact arithmetic: ordinary numbers, subnormals, products that nearly cancel, sums near the
// middle between two float32, overflow, zeros of both signs, infinities and NaN.
func Run(t *testing.T, fma func(x, y, z float32) float32) {
	t.Helper()
	r := rand.New(rand.NewPCG(21, 22))
	n := 3_000_000
	if testing.Short() {
		n /= 30
	}
	for i := range n {
		x, y, z := number(r), number(r), number(r)
		switch i % 3 {
		case 0: // cancels but for the last bits
			z = -float32(float64(x) * float64(y))
		// z and half a unit of it and very little less or more: half way between two float32, but for what float64 may
		// lose
		case 1:
			e := max(1, int(math.Float32bits(z)>>23&255))
			d := float32(r.IntN(1024)) * 0x1p-23
			x, y = float32(1-2*r.IntN(2))*0x1p-60*(1+d), float32(math.Ldexp(1, e-127-24+60))*(1-d)
		}
		if got, want := fma(x, y, z), Exact(x, y, z); math.Float32bits(got) != math.Float32bits(want) &&
			(got == got || want == want) {
			t.Fatalf("fma(%x, %x, %x) = %x, want %x", x, y, z, got, want)
		}
	}
}

// number draws from all bit patterns, from numbers near 1, with many or few significant bits, and from subnormals and
// zeros.
func number(r *rand.Rand) float32 {
	b := r.Uint32()
	switch r.IntN(8) {
	case 0:
		return math.Float32frombits(b & 0x80000fff)
	case 1:
		return math.Float32frombits(b & 0x80000000)
	case 2:
		return math.Float32frombits(b&0x807ff000 | uint32(120+r.IntN(16))<<23)
	case 3, 4, 5:
		return math.Float32frombits(b&0x807fffff | uint32(64+r.IntN(127))<<23)
	}
	return math.Float32frombits(b)
}

// Exact is x·y + z rounded once. Where no big.Float can be made of an operand, or where the sum is zero, float64 is
// exact.
func Exact(x, y, z float32) float32 {
	sum := float64(x)*float64(y) + float64(z)
	if sum == 0 || math.IsInf(sum, 0) || sum != sum {
		return float32(sum)
	}
	const prec = 700 // from 2^255 to 2^-298
	p := new(big.Float).SetPrec(prec).Mul(new(big.Float).SetPrec(prec).SetFloat64(float64(x)),
		new(big.Float).SetFloat64(float64(y)))
	f, _ := p.Add(p, new(big.Float).SetFloat64(float64(z))).Float32()
	return f
}
