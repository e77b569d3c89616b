package kernel

import (
	"unsafe"

	"github.com/lowpack/lowpack/pack"
)

// tile is one call of an assembly kernel: the rows of one panel times a few tokens over a range of columns. Which
// panels, fields and numbers of tokens a kernel is for is in its name. It computes
//
//	y[t][m] = mul·Σ operand[m][k]·x[t][k] + add[t]
//
// where operand is the number that the kernel makes of a code: an affine function of the weight, which mul and add turn
// back. Sums are taken modulo 2³².
type tile struct {
	w     *byte  // first packed byte of the columns
	x     *int8  // first activation of the first token
	ldx   int    // bytes between tokens
	y     *int32 // first result of the first token
	ldy   int    // bytes between tokens
	steps int    // whole steps along the columns
	tail  int    // mask of the 32-bit lanes of a last, incomplete step; 0 = none
	mul   int32
	add   [maxTokens]int32

	// For kernels that look fields up in 16-byte tables, by four bits: operands of the lower and of the upper field.
	table [32]byte
	// For kernels that sum products of two columns in 16 bits: steps until a sum may overflow.
	block int
}

const (
	maxTokens = 8  // of a tile
	maxPanel  = 64 // rows of a panel
)

// blockBytes is about how many bytes of activations are multiplied by one panel after another before the next tokens
// are taken: a part of a second-level cache.
const blockBytes = 256 << 10

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

	// Where a call multiplies only some rows of a panel: the number of calls, and from one to the next the distance of
	// the packed bytes and of the rows.
	parts, partBytes, partRows int
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
	w.rows = l.PanelRows()
	f.parts = max(f.parts, 1)
	return &tiled{f, o, w, packed, panel, step}, err
}

func (p *tiled) mul(c call) {
	block := max(blockBytes/c.x.Stride, len(p.funcs))
	for t := c.t0; t < c.t1; t += block {
		n := min(block, c.t1-t)
		tiles := ceilDiv(n, len(p.funcs))
		for panel := c.p0; panel < c.p1; panel++ {
			for i := range tiles { // of sizes that differ by one at most: one token alone costs as much as two
				p.tokens(c, panel, t+n*i/tiles, t+n*(i+1)/tiles)
			}
		}
	}
}

// tokens multiplies one panel by tokens [t0, t1), group by group.
func (p *tiled) tokens(c call, panel, t0, t1 int) {
	s, groups := p.w.Shape, p.w.Groups()
	rows := min(p.w.rows, s.M-panel*p.w.rows)
	t := tile{ldx: c.x.Stride, ldy: 4 * c.ldy * groups, mul: p.operands.mul, table: p.table, block: p.block}
	for g := range groups {
		lo, hi := g*p.w.Group, min((g+1)*p.w.Group, s.K)
		t.steps, t.tail = p.steps(hi - lo)
		t.x = &c.x.rows[t0*c.x.Stride+lo]
		for i := t0; i < t1; i++ {
			t.add[i-t0] = p.add * c.x.Sum(i, lo, hi)
		}
		w := p.packed[panel*p.panel+lo/p.columns*p.bytes:]
		y := c.y[(t0*groups+g)*c.ldy+panel*p.w.rows:]
		if rows == p.w.rows {
			p.run(t, t1-t0, w, y)
		} else {
			p.runPart(t, t1-t0, w, y, rows)
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

// run multiplies the columns of a panel that begin at w.
func (p *tiled) run(t tile, tokens int, w []byte, y []int32) {
	for part := range p.parts {
		t.w, t.y = &w[part*p.partBytes], &y[part*p.partRows]
		invoke(p.funcs[tokens-1], &t)
	}
}

// runPart is run for a panel that has more rows than the matrix has left.
func (p *tiled) runPart(t tile, tokens int, w []byte, y []int32, rows int) {
	var scratch [maxTokens * maxPanel]int32
	ldy := t.ldy / 4
	t.ldy = 4 * maxPanel
	p.run(t, tokens, w, scratch[:])
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
