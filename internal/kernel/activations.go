package kernel

import (
	"fmt"
	"unsafe"
)

// MaxActivation is the largest magnitude of an activation: −128 is not one. Quantization is symmetric, and kernels that
// negate an activation or add two products in 16 bits rely on it.
const MaxActivation = 127

// sumBlock is the number of columns between two prefix sums of a token.
const sumBlock = 32

// Activations is a batch of int8 vectors, one per token. The rows of tokens 0 … N−1 are written through Row, then
// Finish makes them ready for any number of Mul calls, which may run in parallel. Callers that write rows in parallel
// call Reset first, and FinishRow after each row instead.
//
// Rows lie Stride bytes apart. The stride is an odd multiple of 64, so that the same column of many tokens does not
// fall into one set of a cache, and leaves at least 64 zero bytes after a row, so that kernels may read beyond column
// K.
type Activations struct {
	N, K   int
	Stride int
	Group  int // columns that share a scale; 0 = all columns of a token

	scales []float32 // [maxN][K/Group]
	rows   []int8    // [maxN][Stride], 64-byte aligned
	sums   []int32   // [maxN][K/sumBlock + 2]: sum of the columns before i·sumBlock
	maxN   int

	// Derived forms of the rows, built when the first kernel asks for them.
	tokenGroups tokenGroups
	transposed  transposed
	tileRows    tileRows
	lut4        lut4
	lut4Split   [2]lut4Split // by bitOrder
	blockPairs  blockPairs
}

// NewActivations allocates room for maxN tokens of k columns and selects all of them, with every element zero.
func NewActivations(maxN, k int) *Activations { return NewGroupedActivations(maxN, k, 0) }

// NewGroupedActivations is for tokens with a scale for each group of columns; group 0 means one scale per token.
func NewGroupedActivations(maxN, k, group int) *Activations {
	stride := ((ceilDiv(k, 64) + 1) | 1) * 64
	x := &Activations{K: k, Stride: stride, maxN: maxN, rows: asInt8(alignedBytes(maxN * stride))}
	x.sums = make([]int32, maxN*x.sumStride())
	x.Group, x.scales = group, make([]float32, maxN*scaleCount(k, group))
	x.Reset(maxN)
	return x
}

// Reset selects the first n tokens. Their rows keep their contents, and must be finished again.
func (x *Activations) Reset(n int) {
	if n < 0 || n > x.maxN {
		panic(fmt.Sprintf("kernel: %d tokens in room for %d", n, x.maxN))
	}
	x.N = n
	clear(x.transposed.ready)
	x.tileRows.forget(x.Group == 0)
	clear(x.lut4.ready)
	clear(x.blockPairs.ready)
	for i := range x.lut4Split {
		clear(x.lut4Split[i].ready)
		x.lut4Split[i].groups.forget()
	}
}

func scaleCount(k, group int) int {
	if group == 0 {
		return 1
	}
	return ceilDiv(k, group)
}

// Scales are the scales of token t, one for each group of columns, to be written with the row (N14).
func (x *Activations) Scales(t int) []float32 {
	n := scaleCount(x.K, x.Group)
	return x.scales[t*n:][:n]
}

// Row is the vector of token t, K elements in −127 … 127, to be written before Finish.
func (x *Activations) Row(t int) []int8 { return x.rows[t*x.Stride:][:x.K:x.K] }

// plain returns the rows of tokens from t0 on, Stride apart.
func (x *Activations) plain(t0, _ int) (first []int8, stride int) {
	return x.rows[t0*x.Stride:], x.Stride
}

// Finish computes the data that kernels derive from the rows. It must follow every change of a row.
func (x *Activations) Finish() {
	x.Reset(x.N)
	for t := range x.N {
		x.FinishRow(t)
	}
}

// FinishRow is Finish for one row. It must follow a Reset and every change of the row or its scales.
func (x *Activations) FinishRow(t int) {
	sums := x.sums[t*x.sumStride():][:x.sumStride()]
	last := len(sums) - 1
	total := int32(0)
	blocks := unsafe.Slice((*block)(unsafe.Pointer(&x.rows[t*x.Stride])), last)
	for i := range blocks {
		sums[i] = total
		total += blocks[i].sum()
	}
	sums[last] = total
	for _, g := range x.tokenGroups.list {
		g.finishRow(x, t, nil)
	}
}

func (x *Activations) sumStride() int { return ceilDiv(x.K, sumBlock) + 1 }

// Sum is the sum of columns [lo, hi) of token t: prefix sums, and the rest of a block one by one.
func (x *Activations) Sum(t, lo, hi int) int32 { return x.sumTo(t, hi) - x.sumTo(t, lo) }

func (x *Activations) sumTo(t, k int) int32 {
	if k >= x.K {
		return x.sums[(t+1)*x.sumStride()-1]
	}
	s := x.sums[t*x.sumStride()+k/sumBlock]
	for _, v := range x.rows[t*x.Stride+k/sumBlock*sumBlock : t*x.Stride+k] {
		s += int32(v)
	}
	return s
}

// block is sumBlock activations, eight in a word.
type block [sumBlock / 8]uint64

// sum adds up a block. Adding 128 makes every element unsigned, so that 32 of them add up in four lanes of 16 bits
// without carry (32 · 255 < 2¹⁶), whatever the byte order. The multiplication adds the lanes in the highest one.
func (b *block) sum() int32 {
	const sign, even = 0x8080808080808080, 0x00FF00FF00FF00FF
	w0, w1, w2, w3 := b[0]^sign, b[1]^sign, b[2]^sign, b[3]^sign
	lanes := w0&even + w1&even + w2&even + w3&even + w0>>8&even + w1>>8&even + w2>>8&even + w3>>8&even
	return int32(lanes*0x0001000100010001>>48) - 128*sumBlock
}
