package main

import "fmt"

// Products with the dot product extension of ARMv8.2. As in the 256-bit kernels a step multiplies 32 rows of a panel by
// one group of four columns, here in eight operands of four lanes. Operands are signed: tables hold the weights
// themselves, and nothing is left to put right.
//
// A register of activations holds four groups of four columns, of which SDOT selects one.
//
// General registers: R1 weights, R4 and R5 activations of two tokens, R3 steps; R8 panels, R10 weights and R11 results of
// the panel.
type neon struct {
	*file
	bits   int
	rows   int // of a panel
	tokens int

	v, index, operand int
	xs, table         []int
	mask              int
}

const operandsNEON = 8

func (g *neon) fields() int             { return 8 / g.bits }
func (g *neon) regs() int               { return operandsNEON / g.fields() }
func (g *neon) stride() int             { return g.rows * g.bits / 2 }
func (g *neon) acc(t, r, field int) int { return (t*g.regs()+r)*g.fields() + field }

func neonFile() *file {
	f := newFile("vnni_neon", "arm64")
	for _, bits := range []int{2, 4, 8} {
		for _, rows := range []int{32, 64} {
			table := fmt.Sprintf("fields%dRows%dNEON", bits, rows)
			var funcs []string
			for t := 1; t <= 2; t++ {
				g := &neon{file: f, bits: bits, rows: rows, tokens: t}
				name := fmt.Sprintf("%sx%d", table, t)
				g.function(name)
				funcs = append(funcs, name)
			}
			f.table(table, fmt.Sprintf("multiply 32 rows of %d-row panels of %d-bit fields, 1 or 2 tokens at once.", rows, bits), funcs)
		}
	}
	return f
}

func (g *neon) function(name string) {
	fmt.Fprintf(&g.body, "\n// func %s(t *tile)\nTEXT ·%s(SB), NOSPLIT, $0-8\n", name, name)
	g.p("MOVD t+0(FP), R0")
	g.allocate()
	g.p("MOVD tile_panels(R0), R8")
	g.p("MOVD tile_panel(R0), R9")
	g.p("MOVD tile_ldy(R0), R7")
	g.p("MOVD tile_w(R0), R10")
	g.p("MOVD tile_y(R0), R11")
	panel := g.newLabel("panel")
	g.at(panel)
	g.p("MOVD R10, R1")
	g.p("MOVD tile_steps(R0), R3")
	g.p("MOVD tile_x(R0), R4")
	g.p("MOVD tile_ldx(R0), R5")
	g.p("ADD R4, R5, R5")
	for i := range g.tokens * operandsNEON {
		g.p("VEOR V%d.B16, V%d.B16, V%d.B16", i, i, i)
	}
	loop, rest, one, done := g.newLabel("loop"), g.newLabel("rest"), g.newLabel("one"), g.newLabel("done")
	g.p("SUBS $4, R3, R3")
	g.p("BLT %s", rest)
	g.at(loop)
	for t, x := range g.xs {
		g.p("FMOVQ (R%d), F%d", 4+t, x)
	}
	for u := range 4 {
		g.step(u)
	}
	g.advance(4)
	g.p("SUBS $4, R3, R3")
	g.p("BGE %s", loop)
	g.at(rest)
	g.p("ADDS $4, R3, R3")
	g.p("BEQ %s", done)
	g.at(one)
	for t, x := range g.xs {
		g.p("FMOVS (R%d), F%d", 4+t, x)
	}
	g.step(0)
	g.advance(1)
	g.p("SUBS $1, R3, R3")
	g.p("BNE %s", one)
	g.at(done)
	g.finish()
	g.p("ADD R9, R10, R10")
	g.p("ADD $%d, R11, R11", 4*g.rows)
	g.p("SUBS $1, R8, R8")
	g.p("BNE %s", panel)
	g.p("RET")
}

// allocate hands out the registers above the sums.
func (g *neon) allocate() {
	free := g.tokens * operandsNEON
	take := func() int { free++; return free - 1 }
	g.v, g.index, g.operand, g.mask = take(), take(), take(), take()
	for range g.tokens {
		g.xs = append(g.xs, take())
	}
	for i := range g.fields() / 2 {
		g.table = append(g.table, take())
		g.p("FMOVQ (tile_table+%d)(R0), F%d", 16*i, g.table[i])
	}
	if g.bits < 8 {
		g.p("VMOVI $15, V%d.B16", g.mask)
	}
	if free > 32 {
		panic("neon: out of registers")
	}
}

func (g *neon) advance(steps int) {
	g.p("ADD $%d, R1, R1", steps*g.stride())
	for t := range g.tokens {
		g.p("ADD $%d, R%d, R%d", 4*steps, 4+t, 4+t)
	}
}

// step emits one step, u steps ahead of the weights, with group u of the activations.
func (g *neon) step(u int) {
	for off := 0; off < 16*g.regs(); off += 64 {
		g.p("PRFM %d(R1), PLDL1KEEP", distance+u*g.stride()+off)
	}
	for r := range g.regs() {
		g.p("FMOVQ %d(R1), F%d", u*g.stride()+16*r, g.v)
		if g.bits == 8 {
			g.dot(g.v, r, 0, u)
			continue
		}
		g.p("VAND V%d.B16, V%d.B16, V%d.B16", g.mask, g.v, g.index)
		g.nibble(r, 0, u)
		g.p("VUSHR $4, V%d.B16, V%d.B16", g.v, g.index)
		g.nibble(r, len(g.table), u)
	}
}

// nibble multiplies the one or two fields that four bits stand for.
func (g *neon) nibble(r, field, u int) {
	for i, t := range g.table {
		g.p("VTBL V%d.B16, [V%d.B16], V%d.B16", g.index, t, g.operand)
		g.dot(g.operand, r, field+i, u)
	}
}

func (g *neon) dot(operand, r, field, u int) {
	for t, x := range g.xs {
		g.p("%s", sdot(g.acc(t, r, field), operand, x, u))
	}
}

// finish stores the sums: those of field f of register r are rows f·lanes+4·r … of the part.
func (g *neon) finish() {
	g.p("MOVD R11, R6")
	lanes := g.stride() / 4
	for t := range g.tokens {
		for r := range g.regs() {
			for f := range g.fields() {
				g.p("FMOVQ F%d, %d(R6)", g.acc(t, r, f), 4*(f*lanes+4*r))
			}
		}
		if t < g.tokens-1 {
			g.p("ADD R7, R6, R6")
		}
	}
}

// sdot is SDOT Vd.4S, Vn.16B, Vm.4B[i], which Go's assembler does not know: products of each four bytes of n with bytes
// 4·i to 4·i+3 of m are added to the lanes of d.
func sdot(d, n, m, i int) string {
	return fmt.Sprintf("WORD $%#08x // SDOT V%d.S4, V%d.B16, V%d.4B[%d]", 0x4F80E000|i&1<<21|m<<16|i>>1<<11|n<<5|d, d, n, m, i)
}
