package main

import "fmt"

// 1-bit weights in VNNI4 order with 256-bit registers: four bits of a byte are four columns of a row, and index a table
// of 16 sums ±x₀ ±x₁ ±x₂ ±x₃; one byte shuffle looks up the lower bytes for 32 rows, and another the upper bytes. There
// are no multiplications. The tables belong to a token (internal/kernel/activations_lut4.go).
//
// A pair of groups of columns has 64 bytes of tables: lower bytes of both, upper bytes of both. Panels of 32 rows hold
// a pair in one register, panels of 64 rows one group.
//
// Accumulators are 16 bits wide and hold 64 entries of at most 4·127. They are widened on the stack, where even and odd
// rows, which are separate until then, are interleaved.
type bits256 struct {
	*file
	rows int
}

// Registers: accumulators 0 to 3 hold bytes 0 to 7 and 8 to 15 of a lane, for even rows, then for odd rows.
const (
	bitsSums = 4
	bitsV    = 4
	bitsN    = 5
	bitsLow  = 6
	bitsHigh = 7
	bitsMask = 8
	bitsLo   = 9
	bitsHi   = 10
)

func bits256Functions(f *file) {
	nibbleTables(f)
	for _, rows := range []int{32, 64} {
		g := &bits256{f, rows}
		name := fmt.Sprintf("binaryLUTRows%dAVX2", rows)
		g.function(name + "x1")
		f.table(name, fmt.Sprintf("multiply %d-row panels of bits in VNNI4 order by tables, one token at a time.",
			rows),
			[]string{name + "x1"})
	}
}

func (g *bits256) function(name string) {
	fmt.Fprintf(&g.body, "\n// func %s(t *Tile)\nTEXT ·%s(SB), NOSPLIT, $%d-8\n", name, name, 4*g.rows)
	g.p("MOVQ t+0(FP), AX")
	g.p("VMOVDQU %s, Y%d", g.rodata("y0f0f0f0f", repeat(bytesOf(0x0f), 8)), bitsMask)
	panels86(g.file, g.rows, func() {
		for i := range bitsSums {
			g.p("VPXOR Y%d, Y%d, Y%d", i, i, i)
		}
		for i := range g.rows / 8 {
			g.p("VMOVDQU Y0, %d(SP)", 32*i)
		}
		g.pairs()
		whole := g.newLabel("whole")
		g.p("CMPQ Tile_TailMask(AX), $0")
		g.p("JEQ %s", whole)
		g.last()
		g.at(whole)
		g.widen()
		g.finish()
	})
}

// pairs emits the loop over pairs of groups, in blocks that leave room for one more group.
func (g *bits256) pairs() {
	block := 60
	if g.rows == 64 {
		block = 30 // a pair adds two entries to an accumulator
	}
	next, loop, done := g.newLabel("next"), g.newLabel("loop"), g.newLabel("done")
	g.at(next)
	g.p("MOVQ $%d, BX", block)
	g.p("CMPQ CX, BX")
	g.p("CMOVQLT CX, BX")
	g.p("TESTQ BX, BX")
	g.p("JZ %s", done)
	g.p("SUBQ BX, CX")
	g.p("PCALIGN $32")
	g.at(loop)
	for at := 0; at < g.rows; at += 64 {
		g.p("PREFETCHT1 %d(DI)", distance+at)
	}
	g.p("VMOVDQU (DI), Y%d", bitsV)
	if g.rows == 32 {
		g.p("VMOVDQU (SI), Y%d", bitsLow)
		g.p("VMOVDQU 32(SI), Y%d", bitsHigh)
		g.add("Y")
	} else {
		g.group(0)
		g.add("Y")
		g.p("VMOVDQU 32(DI), Y%d", bitsV)
		g.group(1)
		g.add("Y")
	}
	g.p("ADDQ $%d, DI", g.rows)
	g.p("ADDQ $64, SI")
	g.p("DECQ BX")
	g.p("JNZ %s", loop)
	g.p("TESTQ CX, CX")
	g.p("JZ %s", done)
	g.widen()
	g.p("JMP %s", next)
	g.at(done)
}

// group loads the tables of one group of a pair into both lanes.
func (g *bits256) group(i int) {
	g.p("VBROADCASTI128 %d(SI), Y%d", 16*i, bitsLow)
	g.p("VBROADCASTI128 %d(SI), Y%d", 32+16*i, bitsHigh)
}

// last emits the step for a group without a partner. For 32 rows it fills the lower lane; 128-bit instructions clear
// the upper one.
func (g *bits256) last() {
	if g.rows == 32 {
		g.p("VMOVDQU (DI), X%d", bitsV)
		g.p("VMOVDQU (SI), X%d", bitsLow)
		g.p("VMOVDQU 32(SI), X%d", bitsHigh)
		g.add("X")
		return
	}
	g.p("VMOVDQU (DI), Y%d", bitsV)
	g.group(0)
	g.add("Y")
}

// add looks up the even rows, then the odd ones, widens the bytes to words and adds them.
func (g *bits256) add(r string) {
	for odd := range 2 {
		if odd == 0 {
			g.p("VPAND %s%d, %s%d, %s%d", r, bitsMask, r, bitsV, r, bitsN)
		} else {
			g.p("VPSRLW $4, %s%d, %s%d", r, bitsV, r, bitsN)
			g.p("VPAND %s%d, %s%d, %s%d", r, bitsMask, r, bitsN, r, bitsN)
		}
		g.p("VPSHUFB %s%d, %s%d, %s%d", r, bitsN, r, bitsLow, r, bitsLo)
		g.p("VPSHUFB %s%d, %s%d, %s%d", r, bitsN, r, bitsHigh, r, bitsHi)
		for half, unpack := range []string{"VPUNPCKLBW", "VPUNPCKHBW"} {
			sum := 2*odd + half
			g.p("%s %s%d, %s%d, %s%d", unpack, r, bitsHi, r, bitsLo, r, bitsN)
			g.p("VPADDW Y%d, Y%d, Y%d", bitsN, sum, sum)
		}
	}
}

// widen adds the accumulators to the sums on the stack, eight rows in order at a time, and clears them. The lanes are
// the two groups of a pair for 32 rows, rows 0 to 31 and 32 to 63 for 64.
func (g *bits256) widen() {
	for eight := range 4 {
		unpack := []string{"VPUNPCKLWD", "VPUNPCKHWD"}[eight%2]
		g.p("%s Y%d, Y%d, Y%d", unpack, 2+eight/2, eight/2, bitsLo)
		g.p("VEXTRACTI128 $1, Y%d, X%d", bitsLo, bitsHi)
		for lane, v := range []int{bitsLo, bitsHi} {
			to := 32 * eight
			if g.rows == 64 {
				to += 128 * lane
			}
			g.p("VPMOVSXWD X%d, Y%d", v, v)
			g.p("VPADDD %d(SP), Y%d, Y%d", to, v, v)
			g.p("VMOVDQU Y%d, %d(SP)", v, to)
		}
	}
	for i := range bitsSums {
		g.p("VPXOR Y%d, Y%d, Y%d", i, i, i)
	}
}

func (g *bits256) finish() {
	g.p("MOVQ Tile_Y(AX), DX")
	for i := range g.rows / 8 {
		g.p("VMOVDQU %d(SP), Y0", 32*i)
		g.p("VMOVDQU Y0, %d(DX)", 32*i)
	}
}

// nibbleTables makes the tables of pairs of groups: each of four activations in all words, with the signs given by the
// bits of the word's index, bit 0 for plus.
func nibbleTables(f *file) {
	f.declare("BuildLUT4", "makes the tables of n pairs of groups of four activations, 64 bytes per pair.",
		"tables *byte, x *int8, n int", 3)
	f.p("MOVQ tables+0(FP), DI")
	f.p("MOVQ x+8(FP), SI")
	f.p("MOVQ n+16(FP), CX")
	f.p("VPBROADCASTD %s, Y15", f.word("0x00ff00ff"))
	loop := f.newLabel("pair")
	f.at(loop)
	f.p("VPMOVSXBW (SI), X0")
	f.p("VINSERTI128 $1, X0, Y0, Y0")
	for group := range 2 {
		sum := 1 + group
		for j := range 4 {
			d := 3
			if j == 0 {
				d = sum
			}
			var pick [32]byte
			var signs [32]byte
			for i := range 16 {
				pick[2*i], pick[2*i+1] = byte(2*(4*group+j)), byte(2*(4*group+j)+1)
				v := uint16(1)
				if i>>j&1 == 1 {
					v = 0xFFFF
				}
				signs[2*i], signs[2*i+1] = byte(v), byte(v>>8)
			}
			f.p("VPSHUFB %s, Y0, Y%d", f.rodata(fmt.Sprintf("nibblePick%d", 4*group+j), dwords(pick[:])), d)
			f.p("VPSIGNW %s, Y%d, Y%d", f.rodata(fmt.Sprintf("nibbleSigns%d", j), dwords(signs[:])), d, d)
			if j > 0 {
				f.p("VPADDW Y3, Y%d, Y%d", sum, sum)
			}
		}
	}
	f.p("VPAND Y15, Y1, Y4")
	f.p("VPAND Y15, Y2, Y5")
	f.p("VPSRLW $8, Y1, Y6")
	f.p("VPSRLW $8, Y2, Y7")
	for i, a := range []int{4, 6} {
		f.p("VPACKUSWB Y%d, Y%d, Y%d", a+1, a, a)
		f.p("VPERMQ $0xD8, Y%d, Y%d", a, a)
		f.p("VMOVDQU Y%d, %d(DI)", a, 32*i)
	}
	f.p("ADDQ $8, SI")
	f.p("ADDQ $64, DI")
	f.p("DECQ CX")
	f.p("JNZ %s", loop)
	f.p("VZEROUPPER")
	f.p("RET")
}
