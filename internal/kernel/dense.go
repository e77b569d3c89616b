package kernel

import (
	"sync"

	"github.com/lowpack/lowpack/internal/kernel/internal/asm"
)

// Batches whose weights are unpacked once for all tokens: the first tile of tokens stores its operands in memory, and
// the others load them (docs/KERNELS.md, "Dense tiles").
const (
	// denseTokens is the minimum, three tiles: the second and the third share the prefetching of two panels, and none
	// may have fewer than four tokens. From where on they pay is a threshold.
	denseTokens = 13

	denseRows    = 64       // rows per tile: one panel, or two
	denseColumns = 10 << 10 // at a time, so that their operands, 640 KiB, stay in an L2 cache

	denseOperands = denseColumns / 4 * 4 * 64 // bytes: four registers for four columns
	denseSums     = 4 * 6 * 16                // of a tile of six tokens
	// denseTiles is the largest number of tiles in a block whose columns take several runs, each of more than half of
	// denseColumns.
	denseTiles = blockBytes / (denseColumns / 2) / 6
)

// denseFuncs multiply panels of denseRows rows, or pairs of panels, by the first of many tokens and by the others,
// indexed by tokens − 1, for four to six.
type denseFuncs struct {
	first, others []func(*asm.Tile)
	tokens        int // minimum, or byTuning
}

// densely adds functions for batches of whole rows.
func (m method) densely(first, others []func(*asm.Tile)) method {
	few := m.bind
	m.bind = func(w *Weights) (product, error) {
		p, err := few(w)
		if err == nil {
			p.(*tiled).dense = denseFuncs{first, others, w.tokensFrom(DenseTiles, wholeRows)}
		}
		return p, err
	}
	return m
}

// isDense reports whether many tokens are multiplied by dense tiles.
func (p *tiled) isDense(tokens int) bool {
	return p.dense.first != nil && tokens >= denseTokens && p.w.Groups() == 1 &&
		atLeast(tokens, p.dense.tokens, tuned.dense)
}

// denseRoom is the working memory of a call.
type denseRoom struct {
	weights []byte
	sums    []int32 // of all tiles of a block, where columns go in several runs
}

// denseRooms keeps them between calls.
var denseRooms = sync.Pool{New: func() any {
	return &denseRoom{alignedTo(4096, denseOperands), make([]int32, denseTiles*denseSums)}
}}

// denseCall is a call that dense tiles multiply.
type denseCall struct {
	call
	*tiled
	*denseRoom
	tokens []asm.TokenGroup
	panels int // that are multiplied together
}

// mulDense multiplies whole panels, as many at a time as make up denseRows rows, and returns the first panel that is
// left.
func (p *tiled) mulDense(c call) (left int) {
	d := denseCall{c, p, denseRooms.Get().(*denseRoom), p.groupTokens(c.x), denseRows / p.w.rows}
	end, columns, tokens := min(c.p1, p.w.Shape.M/p.w.rows), p.w.Shape.K, c.t1-c.t0
	run := ceilDiv(ceilDiv(columns, ceilDiv(columns, denseColumns)), 4) * 4
	blocks := ceilDiv(tokens, blockBytes/run/6*6)
	for b := range blocks {
		for left = c.p0; left+d.panels <= end; left += d.panels {
			for lo := 0; lo < columns; lo += run {
				d.multiply(left, lo, min(lo+run, columns), c.t0+tokens*b/blocks, c.t0+tokens*(b+1)/blocks)
			}
		}
	}
	denseRooms.Put(d.denseRoom)
	return left
}

// multiply multiplies columns [lo, hi) of the panels from one on by tokens [t0, t1).
func (d *denseCall) multiply(panel, lo, hi, t0, t1 int) {
	t := asm.Tile{
		W: &d.packed[d.columnAt(panel, lo)], PanelBytes: d.panel, Prefetch: tuned.batch, Room: &d.weights[0],
		LdX:        d.x.Stride,
		LdY:        4 * d.ldy,
		Steps:      ceilDiv(hi-lo, 4),
		Mul:        d.tiled.operands.mul,
		SecondUnit: d.w.scaling.units * d.w.rows, Halves: d.w.scaling.width(),
	}
	if d.panels > 1 {
		t.Prefetch = pairAhead
	}
	if d.scaled {
		t.Scaled = 1
	}
	t.Scales, t.Zeros = d.w.unitsFrom(panel, 0, d.scaled).pointers()
	tiles := ceilDiv(t1-t0, 6)
	for i := range tiles {
		from, to, funcs := t0+(t1-t0)*i/tiles, t0+(t1-t0)*(i+1)/tiles, d.dense.first
		t.X, t.Tokens, t.Y = &d.x.rows[from*d.x.Stride+lo], &d.tokens[from], &d.y[d.at(from, 0, 1, panel*d.w.rows)]
		if lo > 0 {
			t.From = &d.sums[i*denseSums]
		}
		if hi < d.w.Shape.K {
			t.To = &d.sums[i*denseSums]
		}
		if i > 0 {
			funcs, t.W = d.dense.others, &d.weights[0]
			d.prefetch(&t, i-1, tiles-1, panel, hi)
		}
		invoke(funcs[to-from-1], &t)
	}
}

// prefetch makes dense tile i of the given number prefetch its share of the weights to be unpacked next: columns and
// panels from the given ones on, or, after the last column, the panels that follow. In a pair of panels, tiles
// alternate between the two.
func (d *denseCall) prefetch(t *asm.Tile, i, tiles, panel, from int) {
	if from == d.w.Shape.K {
		panel, from = panel+d.panels, 0
	}
	share := ceilDiv(t.Steps*d.bytes*4/d.columns, tiles/d.panels)
	at := d.columnAt(panel+i%d.panels, from) + i/d.panels*share
	t.Next, t.NextBytes = &d.packed[min(at, len(d.packed)-1)], ceilDiv(share, ceilDiv(t.Steps, 2))
}

// columnAt returns the offset of the packed bytes of a column, the first of four, of a panel.
func (p *tiled) columnAt(panel, k int) int { return panel*p.panel + k/4*(p.bytes*4/p.columns) }
