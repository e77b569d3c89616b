//go:build !purego

package quantize

import (
	"math"
	"sort"
)

// wordLadder is a ladder for a type of 16 bits: a weight reaches a threshold if its key is beyond below. The assembly
// knows the fields by their offsets.
type wordLadder struct {
	below         [3]int16
	first, stride int16
}

// words of a ladder. −0 reaches a threshold of zero.
func (l *ladder) words(d DType) wordLadder {
	w := wordLadder{first: int16(l.first), stride: int16(l.stride)}
	for i, t := range l.at {
		if d == BF16 {
			w.below[i] = belowBF16(t)
			continue
		}
		least, most := -int(d.maxKey())-1, int(d.maxKey())
		w.below[i] = int16(least + sort.Search(most-least+1,
			func(n int) bool { return d.value(int32(least+n)) >= t }) - 1)
	}
	return w
}

// belowBF16 is the key just below that of the smallest BF16 weight that reaches t. The float32 key of a weight is its
// BF16 key followed by 16 zero bits; for a negative weight, by 16 one bits.
func belowBF16(t float32) int16 {
	key := key32(math.Float32bits(t))
	if t == 0 {
		key = -1 // of −0
	}
	if key > 0 {
		key += 0xffff
	}
	return int16(key>>16 - 1)
}

// longRow is the number of weights from which that pays off.
const longRow = 1024
