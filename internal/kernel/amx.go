package kernel

import (
	"encoding/binary"
	"sync"

	"github.com/lowpack/lowpack/internal/kernel/internal/asm"
)

// Batches on AMX tile registers. Products of few tokens, and products with short groups of columns, stay with the
// 512-bit kernel of the same weights.
const (
	amxGroup = 64 // minimum columns of a group: a tile has this many, and a partial tile takes as long

	amxRoomColumns    = 640       // unpacked at a time: 20 KiB, which stay in the L1 cache
	amxActivations    = 1 << 20   // bytes of activations that stay in the L2 cache
	amxRowActivations = 160 << 10 // the same for whole rows, whose weights are unpacked for every 32 tokens
	amxMostTokens     = 512       // at a time, to bound the buffer for their sums
	amxCall           = 1 << 25   // products per call: enough to amortize its setup, in less than 100 µs (see runBytes)
)

// tileMethod is how a method multiplies batches on tile registers: functions of 32 rows of panels, and the arguments of
// their calls for all rows of a panel.
type tileMethod struct {
	tileFuncs
	parts func(alphabet string) []tilePart
}

// tileFuncs are functions for groups of columns, and for whole rows, and how the kernel of scaled groups unpacks
// weights.
type tileFuncs struct {
	groups, rows func(*asm.AMX)
	opener       opener
}

// opener is how the kernel of scaled groups unpacks weights.
type opener struct {
	number int  // asm.Open…
	direct bool // weights are multiplied where they lie
}

var (
	bits16AMX = tileFuncs{asm.Bits16AMX, asm.Bits16RowsAMX,
		opener{asm.OpenBits16AMX, false}}
	bits32AMX = tileFuncs{asm.Bits32AMX, asm.Bits32RowsAMX,
		opener{asm.OpenBits32AMX, false}}
	interleavedBits16AMX = tileFuncs{asm.InterleavedBits16AMX, asm.InterleavedBits16RowsAMX,
		opener{asm.OpenInterleavedBits16AMX, false}}
	interleavedBits32AMX = tileFuncs{asm.InterleavedBits32AMX, asm.InterleavedBits32RowsAMX,
		opener{asm.OpenInterleavedBits32AMX, false}}
	fields32AMX = tileFuncs{asm.Fields32AMX, asm.Fields32RowsAMX,
		opener{asm.OpenFields32AMX, false}}
	fields64AMX = tileFuncs{asm.Fields64AMX, asm.Fields64RowsAMX,
		opener{asm.OpenFields64AMX, false}}
	fields128AMX = tileFuncs{asm.Fields128AMX, asm.Fields128RowsAMX,
		opener{asm.OpenFields128AMX, false}}
	bytes128AMX = tileFuncs{asm.Bytes128AMX, asm.Bytes128RowsAMX,
		opener{asm.OpenBytes128AMX, true}}
	bytes256AMX = tileFuncs{asm.Bytes256AMX, asm.Bytes256RowsAMX,
		opener{asm.OpenBytes256AMX, true}}
	planes3AMX = tileFuncs{asm.Planes3AMX, asm.Planes3RowsAMX,
		opener{asm.OpenPlanes3AMX, false}}
	planes5AMX = tileFuncs{asm.Planes5AMX, asm.Planes5RowsAMX,
		opener{asm.OpenPlanes5AMX, false}}
	planes6AMX = tileFuncs{asm.Planes6AMX, asm.Planes6RowsAMX,
		opener{asm.OpenPlanes6AMX, false}}
	base3AMX = tileFuncs{asm.Base3AMX, asm.Base3RowsAMX,
		opener{asm.OpenBase3AMX, false}}
)

// tilePart is 32 rows of a panel, two tiles.
type tilePart struct {
	at     int // bytes of the rows in those of four columns
	row    int // first row in the panel
	second int // rows from there to the first row of the second tile
	table  [8][64]byte
}

// tiled adds functions for tile registers.
func (m method) tiled(functions tileFuncs, parts func(alphabet string) []tilePart) method {
	m.tiles = &tileMethod{functions, parts}
	return m
}

// onTiles is m with batches on tile registers.
func (m method) onTiles() method {
	few := m.bind
	m.about += "; batches on tile registers"
	m.bind = func(w *Weights) (product, error) {
		p, err := few(w)
		if err != nil || passKind(w.Group) < 0 && !sumsOnTiles(w) {
			return p, err
		}
		alphabet := w.Layout.Spec().Alphabet
		after := w.tokensFrom(OnTiles, otherGroups)
		b := &batches{tiled: p.(*tiled), multiply: m.tiles.groups, tokens: after, after: after,
			beside: w.tokensFrom(OnTiles, w.Group), activations: amxActivations, parts: m.tiles.parts(alphabet),
			opener: m.tiles.opener}
		if w.Groups() == 1 {
			b.multiply, b.activations = m.tiles.rows, amxRowActivations
			b.tokens = w.tokensFrom(OnTiles, wholeRows)
		}
		b.most, err = largest(alphabet)
		return b, err
	}
	return m
}

// sumsOnTiles reports whether groups, or whole rows, have sums of their own on tiles.
func sumsOnTiles(w *Weights) bool { return w.Group >= min(amxGroup, w.Shape.K) }

// onTiles reports whether a number of tokens is multiplied on tiles.
func (p *batches) onTiles(tokens int) bool {
	return tokens >= p.tokens && sumsOnTiles(p.w) || p.scalesOnTiles(call{t1: tokens, scaled: true})
}

// fields2Tiles returns the parts of 2-bit panels of halves · 32 rows. Four columns are 64 bytes, or 32 in both halves
// of a register; a 64-bit lane is shifted to the field of its rows.
func fields2Tiles(halves int) func(alphabet string) []tilePart {
	return func(alphabet string) (parts []tilePart) {
		for half := range halves {
			p := tilePart{row: 32 * half, second: 16}
			p.lookUp(stored[alphabet])
			for tile := range 2 {
				for lane := range 8 {
					field := 2*half + tile
					if halves == 1 {
						field = 2*tile + lane/4
					}
					p.table[1+tile][8*lane] = byte(2 * field)
				}
			}
			parts = append(parts, p)
		}
		return parts
	}
}

// fields4Tiles does the same for four bits: lower fields are the first half of the rows, upper fields the second.
func fields4Tiles(halves int) func(alphabet string) []tilePart {
	return func(alphabet string) (parts []tilePart) {
		for half := range halves {
			p := tilePart{at: 64 * half, row: 16 * half, second: 16 * halves}
			p.lookUp(stored[alphabet])
			for lane := range 8 {
				p.table[2][8*lane] = 4
			}
			parts = append(parts, p)
		}
		return parts
	}
}

// lookUp fills the table of a part with weights, repeated, as its index has six bits.
func (p *tilePart) lookUp(values []int8) {
	period := 4
	if len(values) > 4 {
		period = 16
	}
	for i := range p.table[0] {
		if digit := i % period; digit < len(values) {
			p.table[0][i] = byte(values[digit])
		}
	}
}

// planeTiles are the parts of panels of digits in two planes: for the upper plane, and last for the lower one, the
// shifts of the 64-bit lanes that it fills repeatedly, by its width more in each repetition. Between them are the
// mask of the lower part of a byte, or of both in it, the bits of a digit, and the digit of weight zero.
func planeTiles(alphabet string) []tilePart {
	width := planeWidths[alphabet]
	p := tilePart{second: 16}
	for lane := range 8 {
		p.table[0][8*lane] = byte(lane / (2 * width.high) * width.high)
		p.table[4][8*lane] = byte(lane / (2 * width.low) * width.low)
	}
	lower := byte(0x0f)
	if width.low == 2 {
		lower = 0x33
	}
	for i := range 64 {
		p.table[1][i], p.table[2][i] = lower, 1<<(width.low+width.high)-1
		p.table[3][i] = byte(-digits[alphabet].add)
	}
	return []tilePart{p}
}

// byteTiles are the parts of panels of int8.
func byteTiles(halves int) func(string) []tilePart {
	return func(string) (parts []tilePart) {
		for half := range halves {
			parts = append(parts, tilePart{at: 128 * half, row: 32 * half, second: 16})
		}
		return parts
	}
}

// bitTiles are the parts of 1-bit panels of halves · 32 rows in VNNI4 order: 16 bytes per four columns, of which each
// holds two rows. Repeated, a byte is the matrix that sends the unit vectors of table 0 to its bits.
func bitTiles(halves int) func(string) []tilePart {
	return func(string) (parts []tilePart) {
		for half := range halves {
			p := tilePart{at: 16 * half, row: 32 * half, second: 16}
			for i := range p.table[0] {
				p.table[0][i] = 1 << (i % 8)
				for tile := range 2 {
					p.table[1+tile][i] = lastRow(i, 0x80, byte(8*tile+i/8)) // 0x80: a shuffle makes it zero
				}
			}
			parts = append(parts, p)
		}
		return parts
	}
}

// interleavedBitTiles does the same for VNNI4I order. A byte is one column of eight rows, a bit of a table's 64-bit
// lane selects two rows of their four columns.
func interleavedBitTiles(halves int) func(string) []tilePart {
	return func(string) (parts []tilePart) {
		for half := range halves {
			p := tilePart{row: 32 * half, second: 16}
			for tile := range 2 {
				for i := range p.table[tile] {
					bit := (p.row + 16*tile + i/4) / (4 * halves)
					p.table[tile][i] = lastRow(i, 0, 1<<bit)
				}
			}
			parts = append(parts, p)
		}
		return parts
	}
}

// lastRow is byte i of 8 × 8 matrices with the given last row and the same others.
func lastRow(i int, last, other byte) byte {
	if i%8 == 7 {
		return last
	}
	return other
}

// base3Tiles are pairs of the five digits of a byte. The fourth is in two of them: its rows are multiplied twice, with
// the same result.
func base3Tiles(string) (parts []tilePart) {
	power := []int{81, 27, 9, 3, 1}
	for _, first := range []int{0, 2, 3} {
		p := tilePart{row: 16 * first, second: 16}
		for tile := range 2 {
			for b := range 256 {
				p.table[4*tile+b/64][b%64] = byte(b/power[first+tile]%3 - 1)
			}
		}
		parts = append(parts, p)
	}
	return parts
}

// batches multiplies batches on tile registers.
type batches struct {
	*tiled      // fewer tokens
	multiply    func(*asm.AMX)
	tokens      int // minimum for sums
	beside      int // minimum for sums that are scaled beside tiles
	after       int // minimum for sums that are scaled in a pass of its own
	activations int // bytes of a block
	parts       []tilePart
	opener      opener
	most        int // largest magnitude of a weight
}

// amxRoom is the working memory of a call.
type amxRoom struct {
	asm.AMX
	asm.Scaling
	weights, sums []byte
	scales        [16]float32
	results       []int32 // of a panel that has more rows than the matrix has left
}

// amxRooms keeps them between calls.
var amxRooms = sync.Pool{New: func() any {
	return &amxRoom{
		weights: alignedTo(asm.AMXAlign, amxRoomColumns/4*asm.AMXRoom),
		sums:    alignedTo(4096, amxMostTokens/32*asm.AMXSums),
		results: make([]int32, amxMostTokens*asm.MaxPanelRows),
	}
}}

func (p *batches) mul(c call) {
	n := c.t1 - c.t0
	if p.scalesOnTiles(c) {
		p.mulGroups(c)
		return
	}
	if n < p.tokens || !sumsOnTiles(p.w) || c.scaled && n < p.after { // scaling is a pass of its own
		p.tiled.mul(c)
		return
	}
	if c.scaled {
		p.w.clear(c)
	}
	room := amxRooms.Get().(*amxRoom)
	most := min(max(p.activations/c.x.Stride, 32), amxMostTokens)
	block := ceilDiv(ceilDiv(n, ceilDiv(n, most)), 32) * 32
	whole, bytes := p.w.Shape.M/p.w.rows, vectorBytes
	if len(p.parts) > 1 {
		bytes = runBytes // the other parts find the panels in a cache
	}
	for t := c.t0; t < c.t1; t += block {
		end := min(t+block, c.t1)
		run := max(1, min(amxCall/(p.w.rows*p.w.Shape.K*(end-t)), bytes/p.panel))
		for from := c.p0; from < min(c.p1, whole); {
			to := min(from+run, c.p1, whole)
			part := c
			part.p0, part.p1, part.t0, part.t1 = from, to, t, end
			if c.scaled {
				to = from + 1
				p.scaledPanel(room, part)
			} else {
				p.panels(room, part)
			}
			from = to
		}
		if c.p1 > whole {
			part := c
			part.p0, part.p1, part.t0, part.t1 = whole, c.p1, t, end
			p.lastPanel(room, part)
		}
	}
	room.AMX, room.Scaling = asm.AMX{}, asm.Scaling{} // keeps nothing alive
	amxRooms.Put(room)
	if p.w.scaling.zeros != nil && !c.scaled {
		p.w.correct(c)
	}
}

// panels multiplies whole panels, all groups.
func (p *batches) panels(room *amxRoom, c call) {
	groups := p.w.Groups()
	y := c.y[c.at(c.t0, 0, groups, c.p0*p.w.rows):]
	p.multiplyGroups(room, c, 0, groups, y, c.ldy)
}

// groupRoom is the number of groups of a panel whose sums fit the buffer for results.
func (p *batches) groupRoom(room *amxRoom, tokens int) int {
	return min(len(room.results)/(tokens*p.w.rows), p.w.Groups())
}

// scaledPanel adds the scaled sums of the whole panel c.p0 to the results, as many groups at a time as the buffer
// holds.
func (p *batches) scaledPanel(room *amxRoom, c call) {
	panel, rows, per := c.p0, p.w.rows, p.groupRoom(room, c.t1-c.t0)
	c.p1 = panel + 1
	tokens := c.x.groupTokens(p.w.Group, p.add)
	for g0 := 0; g0 < p.w.Groups(); g0 += per {
		g1 := min(g0+per, p.w.Groups())
		p.multiplyGroups(room, c, g0, g1, room.results, rows)
		for g := g0; g < g1; g++ {
			shared := p.w.unitsFrom(panel, g*p.w.Group, true)
			for m := 0; m < rows; m += 16 {
				s := &room.Scaling
				*s = asm.Scaling{
					Sums: &room.results[(g-g0)*rows+m], LdSums: 4 * (g1 - g0) * rows,
					Y: &c.y[c.at(c.t0, g, 1, panel*rows+m)], LdY: 4 * c.ldy,
					N: c.t1 - c.t0, Tokens: &tokens[g*c.x.N+c.t0],
				}
				switch {
				case shared.scales != nil:
					s.Scales = &shared.scales[m]
				case shared.halves != nil:
					s.Scales = &widen(room.scales[:], shared.halves[m:])[0]
				}
				if shared.zeros != nil {
					s.Zeros = &shared.zeros[m]
				}
				asm.ScaleSums(s)
			}
		}
	}
}

// lastPanel multiplies the last panel, c.p0, which has more rows than the matrix has left, through a buffer for its
// results.
func (p *batches) lastPanel(room *amxRoom, c call) {
	groups, first := p.w.Groups(), c.p0*p.w.rows
	c.p1 = c.p0 + 1
	per := p.groupRoom(room, c.t1-c.t0)
	for g0 := 0; g0 < groups; g0 += per {
		g1 := min(g0+per, groups)
		p.multiplyGroups(room, c, g0, g1, room.results, p.w.rows)
		for t := c.t0; t < c.t1; t++ {
			for g := g0; g < g1; g++ {
				from := ((t-c.t0)*(g1-g0) + g - g0) * p.w.rows
				copy(c.y[c.at(t, g, groups, first):][:p.w.Shape.M-first], room.results[from:])
			}
		}
	}
}

// multiplyGroups computes the sums of groups [g0, g1), y[t][g][ldy].
func (p *batches) multiplyGroups(room *amxRoom, c call, g0, g1 int, y []int32, ldy int) {
	tokens, k := c.t1-c.t0, g0*p.w.Group
	panels := min((c.p1-c.p0)*p.tiled.panels, ceilDiv(p.w.Shape.M-c.p0*p.w.rows, p.w.rows/p.tiled.panels))
	bytes := p.panel / p.tiled.panels // a kernel of few tokens may take several panels as one
	rows, last := min(tokens, 16), min(g1*p.w.Group, p.w.Shape.K)-(g1-1)*p.w.Group
	quad := bytes / ceilDiv(p.w.Shape.K, 4)
	for i := range p.parts {
		part := &p.parts[i]
		if c.p0*p.w.rows+part.row >= p.w.Shape.M {
			return
		}
		room.AMX = asm.AMX{
			W: &p.packed[c.p0*p.panel+k/4*quad+part.at], Panels: panels, PanelBytes: bytes,
			X: &c.x.rows[c.t0*c.x.Stride+k], LdX: c.x.Stride, Tokens: tokens, Rows: rows,
			Y: &y[part.row], LdY: 4 * (g1 - g0) * ldy, LdPanel: 4 * p.w.rows / p.tiled.panels, TileY: 4 * part.second,
			Groups: g1 - g0, LdGroup: 4 * ldy, Quads: p.w.Group / 4, LastQuads: ceilDiv(last, 4),
			RoomQuads: amxRoomColumns / 4, Room: &room.weights[0], Sums: &room.sums[0],
			Lines: max(1, ceilDiv(quad/4, ceilDiv(tokens, 32))), Streams: streams(bytes),
			Table: part.table, Config: TileConfig(rows),
		}
		p.multiply(&room.AMX)
	}
}

// TileConfig returns the operand of LDTILECFG: six tiles for sums and activations of the given number of tokens, at
// most 16, and two for weights.
func TileConfig(rows int) (c [64]byte) {
	c[0] = 1 // palette
	for tile := range 8 {
		binary.LittleEndian.PutUint16(c[16+2*tile:], 64) // bytes of a row
		c[48+tile] = byte(rows)
		if tile >= 6 {
			c[48+tile] = 16
		}
	}
	return c
}
