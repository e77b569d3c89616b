//go:build !purego

package quantize

import (
	"slices"

	"golang.org/x/sys/cpu"
)

//go:generate go run -C ../../_asm ./quantize

// level is the instruction set in use. Tests change it; nothing else does.
var level = levels()[0]

// levels lists the instruction sets of this processor, best first.
func levels() (list []isa) {
	if cpu.X86.HasAVX512F {
		list = append(list, avx512)
	}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasF16C {
		list = append(list, avx2)
	}
	return append(list, generic)
}

// number of an element type in the assembly.
func (d DType) number() int {
	switch d {
	case F16:
		return 1
	case BF16:
		return 2
	}
	return 0
}

// measureBlocks is measureGo for whole blocks.
func measureBlocks(s *sums, d DType, src []byte) {
	switch n := len(src) / d.Size(); {
	case n == 0:
	case level != generic && d == BF16:
		measureWords(s, src)
	case level == avx512:
		measureAVX512(s, &src[0], n, d.number())
	case level == avx2:
		measureAVX2(s, &src[0], n, d.number())
	case d == BF16:
		measureBF16(s, src)
	default:
		measureGo(s, d, src)
	}
}

// measureWords is measureBF16 for sums that are zero. What it adds up where there is NaN or infinity is something else.
func measureWords(s *sums, src []byte) {
	measureBF16AVX2(s, &src[0], len(src)/2)
	if most := BF16.maxKey() << 16; slices.Max(s.pos[:]) > most || int32(slices.Max(s.neg[:])&^(1<<31)) > most {
		*s = sums{}
		measureBF16(s, src)
	}
}

// climbBlocks is climbGo for whole blocks.
func (l *ladder) climbBlocks(dst []int8, d DType, src []byte) {
	if n := len(dst) &^ 31; level != generic && d != F32 && n >= longRow {
		w := l.words(d)
		climbWordsAVX2(&dst[0], &src[0], n, &w)
		dst, src = dst[n:], src[2*n:]
	}
	switch {
	case len(dst) == 0:
	case level == avx512:
		climbAVX512(&dst[0], &src[0], len(dst), d.number(), l)
	case level == avx2:
		climbAVX2(&dst[0], &src[0], len(dst), d.number(), l)
	default:
		l.climbGo(dst, d, src)
	}
}

// divideBlocks is divideGo for whole blocks.
func divideBlocks(dst []int8, d DType, src []byte, a, lo, hi float32) {
	switch {
	case len(dst) == 0:
	case level == avx512:
		divideAVX512(&dst[0], &src[0], len(dst), d.number(), a, lo, hi)
	case level == avx2:
		divideAVX2(&dst[0], &src[0], len(dst), d.number(), a, lo, hi)
	default:
		divideGo(dst, d, src, a, lo, hi)
	}
}

// missBlocks is missGo for whole blocks.
func missBlocks(s *errorSums, codes []int8, d DType, src []byte, scale float32) {
	switch {
	case len(codes) == 0:
	case level == avx512:
		missAVX512(&codes[0], &src[0], len(codes), d.number(), s, scale)
	case level == avx2:
		missAVX2(&codes[0], &src[0], len(codes), d.number(), s, scale)
	default:
		missGo(s, codes, d, src, scale)
	}
}

// measureBF16AVX2 is for n elements, a positive multiple of 16.
//
//go:noescape
func measureBF16AVX2(s *sums, src *byte, n int)

// climbWordsAVX2 is for n elements, a positive multiple of 32.
//
//go:noescape
func climbWordsAVX2(dst *int8, src *byte, n int, l *wordLadder)

// unpackBlocks is unpackGo for the first n codes.
func unpackBlocks(dst []int8, src []byte, shift int) (n int, ok bool) {
	n = len(src) &^ 31
	if n == 0 || level == generic {
		return 0, true
	}
	return n, unpackU8AVX2(&dst[0], &src[0], n, uint64(shift))
}

// unpackU8AVX2 is for n bytes, a positive multiple of 32, and reports whether no code is 3.
//
//go:noescape
func unpackU8AVX2(dst *int8, src *byte, n int, shift uint64) bool

//go:noescape
func measureAVX512(s *sums, src *byte, n, d int)

//go:noescape
func measureAVX2(s *sums, src *byte, n, d int)

//go:noescape
func climbAVX512(dst *int8, src *byte, n, d int, l *ladder)

//go:noescape
func climbAVX2(dst *int8, src *byte, n, d int, l *ladder)

//go:noescape
func divideAVX512(dst *int8, src *byte, n, d int, a, lo, hi float32)

//go:noescape
func divideAVX2(dst *int8, src *byte, n, d int, a, lo, hi float32)

//go:noescape
func missAVX512(codes *int8, src *byte, n, d int, s *errorSums, scale float32)

//go:noescape
func missAVX2(codes *int8, src *byte, n, d int, s *errorSums, scale float32)
