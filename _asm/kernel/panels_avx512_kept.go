package main

import (
	"fmt"
	"strings"
)

// Products of more tokens than there are registers for both sums and scaled results of all rows: a group of columns is
// multiplied twice, each time with half of the rows of the panel. The second time weights come from the L1 cache. Half
// 0 is rows 0 to 15.

const (
	keptFrom  = 7 // tokens; fewer have registers for both halves at once
	keptSteps = 4 // of a loop
)

// kept512 writes the functions of a stream of 32-row panels, and their table.
func (f *file) kept512(s stream) {
	s.most = (32 - 2 - s.extra()) / 3 // beside an operand and a factor; a token has a sum and two results
	s.name = strings.Replace(s.name, "AVX512", "KeptAVX512", 1)
	funcs := make([]string, s.most)
	for i := range funcs {
		if funcs[i] = "nil"; i+1 >= keptFrom {
			funcs[i] = fmt.Sprintf("%sx%d", s.name, i+1)
			vnni512{stream: &s, tokens: i + 1, kept: true}.write(f, func(g *vnni512) { g.keptFunction(funcs[i]) })
		}
	}
	doc := fmt.Sprintf("multiply %s, %d to %d tokens at once, whose scaled results stay in registers.", s.what,
		keptFrom, s.most)
	f.table(s.name, doc, funcs)
}

// extra is the number of registers with what a stream opens weights by.
func (s *stream) extra() (n int) {
	if s.lookup {
		n++
	}
	if s.planes.low > 0 {
		n++
		for _, width := range []int{s.planes.low, s.planes.high} {
			if width < 4 {
				n++
			}
		}
	}
	return n
}

// keptFunction emits a function whose results stay in registers.
func (g *vnni512) keptFunction(name string) {
	g.copies = 1
	g.free = g.tokens
	g.begin(name)
	g.ys, g.ops, g.xs = g.take(2*g.tokens), g.take(1), g.take(1)
	g.allocateConstants()
	panels86(g.file, g.rows(), func() {
		g.beginResults()
		groups86(g.file, g.rows(), func() {
			g.p("MOVQ CX, Tile_GroupSteps(AX)")
			for g.half = range 2 {
				g.keptHalf()
			}
		})
		g.storeResults()
	})
}

// keptHalf multiplies a group of columns with half of the rows. DI and SI are at the end of the group after the second
// half.
func (g *vnni512) keptHalf() {
	for t := range g.tokens {
		field := "Add"
		if g.shifted() {
			field = "Fields+4" // of field 1
		}
		g.p("VPBROADCASTD (TokenGroup_%s+%d*TokenGroup__size)(R14), Z%d", field, t, t)
	}
	g.loops(keptSteps)
	if g.shifted() {
		for t := range g.tokens {
			g.p("VPSRAD $%d, Z%d, Z%d", g.bits, t, t)
		}
	}
	results86(g.file, g.tokens, "Z", g.xs[0], true, g.storeHalf)
	if g.half == 0 {
		g.p("MOVQ Tile_GroupSteps(AX), CX")
		g.p("IMUL3Q $%d, CX, BX", g.stride())
		g.p("SUBQ BX, DI")
		g.p("LEAQ (CX*4), BX")
		g.p("SUBQ BX, SI")
	}
}

// shifted reports whether operands of the half are a field in its place, above another one.
func (g *vnni512) shifted() bool { return g.half == 1 && g.bits == 4 && !g.whole }

// keptStep emits the products of a step with half of the rows.
func (g *vnni512) keptStep(u int) {
	if u == 0 {
		g.p("LEAQ (SI)(R10*2), R11")
	}
	op := g.ops[0]
	g.openHalf(op, u)
	for t := range g.tokens {
		g.p("VPDPBUSD.BCST %d%s, Z%d, Z%d", 4*u, tokenAddress(t), op, t)
	}
}

// openHalf makes the operand of half of the rows of a step.
func (g *vnni512) openHalf(op, u int) {
	at := g.weights(0, u)
	switch {
	case g.bits == 8:
		bytes512(g, []int{op}, g.weights(g.half, u), false)
	case g.planes.low > 0:
		planesHalf512(g, op, at)
	case g.lookup:
		lookupHalf512(g, op, at)
	default:
		g.cut(4*g.half, at, op)
	}
}

// cut leaves four bits of every byte of an operand, from a bit on.
func (g *vnni512) cut(bit int, from string, d int) {
	c, suffix := g.constant(bytesOf(0x0f << bit))
	if suffix != "" && !strings.HasPrefix(from, "Z") {
		g.p("VMOVDQU64 %s, Z%d", from, d)
		from = fmt.Sprint("Z", d)
	}
	if suffix == "" {
		g.p("VPANDD %s, %s, Z%d", from, c, d)
	} else {
		g.p("VPANDD%s %s, %s, Z%d", suffix, c, from, d)
	}
}

// lookupHalf512 is lookup512 for one of the fields.
func lookupHalf512(g *vnni512, op int, at string) {
	if g.half == 0 {
		g.cut(0, at, op)
	} else {
		g.load(op, at, false)
		g.p("VPSRLW $4, Z%d, Z%d", op, op)
		g.cut(0, fmt.Sprint("Z", op), op)
	}
	g.p("VPSHUFB Z%d, Z%d, Z%d", op, g.tableReg, op)
}

// prefetchHalf prefetches every second line of an iteration; the other half of the rows has the others. Tunings with
// more than six tokens per tile have a plain distance.
func (g *vnni512) prefetchHalf(unroll int) {
	g.p("MOVQ (Tile_Prefetch+Prefetch_Ahead)(AX), R12")
	for line := g.half; line < unroll*g.stride()/pace; line += 2 {
		g.p("PREFETCHT1 %d(DI)(R12*1)", line*pace)
	}
}

// storeHalf is the store of results86 for half of the rows. Scales of the weights take the register of the operand.
func (g *vnni512) storeHalf(t int, o outcome) {
	at, other := g.places()[g.half], g.ops[0]
	if t == 0 || !o.scalesWeights() {
		unit86(g.file, fmt.Sprint("Z", other), 4*at.row, "(CX)", o)
		if o.scalesWeights() {
			g.p("PREFETCHT1 %d(CX)", scalesAhead+o.size()*at.row)
		}
	}
	if o >= byActivations {
		g.addTo(g.ys[2*t+g.half], t, other, o)
	} else {
		add86(g.file, fmt.Sprint("Z", t), fmt.Sprint("Z", other), fmt.Sprint("Z", g.xs[0]), 4*at.row, o)
	}
}
