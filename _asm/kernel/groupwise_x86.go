package main

import "fmt"

// groups86 emits the loop over the groups of columns of a panel that have sums of their own, around a body that multiplies
// one: weights are read once, in the order of memory, and setting a call up is paid once for all groups.
//
// General registers: R15 groups that follow, R14 what is added to the results, DX the results. The body begins with the
// steps of the group in CX, and leaves DI and SI at its end.
func groups86(f *file, body func()) {
	next := f.newLabel("group")
	f.p("MOVQ Tile_Groups(AX), R15")
	f.p("MOVQ Tile_Adds(AX), R14")
	f.p("MOVQ Tile_Y(AX), DX")
	f.at(next)
	f.p("MOVQ Tile_Steps(AX), CX")
	f.p("DECQ R15")
	f.p("CMOVQEQ Tile_LastSteps(AX), CX")
	body()
	f.p("ADDQ Tile_LdAdds(AX), R14")
	f.p("ADDQ Tile_LdGroup(AX), DX")
	f.p("TESTQ R15, R15")
	f.p("JNZ %s", next)
}

// results86 emits what becomes of the sums of a group, of panels of that many rows: they are results themselves, or they
// are scaled and added to results, which are floats then. store does either for a token; it finds the results at BX and
// the scales at CX.
func results86(f *file, rows, tokens int, store func(t int, scaled bool)) {
	sums, done := f.newLabel("sums"), f.newLabel("stored")
	each := func(scaled bool) {
		for t := range tokens {
			store(t, scaled)
			if t < tokens-1 {
				f.p("ADDQ R9, BX")
			}
		}
	}
	f.p("MOVQ DX, BX")
	f.p("MOVQ Tile_Scales(AX), CX")
	f.p("TESTQ CX, CX")
	f.p("JZ %s", sums)
	f.p("ADDQ $%d, Tile_Scales(AX)", 4*rows)
	each(true)
	f.p("JMP %s", done)
	f.at(sums)
	each(false)
	f.at(done)
}

// result86 stores a register of sums, or adds float(sum)·scale to results, fused (N15). Register number free holds nothing.
func result86(f *file, register string, free, off int, scaled bool) {
	if scaled {
		scale := fmt.Sprint(register[:1], free)
		f.p("VMOVUPS %d(CX), %s", off, scale)
		f.p("VCVTDQ2PS %s, %s", register, register)
		f.p("VFMADD213PS %d(BX), %s, %s", off, scale, register)
	}
	f.p("VMOVUPS %s, %d(BX)", register, off)
}
