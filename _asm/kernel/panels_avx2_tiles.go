package main

import "fmt"

// Tiles for several tokens, and pairs of panels for one, without VPDPBUSD.
//
// Four operands and their accumulators for more than two tokens do not fit 16 registers. So a group of columns is
// multiplied in two halves, one after the other, each by all tokens: two operands are made once for up to six of them,
// and the second half finds the weights in the cache.

// tileTokens is the maximum number of tokens of a tile. Two registers of signed bytes are kept in addition to their
// magnitudes, and two that parts of digits are joined in, which leaves room for one token less.
func (g *ymm) tileTokens() int {
	if g.wide() {
		return 5
	}
	return 6
}

// placeBytes is the stack space for the steps, the weights and the activations of a group of columns.
const placeBytes = 3 * 8

// keepPlace makes the second half start where the first one started.
func (g *ymm) keepPlace() {
	if g.halves() == 1 {
		return
	}
	_, bytes := g.frame()
	for i, r := range []string{"CX", "DI", "SI"} {
		at := fmt.Sprintf("%d(SP)", bytes-placeBytes+8*i)
		if g.half == 0 {
			g.p("MOVQ %s, %s", r, at)
		} else {
			g.p("MOVQ %s, %s", at, r)
		}
	}
}

// prefetch prefetches weights: without VPDPBUSD every line of a stream, which suits AMD's Zen 3, at the distance given
// by the tile; the second half of a panel is in the cache already. If two calls process half of a panel's bytes each,
// neither reads a stream that hardware would follow, and the second finds the panel in the cache: so each prefetches
// half of the next panel, line by line.
func (g *ymm) prefetch(steps int) {
	if g.rows == 32 && g.vnni {
		prefetchPage(g.file)
		return
	}
	if g.rows == 32 {
		g.prefetchLines(steps * g.stride())
		return
	}
	if g.half > 0 {
		return
	}
	bytes := steps * g.stride() / 2
	for at := 0; at < bytes; at += 64 {
		g.p("PREFETCHT1 %d(R12)", at)
	}
	g.p("ADDQ $%d, R12", bytes)
}

// prefetchLines prefetches every line of the given number of bytes of a stream, R12 bytes ahead.
func (g *ymm) prefetchLines(bytes int) {
	if g.half > 0 {
		return
	}
	for at := 0; at < bytes; at += 64 {
		g.p("PREFETCHT0 %d(DI)(R12*1)", at)
	}
	if g.pair {
		g.p("LEAQ (DI)(R10*1), R11")
		for at := 0; at < bytes; at += 64 {
			g.p("PREFETCHT0 %d(R11)(R12*1)", at)
		}
	}
}

// secondResults stores the results of the second panel of a pair.
func (g *ymm) secondResults() {
	move := func(op string) {
		g.p("MOVQ Tile_SecondUnit(AX), BX")
		g.p("%sQ BX, Tile_Unit(AX)", op)
		g.p("%sQ $%d, DX", op, 4*g.rows)
	}
	move("ADD")
	g.second = true
	results86(g.file, g.tokens, "Y", g.v, false, g.store)
	g.second = false
	move("SUB")
}

// allocateTile assigns the registers above the accumulators of a tile: index and operand are its operands, for signed
// bytes their magnitudes, and v holds packed weights, then products. The remaining ones hold constants.
func (g *ymm) allocateTile() {
	free := g.sums()
	take := func() int { free++; return free - 1 }
	g.index, g.operand, g.v, g.xs = take(), take(), take(), []int{take()}
	g.product, g.table = g.v, nil
	if g.signedBytes() {
		g.bytes = []int{take(), take()}
	}
	if g.joined() {
		g.digits = digit256{file: g.file, digitPlanes: g.planes, parts: take(), free: g.v}
	}
	if free > 16 {
		panic("ymm: out of registers")
	}
	left := func() bool { return free < 16 }
	held := func(name string, words []string) string {
		at := g.rodata(name, words)
		if !left() {
			return at
		}
		register := take()
		g.p("VMOVDQU %s, Y%d", at, register)
		return fmt.Sprintf("Y%d", register)
	}
	if g.joined() {
		g.allocatePlanes(held)
		return
	}
	switch g.bits {
	case 1:
		g.shift = held("yShiftUpper", append(repeat("0", 4), repeat("4", 4)...))
		g.masks = nil
		for i := range operandsY {
			g.masks = append(g.masks, held("y"+bytesOf(1 << i)[2:], repeat(bytesOf(1<<i), 8)))
		}
	case 2, 4:
		for i := 0; i < g.fields()/2 && left(); i++ {
			g.table = append(g.table, take())
			g.loadTable(i, g.table[i])
		}
		g.constant = held("y0f0f0f0f", repeat("0x0f0f0f0f", 8))
	}
	if g.signedBytes() {
		g.ones = held("y00010001", repeat("0x00010001", 8))
	}
}

// loadTable loads the table of the lower or the upper field of four bits.
func (g *ymm) loadTable(i, register int) {
	g.p("VBROADCASTI128 (Tile_Table+%d)(AX), Y%d", 16*i, register)
}

// tableIn returns a register that holds a table: a permanent one, or the given one after a load.
func (g *ymm) tableIn(i, register int) int {
	if i < len(g.table) {
		return g.table[i]
	}
	g.loadTable(i, register)
	return register
}

// tileStep emits the loop body of a half at unroll index u.
func (g *ymm) tileStep(u int) {
	off := u * g.stride()
	switch {
	case g.joined():
		g.joinedOperands(off)
	case g.bits == 1:
		g.tileOperands1(off)
	case g.bits == 2:
		g.tileOperands2(off)
	case g.bits == 4:
		g.tileOperands4(off + 32*g.half)
	case g.bits == 8:
		for i, w := range g.bytes {
			g.p("VMOVDQU %d(DI), Y%d", off+64*g.half+32*i, w)
			g.p("VPABSB Y%d, Y%d", w, []int{g.index, g.operand}[i])
		}
	}
	x := g.xs[0]
	for t := range g.tokens {
		g.p("VPBROADCASTD %d%s, Y%d", 4*u, tokenAddress(t), x)
		g.tileProducts(t)
	}
}

// tileProducts adds the products of both operands with a token, first the products, then the additions (see flush). The
// second product overwrites the activations.
func (g *ymm) tileProducts(t int) {
	operands, by := []int{g.index, g.operand}, []int{g.product, g.xs[0]}
	both := func(emit func(i, a int)) {
		for i := range operands {
			emit(i, g.acc(t, i, 0))
		}
	}
	if g.signedBytes() {
		both(func(i, a int) { g.p("VPSIGNB Y%d, Y%d, Y%d", g.bytes[i], g.xs[0], by[i]) })
		both(func(i, a int) { g.p("VPMADDUBSW Y%d, Y%d, Y%d", by[i], operands[i], by[i]) })
		both(func(i, a int) { g.p("VPMADDWD %s, Y%d, Y%d", g.ones, by[i], g.sumOr(a, by[i])) })
		both(func(i, a int) { g.addTo("VPADDD", a, by[i]) })
		return
	}
	if g.joined() {
		both(func(i, a int) { g.p("VPMADDUBSW Y%d, Y%d, Y%d", g.xs[0], operands[i], by[i]) })
		both(func(i, a int) { g.p("VPMADDWD %s, Y%d, Y%d", g.ones, by[i], g.sumOr(a, by[i])) })
		both(func(i, a int) { g.addTo("VPADDD", a, by[i]) })
		return
	}
	both(func(i, a int) { g.p("VPMADDUBSW Y%d, Y%d, Y%d", g.xs[0], operands[i], g.sumOr(a, by[i])) })
	both(func(i, a int) { g.addTo("VPADDW", a, by[i]) })
}

// tileOperands1 extracts two operands of 1-bit weights.
func (g *ymm) tileOperands1(off int) {
	g.p("VBROADCASTI128 %d(DI), Y%d", off, g.v)
	g.p("VPSRLVD %s, Y%d, Y%d", g.shift, g.v, g.v)
	for i, d := range []int{g.index, g.operand} {
		g.p("VPAND %s, Y%d, Y%d", g.masks[2*g.half+i], g.v, d)
	}
}

// tileOperands2 decodes the two fields in four bits of a byte.
func (g *ymm) tileOperands2(off int) {
	g.p("VMOVDQU %d(DI), Y%d", off, g.v)
	if g.half > 0 {
		g.p("VPSRLW $4, Y%d, Y%d", g.v, g.v)
	}
	g.p("VPAND %s, Y%d, Y%d", g.constant, g.v, g.v)
	for i, d := range []int{g.index, g.operand} {
		g.p("VPSHUFB Y%d, Y%d, Y%d", g.v, g.tableIn(i, d), d)
	}
}

// tileOperands4 decodes both fields of a register.
func (g *ymm) tileOperands4(off int) {
	low, high, table := g.index, g.operand, g.tableIn(0, g.xs[0])
	if g.signedBytes() {
		low, high = g.bytes[0], g.bytes[1]
	}
	g.p("VMOVDQU %d(DI), Y%d", off, g.v)
	g.p("VPAND %s, Y%d, Y%d", g.constant, g.v, low)
	g.p("VPSRLW $4, Y%d, Y%d", g.v, g.v)
	g.p("VPAND %s, Y%d, Y%d", g.constant, g.v, high)
	g.p("VPSHUFB Y%d, Y%d, Y%d", low, table, low)
	g.p("VPSHUFB Y%d, Y%d, Y%d", high, table, high)
	if g.signedBytes() {
		g.p("VPABSB Y%d, Y%d", low, g.index)
		g.p("VPABSB Y%d, Y%d", high, g.operand)
	}
}
