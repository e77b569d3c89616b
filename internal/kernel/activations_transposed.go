package kernel

import (
	"encoding/binary"
	"sync"
)

// columnTokens is the number of tokens in a tile of transposed activations.
const columnTokens = 32

// transposed is the transposed form of the activations: tiles of 32 tokens, in which the 32 activations of a column are
// adjacent. A tile is built once, by the first kernel that asks for it.
type transposed struct {
	mu    sync.Mutex
	data  []int8 // [tile][Stride][columnTokens]
	ready []bool
}

// columnTile returns tokens 32·tile … of x, [Stride][columnTokens]. Columns beyond K are zero; tokens beyond x.N are
// undefined.
func (x *Activations) columnTile(tile int) []int8 {
	c := &x.transposed
	c.mu.Lock()
	defer c.mu.Unlock()
	size := x.Stride * columnTokens
	if c.data == nil {
		tiles := ceilDiv(x.maxN, columnTokens)
		c.data, c.ready = asInt8(alignedBytes(tiles*size)), make([]bool, tiles)
	}
	t := c.data[tile*size:][:size]
	if !c.ready[tile] {
		x.transpose(t, tile*columnTokens)
		c.ready[tile] = true
	}
	return t
}

// transpose writes tokens from t0 on by columns, 8 × 8 at a time.
func (x *Activations) transpose(dst []int8, t0 int) {
	for t := t0; t < min(t0+columnTokens, x.maxN); t += 8 {
		for k := 0; k < x.K; k += 8 {
			var block [8]uint64
			for i := range min(8, x.maxN-t) {
				block[i] = binary.LittleEndian.Uint64(asBytes(x.rows[(t+i)*x.Stride+k:][:8]))
			}
			transpose8(&block)
			for i, v := range block {
				binary.LittleEndian.PutUint64(asBytes(dst[(k+i)*columnTokens+t-t0:][:8]), v)
			}
		}
	}
}

// transpose8 transposes 8 × 8 bytes, one row per word, by exchanging ever smaller blocks.
func transpose8(b *[8]uint64) {
	for _, step := range [...]struct {
		rows, bits int
		mask       uint64
	}{{4, 32, 0x00000000FFFFFFFF}, {2, 16, 0x0000FFFF0000FFFF}, {1, 8, 0x00FF00FF00FF00FF}} {
		for i := range 8 {
			if i&step.rows == 0 {
				j := i + step.rows
				swap := (b[i]>>step.bits ^ b[j]) & step.mask
				b[j] ^= swap
				b[i] ^= swap << step.bits
			}
		}
	}
}
