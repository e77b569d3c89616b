package kernel

import (
	"unsafe"

	"github.com/lowpack/lowpack/pack"
)

// tile is one call of an assembly kernel: the rows of some panels times a few tokens over a range of columns. Which
// panels, fields and numbers of tokens a kernel is for is in its name. It computes
//
//	y[t][m] = mul·Σ operand[m][k]·x[t][k] + add[t]
//
// where operand is the number that the kernel makes of a code: an affine function of the weight, which mul and add turn
// back. Sums are taken modulo 2³². A kernel moves w and y on.
type tile struct {
	w      *byte  // first packed byte of the columns
	panels int    // at least 1
	panel  int    // bytes from a panel to the next
	x      *int8  // first activation of the first token
	ldx    int    // bytes between tokens
	y      *int32 // first result of the first token
	ldy    int    // bytes between tokens
	steps  int    // whole steps along the columns
	tail   int    // mask of the 32-bit lanes of a last, incomplete step; 0 = none
	half   int    // where a kernel takes two panels for one: bytes to the second
	mul    int32
	add    [maxTokens]int32

	// For kernels that look fields up in 16-byte tables, by four bits: operands of the lower and of the upper field.
	table [32]byte
	// For kernels that sum products of two columns in 16 bits: steps until a sum may overflow.
	block int
}

const (
	maxTokens = 8  // of a tile
	maxPanel  = 80 // rows of a panel
)

// How much is multiplied at a time. A call takes as many panels as runBytes hold: setting one up costs about 100 ns, and
// what it does must stay below 100 µs, as assembly cannot be interrupted by the collector. The panels of a run are
// multiplied by as many tokens as blockBytes hold, whole tiles. Both together stay in a second-level cache.
const (
	runBytes   = 128 << 10
	blockBytes = 256 << 10
	tableBytes = 8 // of what a kernel reads in place of an activation
)

// tiled multiplies panels by calls of assembly kernels.
type tiled struct {
	family
	operands
	w      *Weights
	packed []byte
	panel  int // bytes of a panel
	bytes  int // of a step
}

// family is the functions of one kernel, and how they walk along the columns.
type family struct {
	funcs   []func(*tile) // by tokens − 1
	columns int           // of a step, a multiple of 4
	lanes   int           // 32-bit lanes that four columns fill in a step; 0: the last step may run into the padding

	// Where the kernel reads tables in place of activations: those of a token from column lo on, and what is to be added to
	// the results of columns lo to hi.
	tables func(x *Activations, t, lo, hi int) (first *int8, add int32)

	// The number of panels that are one to the kernel; 0 = 1. Where two are, a last panel without a partner is its own.
	panels int

	// Where a call multiplies only some rows of a panel: the number of calls, and from one to the next the distance of
	// the packed bytes and of the rows.
	parts, partBytes, partRows int

	// Functions that take two panels and four columns at a time; nil where there are none.
	pairs []func(*tile)
}

// parts32 is the family of functions that multiply 32 rows of fields at a time, one group of four columns per step. Panels
// of 64 rows interleave two such parts.
func parts32(bits, wide int, funcs []func(*tile)) family {
	return family{funcs: funcs, columns: 4, parts: 1 + wide, partBytes: 16 * bits, partRows: 4 * bits}
}

// operands says how a weight follows from the operand that a kernel multiplies: mul·operand + add; and gives what a
// kernel needs to make the operands.
type operands struct {
	mul, add int32
	table    [32]byte
	block    int
}

// newTiled prepares w for a family. The packed bytes are in layout l, whose panels become those of w.
func newTiled(w *Weights, l pack.Paneled, packed []byte, f family, o operands) (product, error) {
	step, err := pack.PanelSize(l, f.columns)
	if err != nil {
		return nil, err
	}
	panel, err := pack.PanelSize(l, w.Shape.K)
	f.parts, f.panels = max(f.parts, 1), max(f.panels, 1)
	w.rows, panel = f.panels*l.PanelRows(), f.panels*panel
	return &tiled{f, o, w, packed, panel, step}, err
}

func (p *tiled) mul(c call) {
	token, run := c.x.Stride, max(1, runBytes/p.panel)
	if p.tables != nil {
		token *= tableBytes
	}
	block := max(blockBytes/token/len(p.funcs), 1) * len(p.funcs)
	if p.parts > 1 {
		run = 1 // so that the other parts find the panel in the cache
	}
	whole := p.w.Shape.M / p.w.rows
	for t := c.t0; t < c.t1; t += block {
		n := min(block, c.t1-t)
		tiles := ceilDiv(n, len(p.funcs))
		for from := c.p0; from < c.p1; {
			to := min(from+run, c.p1)
			if from < whole {
				to = min(to, whole)
			}
			for i := range tiles { // of sizes that differ by one at most: one token alone costs as much as two
				p.tile(c, from, to, t+n*i/tiles, t+n*(i+1)/tiles)
			}
			from = to
		}
	}
}

// tile multiplies panels [p0, p1), whole ones or one that is not, by tokens [t0, t1), group by group.
func (p *tiled) tile(c call, p0, p1, t0, t1 int) {
	s, groups := p.w.Shape, p.w.Groups()
	t := tile{
		panels: p1 - p0, panel: p.panel, half: p.panel / 2, ldx: c.x.Stride, ldy: 4 * c.ldy * groups,
		mul: p.operands.mul, table: p.table, block: p.block,
	}
	for g := range groups {
		lo, hi := g*p.w.Group, min((g+1)*p.w.Group, s.K)
		if p.tables != nil {
			t.x, t.add[0] = p.tables(c.x, t0, lo, hi)
		} else {
			t.x = &c.x.rows[t0*c.x.Stride+lo]
		}
		if p.add != 0 {
			for i := t0; i < t1; i++ {
				t.add[i-t0] = p.add * c.x.Sum(i, lo, hi)
			}
		}
		w := p.packed[p0*p.panel+lo/p.columns*p.bytes:]
		y := c.y[(t0*groups+g)*c.ldy+p0*p.w.rows:]
		if rows := s.M - p0*p.w.rows; rows >= p.w.rows {
			p.run(t, t1-t0, hi-lo, w, y)
		} else {
			p.runRows(t, t1-t0, hi-lo, w, y, rows)
		}
	}
}

// steps is the number of whole steps of some columns, and the lanes of an incomplete one.
func (f *family) steps(columns int) (whole, tail int) {
	if f.lanes == 0 {
		return ceilDiv(columns, f.columns), 0
	}
	quads, perStep := ceilDiv(columns, 4), f.columns/4
	return quads / perStep, 1<<(quads%perStep*f.lanes) - 1
}

// run multiplies the columns of panels that begin at w.
func (p *tiled) run(t tile, tokens, columns int, w []byte, y []int32) {
	if n := t.panels / 2; n > 0 && p.pairs != nil && tokens > 1 {
		call := t
		call.w, call.y, call.panels, call.steps = &w[0], &y[0], n, ceilDiv(columns, 4)
		invoke(p.pairs[tokens-1], &call)
		if t.panels -= 2 * n; t.panels == 0 {
			return
		}
		w, y = w[2*n*t.panel:], y[2*n*p.w.rows:]
	}
	t.steps, t.tail = p.steps(columns)
	for part := range p.parts {
		call := t
		call.w, call.y = &w[part*p.partBytes], &y[part*p.partRows]
		invoke(p.funcs[tokens-1], &call)
	}
}

// runRows is run for a panel that has more rows than the matrix has left.
func (p *tiled) runRows(t tile, tokens, columns int, w []byte, y []int32, rows int) {
	var scratch [maxTokens * maxPanel]int32
	ldy := t.ldy / 4
	t.ldy = 4 * maxPanel
	if rows <= p.w.rows/2 {
		t.half = 0
	}
	p.run(t, tokens, columns, w, scratch[:])
	for i := range tokens {
		copy(y[i*ldy:][:rows], scratch[i*maxPanel:])
	}
}

// invoke calls an assembly kernel. It hides the tile from escape analysis, which knows nothing of calls through variables:
// assembly keeps no pointer.
func invoke(f func(*tile), t *tile) {
	hidden := uintptr(unsafe.Pointer(t))
	f(*(**tile)(unsafe.Pointer(&hidden)))
}
