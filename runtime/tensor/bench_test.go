package tensor

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lowpack/lowpack/runtime/kernel"
	"github.com/lowpack/lowpack/runtime/kernel/ceiling"
)

// BenchmarkMul streams the rows of a matrix from memory (128 MB) and from a cache (256 KB) through one core.
func BenchmarkMul(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, typ := range []Type{BF16, F32} {
		for _, size := range []int{256 << 10, 128 << 20} {
			for _, n := range []int{1, 4, 8, 16} {
				const cols = 2560
				rows := size / cols / typ.Size()
				m, err := NewMatrix(typ, rows, cols, bytes.Repeat([]byte{0x3c}, rows*cols*typ.Size()))
				if err != nil {
					b.Fatal(err)
				}
				x, y := ordinary(r, n*cols), make([]float32, n*rows)
				b.Run(fmt.Sprintf("%v/%dKB/x%d", typ, size>>10, n), func(b *testing.B) {
					b.SetBytes(int64(rows * cols * typ.Size()))
					ofLimit(b, 2*n*rows*cols, func() { m.Mul(y, rows, x, cols, n, 0, rows) })
				})
			}
		}
	}
}

// BenchmarkHeads computes the attention of four tokens that see 256 positions.
func BenchmarkHeads(b *testing.B) {
	const heads, dim, visible = 4, 128, 256
	r := rand.New(rand.NewPCG(2, 2))
	for _, typ := range []CacheType{CacheF32, CacheF16, CacheI8} {
		keys, values := NewCache(typ, visible, dim), NewCache(typ, visible, dim)
		for i := range visible {
			keys.SetRow(i, ordinary(r, dim))
			values.SetRow(i, ordinary(r, dim))
		}
		queries := make([]Query, MostQueries)
		for i := range queries {
			queries[i] = Query{ordinary(r, heads*dim), make([]float32, heads*dim), Range{0, visible - MostQueries + 1 + i}}
		}
		a, s := Attention{Scale: 0.1}, NewScratch(heads, dim, make([]float32, MostQueries*heads*visible))
		b.Run(string(typ), func(b *testing.B) {
			ofLimit(b, 2*2*len(queries)*heads*visible*dim, func() { a.Heads(queries, heads, dim, keys, values, s) })
		})
	}
}

// ofLimit runs f and reports the best fraction of what this core multiplies and adds in registers meanwhile.
func ofLimit(b *testing.B, operations int, f func()) {
	const parts = 50
	m := &ceiling.Multiplier{ISA: kernel.Best(), Floats: true}
	best := ceiling.Fastest(200*time.Millisecond, f, func() { m.Do(0, parts) })
	for b.Loop() {
		f()
	}
	b.ReportMetric(ceiling.GOPS(operations, best[0])/ceiling.GOPS(parts*m.Operations(), best[1]), "of-limit")
}
