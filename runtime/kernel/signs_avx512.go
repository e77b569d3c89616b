//go:build amd64 && !purego

package kernel

import "github.com/lowpack/lowpack/pack"

// signs512 lists the kernels for sign weights that look up what four columns give.
func signs512() []*Kernel {
	kernel := func(layout string, needs feature, order bitOrder, panels, lanes int, funcs []func(*tile)) *Kernel {
		k := &Kernel{
			Layout: layout, Alphabets: []string{pack.Int1.Name}, ISA: AVX512VNNI, needs: vbmi | needs, step: quadColumns,
			About: "sums of four columns looked up by byte permutations",
		}
		f := family{funcs: funcs, columns: quadColumns, lanes: lanes, panels: panels}
		f.tables = func(x *Activations, t, lo, hi int) (*int8, int32) {
			tables, sum := x.quadTables(order, t, lo, hi)
			return &asInt8(tables)[0], sum
		}
		k.bind = func(w *Weights) (product, error) {
			return newTiled(w, w.Layout.(pack.Paneled), w.packed, f, operands{mul: -2})
		}
		return k
	}
	return []*Kernel{
		kernel("vnni4", 0, columnsUp, 2, 4, signsRows32512Funcs),
		kernel("vnni4-64", 0, columnsUp, 1, 8, signsRows64512Funcs),
		kernel("vnni4i", gfni, columnsDown, 2, 4, signsInterlacedRows32512Funcs),
		kernel("vnni4i-64", gfni, columnsDown, 1, 8, signsInterlacedRows64512Funcs),
	}
}

func makeQuads(order bitOrder, tables *byte, sums *int32, x *int8, n int) {
	if order == columnsDown {
		quadTablesReversed(tables, sums, x, n)
	} else {
		quadTables(tables, sums, x, n)
	}
}
