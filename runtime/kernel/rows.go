//go:build (amd64 || arm64) && !purego

package kernel

import "github.com/lowpack/lowpack/pack"

// rowsAtOnce is the number of rows of a unit of work: a line of results.
const rowsAtOnce = 16

// rowDots makes the kernel for bitnet.cpp's stream of this architecture, whose operands are digits, weight + 1. Rows are
// multiplied as they lie where they are whole blocks of columns, and packed again where they are not.
func rowDots(isa ISA, funcs []func(*tile), batch int) *Kernel {
	again := universal(isa)
	return &Kernel{
		Layout: rowLayout, Alphabets: []string{pack.Ternary.Name}, ISA: isa, step: rowColumns,
		About: "dot products of rows; large batches by Vec-LUT",
		bind: func(w *Weights) (product, error) {
			if w.Shape.K%rowColumns != 0 {
				return again.bind(w)
			}
			w.rows = rowsAtOnce
			rows := &rowProduct{w: w, funcs: funcs, bytes: w.Shape.K / 4, step: rowColumns, rows: (*Activations).plain}
			tables := lutPhase{lutKind: lutFour[lutGroups], tiles: w.Shape.K / 32, index: &lutRowsOf{w.packed, rows.bytes}}
			return &vecLUT{w, rows, batch, []lutPhase{tables}}, nil
		},
	}
}

type rowProduct struct {
	w     *Weights
	funcs []func(*tile) // by tokens − 1; nil where one token after the other is faster
	bytes int           // of a row
	step  int           // columns of a step; functions may be told of half a step at the end

	// The activations of tokens [t0, t1) as functions read them, and the bytes from one to the next.
	rows func(x *Activations, t0, t1 int) (first []int8, stride int)
}

func (p *rowProduct) mul(c call) {
	tiles, run := ceilDiv(c.t1-c.t0, len(p.funcs)), runOf(p.bytes, c.t1-c.t0)
	end := min(c.p1*p.w.rows, p.w.Shape.M)
	for from := c.p0 * p.w.rows; from < end; from += run {
		for i := range tiles { // of sizes that differ by one at most
			n := c.t1 - c.t0
			p.tile(c, from, min(from+run, end), c.t0+n*i/tiles, c.t0+n*(i+1)/tiles)
		}
	}
}

// tile multiplies rows [from, to) by tokens [t0, t1), group by group.
func (p *rowProduct) tile(c call, from, to, t0, t1 int) {
	f := p.funcs[t1-t0-1]
	if f == nil {
		p.tile(c, from, to, t0, t0+1)
		p.tile(c, from, to, t0+1, t1)
		return
	}
	groups := p.w.Groups()
	x, stride := p.rows(c.x, t0, t1)
	t := tile{panels: to - from, panel: p.bytes, ldx: stride, ldy: 4 * c.ldy * groups}
	for g := range groups {
		lo, hi := g*p.w.Group, min((g+1)*p.w.Group, p.w.Shape.K)
		call := t
		call.w, call.x = &p.w.packed[from*p.bytes+lo/4], &x[lo]
		call.y = &c.y[c.at(t0, g, groups, from)]
		call.steps, call.tail = (hi-lo)/p.step, (hi-lo)%p.step
		for i := t0; i < t1; i++ {
			call.add[i-t0] = -c.x.Sum(i, lo, hi)
		}
		invoke(f, &call)
	}
}

// lutRowsOf are the fields of packed rows, 32 columns a tile.
type lutRowsOf struct {
	packed []byte
	bytes  int // of a row
}
