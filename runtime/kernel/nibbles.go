package kernel

import "sync"

// nibbles is the form of activations that kernels for sign weights ask for: for each group of four columns a table of
// the 16 sums ±x₀ ±x₁ ±x₂ ±x₃ by the bits of an index, bit 0 for plus. Two groups share 64 bytes: the lower bytes of
// both, then the upper bytes of both. Tables are made once per token, by whoever comes first.
type nibbles struct {
	mu    sync.Mutex
	data  []byte // [token][Stride/8][64]
	ready []bool
}

// nibbleTable returns the tables of token t, those of columns 8·i to 8·i+7 at 64·i.
func (x *Activations) nibbleTable(t int) []byte {
	n := &x.nibbles
	n.mu.Lock()
	defer n.mu.Unlock()
	size := x.Stride * 8
	if n.data == nil {
		n.data, n.ready = alignedBytes(x.maxN*size), make([]bool, x.maxN)
	}
	tables := n.data[t*size:][:size]
	if !n.ready[t] {
		nibbleTables(&tables[0], &x.rows[t*x.Stride], ceilDiv(x.K, 8))
		n.ready[t] = true
	}
	return tables
}

// nibbleFamily is a family that reads the tables; a lane is a group of four columns.
func nibbleFamily(funcs []func(*tile)) family {
	return family{funcs: funcs, columns: 8, lanes: 1, tables: func(x *Activations, t, lo, _ int) (*int8, int32) {
		return &asInt8(x.nibbleTable(t))[lo/8*64], 0
	}}
}

// nibbleTablesGeneric is the definition of the tables of pairs of groups of columns.
func nibbleTablesGeneric(tables []byte, x []int8) {
	for pair := range len(tables) / 64 {
		for group := range 2 {
			four := x[8*pair+4*group:][:4]
			for index := range 16 {
				sum := int16(0)
				for j, v := range four {
					sum += int16(v) * int16(1-2*(index>>j&1))
				}
				at := 64*pair + 16*group + index
				tables[at], tables[at+32] = byte(sum), byte(uint16(sum)>>8)
			}
		}
	}
}
