package kernel

import (
	"math"
	"sync"

	"github.com/lowpack/lowpack/internal/kernel/internal/asm"
)

// Vec-LUT: for a group of four (or five) columns and 32 tokens, a table holds the sum of ±activations of every pattern
// of trits, 81 (or 243) entries of 32 sums of 16 bits. The product of a row of weights is the sum of the entries that
// its patterns name: one index serves 32 tokens, and nothing is multiplied. After Vec-LUT (vlut.cpp), with a proved
// bound.
//
// Tables are built for a few groups at a time, so that they stay in the cache while rows of weights stream by; the sums
// of those rows, 64 bytes each, wait in the next level. Building tables costs as much as adding 81 rows, hence the
// number of rows that a call needs for this to pay off.
const (
	lutRows     = 2048 // rows of weights that pass by at a time
	lutFewRows  = 256  // with fewer rows the tables cost too much
	lutGoodRows = 1024 // with this many they cost about a tenth
	lutBlock    = 80   // rows whose indices are made at a time, whole panels
)

// lutBound is the number of columns that a sum of 16 bits holds: an entry of g columns is at most 127·g in magnitude,
// and so a sum over some columns is at most 127 per column, whatever the weights.
const lutBound = math.MaxInt16 / MaxActivation

// vecLUT multiplies large batches by tables, and leaves small ones to another product.
type vecLUT struct {
	w      *Weights
	few    product
	tokens int // minimum; with fewer, too much of the 32 is wasted
	phases []lutPhase
}

// lutPhase is a range of columns with tables of one kind.
type lutPhase struct {
	*lutKind
	first, tiles int // column, and number of tiles from there
	index        lutIndexer
}

// lutIndexer makes the indices of a tile for rows [m, m+rows), as offsets of entries in bytes. The index of row i and
// group g goes to dst[g/t·t·lutBlock + i·t + g%t], where t is the number of adjacent indices of a row.
type lutIndexer interface {
	indices(dst *[lutGroups * lutBlock]uint16, tile, m, rows int)
}

// lutKind is a kind of tables.
type lutKind struct {
	digits, groups int // columns of a group, least significant first, and groups of a tile
	build          func(lut *int16, x *int8, groups int)
	add            func(sums *int16, index *uint16, lut *int16, rows int)
}

const lutGroups = 8 // of a tile, at most

// columns of a tile.
func (k *lutKind) columns() int { return k.digits * k.groups }

// lutMemory is the working memory of a call.
type lutMemory struct {
	lut   []int16 // entries of all groups of a tile
	sums  []int16 // [lutRows][columnTokens], zero between calls
	wide  []int32 // the same
	index [lutGroups * lutBlock]uint16
}

// lutMemories keeps them between calls.
var lutMemories = sync.Pool{New: func() any {
	return &lutMemory{
		lut:  asInt16(alignedBytes(2 * columnTokens * 4 * 243)),
		sums: asInt16(alignedBytes(2 * columnTokens * lutRows)),
		wide: make([]int32, columnTokens*lutRows),
	}
}}

func (v *vecLUT) mul(c call) {
	if v.useful(c) {
		mem := lutMemories.Get().(*lutMemory)
		for ; c.t0+v.tokens <= c.t1; c.t0 = min(c.t0+columnTokens, c.t1) {
			v.tile(c, mem, c.t0)
		}
		lutMemories.Put(mem)
	}
	if c.t0 < c.t1 {
		v.few.mul(c)
	}
}

// batchRows is the number of rows with which tables cost about a tenth.
func (v *vecLUT) batchRows(tokens int) int {
	if tokens < v.tokens {
		return 1
	}
	return lutGoodRows
}

// useful reports whether tables pay off, only sums are asked for, and groups with sums of their own are whole tiles.
func (v *vecLUT) useful(c call) bool {
	return !c.scaled && v.w.scaling.zeros == nil && c.t0%columnTokens == 0 && c.t0+v.tokens <= c.t1 &&
		(c.p1-c.p0)*v.w.rows >= lutFewRows &&
		(v.w.Groups() == 1 || len(v.phases) == 1 && v.w.Group%v.phases[0].columns() == 0)
}

// scales: tables do not, and are slower than a product that does.
func (v *vecLUT) scales() bool { return scales(v.few) }

// tile multiplies the tokens from t0 on, 32 at most.
func (v *vecLUT) tile(c call, mem *lutMemory, t0 int) {
	groups, x := v.w.Groups(), c.x.columnTile(t0/columnTokens)
	end := min(c.p1*v.w.rows, v.w.Shape.M)
	for m := c.p0 * v.w.rows; m < end; m += lutRows / v.w.rows * v.w.rows {
		rows := min(lutRows/v.w.rows*v.w.rows, end-m)
		for g := range groups {
			clear(mem.wide[:rows*columnTokens])
			for i := range v.phases {
				p := &v.phases[i]
				tiles := span{0, p.tiles}
				if groups > 1 {
					tiles.from = g * v.w.Group / p.columns()
					tiles.to = min(tiles.to, tiles.from+v.w.Group/p.columns())
				}
				v.sum(p, mem, x, tiles, span{m, m + rows})
			}
			mem.store(c.y[c.at(t0, g, groups, m):], c.ldy*groups, rows, min(columnTokens, c.t1-t0))
		}
	}
}

// span is the tiles or rows [from, to).
type span struct{ from, to int }

// sum adds the products of some tiles and rows to the wide accumulators.
func (v *vecLUT) sum(p *lutPhase, mem *lutMemory, x []int8, tiles, of span) {
	summed, m, rows := 0, of.from, of.to-of.from
	for tile := tiles.from; tile < tiles.to; tile++ {
		if summed+p.columns() > lutBound {
			asm.VecLUTWiden(&mem.wide[0], &mem.sums[0], rows)
			summed = 0
		}
		summed += p.columns()
		p.build(&mem.lut[0], &x[(p.first+tile*p.columns())*columnTokens], p.groups)
		block := lutBlock / v.w.rows * v.w.rows
		for i := 0; i < rows; i += block {
			n := min(block, rows-i)
			p.index.indices(&mem.index, tile, m+i, n)
			p.add(&mem.sums[i*columnTokens], &mem.index[0], &mem.lut[0], n)
		}
	}
	asm.VecLUTWiden(&mem.wide[0], &mem.sums[0], rows)
}

// store writes the wide sums of some tokens, transposed.
func (mem *lutMemory) store(y []int32, ldy, rows, tokens int) {
	for i := 0; i < rows; i += 8 {
		for t := 0; t < tokens; t += 8 {
			wide := mem.wide[i*columnTokens+t:]
			if i+8 <= rows && t+8 <= tokens {
				asm.VecLUTTranspose(&y[t*ldy+i], 4*ldy, &wide[0])
				continue
			}
			for j := range min(8, rows-i) {
				for s := range min(8, tokens-t) {
					y[(t+s)*ldy+i+j] = wide[j*columnTokens+s]
				}
			}
		}
	}
}
