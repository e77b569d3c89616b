package main

import (
	"fmt"
	"slices"
)

// Products with 512-bit VPDPBUSD. A step unpacks the packed weights of one or more groups of four columns into unsigned
// operands, each 16 lanes of four bytes, and multiplies each with the activations of its columns.
//
// A register of packed weights holds fields of 1, 2, 4 or 8 bits. Field f is extracted by a mask alone, so that its
// operand is the field times 2^(f·bits); the operand of field 0 is the register itself, with all fields. The sums are
// corrected once, at the end: the others are subtracted from sum 0, then sum f is shifted right by f·bits.
//
// General registers: DI weights, SI activations, R11 activations of the seventh token, R8 bytes between tokens (R10
// three, R13 five times; with up to five tokens R13 is Prefetch.Every), CX steps.

// stream is one kind of packed weights.
type stream struct {
	name   string
	what   string // the weights that panels consist of, for doc
	bits   int    // per field
	regs   int    // 64-byte registers per step
	split  int    // groups of four columns that share a register: lane l belongs to group l·split/16
	pair   bool   // the upper half of a register belongs to the next panel, R11 bytes further on
	share  int    // number of panels that the registers hold, one after the other, each R11 bytes further on; 0 = one
	most   int    // maximum number of tokens at once
	whole  bool   // open fills a register per field
	minus  bool   // operands fall as weights rise: Tile.Mul is −1
	lookup bool   // open looks operands up in Tile.Table, by four bits, in register tableReg
	// open joins both parts of digits (planes512); the zero value = fields have no parts
	planes digitPlanes

	// open loads the packed weights at an address into operand register d[0]; d[1] is free. With whole it fills all of
	// d.
	open func(g *vnni512, d []int, at string, masked bool)
}

func (s *stream) fields() int   { return 8 / s.bits }
func (s *stream) operands() int { return s.fields() * s.regs }

// lanes is the number of rows that one field of all registers covers; for a pair, in both panels.
func (s *stream) lanes() int { return 16 * s.regs / s.split }

// stride is the number of bytes of a panel per step.
func (s *stream) stride() int {
	switch {
	case s.pair:
		return pace / 2
	case s.planes.low > 0:
		return s.planes.four()
	}
	return pace * s.regs / s.panels()
}

// panels is the number of panels that the function treats as one.
func (s *stream) panels() int {
	if s.pair {
		return 2
	}
	return max(s.share, 1)
}

// rows is the number of rows of all panels of the function, panelRows of a single one.
func (s *stream) rows() int      { return s.lanes() * s.fields() }
func (s *stream) panelRows() int { return s.rows() / s.panels() }

func (s *stream) doc() string {
	panels, tokens := s.what, "one token at a time"
	if s.panels() > 1 {
		panels = map[int]string{2: "pairs", 4: "fours"}[s.panels()] + " of " + panels
	}
	if s.most > 1 {
		tokens = fmt.Sprintf("1 to %d tokens at once", s.most)
	}
	return fmt.Sprintf("multiply %s, %s.", panels, tokens)
}

// vnni512 emits the function of a stream for a number of tokens.
type vnni512 struct {
	*file
	*stream
	tokens int
	copies int // of the accumulators, used alternately, to hide the latency of the additions

	room roomUse // panels_avx512_dense.go
	// all operands of a step have registers at once; otherwise only the operands of one register, or the activations of
	// all tokens
	held     bool
	free     int            // first unused register
	ops      []int          // operands
	xs       []int          // activations
	ys       []int          // scaled results of all tokens; none = they are in memory
	kept     bool           // half of the rows at a time (panels_avx512_kept.go)
	half     int            // 0 = rows 0 to 15
	spread   int            // control of the shuffle for split = 4
	tableReg int            // register of the table, in every 128-bit lane
	partReg  int            // of lower parts of digits
	shifts   map[int]int    // register of the shifts of the lanes of a plane, by its bits
	wanted   []string       // constants requested in a dry run
	inReg    map[string]int // constants in registers
}

const (
	pace      = 64   // bytes of a register
	maskHalf  = "K1" // lanes 8 to 15
	maskValid = "K2" // lanes of the last, incomplete step
)

// prefetchPage prefetches weights in the next page, relative to DI: hardware prefetchers follow a stream by themselves
// and stop at the end of a page. Touching its first line loads it and its translation; if the tile says so
// (Tile.Prefetch.Ramp), 16 lines in the course of this page. Loops repeat it every few hundred bytes, which is cheaper
// than counting. It uses R11 and R12.
func prefetchPage(f *file) {
	f.p("LEAQ 4096(DI), R12")
	f.p("ANDQ $-4096, R12")
	f.p("MOVQ (Tile_Prefetch+Prefetch_Ramp)(AX), R11")
	f.p("ANDQ DI, R11")
	f.p("SHRQ $2, R11")
	f.p("PREFETCHT1 (R12)(R11*1)")
}

// prefetchRule prefetches weights as the tile says, relative to an address, which is rounded down to a multiple of some
// bytes. It uses R12 and BX, whose sum is the line.
func prefetchRule(f *file, address string, multiple int) {
	f.p("LEAQ %s, BX", address)
	f.p("MOVQ (Tile_Prefetch+Prefetch_Ahead)(AX), R12")
	f.p("ADDQ BX, R12")
	f.p("ANDQ (Tile_Prefetch+Prefetch_Page)(AX), R12")
	if multiple > pace {
		f.p("ANDQ $-%d, R12", multiple)
	}
	f.p("ANDQ (Tile_Prefetch+Prefetch_Ramp)(AX), BX")
	f.p("SHRQ $2, BX")
	f.p("PREFETCHT1 (R12)(BX*1)")
}

// prefetchEvery prefetches every line of weights of an iteration, relative to DI, as far ahead as R13 says
// (beginTile512), or, where it is 0, emits other prefetches.
func prefetchEvery(f *file, bytes int, other func()) {
	others, done := f.newLabel("others"), f.newLabel("named")
	f.p("TESTQ R13, R13")
	f.p("JZ %s", others)
	for at := 0; at < bytes; at += pace {
		f.p("PREFETCHT1 %d(DI)(R13*1)", at)
	}
	f.p("JMP %s", done)
	f.at(others)
	other()
	f.at(done)
}

// memoryCycles is the approximate memory time of a line of weights. With fewer products a kernel waits for memory.
const memoryCycles = 5

// namesLines reports whether products take as long as memory, so that every line of a panel should be prefetched.
func (g *vnni512) namesLines() bool { return g.tokens > 1 && g.tokens*g.fields() >= memoryCycles }

// prefetch emits the prefetches of weights in a loop with the given unrolling. docs/notes/kernels.md has measurements.
func (g *vnni512) prefetch(unroll int) {
	bytes := unroll * g.stride()
	switch {
	case g.room == readRoom:
		g.prefetchNext()
	case g.kept:
		g.prefetchHalf(unroll)
	case g.panels() > 1:
		for at := 0; at < bytes; at += 4 * pace {
			for i := range g.panels() {
				prefetchRule(g.file, fmt.Sprint(at, panelAddress(i)), pace)
			}
		}
	case !g.namesLines():
		prefetchEvery(g.file, bytes, func() {
			// Every second line. Where an iteration reads no multiple of two, counting from its address would name now
			// one, now two lines in a row, and the hardware prefetcher lose the stream.
			multiple := pace
			if bytes%(2*pace) != 0 {
				multiple = 2 * pace
			}
			for at := 0; at < bytes; at += 2 * pace {
				prefetchRule(g.file, fmt.Sprintf("%d(DI)", at), multiple)
			}
		})
	default:
		prefetchRule(g.file, "(DI)", pace)
		g.p("ADDQ BX, R12")
		g.p("MOVQ (Tile_Prefetch+Prefetch_Line)(AX), BX")
		for range (bytes - 1) / pace {
			g.p("ADDQ BX, R12")
			g.p("PREFETCHT1 (R12)")
		}
	}
}

func avx512File() *file {
	f := newFile("panels_avx512", "amd64")
	for _, s := range streams512() {
		var funcs []string
		for t := 1; t <= s.most; t++ {
			name := fmt.Sprintf("%sx%d", s.name, t)
			vnni512{stream: &s, tokens: t}.write(f, func(g *vnni512) { g.function(name) })
			funcs = append(funcs, name)
		}
		f.table(s.name, s.doc(), funcs)
		if s.bits >= 4 && s.panels() == 1 && s.rows() == 32 {
			f.kept512(s)
		}
	}
	openPlanes512(f)
	return f
}

// write writes a function to a file, after a dry run that collects the constants that it needs.
func (g vnni512) write(f *file, function func(g *vnni512)) {
	dry := g
	dry.file = newFile("", "")
	function(&dry)
	g.file, g.wanted = f, dry.wanted
	function(&g)
}

func (g *vnni512) acc(t, i, copy int) int {
	return (copy*g.tokens+t)*g.operands() + i
}

// copiesOf is the number of copies of the accumulators. A VPDPBUSD waits four cycles (AMD) or five (Intel) for the one
// before it with the same accumulator. With one per cycle eight accumulators hide that, with two per cycle eight just
// would if each began in time, and sixteen do. One token waits for memory, and planes need the registers.
func (g *vnni512) copiesOf() int {
	accumulators := 16
	if g.tokens == 1 || g.planes.low > 0 {
		accumulators = 8
	}
	return max(1, accumulators/(g.tokens*g.operands()))
}

func (g *vnni512) function(name string) {
	g.copies = g.copiesOf()
	sums := g.copies * g.tokens * g.operands()
	g.free = sums
	g.begin(name)
	g.allocate()
	panels86(g.file, g.rows(), func() {
		g.beginResults()
		groups86(g.file, g.panelRows(), func() {
			g.start()
			g.columns()
			g.finish()
		})
		g.storeResults()
	})
}

// start initializes the accumulators of a group: with TokenGroup.Add or Fields, or with zero if a multiplication must
// come first (add).
func (g *vnni512) start() {
	for i := range g.copies * g.tokens * g.operands() {
		switch t := i / g.operands(); {
		case t >= g.tokens || g.bits < 4:
			g.p("VPXORD Z%d, Z%d, Z%d", i, i, i)
		case g.bits == 4 && !g.whole:
			g.p("VPBROADCASTD (TokenGroup_Fields+%d+%d*TokenGroup__size)(R14), Z%d", 4*(i%g.fields()), t, i)
		default:
			g.p("VPBROADCASTD (TokenGroup_Add+%d*TokenGroup__size)(R14), Z%d", t, i)
		}
	}
}

// columns emits the loops over the columns of a group.
func (g *vnni512) columns() {
	unroll := max(g.copies, 2)
	if g.tokens == 1 {
		unroll = max(unroll, 4/g.regs)
	}
	g.loops(unroll)
	if g.split > 1 {
		g.tail()
	}
}

// loops emits a loop of some steps at a time, and one for the rest.
func (g *vnni512) loops(unroll int) {
	loop, rest, one, done := g.newLabel("loop"), g.newLabel("rest"), g.newLabel("one"), g.newLabel("done")
	g.p("SUBQ $%d, CX", unroll)
	g.p("JLT %s", rest)
	g.p("PCALIGN $64")
	g.at(loop)
	g.prefetch(unroll)
	for u := range unroll {
		g.step(u, u%g.copies, false)
	}
	g.advance(unroll)
	g.p("SUBQ $%d, CX", unroll)
	g.p("JGE %s", loop)
	g.at(rest)
	g.p("ADDQ $%d, CX", unroll)
	g.p("JZ %s", done)
	g.at(one)
	g.step(0, 0, false)
	g.advance(1)
	g.p("DECQ CX")
	g.p("JNZ %s", one)
	g.at(done)
}

func (g *vnni512) begin(name string) {
	beginTile512(g.file, name, g.tokens)
	if g.panels() > 1 {
		g.p("MOVQ Tile_PanelBytes(AX), R11")
	}
	if g.panels() > 2 {
		g.p("LEAQ (R11)(R11*2), R10")
	}
	if g.panels() > 1 && g.room == noRoom {
		g.p("SHLQ $%d, Tile_PanelBytes(AX)", g.panels()/2)
	}
	if g.split == 2 {
		g.p("MOVL $0xFF00, BX")
		g.p("KMOVW BX, %s", maskHalf)
	}
}

// beginTile512 opens a function and loads what every kernel needs of its tile, which stays at AX.
func beginTile512(f *file, name string, tokens int) {
	fmt.Fprintf(&f.body, "\n// func %s(t *Tile)\nTEXT ·%s(SB), NOSPLIT, $0-8\n", name, name)
	f.p("MOVQ t+0(FP), AX")
	f.p("MOVQ Tile_LdX(AX), R8")
	f.p("MOVQ Tile_LdY(AX), R9")
	if tokens > 3 {
		f.p("LEAQ (R8)(R8*2), R10")
	}
	if tokens > 5 {
		f.p("LEAQ (R8)(R8*4), R13")
	} else {
		f.p("MOVQ (Tile_Prefetch+Prefetch_Every)(AX), R13")
	}
}

// panels86 emits the loop over the panels of a tile around a body that multiplies one panel, and the end of the
// function.
func panels86(f *file, rows int, body func()) {
	next := f.newLabel("panel")
	f.at(next)
	f.p("MOVQ Tile_W(AX), DI")
	f.p("MOVQ Tile_X(AX), SI")
	f.p("MOVQ Tile_Steps(AX), CX")
	body()
	f.p("MOVQ Tile_PanelBytes(AX), BX")
	f.p("ADDQ BX, Tile_W(AX)")
	f.p("ADDQ $%d, Tile_Y(AX)", 4*rows)
	f.p("DECQ Tile_Panels(AX)")
	f.p("JNZ %s", next)
	f.p("VZEROUPPER")
	f.p("RET")
}

// near is the number of tokens whose activations are addressed from SI; the same number follows from R11.
const near = 6

// tokenAddress is the memory operand of the activations of token t, without its offset.
func tokenAddress(t int) string {
	return []string{"(SI)", "(R11)"}[t/near] + []string{"", "(R8*1)", "(R8*2)", "(R10*1)", "(R8*4)", "(R13*1)"}[t%near]
}

// allocate assigns the registers above the accumulators: operands, activations, and the rest to constants.
func (g *vnni512) allocate() {
	if g.held = g.free+g.operands()+min(g.tokens, 2) <= 32; g.held {
		g.ops = g.take(g.operands())
		g.xs = g.take(min(g.tokens, 2))
	} else if g.tokens == 1 {
		g.ops, g.xs = g.take(g.fields()), g.take(1)
	} else {
		g.ops = g.take(3)
		g.xs = g.take(g.tokens)
	}
	tables := 0
	if g.lookup {
		tables = 1
	}
	if n := g.tokens * len(g.places()); g.held && g.room == noRoom && g.split < 4 &&
		g.free+n+tables < 32 {
		g.ys = g.take(n)
	}
	g.allocateConstants()
}

// allocateConstants assigns registers to what weights are opened by, as many as are left.
func (g *vnni512) allocateConstants() {
	if g.lookup {
		g.tableReg = g.take(1)[0]
		g.p("VBROADCASTI32X4 (Tile_Table)(AX), Z%d", g.tableReg)
	}
	if g.split == 4 {
		g.spread = g.take(1)[0]
		g.p("VMOVDQU64 %s, Z%d", g.rodata("spread4", spread4()), g.spread)
	}
	if g.planes.low > 0 && g.room != readRoom {
		g.allocatePlanes()
	}
	g.inReg = map[string]int{}
	for _, c := range g.wanted {
		if g.free == 32 {
			break
		}
		g.inReg[c] = g.take(1)[0]
		g.p("VPBROADCASTD %s, Z%d", g.word(c), g.inReg[c])
	}
}

func (g *vnni512) take(n int) (regs []int) {
	for range n {
		regs = append(regs, g.free)
		g.free++
	}
	if g.free > 32 {
		panic(g.stream.name + ": out of registers")
	}
	return regs
}

// constant is an operand that holds the 32-bit word c in every lane: a register if one is left, else memory.
func (g *vnni512) constant(c string) (operand, suffix string) {
	if r, ok := g.inReg[c]; ok {
		return fmt.Sprintf("Z%d", r), ""
	}
	if !slices.Contains(g.wanted, c) {
		g.wanted = append(g.wanted, c)
	}
	return g.word(c), ".BCST"
}

// step emits the loop body at unroll index u.
func (g *vnni512) step(u, copy int, masked bool) {
	if g.kept {
		g.keptStep(u)
		return
	}
	xoff := u * 4 * g.split
	if g.tokens > near && u == 0 {
		g.p("LEAQ (SI)(R10*2), R11")
	}
	if g.held {
		g.operandsOf(u, masked)
		for t := range g.tokens {
			x := g.activations(t, t, xoff, masked)
			for i := range g.operands() {
				g.p("VPDPBUSD Z%d, Z%d, Z%d", x, g.ops[i], g.acc(t, i, copy))
			}
		}
		return
	}
	if g.tokens == 1 {
		x := g.activations(0, 0, xoff, masked)
		for r := range g.regs {
			g.registerOperands(r, u, g.ops, masked)
			for f, z := range g.ops {
				g.p("VPDPBUSD Z%d, Z%d, Z%d", x, z, g.acc(0, r*g.fields()+f, copy))
			}
		}
		return
	}
	for t := range g.tokens {
		g.activations(t, t, xoff, masked)
	}
	g.open(g, g.ops, g.weights(0, u), masked)
	for f := range g.fields() {
		d := g.ops[0]
		if f > 0 {
			d = g.ops[1+f%2]
			g.mask(f, g.ops[0], d)
		}
		for t := range g.tokens {
			g.p("VPDPBUSD Z%d, Z%d, Z%d", g.xs[t], d, g.acc(t, f, copy))
		}
	}
}

// operandsOf makes all operands of a step.
func (g *vnni512) operandsOf(u int, masked bool) {
	if g.room == readRoom {
		g.readOperands(u)
		return
	}
	for r := range g.regs {
		g.registerOperands(r, u, g.ops[r*g.fields():][:g.fields()], masked)
	}
	if g.room == fillRoom {
		g.storeOperands(u)
	}
}

// registerOperands makes the operands of a register of packed weights.
func (g *vnni512) registerOperands(r, u int, d []int, masked bool) {
	g.open(g, d, g.weights(r, u), masked)
	for f := 1; f < g.fields() && !g.whole; f++ {
		g.mask(f, d[0], d[f])
	}
}

// mask extracts field f of register v.
func (g *vnni512) mask(f, v, d int) {
	c, suffix := g.constant(bytesOf(byte((1<<g.bits - 1) << (f * g.bits))))
	g.p("VPANDD%s %s, Z%d, Z%d", suffix, c, v, d)
}

// activations loads the activations of token t, each lane the four columns of its group, and returns the register.
func (g *vnni512) activations(t, i, off int, masked bool) int {
	x := g.xs[i%len(g.xs)]
	at := "%d" + tokenAddress(t)
	switch g.split {
	case 1:
		g.p("VPBROADCASTD "+at+", Z%d", off, x)
	case 2:
		g.p("VPBROADCASTD "+at+", Z%d", off, x)
		g.p("VPBLENDMD.BCST "+at+", Z%d, "+maskHalf+", Z%d", off+4, x, x)
	case 4:
		g.p("VBROADCASTI32X4 "+at+", Z%d", off, x)
		g.p("VPSHUFB Z%d, Z%d, Z%d", g.spread, x, x)
	}
	if masked {
		g.p("VMOVDQA32.Z Z%d, %s, Z%d", x, maskValid, x)
	}
	return x
}

func (g *vnni512) advance(steps int) {
	bytes := g.stride()
	if g.room == readRoom {
		bytes = g.roomBytes()
	}
	g.p("ADDQ $%d, DI", steps*bytes)
	g.p("ADDQ $%d, SI", steps*4*g.split)
	if g.room == fillRoom {
		g.p("ADDQ $%d, R15", steps*g.roomBytes())
	}
}

// tail emits the last step of the last group when the columns fill only some lanes of it.
func (g *vnni512) tail() {
	none := g.newLabel("whole")
	g.p("TESTQ R15, R15")
	g.p("JNZ %s", none)
	g.p("MOVQ Tile_TailMask(AX), BX")
	g.p("TESTQ BX, BX")
	g.p("JZ %s", none)
	g.p("KMOVW BX, %s", maskValid)
	g.step(0, 0, true)
	g.at(none)
}

// weights is the address of register r at unroll index u.
func (g *vnni512) weights(r, u int) string {
	each := g.regs / max(g.share, 1)
	return fmt.Sprint(u*g.stride()+pace*(r%each), panelAddress(r/each))
}

// panelAddress is the memory operand of weights in panel i of the function's panels, without its offset.
func panelAddress(i int) string {
	return "(DI)" + []string{"", "(R11*1)", "(R11*2)", "(R10*1)"}[i]
}

// load emits the load of packed weights.
func (g *vnni512) load(d int, at string, masked bool) {
	switch {
	case masked:
		g.p("VMOVDQU32.Z %s, %s, Z%d", at, maskValid, d)
	case g.pair:
		g.p("VMOVDQU32 %s, Y%d", at, d)
		g.p("VINSERTI64X4 $1, %s(R11*1), Z%d, Z%d", at, d, d)
	default:
		g.p("VMOVDQU64 %s, Z%d", at, d)
	}
}
