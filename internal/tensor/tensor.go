// Package tensor computes the float operations of a transformer in the one order of arithmetic that docs/NUMERICS.md
// states, so that every instruction set gives the same bits.
//
// A reduction keeps 16 lanes: element i goes to lane i mod 16, and one fixed tree adds the lanes (N5). One 512-bit
// register, two of 256 bits, four of 128 or a plain loop are then the same computation. Where N1 fuses a product with
// an addition, the assembly has an instruction for it and plain Go has package fma. The functions with the suffix Go
// are the definition; those of the assembly equal them bit for bit, in whole blocks of 16 elements, and the exported
// functions add what is left over with the definition.
//
// Not-a-numbers pass through every function, but their payloads are not defined: who needs finite values checks what
// RMSNorm, Quantize and AllFinite report (N4).
package tensor

//go:generate go run -C ../../_asm ./tensor

import "math"

// Lanes is the number of partial sums of a reduction, and the number of elements that the assembly takes at once.
const Lanes = 16

type (
	lanes = [Lanes]float32
	bits  = [Lanes]uint32
)

// whole is the part of n elements that is made of whole blocks.
func whole(n int) int { return n &^ (Lanes - 1) }

// Padded rounds n elements up to whole blocks, which assembly takes.
func Padded(n int) int { return whole(n + Lanes - 1) }

// fold adds the lanes in the order of N5.
func fold(l *lanes) float32 {
	even := l[0] + l[8] + (l[4] + l[12]) + (l[2] + l[10] + (l[6] + l[14]))
	odd := l[1] + l[9] + (l[5] + l[13]) + (l[3] + l[11] + (l[7] + l[15]))
	return even + odd
}

// foldBits gives the largest lane as a float (N7).
func foldBits(l *bits) float32 {
	top := l[0]
	for _, b := range l[1:] {
		top = max(top, b)
	}
	return math.Float32frombits(top)
}

const infinity = 0x7f800000 // bits of +Inf; larger patterns without a sign are NaN

// IsFinite reports whether x is neither infinite nor a NaN.
func IsFinite(x float32) bool { return math.Float32bits(x)&^(1<<31) < infinity }

// AllFinite reports whether all elements of x are finite.
func AllFinite(x []float32) bool { return IsFinite(MaxAbs(x)) }
