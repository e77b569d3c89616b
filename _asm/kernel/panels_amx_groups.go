package main

import "fmt"

// Products of panels with group-wise scales on the tile registers of AMX. While the tiles of some columns multiply the
// tokens of one or two tiles, the sums of the columns before are converted, scaled and added to results (N15), which
// wait in memory from one group of the same tokens to the next.
//
// The function processes 32 rows of each panel. It unpacks the weights of 256 columns (tilesAMX.take), multiplies all
// tokens by them, pass by pass, and so on along the columns; then it copies the results. A pass has steps of up to 64
// columns, a step two or four TDPBSSD. A tile of sums is stored just before it is zeroed again, so that the store does
// not wait for its TDPBSSD.
//
// A tile load waits for a store to the same place of any page that has not left the core. So nothing is counted in
// memory within a pass, tokens lie in tiles (Activations), and stores have the other half of a page than the loads that
// follow them: activations and unpacked weights of even steps lie in lower halves, those of odd ones in upper halves.
//
// General registers: DI arguments, SI activations, BX weights, R8 bytes between their groups of four columns, R10
// sums that are scaled, R11 results, R14 scales of the tokens, R9 bytes between scales of groups, R15 where sums are
// stored, CX in a pass 64, the bytes between rows of a tile. AX, R12 and R13 are free. Masks K3 and on say which
// groups of the pass there are.

const (
	tileBytes   = 1024
	halfPage    = 2048
	tokenBytes  = 128 // results of a token
	presentMask = 3   // of the first group
	scaleZ      = 16
)

// pass is what is done between two changes of what is scaled: one or two tiles of tokens times groups of columns.
type pass struct{ group, groups, steps, tiles int }

// passes lists the kinds of passes, in the order of AMXGroups.Kind.
func passes() (list []pass) {
	for _, p := range []pass{{group: 32, groups: 4, steps: 4}, {group: 64, groups: 2, steps: 2},
		{group: 128, groups: 1, steps: 2}, {group: 256, groups: 1, steps: 4}} {
		for p.tiles = 1; p.tiles <= 2; p.tiles++ {
			list = append(list, p)
		}
	}
	return list
}

// lower reports whether stores at a place, the number of TDPBSSD before it, have the lower half of a page. The loads
// of a step begin before its first TDPBSSD; what is stored in the half of a step before that has not left the core
// then.
func (p pass) lower(place int) bool {
	perHalf, halfStep := 2*p.tiles, p.tiles
	if p.group < 64 {
		perHalf *= 2 // two steps of 32 columns
	}
	return (place+halfStep)/perHalf%2 == 1
}

// tokens is the number of tokens that are scaled behind a TDPBSSD. Those of a pass begin in the second step of the
// next one, when all sums are stored, and end in the first step of the one after.
func (p pass) tokens() int { return 8 / p.steps }

// first is the first token that is scaled in a step.
func (p pass) first(step int) int { return (step + p.steps - 1) % p.steps * 2 * p.tiles * p.tokens() }

// resultsAt lists the places of the results of the tokens.
func (p pass) resultsAt() []int {
	at, next := make([]int, 16*p.tiles), [2]int{halfPage, 0}
	for t := range at {
		half, perStep := 0, 2*p.tiles
		if p.lower((t/p.tokens() + perStep) % (perStep * p.steps)) {
			half = 1
		}
		at[t], next[half] = next[half], next[half]+tokenBytes
	}
	return at
}

// sumsAt lists the places of the tiles of sums of each group.
func (p pass) sumsAt() (at [4][4]int) {
	next := [2]int{halfPage, 0}
	for g := range p.groups {
		for tile := range 2 * p.tiles {
			half := 0
			if p.lower((g+1)%p.groups*2*p.tiles + tile) {
				half = 1
			}
			at[g][tile] = next[half]
			if next[half] += tileBytes; next[half]%halfPage == 0 {
				next[half] += halfPage
			}
		}
	}
	return at
}

// groupsAMX emits the function.
type groupsAMX struct{ *file }

func groupsFile() *file {
	f := newFile("panels_amx_groups", "amd64")
	for i, o := range openersAMX() {
		f.constant("Open"+o.name, "is the AMXGroups.Opener of weights that are "+o.what, i)
	}
	f.declare("GroupsAMX", "multiplies 32 rows of each panel on tile registers and scales the sums of groups.",
		"t *AMXGroups", 1)
	groupsAMX{f}.function()
	groupsAMX{f}.few()
	groupsAMX{f}.scaleFew()
	return f
}

// set copies fields.
func (g groupsAMX) set(to, from string) {
	g.p("MOVQ %s(DI), AX", from)
	g.p("MOVQ AX, %s(DI)", to)
}

// advance adds a field to others.
func (g groupsAMX) advance(by string, fields ...string) {
	g.p("MOVQ %s(DI), AX", by)
	for _, f := range fields {
		g.p("ADDQ AX, %s(DI)", f)
	}
}

func (g groupsAMX) function() {
	panel, chunk := g.newLabel("panel"), g.newLabel("chunk")
	g.beginTiles()
	g.eachOpener(g.loadTables)
	g.set("AMX_PanelW", "AMX_W")
	g.set("AMX_PanelY", "AMX_Y")
	g.p("MOVQ $0, AMXGroups_PanelUnit(DI)")
	g.at(panel)
	g.set("AMX_Packed", "AMX_PanelW")
	g.p("ADDQ AMX_PanelBytes(DI), AX")
	g.p("MOVQ AX, AMX_Ahead(DI)")
	g.set("AMXGroups_AheadY", "AMX_PanelY")
	g.set("AMXGroups_ColumnX", "AMX_X")
	g.set("AMX_QuadsLeft", "AMX_Quads")
	g.set("AMXGroups_ChunkFactors", "AMXGroups_Factors")
	g.set("AMXGroups_Unit", "AMXGroups_PanelUnit")
	g.set("AMXGroups_UnitLeft", "AMXGroups_UnitGroups")
	g.nothing()
	g.at(chunk)
	g.chunk()
	g.advance("AMXGroups_ChunkX", "AMXGroups_ColumnX")
	g.advance("AMXGroups_ChunkLdFactors", "AMXGroups_ChunkFactors")
	g.p("CMPQ AMX_QuadsLeft(DI), $0")
	g.p("JNE %s", chunk)
	g.rest()
	g.copy()
	g.advance("AMX_PanelBytes", "AMX_PanelW")
	g.advance("AMX_LdPanel", "AMX_PanelY")
	g.advance("AMXGroups_LdUnits", "AMXGroups_PanelUnit")
	g.p("DECQ AMX_Panels(DI)")
	g.p("JNZ %s", panel)
	g.endTiles()
}

// cases emits code for each value of a field from 0 on.
func (g groupsAMX) cases(field string, n int, emit func(i int)) {
	done := g.newLabel("chosen")
	for i := range n {
		next := g.newLabel("case")
		if i < n-1 {
			g.p("CMPQ %s(DI), $%d", field, i)
			g.p("JNE %s", next)
		}
		emit(i)
		if i < n-1 {
			g.p("JMP %s", done)
		}
		g.at(next)
	}
	g.at(done)
}

// eachOpener emits code for the opener of the call.
func (g groupsAMX) eachOpener(emit func(o opener)) {
	all := openersAMX()
	g.cases("AMXGroups_Opener", len(all), func(i int) { emit(all[i]) })
}

// eachKind emits code for the kind of pass of the call.
func (g groupsAMX) eachKind(emit func(p pass)) {
	all := passes()
	g.cases("AMXGroups_Kind", len(all), func(i int) { emit(all[i]) })
}

// eachPass emits code for the kind of pass of the call, with or without scales of the weights.
func (g groupsAMX) eachPass(emit func(p pass, scaled bool)) {
	plain, done := g.newLabel("plain"), g.newLabel("passed")
	g.p("CMPQ AMXGroups_Scales(DI), $0")
	g.p("JEQ %s", plain)
	for _, scaled := range []bool{true, false} {
		g.eachKind(func(p pass) { emit(p, scaled) })
		if scaled {
			g.p("JMP %s", done)
			g.at(plain)
		}
	}
	g.at(done)
}

// nothing makes what is scaled beside the first pass of a panel, and the first step of the second, results that are not
// used.
func (g groupsAMX) nothing() {
	g.set("AMXGroups_NextFactors", "AMXGroups_Factors")
	g.set("AMXGroups_NextT", "AMXGroups_Unused")
	g.zeroResults()
	for i := range 4 { // addresses that exist, so that a load under an empty mask is no fault to be suppressed
		g.p("MOVQ $0, (AMXGroups_NextPresent+%d)(DI)", 8*i)
		g.set(fmt.Sprintf("(AMXGroups_NextScales+%d)", 8*i), "AMXGroups_Scales")
	}
	g.p("MOVQ AMX_Sums(DI), R10")
	g.p("LEAQ %d(R10), R15", 4*4*tileBytes)
	g.next()
}

// zeroResults sets the results of all pairs of tokens to zero.
func (g groupsAMX) zeroResults() {
	line := g.newLabel("zeroed")
	g.p("VPXORQ Z0, Z0, Z0")
	g.p("MOVQ AMXGroups_T(DI), R11")
	g.p("MOVQ AMX_Tokens(DI), AX")
	g.p("ADDQ $31, AX")
	g.p("ANDQ $~31, AX")
	g.at(line)
	g.p("VMOVUPS Z0, (R11)")
	g.p("VMOVUPS Z0, 64(R11)")
	g.p("ADDQ $%d, R11", tokenBytes)
	g.p("DECQ AX")
	g.p("JNZ %s", line)
}

// next makes what is scaled next what is scaled.
func (g groupsAMX) next() {
	g.p("MOVQ AMXGroups_NextFactors(DI), R14")
	g.p("MOVQ AMXGroups_NextT(DI), R11")
	for i := range 4 {
		g.p("KMOVW (AMXGroups_NextPresent+%d)(DI), K%d", 8*i, presentMask+i)
		g.p("MOVQ (AMXGroups_NextScales+%d)(DI), AX", 8*i)
		g.p("MOVQ AX, (AMXGroups_ScalesAt+%d)(DI)", 8*i)
	}
	g.scales()
}

// scales loads the scales of the weights of what is scaled.
func (g groupsAMX) scales() {
	plain := g.newLabel("plain")
	g.p("CMPQ AMXGroups_Scales(DI), $0")
	g.p("JEQ %s", plain)
	g.p("MOVQ AMXGroups_SecondScale(DI), CX")
	g.eachScale(func(load string) {
		for i := range 4 {
			g.p("MOVQ (AMXGroups_ScalesAt+%d)(DI), AX", 8*i)
			for r, at := range []string{"(AX)", "(AX)(CX*1)"} {
				g.p("%s.Z %s, K%d, Z%d", load, at, presentMask+i, scaleZ+2*i+r)
			}
		}
	})
	g.at(plain)
}

// eachScale emits code for scales of weights of 16 and of 32 bits; load loads those of a register.
func (f *file) eachScale(emit func(load string)) {
	floats, loaded := f.newLabel("floats"), f.newLabel("loaded")
	f.p("CMPQ AMXGroups_ScaleBytes(DI), $2")
	f.p("JNE %s", floats)
	emit("VCVTPH2PS")
	f.p("JMP %s", loaded)
	f.at(floats)
	emit("VMOVUPS")
	f.at(loaded)
}

// chunk multiplies all tokens by the next columns.
func (g groupsAMX) chunk() {
	pair := g.newLabel("pair")
	g.units()
	g.p("MOVQ AMX_Packed(DI), SI")
	g.eachOpener(func(o opener) { (&tilesAMX{g.file, o, true}).take() })
	g.p("MOVQ R8, AMXGroups_LdB(DI)")
	g.zeros()
	g.scales()
	g.p("MOVQ AMXGroups_LdFactors(DI), R9")
	g.set("AMX_TokensLeft", "AMX_Tokens")
	g.set("AMXGroups_TokenX", "AMXGroups_ColumnX")
	g.set("AMXGroups_TokenFactors", "AMXGroups_ChunkFactors")
	g.set("AMXGroups_TokenT", "AMXGroups_T")
	g.at(pair)
	g.pair()
	g.advance("AMXGroups_LdPair", "AMXGroups_TokenX")
	g.p("ADDQ $128, AMXGroups_TokenFactors(DI)")
	g.p("ADDQ $%d, AMXGroups_TokenT(DI)", 32*tokenBytes)
	g.p("SUBQ $32, AMX_TokensLeft(DI)")
	g.p("JGT %s", pair)
}

// units finds the scales and zero points of the weights of the groups.
func (g groupsAMX) units() {
	unit := g.newLabel("unit")
	g.p("MOVQ AMXGroups_Unit(DI), AX")
	g.p("MOVQ AMXGroups_UnitLeft(DI), CX")
	g.p("LEAQ AMXGroups_UnitAt(DI), BX")
	g.p("MOVQ AMXGroups_Together(DI), DX")
	g.p("MOVQ AMXGroups_UnitRows(DI), R13")
	g.p("IMULQ DX, R13")
	g.p("IMULQ AMXGroups_ScaleBytes(DI), R13")
	g.p("ADDQ AMXGroups_Scales(DI), R13")
	g.p("MOVQ AMXGroups_SecondScale(DI), R8")
	g.at(unit)
	same := g.newLabel("same")
	g.p("MOVQ AX, (BX)")
	g.p("MOVQ AX, R9")
	g.p("IMULQ AMXGroups_ScaleBytes(DI), R9")
	g.p("ADDQ R13, R9")
	g.p("PREFETCHT0 (R9)")
	g.p("PREFETCHT0 (R9)(R8*1)")
	g.p("ADDQ $8, BX")
	g.p("DECQ CX")
	g.p("JNZ %s", same)
	g.p("ADDQ AMXGroups_UnitRows(DI), AX")
	g.p("MOVQ AMXGroups_UnitGroups(DI), CX")
	g.at(same)
	g.p("DECQ DX")
	g.p("JNZ %s", unit)
	g.p("MOVQ AX, AMXGroups_Unit(DI)")
	g.p("MOVQ CX, AMXGroups_UnitLeft(DI)")
}

// zeros subtracts the zero points of the groups from the weights in the buffer.
func (g groupsAMX) zeros() {
	exact, group, quad := g.newLabel("exact"), g.newLabel("zeros"), g.newLabel("zero")
	g.p("MOVQ AMXGroups_Zeros(DI), SI")
	g.p("TESTQ SI, SI")
	g.p("JZ %s", exact)
	g.p("MOVL $0x01010101, AX")
	g.p("VPBROADCASTD AX, Z18")
	g.p("MOVQ AMX_B(DI), BX")
	g.p("LEAQ AMXGroups_UnitAt(DI), R9")
	g.p("MOVQ AMX_Columns(DI), DX")
	g.p("SHRQ $2, DX")
	g.at(group)
	g.p("MOVQ AMX_TileY(DI), CX")
	g.p("SHRQ $2, CX")
	g.p("ADDQ SI, CX")
	g.p("MOVQ (R9), AX")
	g.p("ADDQ $8, R9")
	g.p("VPMOVZXBD (SI)(AX*1), Z16")
	g.p("VPMOVZXBD (CX)(AX*1), Z17")
	for _, z := range []int{16, 17} {
		g.p("VPMULLD Z18, Z%d, Z%d", z, z)
	}
	g.p("MOVQ AMXGroups_GroupQuads(DI), CX")
	g.p("CMPQ DX, CX")
	g.p("CMOVQLT DX, CX")
	g.p("SUBQ CX, DX")
	g.at(quad)
	for i, z := range []int{16, 17} {
		g.p("VMOVDQU64 %d(BX), Z%d", 64*i, 19+i)
		g.p("VPSUBB Z%d, Z%d, Z%d", z, 19+i, 19+i)
		g.p("VMOVDQU64 Z%d, %d(BX)", 19+i, 64*i)
	}
	g.p("ADDQ $%d, BX", roomQuad)
	g.p("DECQ CX")
	g.p("JNZ %s", quad)
	g.p("TESTQ DX, DX")
	g.p("JNZ %s", group)
	g.at(exact)
}

// pair multiplies 32 tokens by the columns in the buffer.
func (g groupsAMX) pair() {
	again := g.newLabel("pass")
	g.p("MOVQ AMXGroups_TokenX(DI), SI")
	g.p("MOVQ AMX_B(DI), BX")
	g.p("MOVQ AMXGroups_LdB(DI), R8")
	g.set("AMXGroups_PassFactors", "AMXGroups_TokenFactors")
	g.p("LEAQ AMXGroups_UnitAt(DI), AX")
	g.p("MOVQ AX, AMXGroups_PassUnits(DI)")
	g.p("MOVQ AMX_Columns(DI), AX")
	g.p("SHRQ $2, AX")
	g.p("MOVQ AX, AMXGroups_PassQuads(DI)")
	g.at(again)
	g.prefetch()
	g.p("MOVQ $64, CX")
	g.eachPass(g.pass)
	g.follow()
	g.p("JGT %s", again)
}

// prefetch brings in weights of the next columns, and lines of the results of the panel, which are to be written.
func (g groupsAMX) prefetch() {
	line, token := g.newLabel("line"), g.newLabel("token")
	g.p("MOVQ AMX_Ahead(DI), AX")
	g.p("MOVQ AMX_Lines(DI), CX")
	g.p("MOVQ AMX_Streams(DI), R12")
	g.p("MOVQ (AMX_Streams+16)(DI), R13")
	g.at(line)
	g.p("PREFETCHT1 (AX)")
	g.p("PREFETCHT1 (AX)(R12*1)")
	g.p("PREFETCHT1 (AX)(R12*2)")
	g.p("PREFETCHT1 (AX)(R13*1)")
	g.p("ADDQ $64, AX")
	g.p("DECQ CX")
	g.p("JNZ %s", line)
	g.p("MOVQ AX, AMX_Ahead(DI)")
	g.p("MOVQ AMXGroups_AheadY(DI), AX")
	g.p("MOVQ AMXGroups_TokensY(DI), CX")
	g.p("MOVQ AMX_TileY(DI), R13")
	g.at(token)
	g.p("PREFETCHT0 (AX)")
	g.p("PREFETCHT0 (AX)(R13*1)")
	g.p("ADDQ AMX_LdY(DI), AX")
	g.p("DECQ CX")
	g.p("JNZ %s", token)
	g.p("MOVQ AX, AMXGroups_AheadY(DI)")
}

// follow makes the pass whose sums are in the tiles the one that is scaled from the second step of the next one on, and
// goes to that. It ends with the comparison of the columns left in the buffer to zero.
func (g groupsAMX) follow() {
	plain, one := g.newLabel("plain"), g.newLabel("one")
	g.set("AMXGroups_NextFactors", "AMXGroups_PassFactors")
	g.set("AMXGroups_NextT", "AMXGroups_TokenT")
	g.advance("AMXGroups_LdPass", "AMXGroups_PassFactors")
	g.p("MOVQ AMXGroups_PassQuads(DI), AX")
	g.p("ADDQ AMX_QuadsLeft(DI), AX")
	truth := func(jump, to string) {
		g.p("SET%s CX", jump)
		g.p("NEGQ CX")
		g.p("MOVQ CX, %s(DI)", to)
	}
	g.p("MOVQ $-1, AMXGroups_NextPresent(DI)")
	g.p("CMPQ AMXGroups_Kind(DI), $3") // passes with several groups
	g.p("JGT %s", one)
	for i := range 3 {
		g.p("SUBQ AMXGroups_GroupQuads(DI), AX")
		g.p("XORL CX, CX")
		g.p("TESTQ AX, AX")
		truth("GT", fmt.Sprintf("(AMXGroups_NextPresent+%d)", 8*(i+1)))
	}
	g.at(one)
	g.p("MOVQ AMXGroups_Scales(DI), AX")
	g.p("TESTQ AX, AX")
	g.p("JZ %s", plain)
	g.p("MOVQ AMXGroups_PassUnits(DI), R13")
	for i := range 4 {
		g.p("MOVQ %d(R13), CX", 8*i)
		g.p("IMULQ AMXGroups_ScaleBytes(DI), CX")
		g.p("ADDQ AX, CX")
		g.p("MOVQ CX, (AMXGroups_NextScales+%d)(DI)", 8*i)
	}
	g.at(plain)
	g.advance("AMXGroups_PassUnitBytes", "AMXGroups_PassUnits")
	g.p("MOVQ AMXGroups_TakenQuads(DI), AX")
	g.p("SUBQ AX, AMXGroups_PassQuads(DI)")
}

// pass adds the products of a pass, and scales what waits for it.
func (g groupsAMX) pass(p pass, scaled bool) {
	sums, perGroup := p.sumsAt(), p.steps/p.groups
	for s := range p.steps {
		if s == 1 {
			g.p("XCHGQ R10, R15")
			g.next()
			g.p("MOVQ $64, CX")
		}
		for tile := range 2 * p.tiles {
			if tile%2 == 0 {
				g.tileLoadFar(tokensAMX+tile/2, 512*tile, "SI", "CX")
			}
			if tile < 2 {
				g.tileLoad(weightsAMX+tile, 64*tile, "BX", "R8")
			}
			if s%perGroup == 0 {
				g.tileStore(tile, sums[(s/perGroup+p.groups-1)%p.groups][tile], "R15", "CX")
				g.tileZero(tile)
			}
			g.tileDot(tile, tokensAMX+tile/2, weightsAMX+tile%2)
			for t := range p.tokens() {
				g.scale(p, p.first(s)+p.tokens()*tile+t, scaled)
			}
		}
		switch {
		case p.group >= 64:
			g.p("ADDQ $%d, SI", halfPage)
		case s%2 == 0:
			g.p("ADDQ $32, SI")
		default:
			g.p("ADDQ $%d, SI", halfPage-32)
		}
		for range min(p.group, 64) / 32 {
			g.p("LEAQ (BX)(R8*8), BX")
		}
	}
}

// scale scales the sums of token t of those that wait.
func (g groupsAMX) scale(p pass, t int, scaled bool) {
	z, at, sums := t%2*8, p.resultsAt()[t], p.sumsAt()
	for r := range 2 {
		g.p("VMOVUPS %d(R11), Z%d", at+64*r, z+r)
	}
	if p.groups > 2 {
		g.p("LEAQ (R14)(R9*2), AX")
	}
	for i := range p.groups {
		terms := []string{"(R14)", "(R14)(R9*1)", "(AX)", "(AX)(R9*1)"}[i]
		factor := z + 2 + 3*(i%2)
		g.p("VBROADCASTSS %d%s, Z%d", 4*t, terms, factor)
		for r := range 2 {
			sum, weights, mask := factor+1+r, factor, ""
			g.p("VCVTDQ2PS %d(R10), Z%d", sums[i][t/16*2+r]+t%16*64, sum)
			if scaled {
				g.p("VMULPS Z%d, Z%d, Z%d", factor, sum, sum)
				weights = scaleZ + 2*i + r
			}
			if i > 0 {
				mask = fmt.Sprintf("K%d, ", presentMask+i)
			}
			g.p("VFMADD231PS Z%d, Z%d, %sZ%d", weights, sum, mask, z+r)
		}
	}
	for r := range 2 {
		g.p("VMOVUPS Z%d, %d(R11)", z+r, at+64*r)
	}
}

// rest scales the last two passes of a panel.
func (g groupsAMX) rest() {
	g.p("MOVQ $64, CX")
	g.eachKind(func(p pass) {
		for tile := range 2 * p.tiles {
			g.tileStore(tile, p.sumsAt()[p.groups-1][tile], "R15", "CX")
		}
	})
	g.eachPass(func(p pass, scaled bool) {
		for t := p.first(0); t < 16*p.tiles; t++ {
			g.scale(p, t, scaled)
		}
		g.p("MOVQ R15, R10")
		g.next()
		for t := range 16 * p.tiles {
			g.scale(p, t, scaled)
		}
	})
}

// copy copies the results of a panel.
func (g groupsAMX) copy() {
	pair, done := g.newLabel("results"), g.newLabel("copied")
	g.p("MOVQ AMX_PanelY(DI), R12")
	g.p("MOVQ AMXGroups_T(DI), R11")
	g.p("MOVQ AMX_LdY(DI), AX")
	g.p("MOVQ AMX_TileY(DI), CX")
	g.p("MOVQ AMX_Tokens(DI), BX")
	g.at(pair)
	g.eachKind(func(p pass) {
		for t, at := range p.resultsAt() {
			g.p("VMOVUPS %d(R11), Z0", at)
			g.p("VMOVUPS %d(R11), Z1", at+64)
			g.p("VMOVUPS Z0, (R12)")
			g.p("VMOVUPS Z1, (R12)(CX*1)")
			if t < 16*p.tiles-1 {
				g.p("DECQ BX")
				g.p("JZ %s", done)
				g.p("ADDQ AX, R12")
			}
		}
	})
	g.p("ADDQ AX, R12")
	g.p("ADDQ $%d, R11", 32*tokenBytes)
	g.p("DECQ BX")
	g.p("JNZ %s", pair)
	g.at(done)
}
