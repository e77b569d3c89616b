package kernel

import (
	"slices"
	"sync"
)

// tileRows is the form of the activations for products on tile registers with group-wise scales, built by the first
// kernel that asks for it.
type tileRows struct {
	mu     sync.Mutex
	data   []int8 // [tokenPair][64 columns][token][column of the 64], at a page: a tile of 16 tokens is 1 KiB
	ready  []bool // by pairs of tiles
	scales []*blockScales
}

// blockScales are the scales of the activations for blocks of columns.
type blockScales struct {
	group int
	data  []float32 // [block][token]
	ready bool      // for ever where tokens have one scale, as all of them are 1 then
}

// tokenPair are the tokens of two tiles; kernels read all of them.
const tokenPair = 32

// forget marks all forms as stale, but scales where tokens have one.
func (r *tileRows) forget(one bool) {
	clear(r.ready)
	for _, s := range r.scales {
		s.ready = s.ready && one
	}
}

// tilePairStride is the number of bytes of tokenPair tokens in tiles: whole passes of a kernel.
func (x *Activations) tilePairStride() int {
	return ceilDiv(x.K, amxGroupColumns) * amxGroupColumns * tokenPair
}

// tiles returns the rows of tokens [t0, t1) in tiles; t0 is the first of a pair of tiles. Columns beyond K are zero;
// tokens beyond x.N are undefined.
func (x *Activations) tiles(t0, t1 int) []int8 {
	r, size := &x.tileRows, x.tilePairStride()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.data == nil {
		pairs := ceilDiv(x.maxN, tokenPair)
		r.data, r.ready = asInt8(alignedTo(4096, pairs*size)), make([]bool, pairs)
	}
	for pair := t0 / tokenPair; pair*tokenPair < t1; pair++ {
		if !r.ready[pair] {
			x.tile(r.data[pair*size:], pair*tokenPair)
			r.ready[pair] = true
		}
	}
	return r.data[t0/tokenPair*size:]
}

// tile copies the rows of a pair of tiles.
func (x *Activations) tile(dst []int8, t0 int) {
	for t := range min(tokenPair, x.N-t0) {
		row := x.rows[(t0+t)*x.Stride:]
		for i := range ceilDiv(x.K, 64) {
			copy(dst[(i*tokenPair+t)*64:][:64], row[i*64:])
		}
	}
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
		for b := range blocks {
			for t := range x.maxN {
				s.data[b*stride+t] = x.scale(t, b*group)
			}
		}
		s.ready = true
	}
	return s.data, stride
}
