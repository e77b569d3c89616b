package kernel

import (
	"math"

	"github.com/lowpack/lowpack/internal/kernel/internal/asm"
)

// Row-major dot-product kernels multiply the rows of bitnet.cpp's streams as they lie in the file. Their operands are
// digits, weight + 1.

// rowMajorLayout is such a stream.
type rowMajorLayout struct {
	layout string
	block  int // columns that it keeps together; rows of whole blocks are multiplied, others repacked at load time
	index  func(packed []byte, rowBytes int) lutIndexer
}

var (
	i2s = &rowMajorLayout{"i2s", 128,
		func(packed []byte, rowBytes int) lutIndexer { return &i2sIndex{packed, rowBytes} }}
	i2sARM = &rowMajorLayout{"i2s-arm", 64,
		func(packed []byte, rowBytes int) lutIndexer { return &i2sARMIndex{packed, rowBytes} }}
)

// rowsAtOnce is the number of rows of a unit of work: a line of results.
const rowsAtOnce = 16

// rowMajorDots is the method of a set, with Vec-LUT for large batches.
func (s *panelSet) rowMajorDots() method {
	l := s.rowMajor
	return method{
		groupStep: l.block, about: "row-major dot products; large batches by Vec-LUT",
		bind: l.bindWhole(s.isa, func(w *Weights) product {
			rows := &rowProduct{w: w, funcs: s.rowMajorFuncs, bytes: w.Shape.K / 4, step: l.block,
				rows: (*Activations).plain}
			tables := lutPhase{lutKind: lutFour[lutGroups], tiles: w.Shape.K / 32, index: l.index(w.packed, rows.bytes)}
			return &vecLUT{w, rows, w.tokensFrom(VecLUT, wholeRows), []lutPhase{tables}}
		}),
	}
}

// pairedMax bounds the columns on AVX-512. With one token, a lane and field sums four columns of a step, which is two
// blocks of columns; in the highest field the sums are 64 times too large.
const pairedMax = math.MaxInt32 / (4 * 64 * 2 * MaxActivation) * pairColumns

// rowMajorAVX512 is the method on 512-bit registers.
func rowMajorAVX512(isa ISA, list []func(*asm.Tile)) method {
	return method{
		groupStep: pairColumns, groupMax: pairedMax, about: "row-major dot products, 512 bits",
		bind: i2s.bindWhole(isa, func(w *Weights) product {
			return &rowProduct{w: w, funcs: list, bytes: w.Shape.K / 4, step: pairColumns, rows: (*Activations).paired}
		}),
	}
}

// bindWhole multiplies rows in place if they are whole blocks of columns, and repacks them otherwise.
func (l *rowMajorLayout) bindWhole(isa ISA, whole func(w *Weights) product) func(w *Weights) (product, error) {
	again := repacked(isa)
	return func(w *Weights) (product, error) {
		if w.Shape.K%l.block != 0 {
			return again.bind(w)
		}
		w.rows = rowsAtOnce
		return whole(w), nil
	}
}

type rowProduct struct {
	w     *Weights
	funcs []func(*asm.Tile) // by tokens − 1; nil if one token at a time is faster
	bytes int               // of a row
	step  int               // columns of a step; functions accept half a step at the end

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
	t := asm.Tile{Panels: to - from, PanelBytes: p.bytes, LdX: stride, LdY: 4 * c.ldy * groups, Prefetch: tuned.batch}
	for g := range groups {
		lo, hi := g*p.w.Group, min((g+1)*p.w.Group, p.w.Shape.K)
		call := t
		call.W, call.X = &p.w.packed[from*p.bytes+lo/4], &x[lo]
		call.Y = &c.y[c.at(t0, g, groups, from)]
		call.Steps, call.TailMask = (hi-lo)/p.step, (hi-lo)%p.step
		for i := t0; i < t1; i++ {
			call.Add[i-t0] = -c.x.Sum(i, lo, hi)
		}
		invoke(f, &call)
	}
}
