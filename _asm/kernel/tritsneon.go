package main

// Base-3 bytes on 128-bit registers: 32 rows of a 64-row panel, one token, as in trits256.go. With q₀ a stored byte and
// qᵢ₊₁ = 3·qᵢ mod 256, digit i is (3·qᵢ − qᵢ₊₁)/256, and the weight one less. Bytes are kept less 128, which
// multiplication by three modulo 256 preserves, and which makes them signed: s = q − 128. Then (3·sᵢ − sᵢ₊₁)/256 is the
// weight itself.
//
// With dot products nothing is extracted: the kernel sums P = Σ sᵢ·xᵢ and Q = Σ sᵢ₊₁·xᵢ, and (3·P − Q)/256 is the
// result. Modulo 2³² P and Q may wrap; the difference is at most 256·127 per column.
//
// Without them s would not fit into 16-bit products, so weights are made of two comparisons: the weight is the number of
// −43 and 42 that s exceeds, less one. Sums are those of neon.go, five products per step.
type trit128 struct {
	*file
	dot bool
}

// Registers: sums 0 to 15, then the bytes of eight registers.
const (
	tritsARM  = 8 // registers of a step
	tritBytes = 16
	tritFlip  = 24
	tritTemp  = 25
	tritOther = 26
	tritX     = 27
	tritHigh  = 29 // 42
	tritLow   = 30 // −42
)

func tritsNEON(f *file, name string, dot bool) {
	g := &trit128{f, dot}
	frame := 0
	if !dot {
		frame = 16 * 2 * tritsARM
	}
	panelsARM(f, name, 64, frame, func() {
		f.p("VMOVI $128, V%d.B16", tritFlip)
		if !dot {
			f.p("VMOVI $42, V%d.B16", tritHigh)
			f.p("VMOVI $%d, V%d.B16", 256-42, tritLow)
		}
	}, func() {
		f.zero(0, 2*tritsARM)
		if dot {
			g.linear()
		} else {
			storeSums(f, 2*tritsARM)
			blocksARM(f, g.compared, func() { widenSums(f, 2*tritsARM, tritTemp) })
		}
		g.finish()
	})
	f.table(name+"Funcs", "multiply 32 rows of 64-row panels of base-3 bytes, one token at a time.", []string{name})
}

// load reads the bytes of a step.
func (g *trit128) load() {
	for off := 0; off < 16*tritsARM; off += 64 {
		g.announceARM(off)
	}
	for r := range tritsARM {
		g.p("FMOVQ %d(R1), F%d", 16*r, tritBytes+r)
		g.p("VEOR V%d.B16, V%d.B16, V%d.B16", tritFlip, tritBytes+r, tritBytes+r)
	}
}

func (g *trit128) advance() {
	g.p("ADD $256, R1, R1")
	g.p("ADD $20, R4, R4")
}

// triple multiplies bytes by three.
func (g *trit128) triple(v int) {
	g.p("VADD V%d.B16, V%d.B16, V%d.B16", v, v, tritTemp)
	g.p("VADD V%d.B16, V%d.B16, V%d.B16", tritTemp, v, v)
}

// linear sums P (sums 0 to 7) and Q (8 to 15).
func (g *trit128) linear() {
	loop := g.newLabel("loop")
	g.at(loop)
	g.load()
	g.p("FMOVQ (R4), F%d", tritX)
	g.p("FMOVS 16(R4), F%d", tritX+1)
	for digit := range 5 {
		for r := range tritsARM {
			v := tritBytes + r
			g.sdot(r, v, tritX+digit/4, digit%4)
			g.triple(v)
			g.sdot(tritsARM+r, v, tritX+digit/4, digit%4)
		}
	}
	g.advance()
	g.p("SUBS $1, R3, R3")
	g.p("BNE %s", loop)
}

// compared emits a step that makes weights: the second comparison less the first, each −1 where it holds.
func (g *trit128) compared() {
	g.load()
	for digit := range 5 {
		g.p("ADD $%d, R4, R6", 4*digit)
		g.p("VLD1R (R6), [V%d.S4]", tritX)
		for r := range tritsARM {
			v := tritBytes + r
			g.w("cmgt", tritTemp, v, tritHigh)
			g.w("cmgt", tritOther, tritLow, v)
			g.p("VSUB V%d.B16, V%d.B16, V%d.B16", tritTemp, tritOther, tritOther)
			g.w("smlal", 2*r, tritOther, tritX)
			g.w("smlal2", 2*r+1, tritOther, tritX)
			if digit < 4 {
				g.triple(v)
			}
		}
	}
	g.advance()
}

// finish stores the sums: register r has rows 4·r to 4·r+3 of the part.
func (g *trit128) finish() {
	for r := range tritsARM {
		if g.dot {
			g.p("VADD V%d.S4, V%d.S4, V%d.S4", r, r, tritTemp)
			g.p("VADD V%d.S4, V%d.S4, V%d.S4", tritTemp, r, r)
			g.p("VSUB V%d.S4, V%d.S4, V%d.S4", tritsARM+r, r, r)
			g.w("sshr, #8", r, r)
		} else {
			g.p("FMOVQ %d(RSP), F%d", 16+32*r, tritTemp)
			g.p("FMOVQ %d(RSP), F%d", 32+32*r, tritOther)
			g.p("VADDP V%d.S4, V%d.S4, V%d.S4", tritOther, tritTemp, r)
		}
		g.p("FMOVQ F%d, %d(R11)", r, 16*r)
	}
}
