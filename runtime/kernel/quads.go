package kernel

import "sync"

// quads is the form of activations that kernels for sign weights ask for on AVX-512: for each group of four columns a
// table of 16 sums by the bits of an index, those of the positive activations whose bits are set and of the magnitudes of
// the negative ones whose bits are clear. So an entry is half of what Σ w·x falls short of the sum of magnitudes, not
// negative, and 4·127 at most. Four groups share 128 bytes: the lower four bits of all entries, then the upper five.
// Tables are made once per token, by whoever comes first.
type quads struct {
	mu    sync.Mutex
	data  []byte  // [token][Stride/16][128]
	sums  []int32 // [token][Stride/16+1]: sum of the magnitudes of columns before 16·i
	ready []bool
}

// bitOrder says which bit of an index stands for a column of a group.
type bitOrder int

const (
	columnsUp   bitOrder = iota // bit j is column j
	columnsDown                 // bit j is column 3 − j
)

const (
	quadColumns = 16 // of four groups
	quadBytes   = 128
)

// quadTables returns the tables of columns lo and up of token t, and the sum of magnitudes of columns lo to hi. Both are
// multiples of 16, or hi is x.K.
func (x *Activations) quadTables(order bitOrder, t, lo, hi int) (tables []byte, sum int32) {
	q := &x.quads[order]
	q.mu.Lock()
	defer q.mu.Unlock()
	steps := x.Stride / quadColumns
	if q.data == nil {
		q.data, q.sums, q.ready = alignedBytes(x.maxN*steps*quadBytes), make([]int32, x.maxN*(steps+1)), make([]bool, x.maxN)
	}
	tables, sums := q.data[t*steps*quadBytes:][:steps*quadBytes], q.sums[t*(steps+1):][:steps+1]
	if !q.ready[t] {
		makeQuads(order, &tables[0], &sums[1], &x.rows[t*x.Stride], ceilDiv(x.K, quadColumns))
		q.ready[t] = true
	}
	return tables[lo/quadColumns*quadBytes:], sums[ceilDiv(hi, quadColumns)] - sums[lo/quadColumns]
}

// quadTablesGeneric is the definition of the tables, and of the sums up to the end of each step.
func quadTablesGeneric(order bitOrder, tables []byte, sums []int32, x []int8) {
	sum := int32(0)
	for step := range sums {
		for i := range quadColumns {
			sum += int32(max(x[step*quadColumns+i], -x[step*quadColumns+i]))
		}
		sums[step] = sum
		for i := range 64 {
			group, index, entry := i/16, i%16, 0
			for j, v := range x[step*quadColumns+4*group:][:4] {
				if order == columnsDown {
					j = 3 - j
				}
				if set := index>>j&1 == 1; set == (v > 0) {
					entry += int(max(v, -v))
				}
			}
			tables[step*quadBytes+i], tables[step*quadBytes+64+i] = byte(entry%16), byte(entry/16)
		}
	}
}
