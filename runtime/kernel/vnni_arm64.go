//go:build !purego

package kernel

import "github.com/lowpack/lowpack/pack"

// neonKernels lists the kernels on the dot product extension of ARMv8.2.
func neonKernels() (list []*Kernel) {
	two := [2][]func(*tile){fields2Rows32NEON, fields2Rows64NEON}
	four := [2][]func(*tile){fields4Rows32NEON, fields4Rows64NEON}
	int8s := [2][]func(*tile){fields8Rows32NEON, fields8Rows64NEON}
	for i, rows := range []string{"", "-64"} {
		list = append(list,
			lookupNEON("vnni4i"+rows, 2, i, []string{pack.Ternary.Name, pack.Int2.Name, pack.Int2Odd.Name, pack.Int2Q.Name}, two[i]),
			lookupNEON("vnni4i"+rows, 4, i, []string{pack.Int4.Name, pack.E2M1.Name}, four[i]),
			&Kernel{
				Layout: "vnni4" + rows, Alphabets: []string{pack.Int8.Name}, ISA: NEON, step: 4, About: "dot products",
				bind: func(w *Weights) (product, error) {
					return newTiled(w, w.Layout.(pack.Paneled), w.packed, parts32(8, i, int8s[i]), operands{})
				},
			})
	}
	return append(list, universal(NEON))
}

func lookupNEON(layout string, bits, wide int, alphabets []string, funcs []func(*tile)) *Kernel {
	return &Kernel{
		Layout: layout, Alphabets: alphabets, ISA: NEON, step: 4, About: "codes looked up by byte shuffles, dot products",
		bind: func(w *Weights) (product, error) {
			values := stored[w.Layout.Spec().Alphabet]
			return newTiled(w, w.Layout.(pack.Paneled), w.packed, parts32(bits, wide, funcs), lookedUp(values, bits, 0))
		},
	}
}
