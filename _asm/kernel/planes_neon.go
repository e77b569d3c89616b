package main

// digitNEON is how kernels on 128 bits make digits of two planes: rows 4·i to 4·i+3 in a register, unsigned.
type digitNEON struct {
	*file
	digitPlanes
	parts             []int // registers of the upper parts
	free              int   // a register to work with
	lowMask, highMask int
}

// load loads the upper parts of four columns, off bytes from a base register.
func (g *digitNEON) load(base string, off int) {
	for r, v := range g.parts {
		g.p("FMOVQ %d(%s), F%d", off+g.upper()+16*r, base, v)
	}
}

// make makes digits i in register d.
func (g *digitNEON) make(i, d int, base string, off int) {
	lower, registers := g.low, len(g.parts)
	g.p("FMOVQ %d(%s), F%d", off+16*(i%lower), base, d)
	if field := i / lower; field > 0 {
		g.p("VUSHR $%d, V%d.B16, V%d.B16", lower*field, d, d)
	}
	if lower*(i/lower+1) < 8 { // a shift leaves nothing above the last field
		g.p("VAND V%d.B16, V%d.B16, V%d.B16", g.lowMask, d, d)
	}
	from := g.parts[i%registers]
	if right := g.high*(i/registers) - lower; right > 0 {
		g.p("VUSHR $%d, V%d.B16, V%d.B16", right, from, g.free)
		from = g.free
	} else if right < 0 {
		g.p("VSHL $%d, V%d.B16, V%d.B16", -right, from, g.free)
		from = g.free
	}
	g.p("VAND V%d.B16, V%d.B16, V%d.B16", g.highMask, from, g.free)
	g.p("VORR V%d.B16, V%d.B16, V%d.B16", g.free, d, d)
}

// openPlanesNEON writes the functions that make int8 of digits, in the order of vnni4.
func openPlanesNEON(f *file) {
	for _, p := range planeKinds {
		declareOpen(f, p, p.name("OpenPlanes%dNEON"))
		low, high := p.masks()
		g := digitNEON{file: f, digitPlanes: p, parts: []int{8, 9}[:p.high], free: 10, lowMask: 11, highMask: 12}
		f.p("VMOVI $%d, V11.B16", low)
		f.p("VMOVI $%d, V12.B16", high)
		f.p("VMOVI $%d, V13.B16", 1<<(p.bits()-1))
		f.p("MOVD dst+0(FP), R0")
		f.p("MOVD src+8(FP), R1")
		f.p("MOVD fours+16(FP), R3")
		next := f.newLabel("four")
		f.at(next)
		f.prefetchARM(0)
		g.load("R1", 0)
		for i := range operandsNEON {
			g.make(i, i, "R1", 0)
			f.p("VSUB V13.B16, V%d.B16, V%d.B16", i, i)
			f.p("FMOVQ F%d, %d(R0)", i, 16*i)
		}
		f.p("ADD $%d, R1, R1", p.four())
		f.p("ADD $128, R0, R0")
		f.p("SUBS $1, R3, R3")
		f.p("BNE %s", next)
		f.p("RET")
	}
}
