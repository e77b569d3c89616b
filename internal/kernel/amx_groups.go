package kernel

import (
	"math"
	"slices"
	"sync"

	"github.com/lowpack/lowpack/internal/kernel/internal/asm"
)

// Batches with group-wise scales on AMX tile registers: the sums of a group are scaled while tiles multiply the next
// one, by one kernel for a few tokens and another for more. docs/KERNELS.md has the loops, and what bounds them.
const (
	amxGroupBlock       = 128     // tokens at a time, whose results take 16 KiB
	amxGroupActivations = 1 << 20 // bytes of activations of a block that stay in the L2 cache
	amxGroupColumns     = 256     // unpacked at a time
)

// amxGroupCall is the number of products per call, as amxCall is: scaled groups reach a tenth to a third of the speed
// of whole rows. A call has one panel at least: 150 µs with 32 tokens, groups of 32 and 28,672 columns. Tests lower
// it.
var amxGroupCall = 1 << 23

// tilePass is what a kernel does between two groups, or runs of groups.
type tilePass struct {
	group   int // columns
	columns int // of the pass
}

// tilePasses are the sizes of groups that are scaled beside tiles. Each has two kinds (asm.AMXGroups.Kind): for one
// tile of tokens and for two.
var tilePasses = []tilePass{{32, 128}, {64, 128}, {128, 128}, {256, 256}}

// passKind returns the kind of pass for a group of columns; −1 = none.
func passKind(group int) int {
	return slices.IndexFunc(tilePasses, func(p tilePass) bool { return p.group == group })
}

// scalesOnTiles reports whether the sums of a call are scaled beside tiles. For more than a few tokens weights less
// their zero points must be signed bytes, and weights that are multiplied where they lie have none.
func (p *batches) scalesOnTiles(c call) bool {
	kind, units, tokens := passKind(p.w.Group), p.w.scaling, c.t1-c.t0
	return c.scaled && kind >= 0 && tokens >= p.beside && p.w.Group < p.w.Shape.K &&
		(units.zeros == nil || tokens <= asm.AMXFew || !p.opener.direct && units.most+p.most <= math.MaxInt8)
}

// groupsRoom is the working memory of a call. It is larger than 32 KiB, so it lies at a page; the arguments, in which
// the kernel counts between passes, lie in the upper half of one.
type groupsRoom struct {
	weights [amxGroupColumns / 4 * asm.AMXRoom]byte
	sums    [asm.AMXGroupSums]byte
	results [amxGroupBlock / 32][asm.AMXGroupT]byte
	unused  [asm.AMXGroupT]byte
	_       [2048]byte
	asm.AMXGroups
	ring []byte // weights of few tokens
}

// groupsRooms keeps them between calls.
var groupsRooms = sync.Pool{New: func() any {
	return &groupsRoom{ring: alignedTo(asm.AMXAlign, asm.AMXRing)}
}}

// mulGroups multiplies whole panels and stores scaled sums.
func (p *batches) mulGroups(c call) {
	room := groupsRooms.Get().(*groupsRoom)
	n, most := c.t1-c.t0, max(min(amxGroupBlock, amxGroupActivations/p.w.Shape.K)/tokenPair, 1)*tokenPair
	block := ceilDiv(ceilDiv(n, ceilDiv(n, most)), tokenPair) * tokenPair
	for t := c.t0; t < c.t1; t += block {
		end := min(t+block, c.t1)
		run := max(1, amxGroupCall/(p.w.rows*p.w.Shape.K*max(end-t, asm.AMXFew)))
		for from := c.p0; from < c.p1; from += run {
			part := c
			part.p0, part.p1, part.t0, part.t1 = from, min(from+run, c.p1), t, end
			for panel := range p.tiled.panels {
				for i := range p.parts {
					p.partGroups(room, part, panel, &p.parts[i])
				}
			}
		}
	}
	room.AMXGroups = asm.AMXGroups{} // keeps nothing alive
	groupsRooms.Put(room)
}

// partGroups does so for 32 rows of each panel, or of one of the panels that a kernel of few tokens takes as one.
func (p *batches) partGroups(room *groupsRoom, c call, panel int, part *tilePart) {
	tokens, group := c.t1-c.t0, p.w.Group
	quads := ceilDiv(p.w.Shape.K, 4)
	bytes, row := p.panel/p.tiled.panels, panel*p.w.rows/p.tiled.panels+part.row
	units := p.w.scaling
	g := &room.AMXGroups
	*g = asm.AMXGroups{
		AMX: asm.AMX{
			W: &p.packed[c.p0*p.panel+panel*bytes+part.at], Panels: c.p1 - c.p0, PanelBytes: p.panel,
			Tokens: tokens, Y: &c.y[c.at(c.t0, 0, 1, c.p0*p.w.rows+row)], LdY: 4 * c.ldy,
			LdPanel: 4 * p.w.rows, TileY: 4 * part.second, Quads: quads, Sums: &room.sums[0],
			Table: part.table, Config: TileConfig(min(tokens, 16)),
		},
		Opener: p.opener.number, GroupQuads: group / 4,
		UnitGroups: 1, UnitRows: p.w.rows, LdUnits: units.units * p.w.rows,
		ScaleBytes: 4 >> units.width(), SecondRow: part.second,
	}
	if units.group > 0 {
		g.UnitGroups = ceilDiv(units.group, group)
	}
	g.SecondScale = g.ScaleBytes * part.second
	shared := p.w.unitsFrom(c.p0, 0, true).from(row)
	g.Scales, g.Zeros = shared.pointers()
	if group < 64 {
		halfTiles(&g.Config)
	}
	if tokens <= asm.AMXFew {
		p.fewGroups(room, c, bytes)
	} else {
		p.passGroups(room, c, bytes/quads)
	}
}

// passGroups multiplies by passes; quad are the bytes of four columns of a panel.
func (p *batches) passGroups(room *groupsRoom, c call, quad int) {
	kind, tokens, group := passKind(p.w.Group), c.t1-c.t0, p.w.Group
	perPass := tilePasses[kind].columns
	factors, stride := c.x.blockScales(group)
	g := &room.AMXGroups
	g.X, g.LdPair, g.ChunkX = &c.x.tiles(c.t0, c.t1)[0], c.x.tilePairStride(), tokenPair*amxGroupColumns
	g.RoomQuads, g.Room = amxGroupColumns/4, &room.weights[0]
	g.Lines = max(1, ceilDiv(perPass/4*quad/64, 4*ceilDiv(tokens, tokenPair)))
	g.Streams = streams(p.panel)
	g.Kind, g.TakenQuads, g.Together = 2*kind+min(tokens-1, 16)/16, perPass/4, amxGroupColumns/group
	g.T, g.Unused = &room.results[0][0], &room.unused[0]
	g.Factors, g.LdFactors, g.LdPass = &factors[c.t0], 4*stride, 4*stride*(perPass/group)
	g.ChunkLdFactors = 4 * stride * (amxGroupColumns / group)
	g.TokensY = ceilDiv(tokens, ceilDiv(4*g.Quads, perPass)*ceilDiv(tokens, tokenPair))
	g.PassUnitBytes = 8 * (perPass / group)
	asm.GroupsAMX(g)
}

// fewGroups multiplies few tokens; bytes are those of a panel.
func (p *batches) fewGroups(room *groupsRoom, c call, bytes int) {
	tokens := c.x.groupTokens(p.w.Group, p.add)
	g := &room.AMXGroups
	g.X, g.LdX = &c.x.rows[c.t0*c.x.Stride], c.x.Stride
	g.LastQuads, g.Room = g.Quads, &room.ring[0]
	g.TokenGroups, g.LdFactors = &tokens[c.t0], tokenGroupBytes*c.x.N
	g.UnitBytes = g.ScaleBytes * g.UnitRows
	g.Streams = streams(bytes)
	asm.FewAMX(g)
}

// streams returns the places of further parts of a panel.
func streams(bytes int) (at [3]int) {
	for i := range at {
		at[i] = (i + 1) * bytes / (1 + len(at)) &^ 63
	}
	return at
}

// halfTiles makes tiles of activations and weights 32 columns wide.
func halfTiles(c *[64]byte) {
	for _, tile := range []int{4, 5} {
		c[16+2*tile] = 32
	}
	for _, tile := range []int{6, 7} {
		c[48+tile] = 8
	}
}
