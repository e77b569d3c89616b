package main

import "fmt"

// groups86 emits the loop over the groups of columns of a panel with the given number of rows, around a body that
// multiplies one group: weights are read once, in memory order, and the setup of a call is paid once for all groups.
//
// General registers: R15 remaining groups, R14 bytes of a group of activations, DX the results. The body starts with
// the steps of the group in CX, and leaves DI and SI at its end.
func groups86(f *file, rows int, body func()) {
	next, same := f.newLabel("group"), f.newLabel("unit")
	f.p("MOVQ Tile_Groups(AX), R15")
	f.p("MOVQ Tile_Tokens(AX), R14")
	f.p("MOVQ Tile_Y(AX), DX")
	f.p("MOVQ Tile_PanelUnit(AX), BX")
	f.p("MOVQ BX, Tile_Unit(AX)")
	f.p("ADDQ Tile_LdUnits(AX), BX")
	f.p("MOVQ BX, Tile_PanelUnit(AX)")
	f.p("MOVQ Tile_UnitGroups(AX), BX")
	f.p("MOVQ BX, Tile_UnitLeft(AX)")
	f.at(next)
	f.p("MOVQ Tile_Steps(AX), CX")
	f.p("DECQ R15")
	f.p("CMOVQEQ Tile_LastSteps(AX), CX")
	body()
	f.p("ADDQ Tile_LdTokens(AX), R14")
	f.p("ADDQ Tile_LdGroup(AX), DX")
	f.p("DECQ Tile_UnitLeft(AX)")
	f.p("JNZ %s", same)
	f.p("ADDQ $%d, Tile_Unit(AX)", rows)
	f.p("MOVQ Tile_UnitGroups(AX), BX")
	f.p("MOVQ BX, Tile_UnitLeft(AX)")
	f.at(same)
	f.p("TESTQ R15, R15")
	f.p("JNZ %s", next)
}

// outcome says how a sum is processed, and the base register of its operand.
type outcome int

const (
	lessZero      outcome = iota // subtract zero·Σx; zero points are at CX, register factor holds Σx
	asResult                     // store it as the result, at BX
	byActivations                // times the scale in register factor, added to the result at BX
	byBoth                       // times the scale in register factor, then the weight scale at CX, also added
	byWeights                    // times the weight scale at CX, also added
	byBothHalf                   // byBoth with a weight scale of 16 bits
	byWeightsHalf                // byWeights with a weight scale of 16 bits
)

// size is the number of bytes of the operand at CX, 0 for none.
func (o outcome) size() int {
	return map[outcome]int{lessZero: 1, byBoth: 4, byWeights: 4, byBothHalf: 2, byWeightsHalf: 2}[o]
}

// scalesWeights reports whether weights have scales.
func (o outcome) scalesWeights() bool { return o >= byBoth }

// scalesBoth reports whether weights and activations have scales.
func (o outcome) scalesBoth() bool { return o == byBoth || o == byBothHalf }

// results86 emits the processing of the sums of a group (N15). store emits it for a token; register number factor, of
// the given kind, then holds the operand of the outcome. alone says that sums are multiplied by weight scales alone
// where tokens have one scale. Functions on 512-bit registers take weight scales of 16 bits, too.
func results86(f *file, tokens int, kind string, factor int, alone bool, store func(t int, o outcome)) {
	exact, sums, halves := f.newLabel("exact"), f.newLabel("sums"), f.newLabel("halves")
	activations, done := f.newLabel("activations"), f.newLabel("stored")
	each := func(o outcome, field string) {
		for t := range tokens {
			if field != "" {
				f.p("VPBROADCASTD (TokenGroup_%s+%d*TokenGroup__size)(R14), %s%d", field, t, kind, factor)
			}
			store(t, o)
			if o != lessZero && t < tokens-1 {
				f.p("ADDQ R9, BX")
			}
		}
	}
	weighted := func(both, only outcome) {
		f.p("MOVQ Tile_Unit(AX), BX")
		f.p("LEAQ (CX)(BX*%d), CX", both.size())
		f.p("MOVQ DX, BX")
		if alone {
			more := f.newLabel("more")
			f.p("CMPQ Tile_TokenScales(AX), $0")
			f.p("JNE %s", more)
			each(only, "")
			f.p("JMP %s", done)
			f.at(more)
		}
		each(both, "Scale")
		f.p("JMP %s", done)
	}
	f.p("MOVQ Tile_Zeros(AX), CX")
	f.p("TESTQ CX, CX")
	f.p("JZ %s", exact)
	f.p("ADDQ Tile_Unit(AX), CX")
	each(lessZero, "Sum")
	f.at(exact)
	f.p("MOVQ DX, BX")
	f.p("CMPQ Tile_Scaled(AX), $0")
	f.p("JEQ %s", sums)
	f.p("MOVQ Tile_Scales(AX), CX")
	f.p("TESTQ CX, CX")
	f.p("JZ %s", activations)
	if kind == "Z" {
		f.p("CMPQ Tile_Halves(AX), $0")
		f.p("JNE %s", halves)
	}
	weighted(byBoth, byWeights)
	if kind == "Z" {
		f.at(halves)
		weighted(byBothHalf, byWeightsHalf)
	}
	f.at(activations)
	each(byActivations, "Scale")
	f.p("JMP %s", done)
	f.at(sums)
	each(asResult, "")
	f.at(done)
}

// result86 emits the processing of a register of sums, whose results are off bytes after the results of the first row.
// Register number free is unused.
func result86(f *file, register string, free, factor, off int, o outcome) {
	kind := register[:1]
	other, by := fmt.Sprint(kind, free), fmt.Sprint(kind, factor)
	unit86(f, other, off, "(CX)", o)
	add86(f, register, other, by, off, o)
}

// unit86 loads the weight operand of the outcome for a register of sums.
func unit86(f *file, register string, off int, address string, o outcome) {
	switch o {
	case lessZero:
		f.p("VPMOVSXBD %d%s, %s", off/4, address, register)
	case byBoth, byWeights:
		f.p("VMOVUPS %d%s, %s", off, address, register)
	case byBothHalf, byWeightsHalf:
		f.p("VCVTPH2PS %d%s, %s", off/2, address, register)
	}
}

// add86 is result86 once the operand is in register other.
func add86(f *file, register, other, by string, off int, o outcome) {
	switch o {
	case lessZero:
		f.p("VPMULLD %s, %s, %s", by, other, other)
		f.p("VPSUBD %s, %s, %s", other, register, register)
		return
	case byActivations:
		f.p("VCVTDQ2PS %s, %s", register, register)
		f.p("VFMADD213PS %d(BX), %s, %s", off, by, register)
	case byBoth, byBothHalf:
		f.p("VCVTDQ2PS %s, %s", register, register)
		f.p("VMULPS %s, %s, %s", by, register, register)
		f.p("VFMADD213PS %d(BX), %s, %s", off, other, register)
	}
	f.p("VMOVUPS %s, %d(BX)", register, off)
}
