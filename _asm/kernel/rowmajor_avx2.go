package main

import "fmt"

// Row-major dot products on 256-bit registers, for bitnet.cpp's x86 stream: 128 columns of a row are 32 bytes, whose
// fields of two bits, the highest first, are 32 columns each. So a field is multiplied by 32 consecutive activations in
// memory, which are operands of the instruction that multiplies: one load per product, and CPUs do two of each per
// cycle.
//
// Two masks extract the lower two fields, in place, and after a shift by four the upper two. So a token has two sums,
// of which the second is four times too large. Products of two columns are summed in 16 bits: two fields of a step add
// at most 2·2·(4·2·127) = 4064 to the second sum, which so holds eight steps. Then the sums are corrected and added in
// 32 bits. Rows are read sequentially, which suits memory; four rows of one token, or the tokens of a row, are reduced
// across lanes together.
//
// In the tile panels are rows. General registers: DI weights, SI activations, R8 bytes between tokens, R10 three times
// R8, R9 bytes between rows, CX steps, BX steps until sums are widened.
type rows256 struct {
	*file
	tokens int
	rows   int    // rows processed together
	high   string // operand: the mask of the fields at bit 2
}

const rowsBlock = 8 // steps until sums are widened

// Registers above the sums of a row.
const (
	row256Sums  = 8 // sums of rows and tokens, from here on
	row256W     = 12
	row256Digit = 13
	row256Low   = 14 // masks of the fields at bits 0 and 2
	row256High  = 15
)

func rows256Functions(f *file) {
	const table = "rowMajorAVX2"
	funcs := []string{"nil", "nil", "nil", "nil"}
	for _, t := range []int{1, 3, 4} { // two at a time are slower than one by one: docs/notes/kernels.md
		g := &rows256{file: f, tokens: t}
		funcs[t-1] = fmt.Sprintf("%sx%d", table, t)
		g.function(funcs[t-1])
	}
	f.table(table,
		"multiply rows of 2-bit fields, 128 columns in 32 bytes; by tokens − 1, nil where one by one is faster.", funcs)
}

// acc is a 16-bit sum of a token: of the fields at bits 0 and 4, or, four times too large, of the fields at bits 2 and
// 6.
func (g *rows256) acc(t, high int) int { return 2*t + high }

// sum is the 32-bit sum of a row.
func (g *rows256) sum(r, t int) int { return row256Sums + t*g.rows + r }

func (g *rows256) function(name string) {
	fmt.Fprintf(&g.body, "\n// func %s(t *Tile)\nTEXT ·%s(SB), NOSPLIT, $0-8\n", name, name)
	g.p("MOVQ t+0(FP), AX")
	g.p("MOVQ Tile_LdX(AX), R8")
	g.p("LEAQ (R8)(R8*2), R10")
	g.p("MOVQ Tile_PanelBytes(AX), R9")
	g.p("VMOVDQU %s, Y%d", g.rodata("rowsLow", repeat(bytesOf(3), 8)), row256Low)
	g.high = fmt.Sprintf("Y%d", row256High)
	if high := g.rodata("rowsHigh", repeat(bytesOf(12), 8)); g.tokens > 1 {
		g.high = high // its register holds products
	} else {
		g.p("VMOVDQU %s, %s", high, g.high)
	}
	some, rest, one, done := g.newLabel("some"), g.newLabel("rest"), g.newLabel("one"), g.newLabel("done")
	if g.tokens == 1 {
		const n = 4
		g.p("SUBQ $%d, Tile_Panels(AX)", n)
		g.p("JLT %s", rest)
		g.at(some)
		g.some(n)
		g.p("SUBQ $%d, Tile_Panels(AX)", n)
		g.p("JGE %s", some)
		g.at(rest)
		g.p("ADDQ $%d, Tile_Panels(AX)", n)
		g.p("JZ %s", done)
	}
	g.at(one)
	g.some(1)
	g.p("DECQ Tile_Panels(AX)")
	g.p("JNZ %s", one)
	g.at(done)
	g.p("VZEROUPPER")
	g.p("RET")
}

// some multiplies some rows and advances the tile.
func (g *rows256) some(rows int) {
	g.rows = rows
	for r := range rows {
		g.p("MOVQ Tile_W(AX), DI")
		g.p("MOVQ Tile_X(AX), SI")
		g.p("MOVQ Tile_Steps(AX), CX")
		g.p("ADDQ R9, Tile_W(AX)")
		g.row(r)
	}
	g.finish()
	g.p("ADDQ $%d, Tile_Y(AX)", 4*rows)
}

// row sums up a row, in blocks of steps after which 16-bit sums are widened.
func (g *rows256) row(r int) {
	for t := range g.tokens {
		g.zero(g.sum(r, t))
	}
	next := g.newLabel("next")
	g.at(next)
	g.p("MOVQ $%d, BX", rowsBlock)
	g.p("CMPQ CX, BX")
	g.p("CMOVQLT CX, BX")
	g.p("SUBQ BX, CX")
	for i := range 2 * g.tokens {
		g.zero(i)
	}
	g.block()
	for t := range g.tokens {
		a, high := g.acc(t, 0), g.acc(t, 1)
		g.p("VPSRAW $2, Y%d, Y%d", high, high)
		g.p("VPADDW Y%d, Y%d, Y%d", high, a, a)
		g.p("VPMADDWD %s, Y%d, Y%d", g.rodata("y00010001", repeat("0x00010001", 8)), a, a)
		g.p("VPADDD Y%d, Y%d, Y%d", a, g.sum(r, t), g.sum(r, t))
	}
	g.p("TESTQ CX, CX")
	g.p("JNZ %s", next)
}

func (g *rows256) zero(a int) { g.p("VPXOR Y%d, Y%d, Y%d", a, a, a) }

// block emits BX steps.
func (g *rows256) block() {
	loop, rest, done := g.newLabel("loop"), g.newLabel("rest"), g.newLabel("done")
	g.p("SUBQ $2, BX")
	g.p("JLT %s", rest)
	g.p("PCALIGN $32")
	g.at(loop)
	prefetchPage(g.file)
	g.step(0)
	g.step(1)
	g.p("ADDQ $64, DI")
	g.p("ADDQ $256, SI")
	g.p("SUBQ $2, BX")
	g.p("JGE %s", loop)
	g.at(rest)
	g.p("ADDQ $2, BX")
	g.p("JZ %s", done)
	g.step(0)
	g.p("ADDQ $32, DI")
	g.p("ADDQ $128, SI")
	g.at(done)
}

// step multiplies 128 columns at unroll index u, the lowest field first.
func (g *rows256) step(u int) {
	g.p("VMOVDQU %d(DI), Y%d", 32*u, row256W)
	masks := [2]string{fmt.Sprintf("Y%d", row256Low), g.high}
	for i := range 4 {
		if i == 2 {
			g.p("VPSRLW $4, Y%d, Y%d", row256W, row256W)
		}
		g.p("VPAND %s, Y%d, Y%d", masks[i%2], row256W, row256Digit)
		for t := range g.tokens {
			product, a := row256Digit, g.acc(t, i%2)
			if g.tokens > 1 {
				product = row256High
			}
			g.p("VPMADDUBSW %d%s, Y%d, Y%d", 128*u+32*(3-i), tokenAddress(t), row256Digit, product)
			g.p("VPADDW Y%d, Y%d, Y%d", product, a, a)
		}
	}
}

// finish reduces the lanes of up to four sums, adds Tile.Add, and stores them.
func (g *rows256) finish() {
	last := g.rows*g.tokens - 1
	pair := func(i, j int) {
		g.p("VPHADDD Y%d, Y%d, Y%d", row256Sums+min(j, last), row256Sums+i, row256Sums+i)
	}
	pair(0, 1)
	if last > 1 {
		pair(2, 3)
		pair(0, 2)
	} else {
		pair(0, 0)
	}
	const a = row256Sums
	g.p("VEXTRACTI128 $1, Y%d, X%d", a, row256Digit)
	g.p("VPADDD X%d, X%d, X%d", row256Digit, a, a)
	g.p("VMOVDQU Tile_Add(AX), X%d", row256Digit)
	if g.tokens == 1 { // lanes are rows, else tokens
		g.p("VPSHUFD $0, X%d, X%d", row256Digit, row256Digit)
	}
	g.p("VPADDD X%d, X%d, X%d", row256Digit, a, a)
	g.p("MOVQ Tile_Y(AX), DX")
	for t := range g.tokens {
		if g.rows > 1 {
			g.p("VMOVDQU X%d, (DX)", a)
		} else {
			g.p("VPEXTRD $%d, X%d, (DX)", t, a)
		}
		if t < g.tokens-1 {
			g.p("ADDQ Tile_LdY(AX), DX")
		}
	}
}
