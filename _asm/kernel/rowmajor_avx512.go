package main

import "fmt"

// Row-major dot products on 512-bit registers, for bitnet.cpp's x86 stream: 128 columns of a row are 32 bytes, whose
// fields of two bits, the highest first, are 32 columns each. A register holds two such blocks. Its fields are
// multiplied by activations in the same order, 64 bytes of 32 and 32 columns (internal/kernel/pairs.go).
//
// One token: rows one after the other, one stream. Masks extract fields in place, so each has its own sum, 64, 16, 4 or
// 1 times too large, and activations are memory operands.
//
// More tokens: four rows at a time share activations. Fields are shifted down, and each row and token has one sum.
//
// Lanes are reduced for four rows together. A remaining row is multiplied four times, as rows that are 0 bytes apart.
// Weights are prefetched line by line in memory order: hardware prefetchers do not follow four streams, nor one stream
// next to four times as many lines of activations.
//
// In the tile panels are rows. General registers: DI weights of four rows, SI activations, R8 bytes between tokens, R10
// and R13 three and five times R8, R9 bytes between rows, R11 three times R9, DX weights of a row, R12 weights to
// prefetch, CX steps, BX rows.
type rows512 struct {
	*file
	tokens int
}

const (
	rowsTogether = 4
	rowFields    = 4
)

// Registers. Sums of a row and a token come first; the sums of the fields of one row and token follow the sums of four
// rows.
const (
	row512Field = 4
	row512W     = 8  // for one token: weights, and one digit register per field
	row512Digit = 24 // for several tokens: a field of four rows; then intermediate values
	row512X     = 28 // for several tokens: activations of one, and of the next
	row512Mask  = 31 // of the lowest field; for one token the masks of the others are below
)

func rows512File() *file {
	f := newFile("rowmajor_avx512", "amd64")
	const table = "rowMajorAVX512"
	var funcs []string
	for t := 1; t <= 6; t++ {
		g := &rows512{f, t}
		name := fmt.Sprintf("%sx%d", table, t)
		g.function(name)
		funcs = append(funcs, name)
	}
	f.table(table, "multiply rows of 2-bit fields, 256 columns in 64 bytes, 1 to 6 tokens at once.", funcs)
	return f
}

// acc is the sum of a token and a row.
func (g *rows512) acc(t, r int) int { return t*rowsTogether + r }

func (g *rows512) function(name string) {
	fmt.Fprintf(&g.body, "\n// func %s(t *Tile)\nTEXT ·%s(SB), NOSPLIT, $0-8\n", name, name)
	g.p("MOVQ t+0(FP), AX")
	g.p("MOVQ Tile_LdX(AX), R8")
	if g.tokens > 3 {
		g.p("LEAQ (R8)(R8*2), R10")
	}
	if g.tokens > 5 {
		g.p("LEAQ (R8)(R8*4), R13")
	}
	for f := range rowFields {
		if f == 0 || g.tokens == 1 {
			g.p("VPBROADCASTD %s, Z%d", g.word(bytesOf(byte(3<<(2*f)))), row512Mask-f)
		}
	}
	some, rest, four, done := g.newLabel("some"), g.newLabel("rest"), g.newLabel("four"), g.newLabel("done")
	g.p("MOVQ Tile_W(AX), DI")
	g.p("MOVQ Tile_Panels(AX), BX")
	g.p("MOVQ Tile_PanelBytes(AX), R9")
	g.p("LEAQ (R9)(R9*2), R11")
	g.p("SUBQ $%d, BX", rowsTogether)
	g.p("JLT %s", rest)
	g.at(some)
	if g.tokens > 1 {
		g.rows()
	} else {
		for r := range rowsTogether {
			g.row(r)
		}
	}
	g.sumUp()
	g.p("CMPQ R9, $0")
	g.p("JNE %s", four)
	g.store(1)
	g.p("ADDQ Tile_PanelBytes(AX), DI")
	g.p("DECQ BX")
	g.p("JNZ %s", some)
	g.p("JMP %s", done)
	g.at(four)
	g.store(rowsTogether)
	g.p("ADDQ R11, DI")
	g.p("ADDQ R9, DI")
	g.p("SUBQ $%d, BX", rowsTogether)
	g.p("JGE %s", some)
	g.at(rest)
	g.p("XORL R9, R9")
	g.p("XORL R11, R11")
	g.p("ADDQ $%d, BX", rowsTogether)
	g.p("JNZ %s", some)
	g.at(done)
	g.p("VZEROUPPER")
	g.p("RET")
}

// row512 is the address of a row.
func row512(base string, r int) string {
	return "(" + base + ")" + []string{"", "(R9*1)", "(R9*2)", "(R11*1)"}[r]
}

// row computes the sum of a row for one token, the lowest field first.
func (g *rows512) row(r int) {
	const unroll = 2
	loop, rest, half, done := g.newLabel("loop"), g.newLabel("rest"), g.newLabel("half"), g.newLabel("done")
	g.p("LEAQ %s, DX", row512("DI", r))
	g.p("MOVQ Tile_X(AX), SI")
	g.p("MOVQ Tile_Steps(AX), CX")
	for f := range rowFields {
		g.p("VPXORD Z%d, Z%d, Z%d", row512Field+f, row512Field+f, row512Field+f)
	}
	g.p("SUBQ $%d, CX", unroll)
	g.p("JLT %s", rest)
	g.p("PCALIGN $32")
	g.at(loop)
	for u := range unroll {
		g.p("PREFETCHT1 %d(DX)", distance+64*u)
	}
	for u := range unroll {
		g.register(u, "Z")
	}
	g.p("ADDQ $%d, DX", 64*unroll)
	g.p("ADDQ $%d, SI", 256*unroll)
	g.p("SUBQ $%d, CX", unroll)
	g.p("JGE %s", loop)
	g.at(rest)
	g.p("ADDQ $%d, CX", unroll)
	g.p("JZ %s", half)
	g.p("PREFETCHT1 %d(DX)", distance)
	g.register(0, "Z")
	g.p("ADDQ $64, DX")
	g.p("ADDQ $256, SI")
	g.at(half)
	g.p("CMPQ Tile_TailMask(AX), $0")
	g.p("JEQ %s", done)
	g.register(0, "Y")
	g.at(done)
	for f := 1; f < rowFields; f++ {
		g.p("VPSRAD $%d, Z%d, Z%d", 2*f, row512Field+f, row512Field+f)
	}
	g.p("VPADDD Z%d, Z%d, Z%d", row512Field+1, row512Field, row512Field)
	g.p("VPADDD Z%d, Z%d, Z%d", row512Field+3, row512Field+2, row512Field+2)
	g.p("VPADDD Z%d, Z%d, Z%d", row512Field+2, row512Field, g.acc(0, r))
}

// register multiplies a register of weights for one token at unroll index u; the upper half of a Y register is zero.
func (g *rows512) register(u int, width string) {
	w := row512W + u*(1+rowFields)
	g.p("VMOVDQU32 %d(DX), %s%d", 64*u, width, w)
	for f := range rowFields {
		g.p("VPANDD Z%d, Z%d, Z%d", row512Mask-f, w, w+1+f)
		g.p("VPDPBUSD %d(SI), Z%d, Z%d", 256*u+64*(rowFields-1-f), w+1+f, row512Field+f)
	}
}

// rows computes the sums of four rows for several tokens.
func (g *rows512) rows() {
	loop, half, done := g.newLabel("loop"), g.newLabel("half"), g.newLabel("done")
	g.p("MOVQ DI, DX")
	g.p("MOVQ Tile_X(AX), SI")
	g.p("MOVQ Tile_Steps(AX), CX")
	g.p("LEAQ %d(DI), R12", distance)
	for i := range rowsTogether * g.tokens {
		g.p("VPXORD Z%d, Z%d, Z%d", i, i, i)
	}
	g.p("TESTQ CX, CX")
	g.p("JZ %s", half)
	g.p("PCALIGN $32")
	g.at(loop)
	for r := range rowsTogether {
		g.p("PREFETCHT1 %d(R12)", 64*r)
	}
	g.p("ADDQ $%d, R12", 64*rowsTogether)
	g.registers("Z")
	g.p("ADDQ $64, DX")
	g.p("ADDQ $256, SI")
	g.p("DECQ CX")
	g.p("JNZ %s", loop)
	g.at(half)
	g.p("CMPQ Tile_TailMask(AX), $0")
	g.p("JEQ %s", done)
	g.registers("Y")
	g.at(done)
}

// registers multiplies a register of each row, field by field, the lowest first.
func (g *rows512) registers(width string) {
	for f := range rowFields {
		for r := range rowsTogether {
			d := row512Digit + r
			if f == 0 {
				g.p("VPANDD %s, %s%d, %s%d", row512("DX", r), width, row512Mask, width, d)
			} else {
				g.p("VPSRLW $%d, %s, %s%d", 2*f, row512("DX", r), width, d)
				g.p("VPANDD Z%d, Z%d, Z%d", row512Mask, d, d)
			}
		}
		for t := range g.tokens {
			x := row512X + t%2
			g.p("VMOVDQU64 %d%s, Z%d", 64*(rowFields-1-f), tokenAddress(t), x)
			for r := range rowsTogether {
				g.p("VPDPBUSD Z%d, Z%d, Z%d", x, row512Digit+r, g.acc(t, r))
			}
		}
	}
}

// sumUp reduces the lanes of the sums, four tokens at a time: quarter i of the first sum's register receives the
// results of the i-th token.
func (g *rows512) sumUp() {
	for t := range g.tokens {
		a := g.acc(t, 0)
		g.fold("VPUNPCK%sDQ", a, a+1)
		g.fold("VPUNPCK%sDQ", a+2, a+3)
		g.fold("VPUNPCK%sQDQ", a, a+2)
	}
	for from := 0; from < g.tokens; from += 4 {
		n := min(4, g.tokens-from)
		of := func(i int) int { return g.acc(from+min(i, n-1), 0) }
		g.halve(of(0), of(1))
		if n > 1 {
			g.halve(of(2), of(3))
		}
		g.halve(of(0), of(2))
	}
}

// fold adds the lower and the upper halves of pairs of lanes of two registers into the first.
func (g *rows512) fold(op string, a, b int) {
	const tmp = row512Digit
	g.p(op+" Z%d, Z%d, Z%d", "L", b, a, tmp)
	g.p(op+" Z%d, Z%d, Z%d", "H", b, a, a)
	g.p("VPADDD Z%d, Z%d, Z%d", tmp, a, a)
}

// halve adds pairs of quarters of two registers: the first half of a becomes the sums of a, the second the sums of b.
func (g *rows512) halve(a, b int) {
	const tmp = row512Digit
	g.p("VSHUFI32X4 $0x88, Z%d, Z%d, Z%d", b, a, tmp)
	g.p("VSHUFI32X4 $0xdd, Z%d, Z%d, Z%d", b, a, a)
	g.p("VPADDD Z%d, Z%d, Z%d", tmp, a, a)
}

// store stores the results of four rows, or of the first.
func (g *rows512) store(rows int) {
	g.p("MOVQ Tile_Y(AX), DX")
	const part = row512Digit
	for t := range g.tokens {
		g.p("VEXTRACTI32X4 $%d, Z%d, X%d", t%4, g.acc(t-t%4, 0), part)
		g.p("VPADDD.BCST (Tile_Add+%d)(AX), X%d, X%d", 4*t, part, part)
		if rows == 1 {
			g.p("VMOVD X%d, (DX)", part)
		} else {
			g.p("VMOVDQU32 X%d, (DX)", part)
		}
		if t < g.tokens-1 {
			g.p("ADDQ Tile_LdY(AX), DX")
		}
	}
	g.p("ADDQ $%d, Tile_Y(AX)", 4*rows)
}
