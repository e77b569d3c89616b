//go:build !purego

package ceiling

import "github.com/lowpack/lowpack/runtime/kernel"

func stream(p []byte) {
	switch n := len(p) / 512; {
	case n == 0:
	case kernel.Have(kernel.AVX512VNNI):
		stream512(&p[0], n)
	case kernel.Have(kernel.AVX2):
		stream256(&p[0], n)
	default:
		streamGeneric(p)
	}
}

func multiply(isa kernel.ISA, n int) {
	switch isa {
	case kernel.AVX512VNNI:
		multiply512(n)
	case kernel.AVXVNNI:
		multiplyVNNI256(n)
	case kernel.AVX2:
		multiply256(n)
	default:
		multiplyGeneric(n)
	}
}

// perTurn is the number of products of a turn of the loop.
func perTurn(isa kernel.ISA) int {
	switch isa {
	case kernel.AVX512VNNI:
		return 64 * 64
	case kernel.AVXVNNI:
		return 56 * 32
	case kernel.AVX2:
		return 32 * 32
	}
	return 8
}
