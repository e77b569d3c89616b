package main

// Digits in two planes, multiplied as unsigned bytes. Without VPDPBUSD products of two columns, at most 2·63·127, are
// widened at once: two more would fit 16 bits, but the sums would go through memory after every second step.

// joined reports whether digits are joined of two parts.
func (g *ymm) joined() bool { return g.planes.low > 0 }

// allocatePlanes loads the constants by which parts of digits are joined.
func (g *ymm) allocatePlanes(held func(name string, words []string) string) {
	constant := func(b byte) string { return held("y"+bytesOf(b)[2:], repeat(bytesOf(b), 8)) }
	low, high := g.planes.masks()
	g.digits.lowMask, g.digits.highMask = constant(low), constant(high)
	if g.planes.high == 1 {
		g.digits.spread = held("yShiftOne", spread256())
	}
	if !g.vnni {
		g.ones = held("y00010001", repeat("0x00010001", 8))
	}
}

// joinedStep multiplies four columns of a panel.
func (g *ymm) joinedStep(off, copy int) {
	g.digits.open(g.weights(off + g.planes.upper()))
	for i := range operandsY {
		g.makeDigits(i, off, g.operand)
		if g.vnni {
			g.multiply(i, copy)
			continue
		}
		sum := g.acc(0, i, copy)
		g.p("VPMADDUBSW Y%d, Y%d, Y%d", g.xs[0], g.operand, g.operand)
		g.p("VPMADDWD %s, Y%d, Y%d", g.ones, g.operand, g.sumOr(sum, g.operand))
		g.addTo("VPADDD", sum, g.operand)
	}
}

// joinedOperands makes both operands of a half.
func (g *ymm) joinedOperands(off int) {
	g.digits.open(g.weights(off + g.planes.upper()))
	for i, d := range []int{g.index, g.operand} {
		g.makeDigits(g.operandOf(i), off, d)
	}
}

// makeDigits makes operand i of a step.
func (g *ymm) makeDigits(i, off, d int) {
	g.digits.make(i, d, func(register int) string { return g.weights(off + 32*register) })
}
