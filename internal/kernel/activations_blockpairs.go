package kernel

import "sync"

// blockPairs is the form of the activations for row-major dot-product kernels on AVX-512, whose registers hold two
// blocks of packed weights: of every two blocks of 128 columns, the 32 columns of each field are adjacent, first block
// before second. It is built once per token, by the first caller.
type blockPairs struct {
	mu    sync.Mutex
	data  []int8 // [token][pairStride]
	ready []bool
}

const pairColumns = 256 // of two blocks

// pairStride is the number of bytes of a token: an odd multiple of 64, as in Activations.
func (x *Activations) pairStride() int { return ceilDiv(x.K, pairColumns)*pairColumns + 64 }

// paired returns the rows of tokens [t0, t1), pairStride apart.
func (x *Activations) paired(t0, t1 int) (first []int8, stride int) {
	p := &x.blockPairs
	p.mu.Lock()
	defer p.mu.Unlock()
	stride = x.pairStride()
	if p.data == nil {
		p.data, p.ready = asInt8(alignedBytes(x.maxN*stride)), make([]bool, x.maxN)
	}
	for t := t0; t < t1; t++ {
		if !p.ready[t] {
			pairUp(p.data[t*stride:][:stride], x.Row(t))
			p.ready[t] = true
		}
	}
	return p.data[t0*stride:], stride
}

// pairUp writes the columns of x, whole blocks, in the order of pairs. If the last block has no partner, whatever is in
// the partner's place is multiplied by zero digits.
func pairUp(dst, x []int8) {
	const block, field = 128, 32
	for k := 0; k < len(x); k += field {
		pair, second, f := k/pairColumns, k/block%2, k%block/field
		copy(dst[pair*pairColumns+2*field*f+field*second:][:field], x[k:])
	}
}
