package kernel

import (
	"sync"

	"github.com/lowpack/lowpack/internal/kernel/internal/asm"
)

// lut4 is the form of the activations for kernels of 1-bit weights: for each group of four columns, a table of the 16
// sums ±x₀ ±x₁ ±x₂ ±x₃ by the bits of an index, bit 0 for plus. Two groups share 64 bytes: the lower bytes of both,
// then the upper bytes of both. Tables are built once per token, by the first caller.
type lut4 struct {
	mu    sync.Mutex
	data  []byte // [token][Stride/8][64]
	ready []bool
}

// lut4Tables returns the tables of token t; the tables of columns 8·i to 8·i+7 start at 64·i.
func (x *Activations) lut4Tables(t int) []byte {
	l := &x.lut4
	l.mu.Lock()
	defer l.mu.Unlock()
	size := x.Stride * 8
	if l.data == nil {
		l.data, l.ready = alignedBytes(x.maxN*size), make([]bool, x.maxN)
	}
	tables := l.data[t*size:][:size]
	if !l.ready[t] {
		asm.BuildLUT4(&tables[0], &x.rows[t*x.Stride], ceilDiv(x.K, 8))
		l.ready[t] = true
	}
	return tables
}
