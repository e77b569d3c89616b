package kernel

import (
	"slices"
	"sync"
)

// tileRows is the form of the activations for products on tile registers with group-wise scales, built by the first
// kernel that asks for it.
type tileRows struct {
	mu     sync.Mutex
	data   []int8 // [32 tokens][64 columns][token][column of the 64], at a page: a tile of 16 tokens is 1 KiB
	ready  bool
	scales []*blockScales
}

// blockScales are the scales of the activations for blocks of columns.
type blockScales struct {
	group int
	data  []float32 // [block][token]
	ready bool
}

// tokenPair are the tokens of two tiles; kernels read all of them.
const tokenPair = 32

// forget marks all forms as stale.
func (r *tileRows) forget() {
	r.ready = false
	for _, s := range r.scales {
		s.ready = false
	}
}

// tilePairStride is the number of bytes of tokenPair tokens in tiles: whole passes of a kernel.
func (x *Activations) tilePairStride() int {
	return ceilDiv(x.K, amxGroupColumns) * amxGroupColumns * tokenPair
}

// tiles returns the rows in tiles. Columns beyond K are zero; tokens beyond x.N are undefined.
func (x *Activations) tiles() []int8 {
	r := &x.tileRows
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.data == nil {
		r.data = asInt8(alignedTo(4096, ceilDiv(x.maxN, tokenPair)*x.tilePairStride()))
	}
	if !r.ready {
		for t := range x.N {
			row, pair := x.rows[t*x.Stride:], r.data[t/tokenPair*x.tilePairStride()+t%tokenPair*64:]
			for i := range ceilDiv(x.K, 64) {
				copy(pair[i*64*tokenPair:][:64], row[i*64:])
			}
		}
		r.ready = true
	}
	return r.data
}

// blockScales returns the scales of blocks of group columns, 1 where tokens have one scale for all columns, which the
// caller then applies at the end; and how many lie between those of adjacent blocks. There is room for the blocks
// of a pass after the last.
func (x *Activations) blockScales(group int) (scales []float32, stride int) {
	r := &x.tileRows
	r.mu.Lock()
	defer r.mu.Unlock()
	stride = ceilDiv(x.maxN, tokenPair) * tokenPair
	blocks := ceilDiv(x.K, group)
	i := slices.IndexFunc(r.scales, func(s *blockScales) bool { return s.group == group })
	if i < 0 {
		room := blocks + amxGroupColumns/group
		i, r.scales = len(r.scales), append(r.scales, &blockScales{group, make([]float32, room*stride), false})
	}
	s := r.scales[i]
	if !s.ready {
		for t := range x.N {
			for b := range blocks {
				s.data[b*stride+t] = x.scale(t, b*group)
			}
		}
		s.ready = true
	}
	return s.data, stride
}
