//go:build amd64 && !purego

package kernel

import (
	"slices"

	"github.com/lowpack/lowpack/pack"
)

// panels256 is the functions of one instruction set, for panels of 32 and of 64 rows.
type panels256 struct {
	isa              ISA
	two, four, int8s [2][]func(*tile)
	int8             operands
	about            string
}

// kernels256 lists the kernels on 256-bit registers, with and without VPDPBUSD.
func kernels256() (list []*Kernel) {
	for _, p := range []panels256{{
		isa:   AVXVNNI,
		two:   [2][]func(*tile){fields2Rows32VNNI256, fields2Rows64VNNI256},
		four:  [2][]func(*tile){fields4Rows32VNNI256, fields4Rows64VNNI256},
		int8s: [2][]func(*tile){fields8Rows32VNNI256, fields8Rows64VNNI256},
		int8:  digits[pack.Int8.Name],
		about: "256-bit dot products",
	}, {
		isa:   AVX2,
		two:   [2][]func(*tile){fields2Rows32256, fields2Rows64256},
		four:  [2][]func(*tile){fields4Rows32256, fields4Rows64256},
		int8s: [2][]func(*tile){fields8Rows32256, fields8Rows64256},
		int8:  operands{mul: 1},
		about: "products of two columns summed in 16 bits",
	}} {
		for i, rows := range []string{"", "-64"} {
			list = append(list,
				p.lookup("vnni4i"+rows, 2, i, []string{pack.Ternary.Name, pack.Int2.Name, pack.Int2Odd.Name, pack.Int2Q.Name}, p.two[i]),
				p.lookup("vnni4i"+rows, 4, i, []string{pack.Int4.Name, pack.E2M1.Name}, p.four[i]),
				p.bytes("vnni4"+rows, i, p.int8s[i]))
		}
		list = append(list, universal(p.isa, parts32(8, 1, p.int8s[1]), p.int8))
	}
	return list
}

func (p *panels256) lookup(layout string, bits, wide int, alphabets []string, funcs []func(*tile)) *Kernel {
	f := parts32(bits, wide, funcs)
	return &Kernel{
		Layout: layout, Alphabets: alphabets, ISA: p.isa, step: 4, About: "codes looked up by byte shuffles, " + p.about,
		bind: func(w *Weights) (product, error) {
			values := stored[w.Layout.Spec().Alphabet]
			return newTiled(w, w.Layout.(pack.Paneled), w.packed, f, lookedUp(values, bits, slices.Min(values)))
		},
	}
}

func (p *panels256) bytes(layout string, wide int, funcs []func(*tile)) *Kernel {
	f := parts32(8, wide, funcs)
	return &Kernel{
		Layout: layout, Alphabets: []string{pack.Int8.Name}, ISA: p.isa, step: 4, About: p.about,
		bind: func(w *Weights) (product, error) {
			return newTiled(w, w.Layout.(pack.Paneled), w.packed, f, p.int8)
		},
	}
}
