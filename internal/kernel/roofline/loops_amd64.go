//go:build !purego

package roofline

import (
	"math/rand/v2"
	"sync"

	"github.com/lowpack/lowpack/internal/kernel"
)

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

// streams is a loop that reads several streams side by side: in registers of 512 and of 256 bits.
type streams struct {
	count        int
	wide, narrow func(p *byte, n, ld int)
}

// read reads streams in p, whole pages apart, and what is left over as one.
func (s streams) read(p []byte) {
	const turn, page = 128, 4096
	ld := len(p) / s.count / page * page
	switch {
	case ld == 0:
	case kernel.Have(kernel.AVX512VNNI):
		s.wide(&p[0], ld/turn, ld)
	case kernel.Have(kernel.AVX2):
		s.narrow(&p[0], ld/turn, ld)
	default:
		ld = 0
	}
	stream(p[s.count*ld:])
}

// ways to read memory; which is fastest differs from CPU to CPU.
var ways = []way{
	{"one stream, each line prefetched 4 KiB ahead", stream},
	{"one stream, each line prefetched into the nearest cache 2 KiB ahead",
		streams{1, streams1x512, streams1x256}.read},
	{"four streams, 16 lines of the next page of each prefetched", streams{4, streams4x512, streams4x256}.read},
	{"four streams without prefetch", streams{4, plain4x256, plain4x256}.read},
	{"eight streams, each line prefetched 1 KiB ahead", streams{8, streams8x512, streams8x256}.read},
}

// wholeTiles configures the tile registers.
var wholeTiles = kernel.TileConfig(16)

// tileOperands are random numbers: zeros are multiplied 1.26 times as fast (Emerald Rapids, docs/notes/kernels.md).
var tileOperands = sync.OnceValue(func() *[1024]int8 {
	list, random := new([1024]int8), rand.New(rand.NewPCG(1, 1))
	for i := range list {
		list[i] = int8(random.IntN(255) - kernel.MaxActivation)
	}
	return list
})

func integers(isa kernel.ISA) (run func(n int), products int) {
	switch isa {
	case kernel.AMX:
		return func(n int) { multiplyTiles(&wholeTiles, tileOperands(), n) }, 4 * 16 * 16 * 64
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
	case kernel.AMX, kernel.AVX512VNNI:
		return floats512, 64 * 16
	case kernel.AVXVNNI, kernel.AVX2:
		return floats256, 32 * 8
	}
	return floatsGeneric, 8
}
