//go:build !purego

package kernel

import "github.com/lowpack/lowpack/pack"

// rowColumns is the number of columns that layout i2s-arm keeps together: 16 bytes of a row. Rows are multiplied as they
// lie where they are whole blocks, and packed again where they are not.
const rowColumns = 64

// rowsAtOnce is the number of rows of a unit of work: a line of results.
const rowsAtOnce = 16

// rowDots makes the kernel for bitnet.cpp's ARM stream, whose operands are digits, weight + 1.
func rowDots(isa ISA, funcs []func(*tile), batch int) *Kernel {
	again := universal(isa)
	return &Kernel{
		Layout: "i2s-arm", Alphabets: []string{pack.Ternary.Name}, ISA: isa, step: rowColumns,
		About: "dot products of rows; large batches by Vec-LUT",
		bind: func(w *Weights) (product, error) {
			if w.Shape.K%rowColumns != 0 {
				return again.bind(w)
			}
			w.rows = rowsAtOnce
			bytes := w.Shape.K / 4
			tables := lutPhase{lutKind: lutFour[lutGroups], tiles: w.Shape.K / 32, index: &lutRowsOf{w.packed, bytes}}
			return &vecLUT{w, &rowProduct{w, funcs, bytes}, batch, []lutPhase{tables}}, nil
		},
	}
}

type rowProduct struct {
	w     *Weights
	funcs []func(*tile) // by tokens − 1
	bytes int           // of a row
}

func (p *rowProduct) mul(c call) {
	tiles, run := ceilDiv(c.t1-c.t0, len(p.funcs)), max(1, runBytes/p.bytes)
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
	groups := p.w.Groups()
	t := tile{panels: to - from, panel: p.bytes, ldx: c.x.Stride, ldy: 4 * c.ldy * groups}
	for g := range groups {
		lo, hi := g*p.w.Group, min((g+1)*p.w.Group, p.w.Shape.K)
		call := t
		call.w, call.x = &p.w.packed[from*p.bytes+lo/4], &c.x.rows[t0*c.x.Stride+lo]
		call.y = &c.y[(t0*groups+g)*c.ldy+from]
		call.steps = (hi - lo) / rowColumns
		for i := t0; i < t1; i++ {
			call.add[i-t0] = -c.x.Sum(i, lo, hi)
		}
		invoke(p.funcs[t1-t0-1], &call)
	}
}

// lutRowsOf are the fields of layout i2s-arm: a tile is two fields of 16 bytes.
type lutRowsOf struct {
	packed []byte
	bytes  int // of a row
}

func (r *lutRowsOf) indices(dst *[lutGroups * lutBlock]uint16, tile, m, rows int) {
	packed := &r.packed[m*r.bytes+tile/2*16]
	if tile%2 == 0 {
		lutRows0(&dst[0], packed, r.bytes, rows)
	} else {
		lutRows2(&dst[0], packed, r.bytes, rows)
	}
}
