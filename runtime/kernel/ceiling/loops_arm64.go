//go:build !purego

package ceiling

import "github.com/lowpack/lowpack/runtime/kernel"

func stream(p []byte) {
	switch n := len(p) / 512; {
	case n == 0:
	case kernel.Have(kernel.NEON):
		streamNEON(&p[0], n)
	default:
		streamGeneric(p)
	}
}

func multiply(isa kernel.ISA, n int) {
	switch isa {
	case kernel.DotProd:
		multiplyDot(n)
	case kernel.NEON:
		multiplyNEON(n)
	default:
		multiplyGeneric(n)
	}
}

// perTurn is the number of products of a turn of the loop.
func perTurn(isa kernel.ISA) int {
	if isa != kernel.Generic {
		return 64 * 16
	}
	return 8
}
