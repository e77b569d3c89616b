//go:build (amd64 || arm64) && !purego

package kernel

import "github.com/lowpack/lowpack/pack"

// panelFuncs is the functions of one instruction set that multiply 32 rows at a time, in panels of 32 and of 64 rows, and
// what they multiply in place of weights.
type panelFuncs struct {
	isa                   ISA
	one, two, four, eight [2][]func(*tile) // fields of so many bits
	int4s                 [2][]func(*tile) // int4 that is not looked up; without them it is
	lookup                func(values []int8, bits int) operands
	int1, int8            operands
	mostOnes              int       // columns that a sum of single bits holds; 0 = any number
	bits                  [2]family // sign weights in VNNI4 order
	trits                 []func(*tile)
	base3                 operands
	batch                 int  // tokens from which on Vec-LUT is better than multiplying
	grouped               bool // functions for fields of a layout and for base-3 bytes are
	about                 string
}

// kernels lists the kernels made of p, those for ternary weights with Vec-LUT for large batches.
func (p *panelFuncs) kernels() []*Kernel {
	all := universal(p.isa)
	list := []*Kernel{
		all,
		p.fields("vnni4i", 2, 0, pack.Ternary.Name).withTables(p.batch, func(w *Weights) ([]lutPhase, error) {
			return panelPhases(w, 32, 32, lutFieldsRows32)
		}),
		p.fields("vnni4i-64", 2, 1, pack.Ternary.Name).withTables(p.batch, func(w *Weights) ([]lutPhase, error) {
			return panelPhases(w, 64, 64, lutFieldsRows64)
		}),
		p.trit().withTables(p.batch, func(w *Weights) ([]lutPhase, error) {
			return panelPhases(w, 80, 64, lutTrits)
		}),
	}
	for i, rows := range []string{"", "-64"} {
		list = append(list,
			p.fields("vnni4i"+rows, 2, i, pack.Int2.Name, pack.Int2Odd.Name, pack.Int2Q.Name),
			p.fields("vnni4i"+rows, 4, i, pack.E2M1.Name),
			p.int4("vnni4i"+rows, i),
			p.whole("vnni4"+rows, pack.Int8.Name, 8, i, p.eight[i], p.int8),
			p.signs("vnni4"+rows, i),
			p.ones("vnni4i"+rows, i))
	}
	for _, l := range []struct {
		name       string
		group, run int
	}{{"i1", 5, 1}, {"i1-t2", 5, 2}, {"i2", 4, 1}, {"i2-t4", 4, 4}, {"i2-t8", 4, 8}} {
		list = append(list, all.forLayout(l.name).withTables(p.batch, func(w *Weights) ([]lutPhase, error) {
			return vecLUTPhases(w, l.group, l.run)
		}))
	}
	return list
}

// fields makes the kernel for fields of two or four bits in panels of 32 rows, or 64 (wide).
func (p *panelFuncs) fields(layout string, bits, wide int, alphabets ...string) *Kernel {
	funcs := p.two[wide]
	if bits == 4 {
		funcs = p.four[wide]
	}
	return &Kernel{
		Layout: layout, Alphabets: alphabets, ISA: p.isa, step: 4, About: "codes looked up by byte shuffles, " + p.about,
		bind: func(w *Weights) (product, error) {
			values := stored[w.Layout.Spec().Alphabet]
			return newTiled(w, w.Layout.(pack.Paneled), w.packed, p.parts(bits, wide, funcs), p.lookup(values, bits))
		},
	}
}

// parts is the family of functions that multiply 32 rows of fields at a time, one group of four columns per step. Panels
// of 64 rows interleave two such parts.
func (p *panelFuncs) parts(bits, wide int, funcs []func(*tile)) family {
	return family{funcs: funcs, columns: 4, grouped: p.grouped, parts: 1 + wide, partBytes: 16 * bits, partRows: 4 * bits}
}

// int4 makes the kernel for int4, whose lower and upper fields are summed together where there are functions for that: 16
// times the largest weight by the columns stays below 2³¹ for 2¹⁶ columns.
func (p *panelFuncs) int4(layout string, wide int) *Kernel {
	if p.int4s[wide] == nil {
		return p.fields(layout, 4, wide, pack.Int4.Name)
	}
	k := p.whole(layout, pack.Int4.Name, 4, wide, p.int4s[wide], digits[pack.Int4.Name])
	k.most = 1 << 16
	return k
}

// ones makes the kernel for sign weights in fields of one bit.
func (p *panelFuncs) ones(layout string, wide int) *Kernel {
	k := p.whole(layout, pack.Int1.Name, 1, wide, p.one[wide], p.int1)
	k.most = p.mostOnes
	return k
}

// whole makes the kernel for fields whose operands are not looked up.
func (p *panelFuncs) whole(layout, alphabet string, bits, wide int, funcs []func(*tile), o operands) *Kernel {
	return &Kernel{
		Layout: layout, Alphabets: []string{alphabet}, ISA: p.isa, step: 4, About: p.about,
		bind: func(w *Weights) (product, error) {
			return newTiled(w, w.Layout.(pack.Paneled), w.packed, p.parts(bits, wide, funcs), o)
		},
	}
}

// signs makes the kernel for sign weights in VNNI4 order, which needs no dot products.
func (p *panelFuncs) signs(layout string, wide int) *Kernel {
	return &Kernel{
		Layout: layout, Alphabets: []string{pack.Int1.Name}, ISA: p.isa, step: 8, About: "sums of four columns looked up by byte shuffles",
		bind: func(w *Weights) (product, error) {
			return newTiled(w, w.Layout.(pack.Paneled), w.packed, p.bits[wide], operands{})
		},
	}
}

// trit makes the kernel for base-3 bytes.
func (p *panelFuncs) trit() *Kernel {
	return &Kernel{
		Layout: "vnni4t", Alphabets: []string{pack.Ternary.Name}, ISA: p.isa, step: 4, About: "remainders by powers of three, " + p.about,
		bind: func(w *Weights) (product, error) {
			return newTiled(w, w.Layout.(pack.Paneled), w.packed, family{funcs: p.trits, columns: 4, grouped: p.grouped}, p.base3)
		},
	}
}

// forLayout is a copy of the universal kernel for one layout.
func (k Kernel) forLayout(name string) *Kernel {
	k.Layout = name
	return &k
}

// withTables adds Vec-LUT for batches of that many tokens to a kernel.
func (k Kernel) withTables(tokens int, phases func(*Weights) ([]lutPhase, error)) *Kernel {
	few := k.bind
	k.About += "; large batches by Vec-LUT"
	k.bind = func(w *Weights) (product, error) {
		p, err := few(w)
		if err != nil {
			return nil, err
		}
		ph, err := phases(w)
		return &vecLUT{w, p, tokens, ph}, err
	}
	return &k
}
