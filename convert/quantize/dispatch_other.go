//go:build purego || !amd64

package quantize

var level = generic

func levels() []isa { return []isa{generic} }

func measureBlocks(s *sums, d DType, src []byte) {
	if d == BF16 {
		measureBF16(s, src)
	} else {
		measureGo(s, d, src)
	}
}

func (l *ladder) climbBlocks(dst []int8, d DType, src []byte) { l.climbGo(dst, d, src) }

func divideBlocks(dst []int8, d DType, src []byte, a, lo, hi float32) {
	divideGo(dst, d, src, a, lo, hi)
}

func missBlocks(s *errorSums, codes []int8, d DType, src []byte, scale float32) {
	missGo(s, codes, d, src, scale)
}

func unpackBlocks(_ []int8, _ []byte, _ int) (n int, ok bool) { return 0, true }
