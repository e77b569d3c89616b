package main

import "fmt"

// Products of fields with the dot product extension of ARMv8.2, and without it. As in the 256-bit kernels a step
// multiplies 32 rows of a panel by one group of four columns, here in eight operands of four lanes. Operands are
// signed: tables hold the weights themselves, and no zero-point correction is needed. Only a 1-bit weight becomes −1 or
// 0, by a test of its bit, and its sums are doubled and corrected at the end.
//
// With dot products a register of activations holds four groups of four columns, and SDOT selects one of them.
// Accumulators for more than two tokens leave registers for half of the operands, and a panel is processed in two
// passes. Without dot products every operand has two 16-bit accumulators, one per byte of eight, for as many steps as
// the bound that comes with the tile allows, and they are added pairwise to 32-bit sums on the stack. Products of int8,
// and of fields of weights up to ±127, are added to 32-bit sums in registers at once.
//
// With dot products int4 needs no lookup either (scaled). A byte with its highest bit flipped is 16·h + l, signed,
// where h is the weight of the upper field and l the weight of the lower one plus 8: sums of whole bytes, minus the
// sums of lower fields, are 16 times the desired sums.
type neon struct {
	*file
	dot    bool
	scaled bool
	large  bool        // fields hold weights up to ±127
	planes digitPlanes // bits are those of the lower part of a digit; the zero value = fields have no parts
	bits   int
	rows   int // per panel
	tokens int
	first  int // first operand of this pass

	v, index, operand, mask int
	xs, table               []int
	bit                     []int // masks
	flip                    int
	digits                  digitNEON // how parts of digits are joined
}

const operandsNEON = 8

func (g *neon) fields() int { return 8 / g.bits }
func (g *neon) regs() int   { return operandsNEON / g.fields() }
func (g *neon) stride() int {
	if g.joined() {
		return g.planes.four()
	}
	return g.rows * g.bits / 2
}

// joined reports whether digits are joined of two parts.
func (g *neon) joined() bool { return g.planes.low > 0 }

// operands is the number of operands of a pass.
func (g *neon) operands() int {
	if g.tokens > 2 {
		return operandsNEON / 2
	}
	return operandsNEON
}

// tables is the number of tables in which fields are looked up.
func (g *neon) tables() int {
	if g.scaled || g.joined() {
		return 0
	}
	return g.fields() / 2
}

// inPass reports whether operands from i to i+n−1 belong to this pass.
func (g *neon) inPass(i, n int) bool { return i >= g.first && i+n <= g.first+g.operands() }

// sums is the number of accumulator registers per token.
func (g *neon) sums() int {
	if g.dot {
		return g.operands()
	}
	return 2 * operandsNEON
}

// pointersNEON are the general registers that point at the activations of a token.
var pointersNEON = []int{4, 5, 12, 13, 14}

// onStack reports whether accumulators are widened on the stack.
func (g *neon) onStack() bool { return !g.dot && g.bits < 8 && !g.large && !g.joined() }

func dotFile() *file  { return neonFile("panels_dotprod", "DotProd", true) }
func baseFile() *file { return neonFile("panels_neon", "NEON", false) }

func neonFile(name, suffix string, dot bool) *file {
	f := newFile(name, "arm64")
	for _, bits := range []int{1, 2, 4, 8} {
		g := neon{file: f, dot: dot, bits: bits}
		g.functions(fmt.Sprintf("fields%dRows%%d%s", bits, suffix), fmt.Sprintf("%d-bit fields", bits))
	}
	for _, p := range planeKinds {
		g := neon{file: f, dot: dot, bits: p.low, planes: p}
		g.functions(p.name("planes%dRows%%d")+suffix, p.what())
	}
	if dot {
		g := neon{file: f, dot: dot, bits: 4, scaled: true}
		g.functions("int4Rows%d"+suffix, "int4")
	} else {
		g := neon{file: f, bits: 4, large: true}
		g.functions("large4Rows%d"+suffix, "4-bit fields of weights up to ±127")
	}
	tritsNEON(f, "base3"+suffix, dot)
	rowsNEON(f, suffix, dot)
	if !dot {
		openPlanesNEON(f)
		bitsNEON(f) // the same for both: it needs no products
	}
	return f
}

// functions writes the functions of a kernel: for both panel heights, and for every number of tokens at once. name has
// a placeholder for the rows.
func (g neon) functions(name, what string) {
	most, doc := 1, "one token at a time."
	if g.dot {
		most, doc = len(pointersNEON), "1 to 5 tokens at once."
	}
	heights := []int{32, 64}
	if g.joined() {
		heights = heights[:1]
	}
	for _, g.rows = range heights {
		table, funcs := fmt.Sprintf(name, g.rows), []string{}
		for g.tokens = 1; g.tokens <= most; g.tokens++ {
			one, name := g, fmt.Sprintf("%sx%d", table, g.tokens)
			one.function(name)
			funcs = append(funcs, name)
		}
		g.file.table(table, fmt.Sprintf("multiply 32 rows of %d-row panels of %s, %s", g.rows, what, doc), funcs)
	}
}

func (g *neon) function(name string) {
	frame := 0
	if g.onStack() {
		frame = 16 * g.sums()
	}
	panelsARM(g.file, name, g.rows, frame, g.allocate, func() {
		for g.first = 0; g.first < operandsNEON; g.first += g.operands() {
			g.pass()
		}
	})
}

// pass multiplies a panel, or the operands of it that belong to this pass.
func (g *neon) pass() {
	if g.first > 0 {
		g.p("MOVD R10, R1")
		g.p("MOVD Tile_Steps(R0), R3")
		g.p("MOVD Tile_X(R0), R4")
	}
	if g.tokens > 1 {
		g.p("MOVD Tile_LdX(R0), R6")
		for t := range g.tokens - 1 {
			g.p("ADD R6, R%d, R%d", pointersNEON[t], pointersNEON[t+1])
		}
	}
	for i, bit := range g.bit {
		g.p("VMOVI $%d, V%d.B16", 1<<(g.first+i), bit)
	}
	g.zero(0, g.tokens*g.sums())
	switch {
	case g.onStack():
		storeSums(g.file, g.sums())
		blocksARM(g.file, g.single, func() { widenSums(g.file, g.sums(), g.operand) })
	case g.dot:
		g.fours()
	default:
		loop := g.newLabel("loop")
		g.at(loop)
		g.single()
		g.p("SUBS $1, R3, R3")
		g.p("BNE %s", loop)
	}
	g.finish()
}

// allocate assigns the registers above the accumulators, and loads the constant ones.
func (g *neon) allocate() {
	free := g.tokens * g.sums()
	take := func() int { free++; return free - 1 }
	g.v, g.index, g.operand = take(), take(), take()
	for range g.tokens {
		g.xs = append(g.xs, take())
	}
	switch {
	case g.joined():
		low, high := g.planes.masks()
		g.digits = digitNEON{file: g.file, digitPlanes: g.planes, parts: []int{g.v}, free: g.index,
			lowMask: take(), highMask: take()}
		for len(g.digits.parts) < g.planes.high {
			g.digits.parts = append(g.digits.parts, take())
		}
		g.p("VMOVI $%d, V%d.B16", low, g.digits.lowMask)
		g.p("VMOVI $%d, V%d.B16", high, g.digits.highMask)
	case g.bits == 1:
		for range g.operands() {
			g.bit = append(g.bit, take())
		}
	case g.bits < 8:
		if g.scaled {
			g.flip = take()
			g.p("VMOVI $128, V%d.B16", g.flip)
		}
		for i := range g.tables() {
			g.table = append(g.table, take())
			g.p("FMOVQ (Tile_Table+%d)(R0), F%d", 16*i, g.table[i])
		}
		g.mask = take()
		g.p("VMOVI $15, V%d.B16", g.mask)
	}
	if free > 32 {
		panic("neon: out of registers")
	}
}

// fours emits all steps, four at a time while at least four remain.
func (g *neon) fours() {
	loop, rest, one, done := g.newLabel("loop"), g.newLabel("rest"), g.newLabel("one"), g.newLabel("done")
	g.p("SUBS $4, R3, R3")
	g.p("BLT %s", rest)
	g.at(loop)
	for t, x := range g.xs {
		g.p("FMOVQ (R%d), F%d", pointersNEON[t], x)
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
		g.p("FMOVS (R%d), F%d", pointersNEON[t], x)
	}
	g.step(0)
	g.advance(1)
	g.p("SUBS $1, R3, R3")
	g.p("BNE %s", one)
	g.at(done)
}

// single emits one step without dot products: the four activations are in every lane.
func (g *neon) single() {
	g.p("VLD1R (R4), [V%d.S4]", g.xs[0])
	g.step(0)
	g.advance(1)
}

func (g *neon) advance(steps int) {
	g.p("ADD $%d, R1, R1", steps*g.stride())
	for t := range g.tokens {
		g.p("ADD $%d, R%d, R%d", 4*steps, pointersNEON[t], pointersNEON[t])
	}
}

// step emits the loop body at unroll index u, with group u of the activations.
func (g *neon) step(u int) {
	bytes := 16 * g.regs()
	if g.joined() {
		bytes = g.stride()
	}
	for off := 0; off < bytes && g.first == 0; off += 64 {
		g.prefetchARM(u*g.stride() + off)
	}
	if g.joined() {
		g.digits.load("R1", u*g.stride())
		for i := g.first; i < g.first+g.operands(); i++ {
			g.digits.make(i, g.operand, "R1", u*g.stride())
			g.multiply(g.operand, i, u)
		}
		return
	}
	for r := range g.regs() {
		if g.bits > 1 && !g.inPass(r*g.fields(), g.fields()) {
			continue
		}
		g.p("FMOVQ %d(R1), F%d", u*g.stride()+16*r, g.v)
		switch {
		case g.scaled:
			g.p("VAND V%d.B16, V%d.B16, V%d.B16", g.mask, g.v, g.index)
			g.multiply(g.index, 2*r, u)
			g.p("VEOR V%d.B16, V%d.B16, V%d.B16", g.flip, g.v, g.operand)
			g.multiply(g.operand, 2*r+1, u)
		case g.bits == 1:
			for i, bit := range g.bit {
				g.p("VCMTST V%d.B16, V%d.B16, V%d.B16", bit, g.v, g.operand)
				g.multiply(g.operand, g.first+i, u)
			}
		case g.bits == 8:
			g.multiply(g.v, r, u)
		default:
			g.p("VAND V%d.B16, V%d.B16, V%d.B16", g.mask, g.v, g.index)
			g.nibble(r*g.fields(), u)
			g.p("VUSHR $4, V%d.B16, V%d.B16", g.v, g.index)
			g.nibble(r*g.fields()+len(g.table), u)
		}
	}
}

// nibble multiplies the one or two fields in four bits, operands i and i+1.
func (g *neon) nibble(i, u int) {
	for j, t := range g.table {
		g.p("VTBL V%d.B16, [V%d.B16], V%d.B16", g.index, t, g.operand)
		g.multiply(g.operand, i+j, u)
	}
}

// multiply adds the products of the bytes of a register to the accumulators of operand i.
func (g *neon) multiply(v, i, u int) {
	for t, x := range g.xs {
		switch {
		case g.dot:
			g.sdot(t*g.operands()+i-g.first, v, x, u)
		case g.onStack():
			g.w("smlal", 2*i, v, x)
			g.w("smlal2", 2*i+1, v, x)
		default: // v may be the register of operands, which is read before it is written
			g.w("smull", g.index, v, x)
			g.w("smull2", g.operand, v, x)
			g.w("sadalp", 2*i, g.index)
			g.w("sadalp", 2*i+1, g.operand)
		}
	}
}

// finish stores the accumulators; field f of register r holds rows f·lanes+4·r … of the part.
func (g *neon) finish() {
	g.p("MOVD R11, R6")
	lanes := g.stride() / 4
	for t := range g.tokens {
		if g.bits == 1 || g.scaled || g.joined() {
			g.p("MOVW (Tile_Add+%d)(R0), R2", 4*t)
			g.p("VDUP R2, V%d.S4", g.v)
		}
		for i := g.first; i < g.first+g.operands(); i++ {
			sum := g.sum(t, i)
			g.putRight(sum, i)
			row := i%g.fields()*lanes + i/g.fields()*4
			if g.joined() {
				row = 4 * i
			}
			g.p("FMOVQ F%d, %d(R6)", sum, 4*row)
		}
		if t < g.tokens-1 {
			g.p("ADD R7, R6, R6")
		}
	}
}

// putRight applies the correction to the sums of operand i, of a lower field together with the upper one.
func (g *neon) putRight(sum, i int) {
	switch {
	case g.joined():
		g.p("VADD V%d.S4, V%d.S4, V%d.S4", g.v, sum, sum)
	case g.bits == 1:
		g.p("VADD V%d.S4, V%d.S4, V%d.S4", sum, sum, sum)
		g.p("VADD V%d.S4, V%d.S4, V%d.S4", g.v, sum, sum)
	case g.scaled && i%2 == 0:
		g.p("VSUB V%d.S4, V%d.S4, V%d.S4", sum, sum+1, sum+1)
		g.w("sshr, #4", sum+1, sum+1)
		g.p("VADD V%d.S4, V%d.S4, V%d.S4", g.v, sum, sum)
	}
}

// sum is the accumulator register of operand i.
func (g *neon) sum(t, i int) int {
	if g.dot {
		return t*g.operands() + i - g.first
	}
	if g.onStack() {
		g.p("FMOVQ %d(RSP), F%d", 16+32*i, 2*i)
		g.p("FMOVQ %d(RSP), F%d", 32+32*i, 2*i+1)
	}
	g.p("VADDP V%d.S4, V%d.S4, V%d.S4", 2*i+1, 2*i, 2*i)
	return 2 * i
}

// storeSums writes registers 0 to n−1 to the stack.
func storeSums(f *file, n int) {
	for i := range n {
		f.p("FMOVQ F%d, %d(RSP)", i, 16+16*i)
	}
}

// widenSums adds pairs of the 16-bit accumulators 0 to n−1 to the 32-bit sums on the stack, and clears them.
func widenSums(f *file, n, free int) {
	for i := range n {
		f.p("FMOVQ %d(RSP), F%d", 16+16*i, free)
		f.w("sadalp", free, i)
		f.p("FMOVQ F%d, %d(RSP)", free, 16+16*i)
	}
	f.zero(0, n)
}
