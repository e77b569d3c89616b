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
	w     *Weights
	funcs []func(*tile) // by tokens − 1
	affine
	quad  int // bytes of a panel per group of four columns
	split int // groups of four columns per step
	lanes int // 32-bit lanes per group of four columns in a step
	panel int // bytes of a panel
}

// affine says how a weight follows from the operand that a kernel multiplies.
type affine struct{ mul, add int32 }

// newTiled prepares w for kernels whose steps take split groups of four columns at a time, of which each fills lanes
// 32-bit lanes. Panels are those of the layout.
func newTiled(w *Weights, funcs []func(*tile), a affine, split, lanes int) (*tiled, error) {
	l := w.Layout.(pack.Paneled)
	quad, err := pack.PanelSize(l, 4)
	if err != nil {
		return nil, err
	}
	panel, err := pack.PanelSize(l, w.Shape.K)
	w.rows = l.PanelRows()
	return &tiled{w, funcs, a, quad, split, lanes, panel}, err
}

func (p *tiled) mul(c call) {
	block := max(blockBytes/c.x.Stride, len(p.funcs))
	for t := 0; t < c.x.N; t += block {
		n := min(block, c.x.N-t)
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
	f := p.funcs[t1-t0-1]
	t := tile{ldx: c.x.Stride, ldy: 4 * c.ldy * groups, mul: p.affine.mul}
	for g := range groups {
		lo, hi := g*p.w.Group, min((g+1)*p.w.Group, s.K)
		quads := ceilDiv(hi-lo, 4)
		t.steps, t.tail = quads/p.split, 1<<(quads%p.split*p.lanes)-1
		t.w = &p.w.packed[panel*p.panel+lo/4*p.quad]
		t.x = &c.x.rows[t0*c.x.Stride+lo]
		for i := t0; i < t1; i++ {
			t.add[i-t0] = p.add * c.x.Sum(i, lo, hi)
		}
		y := c.y[(t0*groups+g)*c.ldy+panel*p.w.rows:]
		if rows < p.w.rows {
			t.partial(f, y, rows, t1-t0)
			continue
		}
		t.y = &y[0]
		run(f, &t)
	}
}

// partial runs a kernel whose panel has more rows than the matrix has left.
func (t tile) partial(f func(*tile), y []int32, rows, tokens int) {
	var scratch [maxTokens * maxPanel]int32
	ldy := t.ldy / 4
	t.y, t.ldy = &scratch[0], 4*maxPanel
	run(f, &t)
	for i := range tokens {
		copy(y[i*ldy:][:rows], scratch[i*maxPanel:])
	}
}

// run calls an assembly kernel. It hides the tile from escape analysis, which knows nothing of calls through variables:
// assembly keeps no pointer.
func run(f func(*tile), t *tile) {
	hidden := uintptr(unsafe.Pointer(t))
	f(*(**tile)(unsafe.Pointer(&hidden)))
}
