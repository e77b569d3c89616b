//go:build amd64 && !purego

package kernel

import (
	"math"

	"github.com/lowpack/lowpack/pack"
)

// mostPaired bounds the columns of row dots on AVX-512. With one token the sums of a step, two blocks of columns, are those
// of four columns per lane and field, of which that of the highest field is 64 times too large.
const mostPaired = math.MaxInt32 / (4 * 64 * 2 * MaxActivation) * pairColumns

// rowDots512Kernel is the kernel for bitnet.cpp's stream on 512-bit registers.
func rowDots512Kernel() *Kernel {
	again := universal(AVX512VNNI)
	return &Kernel{
		Layout: rowLayout, Alphabets: []string{pack.Ternary.Name}, ISA: AVX512VNNI, step: pairColumns, most: mostPaired,
		About: "dot products of rows, 512 bits",
		bind: func(w *Weights) (product, error) {
			if w.Shape.K%rowColumns != 0 {
				return again.bind(w)
			}
			w.rows = rowsAtOnce
			return &rowProduct{w: w, funcs: rowDots512, bytes: w.Shape.K / 4, step: pairColumns, rows: (*Activations).paired}, nil
		},
	}
}
