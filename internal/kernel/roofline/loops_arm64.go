//go:build !purego

package roofline

import "github.com/lowpack/lowpack/internal/kernel"

func stream(p []byte) {
	switch n := len(p) / 512; {
	case n == 0:
	case kernel.Have(kernel.NEON):
		streamNEON(&p[0], n)
	default:
		streamGeneric(p)
	}
}

// ways to read memory: there is one.
var ways = []way{{"one stream", stream}}

func integers(isa kernel.ISA) (run func(n int), products int) {
	switch isa {
	case kernel.DotProd:
		return multiplyDot, 64 * 16
	case kernel.NEON:
		return multiplyNEON, 64 * 16
	}
	return multiplyGeneric, 8
}

func floats(isa kernel.ISA) (run func(n int), products int) {
	if isa == kernel.Generic {
		return floatsGeneric, 8
	}
	return floatsNEON, 64 * 4
}
