package quantize

import (
	"encoding/binary"
	"math"
)

// Rows are worked on in blocks of this many elements. Sums have one partial sum per element of a block, so that a loop,
// one register of 512 bits or two of 256 bits give the same bits.
const lanes = 16

// isa is an instruction set that some functions are written for. All give the same bits; the Go versions here are the
// definition.
type isa string

const (
	generic isa = "generic"
	avx2    isa = "avx2"
	avx512  isa = "avx512"
)

// sums are the partial sums of a row.
type sums struct {
	abs [lanes]float64 // of |w|
	// largest float32 bits so far, over all lanes, whichever lane they are in:
	pos [lanes]int32  // as a signed number: of the weights ≥ 0, if any
	neg [lanes]uint32 // as an unsigned number: of the weights < 0, if any
}

// measureGo adds elements to the lanes, the first one to lane 0.
func measureGo(s *sums, d DType, src []byte) {
	eachBlock(d, src, func(_ int, w []float32) {
		for i, x := range w {
			b := math.Float32bits(x)
			s.abs[i] += magnitude(b)
			s.pos[i] = max(s.pos[i], int32(b))
			s.neg[i] = max(s.neg[i], b)
		}
	})
}

// measureBF16 is measureGo for whole blocks of the most common type: four lanes at a time, so that they stay in
// registers.
func measureBF16(s *sums, src []byte) {
	const block = 2 * lanes // bytes
	for l := 0; l < lanes; l += 4 {
		abs, pos, neg := (*[4]float64)(s.abs[l:]), s.pos[l], s.neg[l]
		a, b, c, d := abs[0], abs[1], abs[2], abs[3]
		for at := 2 * l; at < len(src); at += block {
			x := binary.LittleEndian.Uint64(src[at:])
			w0, w1, w2, w3 := uint32(x)<<16, uint32(x)>>16<<16, uint32(x>>32)<<16, uint32(x>>48)<<16
			a += magnitude(w0)
			b += magnitude(w1)
			c += magnitude(w2)
			d += magnitude(w3)
			pos = max(pos, int32(w0), int32(w1), int32(w2), int32(w3))
			neg = max(neg, w0, w1, w2, w3)
		}
		*abs = [4]float64{a, b, c, d}
		s.pos[l], s.neg[l] = pos, neg
	}
}

// magnitude of the float32 with these bits.
func magnitude(bits uint32) float64 { return float64(math.Float32frombits(bits &^ (1 << 31))) }

// climbGo writes first + stride · (number of thresholds that a finite weight reaches). Comparing keys instead of floats
// avoids an unpredictable branch; a threshold of zero is reached by −0.
func (l *ladder) climbGo(dst []int8, d DType, src []byte) {
	var below [3]int64 // the key just below each threshold
	for i, t := range l.at {
		below[i] = int64(key32(math.Float32bits(t))) - 1
		if t == 0 {
			below[i] = int64(key32(1<<31)) - 1
		}
	}
	eachBlock(d, src, func(k int, w []float32) {
		dst := dst[k:][:len(w)]
		for i, x := range w {
			key := int64(key32(math.Float32bits(x)))
			n := (below[0]-key)>>63 + (below[1]-key)>>63 + (below[2]-key)>>63 // −1 each
			dst[i] = int8(l.first - l.stride*int32(n))
		}
	})
}

// divideGo writes clip(rne(w/a), lo, hi).
func divideGo(dst []int8, d DType, src []byte, a, lo, hi float32) {
	eachBlock(d, src, func(k int, w []float32) {
		for i, x := range w {
			dst[k+i] = int8(clip(rne(x/a), lo, hi))
		}
	})
}

// errorSums are the partial sums of weights and of their quantization errors.
type errorSums struct {
	square [lanes]float64 // of w²
	miss   [lanes]float64 // of (w − code·scale)²
}

// missGo adds elements to the lanes, the first one to lane 0. Every product but the last is exact, so fusing it with
// the addition makes no difference.
func missGo(s *errorSums, codes []int8, d DType, src []byte, scale float32) {
	eachBlock(d, src, func(k int, w []float32) {
		for i, x := range w {
			v := float64(x)
			e := v - float64(codes[k+i])*float64(scale)
			s.square[i] += v * v
			s.miss[i] += float64(e * e)
		}
	})
}

// eachBlock widens one block after another; k is the number of the first element. The last block may be short.
func eachBlock(d DType, src []byte, do func(k int, w []float32)) {
	if len(src) == 0 {
		return // without memory for a block: the search for a scale calls this for the rest of whole blocks
	}
	var w [lanes]float32
	size := d.Size()
	for k := 0; len(src) > 0; k += lanes {
		n := min(lanes, len(src)/size)
		d.Widen(w[:n], src)
		do(k, w[:n])
		src = src[n*size:]
	}
}

// join adds the upper half of the lanes to the lower half until one is left.
func join(l *[lanes]float64) float64 {
	for n := lanes / 2; n > 0; n /= 2 {
		for i := range n {
			l[i] += l[i+n]
		}
	}
	return l[0]
}

// whole is the number of elements in whole blocks.
func whole(n int) int { return n &^ (lanes - 1) }
