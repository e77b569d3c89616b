package tensor

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkMul streams the rows of a matrix from memory (128 MB) and from a cache (256 KB) through one core.
func BenchmarkMul(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, typ := range []Type{BF16, F32} {
		for _, size := range []int{256 << 10, 128 << 20} {
			for _, n := range []int{1, 4} {
				const cols = 2560
				rows := size / cols / typ.Size()
				m, err := NewMatrix(typ, rows, cols, make([]byte, rows*cols*typ.Size()))
				if err != nil {
					b.Fatal(err)
				}
				x, y := ordinary(r, n*cols), make([]float32, n*rows)
				b.Run(fmt.Sprintf("%v/%dKB/x%d", typ, size>>10, n), func(b *testing.B) {
					b.SetBytes(int64(rows * cols * typ.Size()))
					for b.Loop() {
						m.Mul(y, rows, x, cols, n, 0, rows)
					}
				})
			}
		}
	}
}
