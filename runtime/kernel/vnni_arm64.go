//go:build !purego

package kernel

import (
	"math"
	"slices"
)

// neonKernels lists the kernels on 128-bit registers, with the dot product extension of ARMv8.2 and without it.
func neonKernels() []*Kernel {
	bits := [2]family{
		nibbleFamily(bitsRows32NEONFuncs),
		nibbleFamily(bitsRows64NEONFuncs),
	}
	one := operands{mul: 2, add: 1, block: columns16(1)} // +1, −1 = 0, 1 are multiplied as 0, −1
	dot := panelFuncs{
		isa:    DotProd,
		one:    [2][]func(*tile){fields1Rows32Dot, fields1Rows64Dot},
		two:    [2][]func(*tile){fields2Rows32Dot, fields2Rows64Dot},
		four:   [2][]func(*tile){fields4Rows32Dot, fields4Rows64Dot},
		int4s:  [2][]func(*tile){int4Rows32Dot, int4Rows64Dot},
		eight:  [2][]func(*tile){fields8Rows32Dot, fields8Rows64Dot},
		lookup: signed, int1: one, int8: operands{mul: 1}, bits: bits,
		trits: tritsDotFuncs, base3: operands{add: -1},
		batch: 28, about: "dot products",
	}
	base := panelFuncs{
		isa:    NEON,
		one:    [2][]func(*tile){fields1Rows32NEON, fields1Rows64NEON},
		two:    [2][]func(*tile){fields2Rows32NEON, fields2Rows64NEON},
		four:   [2][]func(*tile){fields4Rows32NEON, fields4Rows64NEON},
		eight:  [2][]func(*tile){fields8Rows32NEON, fields8Rows64NEON},
		lookup: signed, int1: one, int8: operands{mul: 1}, bits: bits,
		trits: tritsNEONFuncs, base3: operands{add: -1, block: columns16(2)},
		batch: 12, about: "products summed in 16 bits",
	}
	list := append(dot.kernels(), base.kernels()...)
	return append(list, rowDots(DotProd, rowDotsDot, dot.batch), rowDots(NEON, rowDotsNEON, base.batch))
}

// signed looks up the weights themselves.
func signed(values []int8, bits int) operands {
	o := lookedUp(values, bits, 0)
	o.block = columns16(max(slices.Max(values), -slices.Min(values)))
	return o
}

// columns16 is the number of products of weights of at most that magnitude whose sum fits into 16 bits.
func columns16(most int8) int { return math.MaxInt16 / (int(most) * MaxActivation) }
