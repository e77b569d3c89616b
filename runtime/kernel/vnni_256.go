//go:build amd64 && !purego

package kernel

import (
	"math"
	"slices"

	"github.com/lowpack/lowpack/pack"
)

// panels256 is the functions of one instruction set, for panels of 32 and of 64 rows.
type panels256 struct {
	isa              ISA
	two, four, int8s [2][]func(*tile)
	int8             operands
	trits            []func(*tile)
	mostTrits        int // columns that a sum of base-3 bytes holds
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
		trits: tritsVNNI256Funcs, mostTrits: math.MaxInt32 / (256 * 2 * MaxActivation),
		about: "256-bit dot products",
	}, {
		isa:   AVX2,
		two:   [2][]func(*tile){fields2Rows32256, fields2Rows64256},
		four:  [2][]func(*tile){fields4Rows32256, fields4Rows64256},
		int8s: [2][]func(*tile){fields8Rows32256, fields8Rows64256},
		int8:  operands{mul: 1},
		trits: trits256Funcs,
		about: "products of two columns summed in 16 bits",
	}} {
		all := universal(p.isa)
		list = append(list, all,
			p.lookup("vnni4i", 2, 0, []string{pack.Ternary.Name}).withTables(func(w *Weights) ([]lutPhase, error) {
				return panelPhases(w, 32, lutFieldsRows32)
			}),
			p.lookup("vnni4i-64", 2, 1, []string{pack.Ternary.Name}).withTables(func(w *Weights) ([]lutPhase, error) {
				return panelPhases(w, 64, lutFieldsRows64)
			}),
			p.base3().withTables(tritPhases))
		for i, rows := range []string{"", "-64"} {
			list = append(list,
				p.lookup("vnni4i"+rows, 2, i, []string{pack.Int2.Name, pack.Int2Odd.Name, pack.Int2Q.Name}),
				p.lookup("vnni4i"+rows, 4, i, []string{pack.Int4.Name, pack.E2M1.Name}),
				p.bytes("vnni4"+rows, i),
				p.bits("vnni4"+rows, [][]func(*tile){bitsRows32256Funcs, bitsRows64256Funcs}[i]))
		}
		for _, l := range []struct {
			name       string
			group, run int
		}{{"i1", 5, 1}, {"i1-t2", 5, 2}, {"i2", 4, 1}, {"i2-t4", 4, 4}, {"i2-t8", 4, 8}} {
			list = append(list, all.forLayout(l.name).withTables(func(w *Weights) ([]lutPhase, error) {
				return vecLUTPhases(w, l.group, l.run)
			}))
		}
	}
	return list
}

// lookup makes the kernel for fields of two or four bits in panels of 32 rows, or 64 (wide).
func (p *panels256) lookup(layout string, bits, wide int, alphabets []string) *Kernel {
	funcs := p.two[wide]
	if bits == 4 {
		funcs = p.four[wide]
	}
	return &Kernel{
		Layout: layout, Alphabets: alphabets, ISA: p.isa, step: 4, About: "codes looked up by byte shuffles, " + p.about,
		bind: func(w *Weights) (product, error) {
			values := stored[w.Layout.Spec().Alphabet]
			return newTiled(w, w.Layout.(pack.Paneled), w.packed, parts32(bits, wide, funcs), lookedUp(values, bits, slices.Min(values)))
		},
	}
}

func (p *panels256) bytes(layout string, wide int) *Kernel {
	return &Kernel{
		Layout: layout, Alphabets: []string{pack.Int8.Name}, ISA: p.isa, step: 4, About: p.about,
		bind: func(w *Weights) (product, error) {
			return newTiled(w, w.Layout.(pack.Paneled), w.packed, parts32(8, wide, p.int8s[wide]), p.int8)
		},
	}
}

// bits makes the kernel for sign weights, which is the same with and without VPDPBUSD.
func (p *panels256) bits(layout string, funcs []func(*tile)) *Kernel {
	return &Kernel{
		Layout: layout, Alphabets: []string{pack.Int1.Name}, ISA: p.isa, step: 8, About: "sums of four columns looked up by byte shuffles",
		bind: func(w *Weights) (product, error) {
			return newTiled(w, w.Layout.(pack.Paneled), w.packed, family{funcs: funcs, columns: 8, nibbles: true}, operands{})
		},
	}
}

// base3 makes the kernel for base-3 bytes, whose operands are digits.
func (p *panels256) base3() *Kernel {
	o := operands{mul: 1, add: -1, block: math.MaxInt16 / (5 * 2 * 2 * MaxActivation)} // five digits of two columns per step
	return &Kernel{
		Layout: "vnni4t", Alphabets: []string{pack.Ternary.Name}, ISA: p.isa, step: 20, most: p.mostTrits, About: "digits found by multiplying by three, " + p.about,
		bind: func(w *Weights) (product, error) {
			f := family{funcs: p.trits, columns: 20, parts: 2, partBytes: 128, partRows: 32}
			return newTiled(w, w.Layout.(pack.Paneled), w.packed, f, o)
		},
	}
}

// forLayout is a copy of the universal kernel for one layout.
func (k Kernel) forLayout(name string) *Kernel {
	k.Layout = name
	return &k
}

// withTables adds Vec-LUT for large batches to a kernel.
func (k Kernel) withTables(phases func(*Weights) ([]lutPhase, error)) *Kernel {
	few := k.bind
	k.About += "; large batches by Vec-LUT"
	k.bind = func(w *Weights) (product, error) {
		p, err := few(w)
		if err != nil {
			return nil, err
		}
		ph, err := phases(w)
		return &vecLUT{w, p, ph}, err
	}
	return &k
}
