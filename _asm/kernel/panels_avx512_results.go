package main

import "fmt"

// finish applies the zero-point correction to the accumulators, and stores them, or scales them and adds them to the
// results.
func (g *vnni512) finish() {
	n := g.tokens * g.operands()
	for i := n; i < n*g.copies; i++ {
		g.p("VPADDD Z%d, Z%d, Z%d", i, i%n, i%n)
	}
	if g.fields() > 1 && !g.whole {
		g.separate()
	}
	for i := 0; i < n; i += g.folded() {
		if g.split == 2 {
			g.foldPair(i)
			continue
		}
		for half := g.split; half > 1; half /= 2 {
			g.fold(i, half == g.split)
		}
	}
	for i := 0; i < n && g.pair; i += 2 {
		g.unpair(i)
	}
	if g.bits < 4 {
		g.add()
	}
	if g.panels() > 1 {
		g.p("MOVQ Tile_SecondUnit(AX), R12")
	}
	// Where results are in memory, one product less made it slower (docs/notes/kernels.md).
	results86(g.file, g.tokens, "Z", g.xs[0], g.ys != nil, g.storeRows)
}

// add applies Tile.Mul and TokenGroup.Add to accumulators that started with zero. VPMULLD uses the ports of products.
func (g *vnni512) add() {
	add, minus := g.ops[0], g.minus && g.room == noRoom
	if !minus {
		one := g.newLabel("one")
		g.p("CMPL Tile_Mul(AX), $1")
		g.p("JEQ %s", one)
		for t := range g.tokens {
			for _, at := range g.places() {
				g.p("VPMULLD.BCST Tile_Mul(AX), Z%d, Z%d", g.acc(t, at.sum, 0), g.acc(t, at.sum, 0))
			}
		}
		g.at(one)
	}
	for t := range g.tokens {
		g.p("VPBROADCASTD (TokenGroup_Add+%d*TokenGroup__size)(R14), Z%d", t, add)
		for _, at := range g.places() {
			a := g.acc(t, at.sum, 0)
			if minus {
				g.p("VPSUBD Z%d, Z%d, Z%d", a, add, a)
			} else {
				g.p("VPADDD Z%d, Z%d, Z%d", add, a, a)
			}
		}
	}
}

// separate subtracts the sums of the other fields from the sum of field 0 and scales them.
func (g *vnni512) separate() {
	for t := range g.tokens {
		for r := range g.regs {
			zero := g.acc(t, r*g.fields(), 0)
			for f := 1; f < g.fields(); f++ {
				g.p("VPSUBD Z%d, Z%d, Z%d", zero+f, zero, zero)
				g.p("VPSRAD $%d, Z%d, Z%d", f*g.bits, zero+f, zero+f)
			}
		}
	}
}

// folded is the number of accumulators that are folded into one register.
func (g *vnni512) folded() int {
	if g.split == 2 {
		return 2
	}
	return 1
}

// unpair splits accumulators i and i+1, whose halves belong to two panels, by panel.
func (g *vnni512) unpair(i int) {
	tmp := g.ops[0]
	g.p("VSHUFI64X2 $0x44, Z%d, Z%d, Z%d", i+1, i, tmp)
	g.p("VSHUFI64X2 $0xEE, Z%d, Z%d, Z%d", i+1, i, i+1)
	g.p("VMOVDQA64 Z%d, Z%d", tmp, i)
}

// foldPair adds the halves of accumulators i and i+1, and leaves the results of i in the lower half of register i, and
// of i+1 in the upper half.
func (g *vnni512) foldPair(i int) {
	tmp := g.ops[0]
	g.p("VSHUFI64X2 $0x44, Z%d, Z%d, Z%d", i+1, i, tmp)
	g.p("VSHUFI64X2 $0xEE, Z%d, Z%d, Z%d", i+1, i, i)
	g.p("VPADDD Z%d, Z%d, Z%d", tmp, i, i)
}

// fold adds the upper half of the lanes in use to the lower half.
func (g *vnni512) fold(i int, first bool) {
	tmp := g.ops[0]
	if first {
		g.p("VEXTRACTI64X4 $1, Z%d, Y%d", i, tmp)
		g.p("VPADDD Y%d, Y%d, Y%d", tmp, i, i)
	} else {
		g.p("VEXTRACTI32X4 $1, Y%d, X%d", i, tmp)
		g.p("VPADDD X%d, X%d, X%d", tmp, i, i)
	}
}

// place says which rows a register of results holds: the panel, and the first row.
type place struct{ sum, panel, row int }

// places lists the registers of results of a token, panel by panel.
func (g *vnni512) places() (list []place) {
	if g.pair {
		for i := range g.operands() {
			panel, at := i/(g.operands()/2), 2*i%g.operands()
			list = append(list, place{at + panel, panel, at * g.lanes() / 2})
		}
		return list
	}
	each := g.regs / max(g.share, 1) // registers per panel
	for r := range g.regs {
		for f := 0; f < g.fields(); f += g.folded() {
			list = append(list, place{r*g.fields() + f, r / each, f*g.lanes()/g.panels() + 16*(r%each)})
		}
	}
	return list
}

// scalesAhead is the prefetch distance of weight scales, in bytes, where every line of weights is prefetched.
const scalesAhead = 2 << 10

// storeRows is the store of results86. Weight scales stay in the registers of operands if there are enough.
func (g *vnni512) storeRows(t int, o outcome) {
	kind := map[int]string{1: "Z", 2: "Z", 4: "X"}[g.split]
	size, stay, panel := o.size(), o.scalesWeights() && g.held, 0
	for i, at := range g.places() {
		unit, other := "(CX)", g.ops[0]
		if stay {
			other = g.ops[i]
		}
		switch {
		case at.panel > 0 && g.pair:
			unit = fmt.Sprintf("(CX)(R12*%d)", size)
		case at.panel > panel && size > 0:
			panel = at.panel
			g.p("LEAQ (CX)(R12*%d), CX", size)
		}
		if t == 0 || !stay {
			unit86(g.file, fmt.Sprint(kind, other), 4*at.row, unit, o)
			if stay && g.namesLines() {
				g.p("PREFETCHT1 %d%s", scalesAhead+size*at.row, unit)
			}
		}
		if a := g.acc(t, at.sum, 0); g.ys != nil && o >= byActivations {
			g.addTo(g.ys[t*len(g.places())+i], a, other, o)
		} else {
			add86(g.file, fmt.Sprint(kind, a), fmt.Sprint(kind, other), fmt.Sprint(kind, g.xs[0]),
				4*(at.panel*g.panelRows()+at.row), o)
		}
	}
}

// addTo is add86 for results in register y.
func (g *vnni512) addTo(y, a, other int, o outcome) {
	g.p("VCVTDQ2PS Z%d, Z%d", a, a)
	if o == byActivations {
		g.p("VFMADD231PS Z%d, Z%d, Z%d", g.xs[0], a, y)
		return
	}
	if o.scalesBoth() {
		g.p("VMULPS Z%d, Z%d, Z%d", g.xs[0], a, a)
	}
	g.p("VFMADD231PS Z%d, Z%d, Z%d", other, a, y)
}

// beginResults sets the scaled results of a panel to +0, in registers or in memory.
func (g *vnni512) beginResults() {
	for _, y := range g.ys {
		g.p("VPXORD Z%d, Z%d, Z%d", y, y, y)
	}
	if g.ys != nil {
		return
	}
	zero := g.ops[0]
	g.p("VPXORD Z%d, Z%d, Z%d", zero, zero, zero)
	g.eachResult(func(int) int { return zero })
}

// storeResults stores the scaled results that are in registers.
func (g *vnni512) storeResults() {
	if g.ys != nil {
		g.eachResult(func(i int) int { return g.ys[i] })
	}
}

// eachResult stores the register of each place of scaled results of all tokens.
func (g *vnni512) eachResult(register func(i int) int) {
	exact, kind, places := g.newLabel("exact"), "Z", g.places()
	if g.split == 4 {
		kind = "X"
	}
	g.p("CMPQ Tile_Scaled(AX), $0")
	g.p("JEQ %s", exact)
	g.p("MOVQ Tile_Y(AX), BX")
	for i := range g.tokens * len(places) {
		if i > 0 && i%len(places) == 0 {
			g.p("ADDQ R9, BX")
		}
		at := places[i%len(places)]
		g.p("VMOVUPS %s%d, %d(BX)", kind, register(i), 4*(at.panel*g.panelRows()+at.row))
	}
	g.at(exact)
}
