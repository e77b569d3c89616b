package main

import "fmt"

// Base-3 bytes with 256-bit registers, one token. A step is four columns of 80 rows, 64 bytes: two registers of eight
// lanes, each byte r₀ with the digits of five rows. Remainders by 81, 27 and 9 take two subtractions and two unsigned
// byte minima each, as a negative difference wraps; the rest is below 9, and is decoded by byte shuffles.
// With VPDPBUSD the remainders themselves are multiplied, and the digits' sums are differences of theirs, divided by
// With VPDPBUSD the remainders themselves are multiplied, and the sums of the digits are differences of their sums,
// divided by powers of three: modulo 2³² these have inverses.
// Without it operands are digits, so that products of two columns fit into 16 bits for many steps. A difference of
// remainders is 81, 27 or 9 times a digit, which a mask or a byte shuffle makes the digit again.
type trits256 struct {
	*file
	name string
	vnni bool
}

// Registers of trits256. Accumulators are 0 to 9; register h of a step uses five of them from 5·h on.
const (
	ySums    = 2 * trits
	yX       = 10
	yByte    = 11 // and the next: the rest
	yOther   = 13
	yOperand = 14
	yTable   = 15
)

var tritPowers = [trits]int{81, 27, 9, 3, 1}

// tritInverses are the inverses of 81, 27, 9 and 3 modulo 2³².
var tritInverses = [trits - 1]string{tritInverse, "0x684bda13", "0x38e38e39", "0xaaaaaaab"}

func (g *trits256) function() {
	frame := 0
	if !g.vnni {
		frame = 32 * ySums
	}
	fmt.Fprintf(&g.body, "\n// func %s(t *Tile)\nTEXT ·%s(SB), NOSPLIT, $%d-8\n", g.name, g.name, frame)
	g.p("MOVQ t+0(FP), AX")
	if g.vnni {
		tritShuffle(g.file, yTable, func(v int) int { return v % 3 })
	}
	panels86(g.file, tritRows, func() {
		groups86(g.file, tritRows, func() {
			for i := range ySums {
				g.p("VPXOR Y%d, Y%d, Y%d", i, i, i)
			}
			if g.vnni {
				g.loopOf("CX")
			} else {
				g.blocks()
			}
			g.finish()
		})
	})
}

// tritShuffle loads a 16-byte table that maps v to of(v).
func tritShuffle(f *file, register int, of func(v int) int) {
	var table [16]byte
	for v := range table {
		table[v] = byte(of(v))
	}
	words := dwords(table[:])
	f.p("VBROADCASTI128 %s, Y%d", f.rodata("trits"+words[0][2:]+words[2][2:], words), register)
}

// remainder256 sets register to to the remainder of register from, below 3·t, modulo t.
func remainder256(f *file, t, from, to, other int) {
	limit := f.rodata(fmt.Sprintf("yTrits%d", t), repeat(bytesOf(byte(t)), 8))
	for range 2 {
		f.p("VPSUBB %s, Y%d, Y%d", limit, from, other)
		f.p("VPMINUB Y%d, Y%d, Y%d", other, from, to)
		from = to
	}
}

// tritDigits unpacks register v, and the next: it computes one digit after another in a register.
func tritDigits(f *file, v, other, digit int, use func(i int)) {
	mask := f.rodata("y03030303", repeat(bytesOf(3), 8))
	for i, t := range tritPowers[:3] {
		from, to := v+i%2, v+1-i%2
		remainder256(f, t, from, to, other)
		f.p("VPSUBB Y%d, Y%d, Y%d", to, from, digit)
		if t == 27 {
			tritShuffle(f, other, func(v int) int { return map[int]int{27 % 16: 1, 54 % 16: 2}[v] })
			f.p("VPSHUFB Y%d, Y%d, Y%d", digit, other, digit)
		} else { // 81 & 3 = 9 & 3 = 1, 162 & 3 = 18 & 3 = 2
			f.p("VPAND %s, Y%d, Y%d", mask, digit, digit)
		}
		use(i)
	}
	for i, power := range tritPowers[3:] {
		tritShuffle(f, digit, func(v int) int { return v / power % 3 })
		f.p("VPSHUFB Y%d, Y%d, Y%d", v+1, digit, digit)
		use(3 + i)
	}
}

// loopOf repeats a step; register count holds how many times.
func (g *trits256) loopOf(count string) {
	loop := g.newLabel("loop")
	g.p("PCALIGN $32")
	g.at(loop)
	prefetchPage(g.file)
	g.p("VPBROADCASTD (SI), Y%d", yX)
	for h := range 2 {
		if g.vnni {
			g.linear(h)
		} else {
			g.digits(h)
		}
	}
	g.p("ADDQ $64, DI")
	g.p("ADDQ $4, SI")
	g.p("DECQ %s", count)
	g.p("JNZ %s", loop)
}

// linear multiplies the remainders of register h.
func (g *trits256) linear(h int) {
	sum := trits * h
	g.p("VMOVDQU %d(DI), Y%d", 32*h, yByte)
	for i, t := range tritPowers[:3] {
		g.p("%s", vpdpbusd(sum+i, yByte, yX))
		remainder256(g.file, t, yByte, yByte, yOther)
	}
	g.p("%s", vpdpbusd(sum+3, yByte, yX))
	g.p("VPSHUFB Y%d, Y%d, Y%d", yByte, yTable, yOperand)
	g.p("%s", vpdpbusd(sum+4, yOperand, yX))
}

// digits multiplies the digits of register h.
func (g *trits256) digits(h int) {
	g.p("VMOVDQU %d(DI), Y%d", 32*h, yByte)
	tritDigits(g.file, yByte, yOther, yOperand, func(i int) {
		sum := trits*h + i
		g.p("VPMADDUBSW Y%d, Y%d, Y%d", yX, yOperand, yOperand)
		g.p("VPADDW Y%d, Y%d, Y%d", yOperand, sum, sum)
	})
}

// blocks emits blocks of steps with 16-bit accumulators, which are widened on the stack.
func (g *trits256) blocks() {
	for i := range ySums {
		g.p("VMOVDQU Y%d, %d(SP)", i, 32*i)
	}
	next := g.newLabel("next")
	g.at(next)
	g.p("MOVQ Tile_Block(AX), BX")
	g.p("CMPQ CX, BX")
	g.p("CMOVQLT CX, BX")
	g.p("SUBQ BX, CX")
	g.loopOf("BX")
	g.p("VPBROADCASTD %s, Y%d", g.word("0x00010001"), yOther)
	for i := range ySums {
		g.p("VPMADDWD Y%d, Y%d, Y%d", yOther, i, yOperand)
		g.p("VPADDD %d(SP), Y%d, Y%d", 32*i, yOperand, yOperand)
		g.p("VMOVDQU Y%d, %d(SP)", yOperand, 32*i)
		g.p("VPXOR Y%d, Y%d, Y%d", i, i, i)
	}
	g.p("TESTQ CX, CX")
	g.p("JNZ %s", next)
	for i := range ySums {
		g.p("VMOVDQU %d(SP), Y%d", 32*i, i)
	}
}

// finish computes the sums of the digits, and stores the results.
func (g *trits256) finish() {
	g.p("VPBROADCASTD TokenGroup_Add(R14), Y%d", yX)
	for i := range trits {
		if g.vnni && i < trits-1 {
			g.p("VPBROADCASTD %s, Y%d", g.word(tritInverses[i]), yOther)
		}
		for h := range 2 {
			sum := trits*h + i
			if g.vnni && i < trits-1 {
				g.p("VPSUBD Y%d, Y%d, Y%d", sum+1, sum, sum)
				g.p("VPMULLD Y%d, Y%d, Y%d", yOther, sum, sum)
			}
			g.p("VPADDD Y%d, Y%d, Y%d", yX, sum, sum)
		}
	}
	results86(g.file, 1, "Y", yX, false, func(_ int, o outcome) {
		for i := range ySums {
			result86(g.file, fmt.Sprintf("Y%d", i), yOther, yX, 64*(i%trits)+32*(i/trits), o)
		}
	})
}
