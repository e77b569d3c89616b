package kernel

import (
	"sync"

	"github.com/lowpack/lowpack/internal/kernel/internal/asm"
)

// lut4Split is the form of the activations for kernels of 1-bit weights on AVX-512: for each group of four columns, a
// table of 16 sums by the bits of an index: positive activations whose bits are set, plus magnitudes of negative
// activations whose bits are clear. An entry is thus half of the difference between the sum of magnitudes and Σ w·x:
// not negative, and 4·127 at most. Four groups share 128 bytes: the lower four bits of all entries, then the upper
// five. Tables are built once per token, by the first caller.
type lut4Split struct {
	mu    sync.Mutex
	data  []byte  // [token][Stride/16][128]
	sums  []int32 // [token][Stride/16+1]: sum of the magnitudes of columns before 16·i
	ready []bool

	groups tokenGroups // with sums of magnitudes to add
}

// bitOrder says which column of a group each bit of an index stands for.
type bitOrder int

const (
	columnsUp   bitOrder = iota // bit j is column j
	columnsDown                 // bit j is column 3 − j
)

const (
	splitColumns = 16 // of four groups
	splitBytes   = 128
)

// splitGroups is groupTokens with the sums of magnitudes to add.
func (x *Activations) splitGroups(order bitOrder, group int) []asm.TokenGroup {
	return x.lut4Split[order].groups.of(x, group, 1, func(t, lo, hi int) int32 {
		_, sum := x.splitTables(order, t, lo, hi)
		return sum
	})
}

// splitTables returns the tables of columns lo and up of token t, and the sum of magnitudes of columns lo to hi. Both
// are multiples of 16, or hi is x.K.
func (x *Activations) splitTables(order bitOrder, t, lo, hi int) (tables []byte, sum int32) {
	q := &x.lut4Split[order]
	q.mu.Lock()
	defer q.mu.Unlock()
	steps := x.Stride / splitColumns
	if q.data == nil {
		q.data, q.sums, q.ready = alignedBytes(x.maxN*steps*splitBytes), make([]int32,
			x.maxN*(steps+1)), make([]bool, x.maxN)
	}
	tables, sums := q.data[t*steps*splitBytes:][:steps*splitBytes], q.sums[t*(steps+1):][:steps+1]
	if !q.ready[t] {
		buildSplit(order, &tables[0], &sums[1], &x.rows[t*x.Stride], ceilDiv(x.K, splitColumns))
		q.ready[t] = true
	}
	return tables[lo/splitColumns*splitBytes:], sums[ceilDiv(hi, splitColumns)] - sums[lo/splitColumns]
}

func buildSplit(order bitOrder, tables *byte, sums *int32, x *int8, n int) {
	if order == columnsDown {
		asm.BuildLUT4SplitReversed(tables, sums, x, n)
	} else {
		asm.BuildLUT4Split(tables, sums, x, n)
	}
}
