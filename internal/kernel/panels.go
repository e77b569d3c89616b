package kernel

import (
	"unsafe"

	"github.com/lowpack/lowpack/internal/kernel/internal/asm"
	"github.com/lowpack/lowpack/pack"
)

// Work per call. A call takes as many panels as fit runBytes, or vectorBytes with one token: between two calls memory
// is idle for about 250 ns, since weights have evicted the setup data of a call from the L1 cache. A call must stay
// below 100 µs, as the garbage collector cannot preempt assembly. The panels of a run are multiplied by as many tokens
// as fit blockBytes, whole tiles. Both together stay in an L2 cache of 1 MiB.
const (
	runBytes    = 256 << 10
	vectorBytes = 1 << 20
	blockBytes  = 512 << 10
	tableBytes  = 8 // of what a kernel reads in place of an activation
)

// runOf returns the number of panels of the given size in bytes that a call takes.
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
	dense  denseFuncs
	first  int      // the panel that packed begins with
	opened *opening // for many tokens; nil = none
}

// family holds the functions of one kernel, and how they walk along the columns.
type family struct {
	funcs     []func(*asm.Tile) // by tokens − 1
	columns   int               // of a step, a multiple of 4
	groupwise bool              // they multiply all groups of columns in a call
	halves    bool              // they take weight scales of 16 bits
	begins    bool              // they begin with +0 where they scale sums; others add to what is there
	// 32-bit lanes that four columns fill in a step; 0: the last step may run into the padding
	lanes int

	// For kernels that read tables in place of activations: the tables of a token from column lo on, and the term to
	// add to the results of columns lo to hi; with groupwise, the terms of all tokens per group.
	tables func(x *Activations, t, lo, hi int) (first *int8, add int32)
	tokens func(x *Activations, group int) []asm.TokenGroup

	// The number of panels that the kernel takes as one; 0 = 1. With two, a last panel without a partner is its own
	// partner.
	panels int

	// For calls that multiply only some rows of a panel: the number of calls, and the distance between calls in packed
	// bytes and in rows.
	parts, partBytes, partRows int

	// Functions that take two panels and four columns at a time, by tokens − 1; nil where there are none.
	pairs []func(*asm.Tile)
	// Functions that keep scaled results in registers where those of funcs have too few, by tokens − 1; nil where there
	// are none.
	kept []func(*asm.Tile)
	// Up to so many tokens weights are prefetched as for one: memory takes longer than their products.
	few int
	// The function that takes four panels and one token at a time, with the steps of funcs; nil where there is none.
	fours []func(*asm.Tile)
}

// two reports whether panels are taken in pairs. Panels that an earlier tile has brought into a cache are not streams
// of memory.
func (f *family) two(tokens int, cached bool) bool {
	return tokens <= len(f.pairs) && (cached || tuned.Panels >= 2)
}

// four does the same for four panels at a time.
func (f *family) four(tokens int) bool { return tokens <= len(f.fours) && tuned.Panels == 4 }

// newTiled prepares w for a family. The packed bytes are in layout l, whose panels become those of w.
func newTiled(w *Weights, l pack.Paneled, packed []byte, f family, o operands) (product, error) {
	step, err := pack.PanelSize(l, f.columns)
	if err != nil {
		return nil, err
	}
	panel, err := pack.PanelSize(l, w.Shape.K)
	f.parts, f.panels = max(f.parts, 1), max(f.panels, 1)
	w.rows, panel = f.panels*l.PanelRows(), f.panels*panel
	return &tiled{family: f, operands: o, w: w, packed: packed, panel: panel, bytes: step}, err
}

func (p *tiled) mul(c call) {
	if p.opens(c.t1 - c.t0) {
		p.mulOpened(c)
		return
	}
	if c.scaled && (!p.begins || p.isDense(c.t1-c.t0)) {
		p.w.clear(c)
	}
	if p.isDense(c.t1 - c.t0) {
		if c.p0 = p.mulDense(c); c.p0 == c.p1 {
			return
		}
	}
	token, run := c.x.Stride, runOf(p.panel, c.t1-c.t0)
	if p.tables != nil {
		token *= tableBytes
	}
	if p.pairs != nil && run > 1 {
		run &^= 1
	}
	if p.four(c.t1-c.t0) && run > 4 {
		run &^= 3
	}
	most := p.most(c.scaled)
	tokens := p.tiling(c.t1-c.t0, most, c.scaled)
	block := max(blockBytes/token/most, 1)
	block = ceilDiv(tokens.tiles, ceilDiv(tokens.tiles, block))
	if p.parts > 1 {
		run = 1 // so that the other parts find the panel in the cache
	}
	whole := p.w.Shape.M / p.w.rows
	for first := 0; first < tokens.tiles; first += block {
		for from := c.p0; from < c.p1; {
			to := min(from+run, c.p1)
			if from < whole {
				to = min(to, whole)
			}
			for i := first; i < min(first+block, tokens.tiles); i++ {
				p.tile(c, from, to, c.t0+tokens.before(i), c.t0+tokens.before(i+1), i > first)
			}
			from = to
		}
	}
}

// most is the number of tokens of a tile, at most.
func (f *family) most(scaled bool) int {
	list, most := f.funcs, tuned.Tokens
	if scaled {
		most = tuned.Scaled
	}
	if scaled && f.kept != nil {
		list = f.kept
	}
	return min(len(list), most)
}

// tiling divides n tokens. Tiles differ in size by one at most, but for the first one if it has a size of its own.
type tiling struct{ n, first, tiles int }

// before is the number of tokens before tile i.
func (t tiling) before(i int) int {
	if t.first == 0 || i == 0 {
		return t.n * i / t.tiles
	}
	return t.first + (t.n-t.first)*(i-1)/max(t.tiles-1, 1)
}

// tiling divides n tokens in tiles of most. Where the tuning takes few tokens with scaled sums, the first tile has all
// for which memory takes long enough: twice as many if weights have more than four bits, with results in memory.
func (p *tiled) tiling(n, most int, scaled bool) tiling {
	if !scaled || p.kept == nil || tuned.Scaled == tuned.Tokens {
		return tiling{n, 0, ceilDiv(n, most)}
	}
	first := most
	if 2*p.bytes > p.columns*p.w.rows {
		first = tuned.Tokens
	}
	first = min(n, first)
	return tiling{n, first, 1 + ceilDiv(n-first, most)}
}

// function returns the function for a tile of so many tokens.
func (f *family) function(tokens int, scaled bool) func(*asm.Tile) {
	if scaled && tokens <= min(len(f.kept), tuned.Scaled) && f.kept[tokens-1] != nil {
		return f.kept[tokens-1]
	}
	return f.funcs[tokens-1]
}

// scales reports whether the family takes all groups in one call.
func (p *tiled) scales() bool { return p.groupwise }

// tile multiplies panels [p0, p1), whole ones or a single partial one, by tokens [t0, t1). A partial panel goes group
// by group, through a buffer for the results of one group.
func (p *tiled) tile(c call, p0, p1, t0, t1 int, cached bool) {
	s, groups, rows := p.w.Shape, p.w.Groups(), p.w.Shape.M-p0*p.w.rows
	t := asm.Tile{
		Panels:      p1 - p0,
		PanelBytes:  p.panel,
		SecondPanel: p.panel / 2,
		LdX:         c.x.Stride,
		LdY:         4 * c.ldy * groups,
		Groups:      1,
		LdGroup:     4 * c.ldy,
		Mul:         p.operands.mul, Table: p.table, Block: p.block,
	}
	var tokens []asm.TokenGroup
	var shared units
	if p.groupwise {
		tokens, t.LdTokens = p.groupTokens(c.x), tokenGroupBytes*c.x.N
		if rows >= p.w.rows {
			t.Groups = groups
		}
		if scaling := p.w.scaling; scaling.group > 0 {
			t.UnitGroups, t.LdUnits = ceilDiv(scaling.group, p.w.Group), scaling.units*p.w.rows
			t.Halves = scaling.width()
		}
	}
	if c.scaled {
		t.LdY, t.LdGroup, t.Scaled, t.TokenScales = 4*c.ldy, 0, 1, min(c.x.Group, 1)
	}
	for g := 0; g < groups; g += t.Groups {
		lo, hi := g*p.w.Group, min((g+t.Groups)*p.w.Group, s.K)
		t.X = &c.x.rows[t0*c.x.Stride+lo]
		for i := t0; i < t1 && !p.groupwise; i++ {
			t.Add[i-t0] = p.add * c.x.Sum(i, lo, hi)
		}
		if p.tables != nil {
			t.X, t.Add[0] = p.tables(c.x, t0, lo, hi)
		}
		if p.groupwise {
			t.Tokens, shared = &tokens[g*c.x.N+t0], p.w.unitsFrom(p0, lo, c.scaled)
		}
		weights := p.packed[(p0-p.first)*p.panel+lo/p.columns*p.bytes:]
		b := buffers{weights, c.y[c.at(t0, g, groups, p0*p.w.rows):], shared}
		if rows >= p.w.rows {
			p.run(t, t1-t0, hi-lo, b, cached)
		} else {
			p.runRows(t, t1-t0, hi-lo, b, rows)
		}
	}
}

// groupTokens returns the terms of the tokens for each group.
func (p *tiled) groupTokens(x *Activations) []asm.TokenGroup {
	if p.tokens != nil {
		return p.tokens(x, p.w.Group)
	}
	return x.groupTokens(p.w.Group, p.add)
}

const tokenGroupBytes = int(unsafe.Sizeof(asm.TokenGroup{}))

// units are the scales and zero points of weights from one on; those that a kernel does not need are nil.
type units struct {
	scales []float32
	halves []uint16
	zeros  []int8
}

// unitsFrom returns the units from the first row of a panel and column k on.
func (w *Weights) unitsFrom(panel, k int, scaled bool) (u units) {
	s := w.scaling
	if s.zeros != nil {
		u.zeros = s.zeros[w.unit(panel, k):]
	}
	switch {
	case scaled && s.halves != nil:
		u.halves = s.halves[w.unit(panel, k):]
	case scaled && s.scales != nil:
		u.scales = s.scales[w.unit(panel, k):]
	}
	return u
}

// from is u without the first n.
func (u units) from(n int) units {
	return units{u.scales[min(n, len(u.scales)):], u.halves[min(n, len(u.halves)):], u.zeros[min(n, len(u.zeros)):]}
}

// pointers returns the fields Scales and Zeros of a tile. They are returned, and not set through a pointer, so that
// escape analysis keeps buffers on the stack.
func (u units) pointers() (*float32, *int8) {
	if u.halves != nil {
		return (*float32)(unsafe.Pointer(unsafe.SliceData(u.halves))), unsafe.SliceData(u.zeros)
	}
	return unsafe.SliceData(u.scales), unsafe.SliceData(u.zeros)
}

// buffers are the weights, results and units of panels, from the first one on.
type buffers struct {
	w []byte
	y []int32
	units
}

// steps is the number of whole steps of some columns, and the lanes of an incomplete one.
func (f *family) steps(columns int) (whole, tail int) {
	if f.lanes == 0 {
		return ceilDiv(columns, f.columns), 0
	}
	quads, perStep := ceilDiv(columns, 4), f.columns/4
	return quads / perStep, 1<<(quads%perStep*f.lanes) - 1
}

// prefetch is the rule for one panel at a time.
func (f *family) prefetch(tokens int) asm.Prefetch {
	if tokens <= max(f.few, 1) {
		return tuned.vector
	}
	return tuned.batch
}

// run multiplies columns of panels, the first ones of b.
func (p *tiled) run(t asm.Tile, tokens, columns int, b buffers, cached bool) {
	last := columns - (t.Groups-1)*p.w.Group
	t.Prefetch = p.prefetch(tokens)
	t.Steps = p.w.Group / p.columns // only whole steps, but in a last group
	if t.LastSteps, t.TailMask = p.steps(last); t.Groups == 1 {
		t.Steps = t.LastSteps
	}
	if p.four(tokens) {
		b = p.together(4, p.fours[tokens-1], t, b)
		t.Panels %= 4
	}
	if p.two(tokens, cached) {
		call := t
		if call.Steps, call.LastSteps = p.w.Group/4, ceilDiv(last, 4); tokens > 1 {
			call.Prefetch = pairAhead
		}
		b = p.together(2, p.pairs[tokens-1], call, b)
		t.Panels %= 2
	}
	if t.Panels == 0 {
		return
	}
	for part := range p.parts {
		call := t
		call.W, call.Y = &b.w[part*p.partBytes], &b.y[part*p.partRows]
		call.Scales, call.Zeros = b.from(part * p.partRows).pointers()
		call.PrefetchAt = t.PanelBytes + part*(ceilDiv(columns, p.columns)*p.bytes/p.parts-p.partBytes)
		invoke(p.function(tokens, t.Scaled == 1), &call)
	}
}

// together multiplies as many panels as it can by a function that takes n of them at a time, and returns the buffers of
// the rest.
func (p *tiled) together(n int, f func(*asm.Tile), t asm.Tile, b buffers) buffers {
	panels := t.Panels / n * n
	if panels == 0 {
		return b
	}
	call := t
	call.W, call.Y, call.Panels, call.LdUnits, call.SecondUnit = &b.w[0], &b.y[0], panels/n, n*t.LdUnits, t.LdUnits
	call.Scales, call.Zeros = b.pointers()
	invoke(f, &call)
	return buffers{b.w[panels*t.PanelBytes:], b.y[panels*p.w.rows:], b.from(panels * t.LdUnits)}
}

// runRows is run for a panel that has more rows than the matrix has left.
func (p *tiled) runRows(t asm.Tile, tokens, columns int, b buffers, rows int) {
	var scratch [asm.MaxTokens * asm.MaxPanelRows]int32
	y, ldy := b.y, t.LdY/4
	b.y, t.LdY = scratch[:], 4*asm.MaxPanelRows
	if rows <= p.w.rows/2 {
		t.SecondPanel = 0
	}
	p.run(t, tokens, columns, b, false)
	for i := range tokens {
		copy(y[i*ldy:][:rows], scratch[i*asm.MaxPanelRows:])
	}
}

// invoke calls an assembly kernel. It hides the tile from escape analysis, which cannot see through function variables:
// assembly keeps no pointer. Between the lines nothing may move the stack that holds the tile, as the pointer checks
// that -race inserts would.
//
//go:nocheckptr
func invoke(f func(*asm.Tile), t *asm.Tile) {
	hidden := uintptr(unsafe.Pointer(t))
	f(*(**asm.Tile)(unsafe.Pointer(&hidden)))
}
