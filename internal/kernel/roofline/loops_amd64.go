//go:build !purego

package roofline

import "github.com/lowpack/lowpack/internal/kernel"

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

func integers(isa kernel.ISA) (run func(n int), products int) {
	switch isa {
	case kernel.AVX512VNNI:
		return multiply512, 64 * 64
	case kernel.AVXVNNI:
		return multiplyVNNI256, 56 * 32
	case kernel.AVX2:
		return multiply256, 32 * 32
	}
	return multiplyGeneric, 8
}

func floats(isa kernel.ISA) (run func(n int), products int) {
	switch isa {
	case kernel.AVX512VNNI:
		return floats512, 64 * 16
	case kernel.AVXVNNI, kernel.AVX2:
		return floats256, 32 * 8
	}
	return floatsGeneric, 8
}
