package main

import "fmt"

// Base-3 bytes with 256-bit registers: 32 rows of a 64-row panel, one token. A step is 20 columns, 256 bytes, of which a
// call reads half and steps over the rest. With q₀ a stored byte and qᵢ₊₁ = 3·qᵢ mod 256, digit i is (3·qᵢ − qᵢ₊₁)/256.
//
// With VPDPBUSD nothing is extracted: the kernel sums P = Σ qᵢ·xᵢ and Q = Σ qᵢ₊₁·xᵢ, and (3·P − Q)/256 is the sum of the
// digits times activations. Modulo 2³² P and Q may wrap; the difference is at most 256·2·127 per column.
//
// Without it digits are found by two comparisons, as products of whole bytes would not fit into 16 bits: digit i is the
// number of 86 and 171 that qᵢ reaches. Bytes are kept with 128 added, which is what signed comparison wants, and which
// multiplication by three preserves.
type trits256 struct {
	*file
	name string
	vnni bool
}

func (g *trits256) function() {
	frame := 0
	if !g.vnni {
		frame = 32 * tritRegs
	}
	fmt.Fprintf(&g.body, "\n// func %s(t *tile)\nTEXT ·%s(SB), NOSPLIT, $%d-8\n", g.name, g.name, frame)
	g.p("MOVQ t+0(FP), AX")
	panels86(g.file, 64, func() {
		for i := range 2 * tritRegs {
			g.p("VPXOR Y%d, Y%d, Y%d", i, i, i)
		}
		if g.vnni {
			g.linear()
		} else {
			g.compared()
		}
	})
}

// loopOf repeats a step as often as a register says.
func (g *trits256) loopOf(count string, step func()) {
	loop := g.newLabel("loop")
	g.p("PCALIGN $32")
	g.at(loop)
	for off := 0; off < 32*tritRegs; off += 64 {
		g.p("PREFETCHT1 %d(DI)", distance+off)
	}
	step()
	g.p("ADDQ $256, DI")
	g.p("ADDQ $20, SI")
	g.p("DECQ %s", count)
	g.p("JNZ %s", loop)
}

// eachDigit loads the activations of each digit into register x.
func (g *trits256) eachDigit(x int, multiply func(digit, x int)) {
	for digit := range 5 {
		g.p("VPBROADCASTD %d(SI), Y%d", 4*digit, x)
		multiply(digit, x)
	}
}

// linear sums P (sums 0 to 3) and Q (4 to 7).
func (g *trits256) linear() {
	g.loopOf("CX", func() {
		for r := range tritRegs {
			g.p("VMOVDQU %d(DI), Y%d", 32*r, 8+r)
		}
		g.eachDigit(14, g.addLinear)
	})
	g.scale(9, 10, func(r int) {
		g.p("VPADDD Y%d, Y%d, Y8", r, r)
		g.p("VPADDD Y8, Y%d, Y%d", r, r)
		g.p("VPSUBD Y%d, Y%d, Y%d", tritRegs+r, r, r)
		g.p("VPSRAD $8, Y%d, Y%d", r, r)
	})
}

func (g *trits256) addLinear(digit, x int) {
	for r := range tritRegs {
		q, twice := 8+r, 12+r%2
		g.p("%s", vpdpbusd(r, q, x))
		g.p("VPADDB Y%d, Y%d, Y%d", q, q, twice)
		g.p("VPADDB Y%d, Y%d, Y%d", twice, q, q)
		g.p("%s", vpdpbusd(tritRegs+r, q, x))
	}
}

// scale applies mul and add to the sum of each register once it is ready, and stores it.
func (g *trits256) scale(mul, add int, ready func(r int)) {
	g.p("VPBROADCASTD tile_mul(AX), Y%d", mul)
	g.p("VPBROADCASTD tile_add(AX), Y%d", add)
	g.p("MOVQ tile_y(AX), DX")
	for r := range tritRegs {
		ready(r)
		g.p("VPMULLD Y%d, Y%d, Y%d", mul, r, r)
		g.p("VPADDD Y%d, Y%d, Y%d", add, r, r)
		g.p("VMOVDQU Y%d, %d(DX)", r, 32*r)
	}
}

// compared emits blocks of steps with 16-bit sums (0 to 3), which are widened on the stack.
func (g *trits256) compared() {
	for r := range tritRegs {
		g.p("VMOVDQU Y%d, %d(SP)", r, 32*r)
	}
	for i, c := range []byte{0x80, 85 ^ 0x80, 170 ^ 0x80} {
		g.p("VPBROADCASTD %s, Y%d", g.word(bytesOf(c)), 13+i)
	}
	next := g.newLabel("next")
	g.at(next)
	g.p("MOVQ tile_block(AX), BX")
	g.p("CMPQ CX, BX")
	g.p("CMOVQLT CX, BX")
	g.p("SUBQ BX, CX")
	g.loopOf("BX", func() {
		for r := range tritRegs {
			g.p("VPXOR %d(DI), Y13, Y%d", 32*r, 4+r)
		}
		g.eachDigit(8, g.compare)
	})
	g.p("VPBROADCASTD %s, Y9", g.word("0x00010001"))
	for r := range tritRegs {
		g.p("VPMADDWD Y9, Y%d, Y8", r)
		g.p("VPADDD %d(SP), Y8, Y8", 32*r)
		g.p("VMOVDQU Y8, %d(SP)", 32*r)
		g.p("VPXOR Y%d, Y%d, Y%d", r, r, r)
	}
	g.p("TESTQ CX, CX")
	g.p("JNZ %s", next)
	g.scale(9, 10, func(r int) { g.p("VMOVDQU %d(SP), Y%d", 32*r, r) })
}

// compare multiplies a digit: zero less the two comparisons, each −1 where it holds.
func (g *trits256) compare(digit, x int) {
	for r := range tritRegs {
		q, d, c := 4+r, 9+2*(r%2), 10+2*(r%2)
		g.p("VPCMPGTB Y14, Y%d, Y%d", q, d)
		g.p("VPCMPGTB Y15, Y%d, Y%d", q, c)
		g.p("VPADDB Y%d, Y%d, Y%d", c, d, d)
		g.p("VPABSB Y%d, Y%d", d, d)
		g.p("VPMADDUBSW Y%d, Y%d, Y%d", x, d, d)
		g.p("VPADDW Y%d, Y%d, Y%d", d, r, r)
		if digit < 4 {
			g.p("VPADDB Y%d, Y%d, Y%d", q, q, c)
			g.p("VPADDB Y%d, Y%d, Y%d", c, q, q)
		}
	}
}
