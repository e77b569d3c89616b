package quantize

import (
	"encoding/binary"
	"math"
)

// unit holds the parameters that the weights of one scale share.
type unit struct {
	scale  float32 // as stored
	a      float32 // parameter of the rule's code
	ladder ladder  // of rules with up to four codes
	table  []int8  // code by pattern of a 16-bit type; nil = not made
}

func newUnit(r *Rule, scale, a float32) unit {
	u := unit{scale: scale, a: a}
	if len(r.Alphabet.Values) <= 4 {
		u.ladder = newLadder(r, scale, a)
	}
	return u
}

// A ladder is equivalent to a rule of up to four codes with a fixed parameter: code = first + stride · (number of
// thresholds that the weight reaches). Such thresholds exist because codes are monotonic in the weight; as they are
// found by evaluating the rule, a ladder agrees with it for every weight.
type ladder struct {
	at     [3]float32 // unused thresholds are +∞, which no finite weight reaches
	first  int32
	stride int32
}

// newLadder finds the thresholds of a rule whose alphabet has evenly spaced values.
func newLadder(r *Rule, scale, a float32) (l ladder) {
	v := r.Alphabet.Values
	l.first, l.stride = int32(v[0]), int32(v[1]-v[0])
	for i := range l.at {
		l.at[i] = float32(math.Inf(1))
		if i+1 < len(v) {
			// rules round to a near code, so the middle between two is a good guess
			l.at[i] = threshold(r, a, v[i+1], float32(v[i]+v[i+1])/2*scale)
		}
	}
	return l
}

// threshold returns the smallest float32 whose code is code or more; +∞ if no finite one is. It searches from the guess
// on, in doubling steps, and then bisects.
func threshold(r *Rule, a float32, code int8, guess float32) float32 {
	const last = 0x7f7fffff // key of the largest float32; the key of the smallest is −last − 1
	reached := func(key int64) bool {
		return key > last || key >= -last-1 && r.code(math.Float32frombits(unkey32(int32(key))), a) >= code
	}
	low := int64(key32(math.Float32bits(guess)))
	high := low
	for step := int64(1); reached(low); step *= 2 {
		high, low = low, low-step
	}
	for step := int64(1); !reached(high); step *= 2 {
		low, high = high, high+step
	}
	for high-low > 1 {
		if mid := low + (high-low)/2; reached(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	if high > last {
		return float32(math.Inf(1))
	}
	return math.Float32frombits(unkey32(int32(high)))
}

// tabulate fills the table with the codes of all patterns. It pays off for a scale of many weights without assembly.
func (u *unit) tabulate(r *Rule, d DType) {
	patterns := make([]byte, 0, 2<<16)
	for p := range 1 << 16 {
		patterns = append(patterns, byte(p), byte(p>>8))
	}
	table := make([]int8, 1<<16)
	r.codes(table, d, patterns, u)
	u.table = table
}

// lookUp quantizes by table.
func (u *unit) lookUp(dst []int8, src []byte) {
	t := (*[1 << 16]int8)(u.table)
	for ; len(dst) >= 4; dst, src = dst[4:], src[8:] {
		x := binary.LittleEndian.Uint64(src)
		dst[0], dst[1], dst[2], dst[3] = t[uint16(x)], t[uint16(x>>16)], t[uint16(x>>32)], t[uint16(x>>48)]
	}
	for i := range dst {
		dst[i] = t[binary.LittleEndian.Uint16(src[2*i:])]
	}
}

// codes quantizes weights that share a scale.
func (r *Rule) codes(dst []int8, d DType, src []byte, u *unit) {
	n := whole(len(dst))
	head, tail := src[:n*d.Size()], src[n*d.Size():]
	switch v := r.Alphabet.Values; {
	case u.table != nil:
		u.lookUp(dst, src)
	case len(v) <= 4:
		u.ladder.codes(dst, d, src)
	case r.lowest != 0:
		lo, hi := float32(r.lowest), float32(v[len(v)-1])
		divideBlocks(dst[:n], d, head, u.a, lo, hi)
		divideGo(dst[n:], d, tail, u.a, lo, hi)
	default:
		r.each(dst, d, src, u)
	}
}

func (l *ladder) codes(dst []int8, d DType, src []byte) {
	n := whole(len(dst))
	l.climbBlocks(dst[:n], d, src[:n*d.Size()])
	l.climbGo(dst[n:], d, src[n*d.Size():])
}

// each asks the rule for every weight.
func (r *Rule) each(dst []int8, d DType, src []byte, u *unit) {
	eachBlock(d, src, func(k int, w []float32) {
		for i, x := range w {
			dst[k+i] = r.code(x, u.a)
		}
	})
}
