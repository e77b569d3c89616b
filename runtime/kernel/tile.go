package kernel

import (
	"unsafe"

	"github.com/lowpack/lowpack/pack"
)

// tile is one call of an assembly kernel: the rows of some panels times a few tokens over a range of columns, in groups
// that have a sum each. Which panels, fields and numbers of tokens a kernel is for is in its name. It computes
//
//	y[t][g][m] = mul·Σ operand[m][k]·x[t][k] + adds[g][t] over the columns k of group g
//
// where operand is the number that the kernel makes of a code: an affine function of the weight, which mul and adds turn
// back. Sums are taken modulo 2³². A kernel moves w and y on.
type tile struct {
	w        *byte    // first packed byte of the columns
	panels   int      // at least 1
	panel    int      // bytes from a panel to the next
	x        *int8    // first activation of the first token
	ldx      int      // bytes between tokens
	y        *int32   // first result of the first token
	ldy      int      // bytes between tokens
	groups   int      // at least 1; 1 for families that are not grouped
	ldg      int      // bytes between results of groups
	steps    int      // whole steps along the columns of a group
	last     int      // of the last group
	tail     int      // mask of the 32-bit lanes of a last, incomplete step of the last group; 0 = none
	half     int      // where a kernel takes two panels for one: bytes to the second
	ahead    int      // where calls take a part of a panel each: bytes from w to those of the next panel that one is to announce
	adds     *int32   // of the first group and token, for families that are grouped
	ldadds   int      // bytes between those of groups
	scales   *float32 // of the first panel and group, for families that are grouped; nil where sums are results
	ldscales int      // bytes between those of panels
	mul      int32
	add      [maxTokens]int32 // in place of adds

	// For kernels that look fields up in 16-byte tables, by four bits: operands of the lower and of the upper field.
	table [32]byte
	// For kernels that sum products of two columns in 16 bits: steps until a sum may overflow.
	block int
}

const (
	maxTokens = 8  // of a tile
	maxPanel  = 80 // rows of a panel
)

// How much is multiplied at a time. A call takes as many panels as runBytes hold, those of vectorBytes with one token:
// between two calls memory rests for about 250 ns, since weights have driven out of the first-level cache what sets a call
// up. What a call does must stay below 100 µs, as assembly cannot be interrupted by the collector. The panels of a run are
// multiplied by as many tokens as blockBytes hold, whole tiles. Both together stay in a second-level cache of 1 MiB.
const (
	runBytes    = 256 << 10
	vectorBytes = 1 << 20
	blockBytes  = 512 << 10
	tableBytes  = 8 // of what a kernel reads in place of an activation
)

// runOf is the number of panels of so many bytes that a call takes.
func runOf(panel, tokens int) int {
	if tokens == 1 {
		return max(1, vectorBytes/panel)
	}
	return max(1, runBytes/panel)
}

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
	grouped bool          // they multiply all groups of columns in a call
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
	token, run := c.x.Stride, runOf(p.panel, c.t1-c.t0)
	if p.tables != nil {
		token *= tableBytes
	}
	if p.pairs != nil && run > 1 {
		run &^= 1
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

// scales reports whether the family is one for all groups in a call.
func (p *tiled) scales(call) bool { return p.grouped }

// tile multiplies panels [p0, p1), whole ones or one that is not, by tokens [t0, t1). One that is not goes group by group,
// through room for the results of one.
func (p *tiled) tile(c call, p0, p1, t0, t1 int) {
	s, groups, rows := p.w.Shape, p.w.Groups(), p.w.Shape.M-p0*p.w.rows
	t := tile{
		panels: p1 - p0, panel: p.panel, half: p.panel / 2, ldx: c.x.Stride, ldy: 4 * c.ldy * groups, groups: 1, ldg: 4 * c.ldy,
		mul: p.operands.mul, table: p.table, block: p.block,
	}
	var adds []int32
	var scales []float32
	if p.grouped {
		adds = c.x.groupAdds(p.w.Group, p.add)
		t.ldadds = 4 * c.x.maxN
		if rows >= p.w.rows {
			t.groups = groups
		}
	}
	if c.scaled {
		t.ldy, t.ldg = 4*c.ldy, 0
		scales, t.ldscales = p.w.scalesOf(p0), 4*groups*p.w.rows
	}
	for g := 0; g < groups; g += t.groups {
		lo, hi := g*p.w.Group, min((g+t.groups)*p.w.Group, s.K)
		switch {
		case p.tables != nil:
			t.x, t.add[0] = p.tables(c.x, t0, lo, hi)
		case p.grouped:
			t.x, t.adds = &c.x.rows[t0*c.x.Stride+lo], &adds[g*c.x.maxN+t0]
		default:
			t.x = &c.x.rows[t0*c.x.Stride+lo]
			for i := t0; i < t1; i++ {
				t.add[i-t0] = p.add * c.x.Sum(i, lo, hi)
			}
		}
		w := p.packed[p0*p.panel+lo/p.columns*p.bytes:]
		y := c.y[c.at(t0, g, groups, p0*p.w.rows):]
		if rows >= p.w.rows {
			p.run(t, t1-t0, hi-lo, w, y, scales)
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

// run multiplies the columns of panels that begin at w, and whose scales, if any, begin at scales.
func (p *tiled) run(t tile, tokens, columns int, w []byte, y []int32, scales []float32) {
	last := columns - (t.groups-1)*p.w.Group
	if n := t.panels / 2; n > 0 && p.pairs != nil && tokens > 1 {
		call := t
		call.w, call.y, call.panels, call.steps, call.last = &w[0], &y[0], n, p.w.Group/4, ceilDiv(last, 4)
		if scales != nil {
			call.scales = &scales[0]
		}
		invoke(p.pairs[tokens-1], &call)
		if t.panels -= 2 * n; t.panels == 0 {
			return
		}
		w, y = w[2*n*t.panel:], y[2*n*p.w.rows:]
		scales = scales[min(2*n*t.ldscales/4, len(scales)):]
	}
	t.steps = p.w.Group / p.columns // only whole steps, but in a last group
	if t.last, t.tail = p.steps(last); t.groups == 1 {
		t.steps = t.last
	}
	for part := range p.parts {
		call := t
		call.w, call.y = &w[part*p.partBytes], &y[part*p.partRows]
		if scales != nil {
			call.scales = &scales[part*p.partRows]
		}
		call.ahead = t.panel + part*(ceilDiv(columns, p.columns)*p.bytes/p.parts-p.partBytes)
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
	p.run(t, tokens, columns, w, scratch[:], nil)
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
