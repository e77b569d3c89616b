package main

import (
	"fmt"
	"math/bits"
)

// rowsAMX emits the function of an opener for whole rows: one group of columns. Sums stay in the tile registers until a
// row ends. Weights are unpacked 64 columns at a time, for every 32 tokens once more, beside the products of an earlier
// step: they lie in a ring that the nearest cache holds. A tile is loaded a few steps after its weights were stored, as
// stores reach the cache in order, after the products before them.
//
// General registers: DI arguments, SI packed weights, R13 and R14 as in tilesAMX, R10 and AX activations of two tiles,
// DX bytes between tokens. CX steps to unpack, R15 their place, BX weights that are multiplied, R8 bytes between groups
// of four columns there, R11 what is prefetched of the next panel, then steps that are only multiplied.
type rowsAMX struct {
	*tilesAMX
	free string // a register that nothing else is in
}

const (
	stepAMX = quadsAMX * roomQuad // bytes of 64 columns in the ring
	ringAMX = 4 * stepAMX         // the address of the ring is a multiple of twice this
	// Parts of the next panel that are prefetched side by side: four streams draw more bandwidth than one
	// (docs/notes/kernels.md).
	streamsAMX = 4
)

func (g *rowsAMX) function() {
	panel := g.newLabel("panel")
	g.beginTiles()
	g.loadTables(g.opener)
	g.copyField("W", "PanelW")
	g.copyField("Y", "GroupY")
	g.at(panel)
	g.p("MOVQ AMX_X(DI), R10")
	g.tokens(g.products)
	g.p("MOVQ AMX_LdPanel(DI), AX")
	g.p("ADDQ AX, AMX_GroupY(DI)")
	g.p("MOVQ AMX_PanelBytes(DI), AX")
	g.p("ADDQ AX, AMX_PanelW(DI)")
	g.p("DECQ AMX_Panels(DI)")
	g.p("JNZ %s", panel)
	g.endTiles()
}

// products multiplies one or two tiles of tokens by a panel.
func (g *rowsAMX) products(tiles int) {
	for i := range 2 * tiles {
		g.tileZero(i)
	}
	g.p("MOVQ R12, AMX_TokensLeft(DI)")
	g.p("MOVQ AMX_LdX(DI), DX")
	g.p("MOVQ R13, R10")
	dots := func() []func() { return g.dots(tiles) }
	g.columns(dots, func() {}, func(string) {
		for _, f := range dots() {
			f()
		}
	})
	g.p("MOVQ AMX_TokensLeft(DI), R12")
	g.results(tiles)
}

// columns emits the products of the columns of a panel. ends follows the products of a step; last emits those of the
// columns that fill none, and may go to a label after them.
func (g *rowsAMX) columns(dots func() []func(), ends func(), last func(none string)) {
	rest, none := g.newLabel("rest"), g.newLabel("none")
	g.p("MOVQ AMX_PanelW(DI), SI")
	g.p("MOVQ SI, R11")
	g.p("ADDQ AMX_PanelBytes(DI), R11")
	g.p("MOVQ AMX_Room(DI), R15")
	g.p("MOVQ AMX_LastQuads(DI), CX")
	g.p("SHRQ $4, CX")
	g.p("JZ %s", rest)
	if g.direct {
		g.inPlace(dots(), ends)
	} else {
		g.unpacked(dots, ends)
	}
	g.at(rest)
	g.p("MOVQ AMX_LastQuads(DI), CX")
	g.p("ANDQ $%d, CX", quadsAMX-1)
	g.p("JZ %s", none)
	g.p("MOVQ R15, BX")
	g.p("LEAQ %d(R15), %s", stepAMX, g.free)
	g.incomplete(g.free)
	g.p("MOVQ R15, BX")
	g.p("MOVQ $%d, R8", roomQuad)
	last(none)
	g.at(none)
}

// inPlace emits the loop over steps of weights that are multiplied where they lie.
func (g *rowsAMX) inPlace(dots []func(), ends func()) {
	steps := g.newLabel("steps")
	g.p("MOVQ $%d, R8", g.quad)
	g.p("PCALIGN $64")
	g.at(steps)
	g.p("MOVQ SI, BX")
	g.beside(len(dots), func(int) {}, dots)
	ends()
	g.p("DECQ CX")
	g.p("JNZ %s", steps)
}

// unpacked emits the loops over steps: the first ones are only unpacked, the last ones only multiplied. ends follows
// the products of a step.
func (g *rowsAMX) unpacked(dots func() []func(), ends func()) {
	first, whole, last, tail := g.newLabel("first"), g.newLabel("whole"), g.newLabel("last"), g.newLabel("tail")
	unpack := func(dots []func()) {
		g.beside(quadsAMX, g.unpack, dots)
		g.advance("R15")
	}
	g.p("MOVQ $%d, R8", roomQuad)
	g.p("MOVQ R15, BX")
	g.p("MOVQ $%d, %s", ringAMX/stepAMX-1, g.free)
	g.p("MOVQ %s, AMX_Steps(DI)", g.free)
	g.p("CMPQ CX, %s", g.free)
	g.p("CMOVQLT CX, %s", g.free)
	g.p("MOVQ %s, AMX_Columns(DI)", g.free) // steps that are only multiplied
	g.at(first)
	unpack(nil)
	g.p("DECQ CX")
	g.p("JZ %s", last)
	g.p("DECQ AMX_Steps(DI)")
	g.p("JNZ %s", first)
	g.p("PCALIGN $64")
	g.at(whole)
	unpack(dots())
	g.advance("BX")
	ends()
	g.p("DECQ CX")
	g.p("JNZ %s", whole)
	g.at(last)
	g.p("MOVQ AMX_Columns(DI), R11")
	g.at(tail)
	for _, f := range dots() {
		f()
	}
	g.advance("BX")
	ends()
	g.p("DECQ R11")
	g.p("JNZ %s", tail)
}

// unpack unpacks group z of four columns of a step.
func (g *rowsAMX) unpack(z int) {
	at := fmt.Sprintf("%d(SI)", z*g.quad)
	g.load(g.file, at, weightZ)
	g.open(g.file, at, weightZ)
	g.storeAt("R15", z*roomQuad)
}

// advance moves a place in the ring by a step.
func (g *rowsAMX) advance(place string) {
	g.p("ADDQ $%d, %s", stepAMX, place)
	g.p("BTRQ $%d, %s", bits.TrailingZeros(ringAMX), place)
}

// dots are the instructions that multiply a step, in order.
func (g *rowsAMX) dots(tiles int) (list []func()) {
	for i := range tiles {
		x := []string{"R10", "AX"}[i]
		list = append(list, func() { g.tileLoadFar(tokensAMX+i, 0, x, "DX") })
		for j := range 2 {
			if i == 0 {
				list = append(list, func() { g.tileLoad(weightsAMX+j, 64*j, "BX", "R8") })
			}
			list = append(list, func() { g.tileDot(2*i+j, tokensAMX+i, weightsAMX+j) })
		}
		list = append(list, func() { g.p("ADDQ $64, %s", x) })
	}
	return list
}

// beside emits the parts of a step, with prefetches of as many bytes of the next panel and other instructions spread
// evenly.
func (g *rowsAMX) beside(parts int, part func(int), others []func()) {
	lines, fetched, done := quadsAMX*g.quad/64, 0, 0
	for i := range parts {
		for ; fetched*parts < (i+1)*lines; fetched++ {
			g.prefetch(fetched%streamsAMX, fetched/streamsAMX)
		}
		part(i)
		for ; done*parts < (i+1)*len(others); done++ {
			others[done]()
		}
	}
	g.p("ADDQ $%d, SI", quadsAMX*g.quad)
	g.p("ADDQ $%d, R11", quadsAMX*g.quad/streamsAMX)
}

// prefetch brings in a line of a stream.
func (g *rowsAMX) prefetch(stream, line int) {
	if stream == 0 {
		g.p("PREFETCHT1 %d(R11)", 64*line)
		return
	}
	g.p("MOVQ (AMX_Streams+%d)(DI), %s", 8*(stream-1), g.free)
	g.p("PREFETCHT1 %d(R11)(%s*1)", 64*line, g.free)
}
