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
// General registers: DI arguments, SI packed weights, R9 those that are loaded next, R12 to R14 as in tilesAMX, R10 and
// AX activations of two tiles, DX bytes between tokens. CX steps to unpack, R15 their place, R11 steps to multiply, BX
// their weights, R8 bytes between groups of four columns there.
type rowsAMX struct{ *tilesAMX }

const (
	stepAMX = quadsAMX * roomQuad // bytes of 64 columns in the ring
	ringAMX = 4 * stepAMX         // the address of the ring is a multiple of twice this
	// of packed bytes: nearer is slower from memory, 8 to 24 KiB are the same
	aheadAMX = 8192
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
	steps, rest, none := g.newLabel("steps"), g.newLabel("rest"), g.newLabel("none")
	for i := range 2 * tiles {
		g.tileZero(i)
	}
	g.p("MOVQ AMX_PanelW(DI), SI")
	g.p("MOVQ AMX_Room(DI), R15")
	g.p("MOVQ AMX_LdX(DI), DX")
	g.p("MOVQ R13, R10")
	g.p("MOVQ AMX_LastQuads(DI), CX")
	g.p("SHRQ $4, CX")
	g.p("JZ %s", rest)
	if g.direct {
		g.p("MOVQ $%d, R8", g.quad)
		g.p("PCALIGN $64")
		g.at(steps)
		g.p("MOVQ SI, BX")
		dots := g.dots(tiles)
		g.beside(len(dots), func(int) {}, dots)
		g.p("DECQ CX")
		g.p("JNZ %s", steps)
	} else {
		g.unpacked(tiles)
	}
	g.at(rest)
	g.p("MOVQ AMX_LastQuads(DI), CX")
	g.p("ANDQ $%d, CX", quadsAMX-1)
	g.p("JZ %s", none)
	g.p("MOVQ R15, BX")
	g.p("LEAQ %d(R15), R9", stepAMX)
	g.incomplete("R9")
	g.p("MOVQ R15, BX")
	g.p("MOVQ $%d, R8", roomQuad)
	for _, f := range g.dots(tiles) {
		f()
	}
	g.at(none)
	g.results(tiles)
}

// unpacked emits the loops over steps: the first ones are only unpacked, the last ones only multiplied.
func (g *rowsAMX) unpacked(tiles int) {
	first, whole, last := g.newLabel("first"), g.newLabel("whole"), g.newLabel("last")
	unpack := func(dots []func()) {
		g.p("LEAQ %d(SI), R9", quadsAMX*g.quad)
		g.p("CMPQ CX, $1")
		g.p("CMOVQEQ SI, R9") // nothing is next: these once more
		g.beside(quadsAMX, g.unpack, dots)
		g.advance("R15")
	}
	g.p("MOVQ $%d, R8", roomQuad)
	g.p("MOVQ R15, BX")
	g.p("MOVQ CX, R11")
	g.p("MOVQ $%d, AMX_Steps(DI)", ringAMX/stepAMX-1)
	for z := range quadsAMX {
		g.load(g.file, fmt.Sprintf("%d(SI)", z*g.quad), z)
	}
	g.at(first)
	unpack(nil)
	g.p("DECQ CX")
	g.p("JZ %s", last)
	g.p("DECQ AMX_Steps(DI)")
	g.p("JNZ %s", first)
	g.p("PCALIGN $64")
	g.at(whole)
	unpack(g.dots(tiles))
	g.advance("BX")
	g.p("DECQ R11")
	g.p("DECQ CX")
	g.p("JNZ %s", whole)
	g.at(last)
	for _, f := range g.dots(tiles) {
		f()
	}
	g.advance("BX")
	g.p("DECQ R11")
	g.p("JNZ %s", last)
}

// unpack unpacks group z of a step, and loads that of the next one.
func (g *rowsAMX) unpack(z int) {
	g.open(g.file, fmt.Sprintf("%d(SI)", z*g.quad), z)
	g.load(g.file, fmt.Sprintf("%d(R9)", z*g.quad), z)
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

// beside emits the parts of a step, with prefetches of its packed bytes and other instructions spread evenly.
func (g *rowsAMX) beside(parts int, part func(int), others []func()) {
	lines, fetched, done := quadsAMX*g.quad/64, 0, 0
	for i := range parts {
		for ; fetched*parts < (i+1)*lines; fetched++ {
			g.p("PREFETCHT1 %d(SI)", aheadAMX+64*fetched)
		}
		part(i)
		for ; done*parts < (i+1)*len(others); done++ {
			others[done]()
		}
	}
	g.p("ADDQ $%d, SI", quadsAMX*g.quad)
}
