package main

import "fmt"

// Products of up to eight tokens with group-wise scales on the tile registers of AMX. As in products of whole rows,
// weights are unpacked 64 columns at a time beside the products of an earlier step. Where a group ends, its two tiles
// of sums are stored, and those of the group before are converted, scaled and added to the results (N15), which stay in
// registers along the row. So packed weights are the only bytes that come from memory, and all else is done while they
// arrive.
//
// The function processes 32 rows of each panel. A group is half a step, 32 columns, or some steps.
//
// General registers: R10 activations of the tokens, R12 steps to the end of the group that is multiplied, R9 sums. Of
// the group that is scaled next: R13 terms of the tokens, R14 scales of the weights. AX is free, all others are as in
// rowsAMX.
//
// Z0 to Z15 results, two of each token; Z16 to Z18 weights, and zero points while sums are scaled; Z19 to Z22 scales
// and sums; Z24 to Z31 tables of openers.

const (
	fewTokens  = 8
	fewSums    = fewTokens * 64 // bytes of a tile of sums
	fewZeroZ   = 16
	fewScaleZ  = 19
	fewSumZ    = 21
	scaleAhead = 1024 // bytes of scales of weights that are prefetched
)

// fewAMX emits the code of an opener.
type fewAMX struct {
	*rowsAMX
	halves int // of a step: 2 for groups of 32 columns
}

// few emits the function.
func (g groupsAMX) few() {
	g.declare("FewAMX", "multiplies 32 rows of each panel by up to eight tokens and scales the sums of groups.",
		"t *AMXGroups", 1)
	g.beginTiles()
	g.eachOpener(func(o opener) {
		g.loadTables(o)
		short, done := g.newLabel("short"), g.newLabel("multiplied")
		g.p("CMPQ AMXGroups_GroupQuads(DI), $%d", quadsAMX/2)
		g.p("JEQ %s", short)
		few := fewAMX{&rowsAMX{&tilesAMX{g.file, o, true}, "AX"}, 1}
		few.panels()
		g.p("JMP %s", done)
		g.at(short)
		few.halves = 2
		few.panels()
		g.at(done)
	})
	g.endTiles()
}

// panels multiplies the tokens by each panel.
func (g *fewAMX) panels() {
	panel := g.newLabel("panel")
	g.copyField("W", "PanelW")
	g.copyField("Y", "PanelY")
	g.p("MOVQ AMXGroups_Scales(DI), AX")
	g.p("MOVQ AX, AMXGroups_ScalesAt(DI)")
	g.p("MOVQ $0, AMXGroups_PanelUnit(DI)")
	g.p("MOVQ AMX_LdX(DI), DX")
	g.p("MOVQ AMX_Sums(DI), R9")
	g.at(panel)
	g.row()
	g.results()
	g.p("MOVQ AMXGroups_LdUnits(DI), AX")
	g.p("ADDQ AX, AMXGroups_PanelUnit(DI)")
	g.p("IMULQ AMXGroups_ScaleBytes(DI), AX")
	g.p("ADDQ AX, AMXGroups_ScalesAt(DI)")
	g.p("MOVQ AMX_LdPanel(DI), AX")
	g.p("ADDQ AX, AMX_PanelY(DI)")
	g.p("MOVQ AMX_PanelBytes(DI), AX")
	g.p("ADDQ AX, AMX_PanelW(DI)")
	g.p("DECQ AMX_Panels(DI)")
	g.p("JNZ %s", panel)
}

// row multiplies the tokens by a panel.
func (g *fewAMX) row() {
	for i := range 2 {
		g.tileZero(i)
	}
	for z := range 2 * fewTokens {
		g.p("VPXORQ Z%d, Z%d, Z%d", z, z, z)
	}
	g.p("MOVQ AMX_X(DI), R10")
	g.p("MOVQ AMXGroups_TokenGroups(DI), R13")
	g.p("MOVQ AMXGroups_ScalesAt(DI), R14")
	g.groupSteps("R12")
	g.p("MOVQ AMXGroups_UnitGroups(DI), AX")
	g.p("MOVQ AX, AMXGroups_UnitLeft(DI)")
	g.p("MOVQ AMXGroups_PanelUnit(DI), AX")
	g.p("MOVQ AX, AMXGroups_Unit(DI)")
	g.p("MOVQ $0, AMX_Begun(DI)")
	g.columns(g.dots, g.ends, g.last)
	g.lastGroup()
}

// groupSteps sets a register to the number of steps of a group.
func (g *fewAMX) groupSteps(register string) {
	g.p("MOVQ AMXGroups_GroupQuads(DI), %s", register)
	g.p("SHRQ $4, %s", register)
}

// last multiplies the columns that fill no step.
func (g *fewAMX) last(none string) {
	for h := range g.halves {
		if h > 0 {
			g.group()
			g.p("MOVQ AMX_LastQuads(DI), CX")
			g.p("ANDQ $%d, CX", quadsAMX-1)
			g.p("CMPQ CX, $%d", quadsAMX/2)
			g.p("JLE %s", none) // the other half has no columns
		}
		for _, f := range g.part(h, roomQuad) {
			f()
		}
	}
	g.ends()
}

// dots are the instructions that multiply a step, in order.
func (g *fewAMX) dots() (list []func()) {
	between := roomQuad
	if g.direct {
		between = g.quad
	}
	for h := range g.halves {
		if h > 0 {
			list = append(list, g.group)
		}
		list = append(list, g.part(h, between)...)
	}
	return append(list, func() { g.p("ADDQ $64, R10") })
}

// part are the instructions that multiply a half of a step, or all of it; groups of four columns are that many bytes
// apart.
func (g *fewAMX) part(h, between int) []func() {
	list := []func(){func() { g.tileLoadFar(tokensAMX, 32*h, "R10", "DX") }}
	for j := range 2 {
		list = append(list, func() { g.tileLoad(weightsAMX+j, 64*j+h*quadsAMX/2*between, "BX", "R8") },
			func() { g.tileDot(j, tokensAMX, weightsAMX+j) })
	}
	return list
}

// ends ends the group where a step does.
func (g *fewAMX) ends() {
	if g.halves > 1 {
		g.group()
		return
	}
	inside := g.newLabel("inside")
	g.p("DECQ R12")
	g.p("JNZ %s", inside)
	g.groupSteps("R12")
	g.group()
	g.at(inside)
}

// group ends a group: scales the sums of the one before, and stores those of this one.
func (g *fewAMX) group() {
	begun := g.newLabel("begun")
	g.p("CMPQ AMX_Begun(DI), $0")
	g.p("MOVQ $1, AMX_Begun(DI)")
	g.p("JEQ %s", begun)
	g.p("CALL scaleFew<>(SB)")
	g.at(begun)
	g.p("MOVQ $64, AX")
	for i := range 2 {
		g.tileStore(i, i*fewSums, "R9", "AX")
		g.tileZero(i)
	}
}

// lastGroup ends the last group of a row: one that is incomplete, or the one whose sums are stored.
func (g *fewAMX) lastGroup() {
	whole := g.newLabel("whole")
	if g.halves == 1 {
		g.groupSteps("AX")
		g.p("CMPQ R12, AX")
		g.p("JEQ %s", whole)
		g.group()
		g.at(whole)
	}
	g.p("CALL scaleFew<>(SB)")
}

// scaleFew emits a function of its own, which adds the scaled sums of a group to the results.
func (g groupsAMX) scaleFew() {
	fmt.Fprint(&g.body, "\n// scaleFew adds the scaled sums of the group at R13 and R14 to Z0 to Z15.\n"+
		"TEXT scaleFew<>(SB), NOSPLIT, $0-0\n")
	exact, done, same := g.newLabel("exact"), g.newLabel("scaled"), g.newLabel("same")
	g.p("MOVQ AMXGroups_Zeros(DI), AX")
	g.p("TESTQ AX, AX")
	g.p("JZ %s", exact)
	g.p("ADDQ AMXGroups_Unit(DI), AX")
	g.p("VPMOVSXBD (AX), Z%d", fewZeroZ)
	g.p("ADDQ AMXGroups_SecondRow(DI), AX")
	g.p("VPMOVSXBD (AX), Z%d", fewZeroZ+1)
	g.bothScales(true, done)
	g.at(exact)
	g.bothScales(false, done)
	g.at(done)
	g.p("ADDQ AMXGroups_LdFactors(DI), R13")
	g.p("DECQ AMXGroups_UnitLeft(DI)")
	g.p("JNZ %s", same)
	g.p("MOVQ AMXGroups_UnitGroups(DI), AX")
	g.p("MOVQ AX, AMXGroups_UnitLeft(DI)")
	g.p("ADDQ AMXGroups_UnitBytes(DI), R14")
	g.p("MOVQ AMXGroups_UnitRows(DI), AX")
	g.p("ADDQ AX, AMXGroups_Unit(DI)")
	g.at(same)
	g.p("RET")
}

// bothScales emits the scaling with scales of weights and without, which ends at a label.
func (g groupsAMX) bothScales(less bool, done string) {
	plain := g.newLabel("plain")
	g.p("CMPQ AMXGroups_Scales(DI), $0")
	g.p("JEQ %s", plain)
	g.p("MOVQ AMXGroups_SecondScale(DI), AX")
	g.eachScale(func(load string) {
		g.p("%s (R14), Z%d", load, fewScaleZ)
		g.p("%s (R14)(AX*1), Z%d", load, fewScaleZ+1)
	})
	g.p("PREFETCHT0 %d(R14)", scaleAhead)
	g.p("PREFETCHT0 %d(R14)(AX*1)", scaleAhead)
	g.scaleTokens(true, less, done)
	g.at(plain)
	g.scaleTokens(false, less, done)
}

// scaleTokens scales the sums of the tokens that there are.
func (g groupsAMX) scaleTokens(scaled, less bool, done string) {
	g.p("MOVQ AMX_Tokens(DI), AX")
	for t := range fewTokens {
		for r := range 2 {
			z, sums := fewSumZ+r, fmt.Sprintf("%d(R9)", r*fewSums+64*t)
			term := func(name string) string {
				return fmt.Sprintf("(TokenGroup_%s+TokenGroup__size*%d)(R13)", name, t)
			}
			if less {
				g.p("VPMULLD.BCST %s, Z%d, Z%d", term("Sum"), fewZeroZ+r, weightZ)
				g.p("VMOVDQU32 %s, Z%d", sums, z)
				g.p("VPSUBD Z%d, Z%d, Z%d", weightZ, z, z)
				sums = fmt.Sprintf("Z%d", z)
			}
			g.p("VCVTDQ2PS %s, Z%d", sums, z)
			if scaled {
				g.p("VMULPS.BCST %s, Z%d, Z%d", term("Scale"), z, z)
				g.p("VFMADD231PS Z%d, Z%d, Z%d", fewScaleZ+r, z, 2*t+r)
			} else {
				g.p("VFMADD231PS.BCST %s, Z%d, Z%d", term("Scale"), z, 2*t+r)
			}
		}
		g.p("DECQ AX")
		g.p("JZ %s", done)
	}
}

// results stores the results of a panel.
func (g *fewAMX) results() {
	done := g.newLabel("stored")
	g.p("MOVQ AMX_PanelY(DI), SI")
	g.p("MOVQ AMX_LdY(DI), R8")
	g.p("MOVQ AMX_TileY(DI), AX")
	g.p("MOVQ AMX_Tokens(DI), CX")
	for t := range fewTokens {
		g.p("VMOVUPS Z%d, (SI)", 2*t)
		g.p("VMOVUPS Z%d, (SI)(AX*1)", 2*t+1)
		if t < fewTokens-1 {
			g.p("DECQ CX")
			g.p("JZ %s", done)
			g.p("ADDQ R8, SI")
		}
	}
	g.at(done)
}
