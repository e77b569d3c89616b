//go:build amd64 && !purego

package kernel

import "github.com/lowpack/lowpack/pack"

// codes says how a weight follows from the digit of a layout, by alphabet; E2M1 is no affine function of its digit.
// Trits are recoded by the kernels to 1 − w.
var fieldCodes = map[string]struct {
	bits int
	affine
}{
	pack.Int1.Name:    {1, affine{-2, 1}}, // +1, −1 = 0, 1
	pack.Ternary.Name: {2, affine{-1, 1}},
	pack.Int2.Name:    {2, affine{1, -2}},
	pack.Int2Q.Name:   {2, affine{1, -1}},
	pack.Int2Odd.Name: {2, affine{2, -3}},
	pack.Int4.Name:    {4, affine{1, -8}},
}

func avx512Kernels() []*Kernel {
	fields := func(layout string, lanes map[int]int, funcs map[int][]func(*tile), ternary []func(*tile)) *Kernel {
		return &Kernel{
			Layout: layout, ISA: AVX512VNNI, step: 16, most: 1 << 16,
			About:   "fields cut out by masks, VPDPBUSD on 512 bits",
			accepts: func(s pack.Spec) bool { return fieldCodes[s.Alphabet].bits != 0 },
			bind: func(w *Weights) (product, error) {
				alphabet := w.Layout.Spec().Alphabet
				code := fieldCodes[alphabet]
				f := funcs[code.bits]
				if alphabet == pack.Ternary.Name {
					f = ternary
				}
				l := lanes[code.bits]
				return newTiled(w, f, code.affine, max(16/l, 1), l)
			},
		}
	}
	return []*Kernel{
		fields("vnni4i", map[int]int{1: 4, 2: 8, 4: 16},
			map[int][]func(*tile){1: fields1Rows32512, 2: fields2Rows32512, 4: fields4Rows32512}, ternaryRows32512),
		fields("vnni4i-64", map[int]int{1: 8, 2: 16, 4: 32},
			map[int][]func(*tile){1: fields1Rows64512, 2: fields2Rows64512, 4: fields4Rows64512}, ternaryRows64512),
	}
}
