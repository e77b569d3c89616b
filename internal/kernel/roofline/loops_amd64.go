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

// streams reads count streams in p, whole pages apart, and what is left over as one.
func streams(p []byte, count int) {
	const turn, page = 128, 4096
	ld := len(p) / count / page * page
	switch {
	case ld == 0:
	case kernel.Have(kernel.AVX512VNNI):
		streams512[count](&p[0], ld/turn, ld)
	case kernel.Have(kernel.AVX2):
		streams256[count](&p[0], ld/turn, ld)
	default:
		ld = 0
	}
	stream(p[count*ld:])
}

var (
	streams512 = map[int]func(p *byte, n, ld int){1: streams1x512, 4: streams4x512, 8: streams8x512}
	streams256 = map[int]func(p *byte, n, ld int){1: streams1x256, 4: streams4x256, 8: streams8x256}
)

// ways to read memory; which is fastest differs from CPU to CPU.
var ways = []way{
	{"one stream, each line prefetched 4 KiB ahead", stream},
	{"one stream, each line prefetched into the nearest cache 2 KiB ahead", func(p []byte) { streams(p, 1) }},
	{"four streams, 16 lines of the next page of each prefetched", func(p []byte) { streams(p, 4) }},
	{"eight streams, each line prefetched 1 KiB ahead", func(p []byte) { streams(p, 8) }},
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
