package main

import "fmt"

// 1-bit weights in VNNI4 order on 128-bit registers, as in binarylut_avx2.go: four bits of a byte are four columns of a
// row, and index tables of the lower and the upper bytes of 16 sums. A group of four columns of 32 rows is one
// register; the lower nibbles of its bytes belong to even rows and the upper nibbles to odd rows.
//
// Lower bytes are accumulated unsigned in 16 bits, upper bytes in 8: they are −2 to 1, so 64 of them fit, and so does
// the combined sum in 16 bits (64 · 4·127 < 2¹⁵). Then accumulators are widened on the stack.
type bits128 struct {
	*file
	rows int
}

// Registers: 32 rows have six accumulators, even lower bytes 0 to 7 and 8 to 15, the same of odd rows, upper bytes of
// both.
const (
	bitsARM     = 6
	bitsARMLow  = 24 // tables
	bitsARMHigh = 25
	bitsARMV    = 26
	bitsARMN    = 27
	bitsARMSum  = 28
	bitsARMMask = 29
)

const bitsARMBlock = 31 // pairs of groups: 62 entries, and one more for a group without a partner

func bitsNEON(f *file) {
	nibbleTablesNEON(f)
	for _, rows := range []int{32, 64} {
		g := &bits128{f, rows}
		name := fmt.Sprintf("binaryLUTRows%dNEON", rows)
		panelsARM(f, name+"x1", rows, 4*rows, func() { f.p("VMOVI $15, V%d.B16", bitsARMMask) }, g.panel)
		f.table(name, fmt.Sprintf("multiply %d-row panels of bits in VNNI4 order by tables, one token at a time.",
			rows),
			[]string{name + "x1"})
	}
}

// halves is the number of groups of 32 rows of a panel.
func (g *bits128) halves() int { return g.rows / 32 }

func (g *bits128) panel() {
	next, few, loop := g.newLabel("next"), g.newLabel("few"), g.newLabel("loop")
	none, whole := g.newLabel("none"), g.newLabel("whole")
	g.zero(0, bitsARM*g.halves())
	for i := range g.rows / 4 {
		g.p("FMOVQ F0, %d(RSP)", 16+16*i)
	}
	g.at(next)
	g.p("CBZ R3, %s", none)
	g.p("MOVD $%d, R2", bitsARMBlock)
	g.p("CMP R2, R3")
	g.p("BGE %s", few)
	g.p("MOVD R3, R2")
	g.at(few)
	g.p("SUB R2, R3, R3")
	g.at(loop)
	g.prefetchARM(0)
	g.group(0)
	g.group(1)
	g.p("ADD $%d, R1, R1", g.rows)
	g.p("ADD $64, R4, R4")
	g.p("SUBS $1, R2, R2")
	g.p("BNE %s", loop)
	g.p("CBZ R3, %s", none)
	g.widen()
	g.p("B %s", next)
	g.at(none)
	g.p("MOVD Tile_TailMask(R0), R2")
	g.p("CBZ R2, %s", whole)
	g.group(0)
	g.at(whole)
	g.widen()
	for i := range g.rows / 4 {
		g.p("FMOVQ %d(RSP), F0", 16+16*i)
		g.p("FMOVQ F0, %d(R11)", 16*i)
	}
}

// group adds one of the two groups of a pair.
func (g *bits128) group(i int) {
	g.p("FMOVQ %d(R4), F%d", 16*i, bitsARMLow)
	g.p("FMOVQ %d(R4), F%d", 32+16*i, bitsARMHigh)
	for half := range g.halves() {
		sums := bitsARM * half
		g.p("FMOVQ %d(R1), F%d", g.rows/2*i+16*half, bitsARMV)
		for odd := range 2 {
			if odd == 0 {
				g.p("VAND V%d.B16, V%d.B16, V%d.B16", bitsARMMask, bitsARMV, bitsARMN)
			} else {
				g.p("VUSHR $4, V%d.B16, V%d.B16", bitsARMV, bitsARMN)
			}
			lower, upper := sums+2*odd, sums+4+odd
			g.p("VTBL V%d.B16, [V%d.B16], V%d.B16", bitsARMN, bitsARMLow, bitsARMSum)
			g.p("VUADDW V%d.B8, V%d.H8, V%d.H8", bitsARMSum, lower, lower)
			g.p("VUADDW2 V%d.B16, V%d.H8, V%d.H8", bitsARMSum, lower+1, lower+1)
			g.p("VTBL V%d.B16, [V%d.B16], V%d.B16", bitsARMN, bitsARMHigh, bitsARMSum)
			g.p("VADD V%d.B16, V%d.B16, V%d.B16", bitsARMSum, upper, upper)
		}
	}
}

// widen combines lower and upper bytes, then interleaves even and odd rows, adds them to the sums on the stack, and
// clears the accumulators.
func (g *bits128) widen() {
	for half := range g.halves() {
		sums := bitsARM * half
		for odd := range 2 {
			for part, shll := range []string{"shll, #8", "shll2, #8"} {
				lower := sums + 2*odd + part
				g.w(shll, bitsARMV, sums+4+odd)
				g.p("VADD V%d.H8, V%d.H8, V%d.H8", bitsARMV, lower, lower)
			}
		}
		for eight := range 4 {
			zip := []string{"VZIP1", "VZIP2"}[eight%2]
			even, at := sums+eight/2, 16+128*half+32*eight
			g.p("%s V%d.H8, V%d.H8, V%d.H8", zip, even+2, even, bitsARMV)
			g.p("FMOVQ %d(RSP), F%d", at, bitsARMN)
			g.p("FMOVQ %d(RSP), F%d", at+16, bitsARMSum)
			g.w("saddw", bitsARMN, bitsARMN, bitsARMV)
			g.w("saddw2", bitsARMSum, bitsARMSum, bitsARMV)
			g.p("FMOVQ F%d, %d(RSP)", bitsARMN, at)
			g.p("FMOVQ F%d, %d(RSP)", bitsARMSum, at+16)
		}
	}
	g.zero(0, bitsARM*g.halves())
}

// nibbleTablesNEON makes the tables of pairs of groups: three activations in eight lanes with the signs given by the
// bits of the lane's index, bit 0 for plus; then the fourth one added and subtracted.
func nibbleTablesNEON(f *file) {
	f.declare("BuildLUT4", "makes the tables of n pairs of groups of four activations, 64 bytes per pair.",
		"tables *byte, x *int8, n int", 3)
	const x, signs, sum, fourth, less = 0, 1, 4, 5, 6
	for j := range 3 {
		var b [16]byte
		for i := range 8 {
			b[2*i] = 1
			if i>>j&1 == 1 {
				b[2*i], b[2*i+1] = 0xFF, 0xFF
			}
		}
		f.loadConst(fmt.Sprintf("nibbleSigns%d", j), b, signs+j)
	}
	f.p("MOVD tables+0(FP), R0")
	f.p("MOVD x+8(FP), R1")
	f.p("MOVD n+16(FP), R3")
	loop := f.newLabel("pair")
	f.at(loop)
	f.p("FMOVD (R1), F%d", x)
	f.w("sxtl", x, x)
	for group := range 2 {
		f.byElement("mul", sum, signs, x, 4*group)
		f.byElement("mla", sum, signs+1, x, 4*group+1)
		f.byElement("mla", sum, signs+2, x, 4*group+2)
		f.p("VDUP V%d.H[%d], V%d.H8", x, 4*group+3, fourth)
		f.p("VSUB V%d.H8, V%d.H8, V%d.H8", fourth, sum, less)
		f.p("VADD V%d.H8, V%d.H8, V%d.H8", fourth, sum, sum)
		f.p("VUZP1 V%d.B16, V%d.B16, V%d.B16", less, sum, fourth)
		f.p("FMOVQ F%d, %d(R0)", fourth, 16*group)
		f.p("VUZP2 V%d.B16, V%d.B16, V%d.B16", less, sum, fourth)
		f.p("FMOVQ F%d, %d(R0)", fourth, 32+16*group)
	}
	f.p("ADD $8, R1, R1")
	f.p("ADD $64, R0, R0")
	f.p("SUBS $1, R3, R3")
	f.p("BNE %s", loop)
	f.p("RET")
}
