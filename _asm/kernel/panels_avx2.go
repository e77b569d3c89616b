package main

import "fmt"

// Products with 256-bit registers, for CPUs with VPDPBUSD in its VEX form (AVX-VNNI) and for those without (AVX2).
//
// Packed weights are fields of 1, 2, 4 or 8 bits. A step is four operands of 8 lanes of four bytes, for one group of
// four columns: eight fields of half a register, four of a register, two of two, or four registers. If a panel has more
// lanes, a call multiplies a part of them and skips the rest.
//
// Fields are decoded by byte shuffles with tables that come with the tile, so that one function serves every alphabet.
// 1-bit weights are extracted by masks in place, and a shift of the sum compensates: half a register is loaded into
// both lanes, the upper one shifted by four.
//
// Without VPDPBUSD the products of two columns are summed in 16 bits, as far as the bound that comes with the tile
// allows, then in 32 bits on the stack; int8, and fields of weights up to ±127, go to 32 bits at once. Several tokens
// multiply a panel in two halves, and one token two panels at a time (panels_avx2_tiles.go).
//
// General registers: DI weights, SI activations, R8 bytes between tokens, CX steps, BX steps until the sums are
// widened; without VPDPBUSD R10 from a panel to the second one of a pair, R12 how far ahead weights are prefetched.
type ymm struct {
	*file
	vnni   bool
	bits   int
	large  bool        // fields hold weights up to ±127: without VPDPBUSD they are multiplied as int8 is
	planes digitPlanes // bits are those of the lower part of a digit; the zero value = fields have no parts
	rows   int         // per panel
	tokens int
	pair   bool // two panels at a time, for one token
	second bool // the second one of them
	half   int  // of the operands, if a call multiplies one half after the other
	first  bool // the products of this step start the accumulators

	v, index, operand, product int // registers: packed weights, fields of four bits, decoded fields, product
	xs                         []int
	table                      []int  // for the lower and the upper field of four bits
	bytes                      []int  // signed weights of a half, whose magnitudes are its operands
	constant                   string // 15 in every byte, for int8 with VPDPBUSD 128; a register or memory
	ones                       string // 1 in every 16 bits, for the products of signed bytes
	shift                      string // of the lanes, for 1-bit weights, and the mask of each operand
	masks                      []string

	digits digit256 // how parts of digits are joined

	ops     []int // registers of operands that wait for their products, without VPDPBUSD
	waiting []int // the operands
}

const operandsY = 4

// distance is the prefetch distance in bytes where hardware prefetchers follow no stream.
const distance = 8192

func (g *ymm) fields() int { return 8 / g.bits }
func (g *ymm) regs() int   { return max(1, operandsY/g.fields()) }

// stride is the number of bytes of a panel per group of four columns.
func (g *ymm) stride() int {
	if g.joined() {
		return g.planes.four()
	}
	return g.rows * g.bits / 2
}

// wide reports whether accumulators are 32 bits wide from the start.
func (g *ymm) wide() bool { return g.vnni || g.signedBytes() || g.joined() }

// signedBytes reports whether weights are multiplied as signed bytes, by their magnitudes.
func (g *ymm) signedBytes() bool { return !g.vnni && (g.bits == 8 || g.large) }

// copies is the number of accumulators used alternately, to hide the latency of VPDPBUSD.
func (g *ymm) copies() int {
	if g.wide() && g.tokens == 1 && !g.pair {
		return 2
	}
	return 1
}

// operands is the number of operands that a token is multiplied by at a time.
func (g *ymm) operands() int {
	switch {
	case g.pair:
		return 2 * operandsY
	case g.tokens > 1 && !g.vnni:
		return operandsY / 2
	}
	return operandsY
}

func (g *ymm) halves() int { return max(1, operandsY/g.operands()) }

// sums is the number of registers that hold accumulators.
func (g *ymm) sums() int { return g.copies() * g.tokens * g.operands() }

func (g *ymm) acc(t, i, copy int) int {
	if g.second {
		i += operandsY
	}
	return (copy*g.tokens+t)*g.operands() + i
}

// weights is the memory operand of packed bytes.
func (g *ymm) weights(off int) string {
	if g.second {
		return fmt.Sprintf("%d(DI)(R10*1)", off)
	}
	return fmt.Sprintf("%d(DI)", off)
}

func avx2File() *file    { return ymmFile("avx2", "AVX2", false) }
func avxvnniFile() *file { return ymmFile("avxvnni", "AVXVNNI", true) }

func ymmFile(isa, suffix string, vnni bool) *file {
	f := newFile("panels_"+isa, "amd64")
	for _, bits := range []int{1, 2, 4, 8} {
		ymm{file: f, vnni: vnni, bits: bits}.functions(fmt.Sprintf("fields%d", bits), suffix)
	}
	for _, p := range planeKinds {
		ymm{file: f, vnni: vnni, bits: p.low, planes: p}.functions(p.name("planes%d"), suffix)
	}
	if !vnni {
		openPlanes256(f)
		ymm{file: f, bits: 4, large: true}.functions("large4", suffix)
		bits256Functions(f) // the same for both: it needs no products
		rows256Functions(f) // the same for both: see docs/KERNELS.md
	}
	trits := &trits256{f, "base3" + suffix + "x1", vnni}
	trits.function()
	f.table("base3"+suffix, "multiply 80-row panels of base-3 bytes, one token at a time.", []string{trits.name})
	return f
}

// functions writes the functions of a kernel: for both panel heights and every number of tokens at once, and for pairs.
func (g ymm) functions(name, suffix string) {
	what, most := fmt.Sprintf("%d-bit fields", g.bits), 2
	if g.large {
		what += " of weights up to ±127"
	}
	if !g.vnni {
		most = g.tileTokens()
	}
	heights := []int{32, 64}
	if g.joined() {
		what, heights = g.planes.what(), heights[:1]
	}
	for _, g.rows = range heights {
		table := fmt.Sprintf("%sRows%d%s", name, g.rows, suffix)
		var funcs []string
		for g.tokens = 1; g.tokens <= most; g.tokens++ {
			one, name := g, fmt.Sprintf("%sx%d", table, g.tokens)
			one.function(name)
			funcs = append(funcs, name)
		}
		g.file.table(table, fmt.Sprintf("multiply %d lanes of %d-row panels of %s, up to %d tokens at once.",
			8*operandsY*g.bits/8, g.rows, what, most), funcs)
	}
	if !g.vnni && (g.bits >= 4 || g.joined()) {
		pairs := name + "Pairs" + suffix
		g.rows, g.tokens, g.pair = 32, 1, true
		g.function(pairs + "x1")
		g.file.table(pairs, fmt.Sprintf("multiply pairs of 32-row panels of %s, one token at once.", what),
			[]string{pairs + "x1"})
	}
}

func (g *ymm) function(name string) {
	g.begin(name)
	g.allocate()
	rows := g.rows
	if g.pair {
		rows *= 2
	}
	panels86(g.file, rows, func() {
		if g.rows > 32 {
			g.p("MOVQ Tile_PrefetchAt(AX), R12")
			g.p("ADDQ DI, R12")
		}
		groups86(g.file, g.rows, func() {
			for g.half = range g.halves() {
				g.keepPlace()
				g.group()
			}
		})
	})
}

// group emits the sums of a group of columns, and their processing.
func (g *ymm) group() {
	for i := range g.sums() {
		if g.vnni || g.copies() > 1 {
			g.p("VPXOR Y%d, Y%d, Y%d", i, i, i)
		}
	}
	if g.wide() {
		g.p("MOVQ CX, BX")
		g.block()
	} else {
		g.blocks()
	}
	g.finish()
}

// frame is the stack layout of a function: 32-bit sums, whether there are any yet, and the start of a group.
func (g *ymm) frame() (sums, bytes int) {
	if !g.wide() {
		sums = 32 * g.sums()
		bytes = sums + 8
	}
	if g.vnni {
		return 0, 0
	}
	return sums, bytes + placeBytes*(g.halves()-1)
}

func (g *ymm) begin(name string) {
	_, frame := g.frame()
	fmt.Fprintf(&g.body, "\n// func %s(t *Tile)\nTEXT ·%s(SB), NOSPLIT, $%d-8\n", name, name, frame)
	g.p("MOVQ t+0(FP), AX")
	g.p("MOVQ Tile_LdX(AX), R8")
	g.p("MOVQ Tile_LdY(AX), R9")
	if g.tokens > 3 {
		g.p("LEAQ (R8)(R8*2), R10")
	}
	if g.tokens > 5 {
		g.p("LEAQ (R8)(R8*4), R13")
	}
	if g.pair {
		g.p("MOVQ Tile_PanelBytes(AX), R10")
		g.p("SHLQ $1, Tile_PanelBytes(AX)")
	}
	if !g.vnni && g.rows == 32 {
		g.p("MOVQ (Tile_Prefetch+Prefetch_Ahead)(AX), R12")
	}
}

// allocate assigns the registers above the accumulators.
func (g *ymm) allocate() {
	if g.halves() > 1 {
		g.allocateTile()
		return
	}
	free := g.sums()
	take := func() int { free++; return free - 1 }
	g.v, g.index, g.operand = take(), take(), take()
	g.product = g.operand
	if g.ops = []int{g.operand}; !g.wide() {
		for range min(g.fields(), operandsY) - 1 {
			g.ops = append(g.ops, take())
		}
	}
	g.xs, g.table = nil, nil
	for range g.tokens {
		g.xs = append(g.xs, take())
	}
	held := func(name string, words []string) string {
		at := g.rodata(name, words)
		if free == 16 {
			return at
		}
		register := take()
		g.p("VMOVDQU %s, Y%d", at, register)
		return fmt.Sprintf("Y%d", register)
	}
	if g.joined() {
		g.digits = digit256{file: g.file, digitPlanes: g.planes, parts: g.v, free: g.index}
		g.allocatePlanes(held)
		return
	}
	if g.bits == 1 {
		g.shift = held("yShiftUpper", append(repeat("0", 4), repeat("4", 4)...))
		for i := range operandsY {
			words := bytesOf(1 << i)
			g.masks = append(g.masks, held("y"+words[2:], repeat(words, 8)))
		}
		return
	}
	for i := range g.fields() / 2 {
		t := take()
		g.table = append(g.table, t)
		g.p("VBROADCASTI128 (Tile_Table+%d)(AX), Y%d", 16*i, t)
	}
	if free > 16 {
		panic("ymm: out of registers")
	}
	words := bytesOf(0x0f)
	if g.bits == 8 {
		words = bytesOf(0x80)
	}
	if g.bits < 8 || g.vnni {
		g.constant = held("y"+words[2:], repeat(words, 8))
	}
	if g.signedBytes() {
		g.ones = held("y00010001", repeat("0x00010001", 8))
	}
}

// blocks emits all steps, in blocks after which 16-bit accumulators are widened: the last block in registers, earlier
// ones on the stack, if any.
func (g *ymm) blocks() {
	next, more, widened := g.newLabel("next"), g.newLabel("more"), g.newLabel("widened")
	last, done := g.newLabel("last"), g.newLabel("whole")
	ones, n := g.rodata("y00010001", repeat("0x00010001", 8)), g.sums()
	started, _ := g.frame()
	g.p("MOVQ $0, %d(SP)", started)
	g.at(next)
	g.p("MOVQ Tile_Block(AX), BX")
	g.p("CMPQ CX, BX")
	g.p("CMOVQLT CX, BX")
	g.p("SUBQ BX, CX")
	g.block()
	g.p("TESTQ CX, CX")
	g.p("JZ %s", last)
	for i := range n {
		g.p("VPMADDWD %s, Y%d, Y%d", ones, i, i)
	}
	g.p("CMPQ %d(SP), $0", started)
	g.p("JNE %s", more)
	g.p("MOVQ $1, %d(SP)", started)
	g.p("JMP %s", widened)
	g.at(more)
	for i := range n {
		g.p("VPADDD %d(SP), Y%d, Y%d", 32*i, i, i)
	}
	g.at(widened)
	for i := range n {
		g.p("VMOVDQU Y%d, %d(SP)", i, 32*i)
	}
	g.p("JMP %s", next)
	g.at(last)
	for i := range n {
		g.p("VPMADDWD %s, Y%d, Y%d", ones, i, i)
	}
	g.p("CMPQ %d(SP), $0", started)
	g.p("JEQ %s", done)
	for i := range n {
		g.p("VPADDD %d(SP), Y%d, Y%d", 32*i, i, i)
	}
	g.at(done)
}

// block emits a loop of BX steps, at least one. Without VPDPBUSD the products of the first step start the accumulators:
// this saves additions, which matters for short blocks.
func (g *ymm) block() {
	if g.first = !g.vnni && g.copies() == 1; g.first {
		if g.rows > 32 {
			g.prefetch(1)
		}
		g.step(0, 0)
		g.advance(1)
		g.first = false
		g.p("DECQ BX")
	}
	loop, rest, done := g.newLabel("loop"), g.newLabel("rest"), g.newLabel("done")
	g.p("SUBQ $2, BX")
	g.p("JLT %s", rest)
	g.p("PCALIGN $32")
	g.at(loop)
	g.prefetch(2)
	g.step(0, 0)
	g.step(1, g.copies()-1)
	g.advance(2)
	g.p("SUBQ $2, BX")
	g.p("JGE %s", loop)
	g.at(rest)
	g.p("ADDQ $2, BX")
	g.p("JZ %s", done)
	if g.rows > 32 {
		g.prefetch(1) // half a line, or a whole one
	}
	g.step(0, 0)
	g.advance(1)
	g.at(done)
}

func (g *ymm) advance(steps int) {
	g.p("ADDQ $%d, DI", steps*g.stride())
	g.p("ADDQ $%d, SI", 4*steps)
}

// step emits the loop body at unroll index u.
func (g *ymm) step(u, copy int) {
	off := u * g.stride()
	if g.halves() > 1 {
		g.tileStep(u)
		return
	}
	for t := range g.tokens {
		g.p("VPBROADCASTD %d%s, Y%d", 4*u, tokenAddress(t), g.xs[t])
	}
	g.eachPanel(func() {
		if g.joined() {
			g.joinedStep(off, copy)
			return
		}
		for r := range g.regs() {
			g.register(off+32*r, r*g.fields(), copy)
		}
	})
}

// eachPanel emits code for both panels of a pair, or for the only one.
func (g *ymm) eachPanel(emit func()) {
	emit()
	if g.pair {
		g.second = true
		emit()
		g.second = false
	}
}

// register multiplies the fields of a register: operands i, i+1 …
func (g *ymm) register(off, i, copy int) {
	if g.bits == 8 {
		g.int8s(off, i, copy)
		return
	}
	if g.bits == 1 {
		g.single(off, copy)
		return
	}
	g.p("VMOVDQU %s, Y%d", g.weights(off), g.v)
	g.p("VPAND %s, Y%d, Y%d", g.constant, g.v, g.index)
	g.nibble(i, copy)
	g.p("VPSRLW $4, Y%d, Y%d", g.v, g.index)
	g.p("VPAND %s, Y%d, Y%d", g.constant, g.index, g.index)
	g.nibble(i+len(g.table), copy)
	g.flush(copy)
}

// nibble multiplies the one or two fields in four bits.
func (g *ymm) nibble(i, copy int) {
	for f, table := range g.table {
		if g.large && !g.vnni {
			g.p("VPSHUFB Y%d, Y%d, Y%d", g.index, table, g.index)
			g.signed(g.index, g.operand, g.index, g.acc(0, i+f, copy))
			continue
		}
		g.p("VPSHUFB Y%d, Y%d, Y%d", g.index, table, g.next(i+f))
		g.multiply(i+f, copy)
	}
}

// single multiplies the bits of half a register.
func (g *ymm) single(off, copy int) {
	g.p("VBROADCASTI128 %d(DI), Y%d", off, g.v)
	g.p("VPSRLVD %s, Y%d, Y%d", g.shift, g.v, g.v)
	for i, mask := range g.masks {
		g.p("VPAND %s, Y%d, Y%d", mask, g.v, g.next(i))
		g.multiply(i, copy)
	}
	g.flush(copy)
}

// next returns the register for operand i.
func (g *ymm) next(i int) int {
	if g.vnni {
		return g.operand
	}
	return g.ops[i%len(g.ops)]
}

// multiply adds the products of operand i with all tokens; without VPDPBUSD it waits until flush.
func (g *ymm) multiply(i, copy int) {
	if !g.vnni {
		g.waiting = append(g.waiting, i)
		return
	}
	for t := range g.tokens {
		g.p("%s", vpdpbusd(g.acc(t, i, copy), g.operand, g.xs[t]))
	}
}

// flush multiplies the waiting operands by the only token: first all products, then all additions. On Zen 3 this is
// 1/15 faster than alternating.
func (g *ymm) flush(copy int) {
	for _, i := range g.waiting {
		operand := g.next(i)
		g.p("VPMADDUBSW Y%d, Y%d, Y%d", g.xs[0], operand, g.sumOr(g.acc(0, i, copy), operand))
	}
	for _, i := range g.waiting {
		g.addTo("VPADDW", g.acc(0, i, copy), g.next(i))
	}
	g.waiting = nil
}

// sumOr returns a register for products: the accumulator's if the products start it.
func (g *ymm) sumOr(sum, product int) int {
	if g.first {
		return sum
	}
	return product
}

// addTo adds products to an accumulator, unless they start it.
func (g *ymm) addTo(add string, sum, product int) {
	if !g.first {
		g.p("%s Y%d, Y%d, Y%d", add, product, sum, sum)
	}
}

// int8s multiplies a register of int8.
func (g *ymm) int8s(off, i, copy int) {
	if g.signedBytes() {
		g.p("VMOVDQU %s, Y%d", g.weights(off), g.v)
		g.signed(g.v, g.index, g.product, g.acc(0, i, copy))
		return
	}
	g.p("VPXOR %d(DI), %s, Y%d", off, g.constant, g.operand)
	for t := range g.tokens {
		g.p("%s", vpdpbusd(g.acc(t, i, copy), g.operand, g.xs[t]))
	}
}

// signed adds the products of signed bytes and the only token to an accumulator. The weight's sign is transferred to
// the activation: the product of magnitude and signed activation needs 15 bits and a sign, and so does the sum for two
// columns (2·128·127 < 2¹⁵). The register of the product may be that of the weights.
func (g *ymm) signed(weights, magnitude, product, sum int) {
	g.p("VPABSB Y%d, Y%d", weights, magnitude)
	g.p("VPSIGNB Y%d, Y%d, Y%d", weights, g.xs[0], product)
	g.p("VPMADDUBSW Y%d, Y%d, Y%d", product, magnitude, product)
	g.p("VPMADDWD %s, Y%d, Y%d", g.ones, product, g.sumOr(sum, product))
	g.addTo("VPADDD", sum, product)
}

// finish applies mul and add and stores the accumulators as results: field f of register r holds rows f·lanes+8·r … of
// the part; for 1-bit weights f·lanes … and (4+f)·lanes ….
func (g *ymm) finish() {
	mul, add := g.xs[0], g.operand
	scaled := g.vnni || g.bits == 1 // operands of the others are weights but for a constant
	if scaled {
		g.p("VPBROADCASTD Tile_Mul(AX), Y%d", mul)
	}
	for t := range g.tokens {
		g.p("VPBROADCASTD (TokenGroup_Add+%d*TokenGroup__size)(R14), Y%d", t, add)
		for i := range g.operands() {
			a := g.acc(t, i, 0)
			if g.copies() > 1 {
				g.p("VPADDD Y%d, Y%d, Y%d", g.acc(t, i, 1), a, a)
			}
			if g.bits == 1 {
				g.p("VPSRAD $%d, Y%d, Y%d", g.operandOf(i), a, a)
			}
			if scaled {
				g.p("VPMULLD Y%d, Y%d, Y%d", mul, a, a)
			}
			g.p("VPADDD Y%d, Y%d, Y%d", add, a, a)
		}
	}
	results86(g.file, g.tokens, "Y", g.v, false, g.store)
	if g.pair {
		g.secondResults()
	}
}

// operandOf is the index of the step's operand whose sum has index i.
func (g *ymm) operandOf(i int) int { return g.half*operandsY/2 + i }

// store stores the results of a token.
func (g *ymm) store(t int, o outcome) {
	lanes, free := g.stride()/4, g.xs[0]
	for n := range min(g.operands(), operandsY) {
		a, i := g.acc(t, n, 0), g.operandOf(n)
		if g.bits > 1 {
			row := i%g.fields()*lanes + i/g.fields()*8
			if g.joined() {
				row = 8 * i
			}
			result86(g.file, fmt.Sprintf("Y%d", a), free, g.v, 4*row, o)
			continue
		}
		lower, upper := 4*i*lanes, 4*(operandsY+i)*lanes
		if o == lessZero {
			g.p("VPMOVSXBD %d(CX), X%d", lower/4, free)
			g.p("VPMOVSXBD %d(CX), X%d", upper/4, g.operand)
			g.p("VINSERTI128 $1, X%d, Y%d, Y%d", g.operand, free, free)
			add86(g.file, fmt.Sprint("Y", a), fmt.Sprint("Y", free), fmt.Sprint("Y", g.v), 0, o)
			continue
		}
		g.p("VEXTRACTI128 $1, Y%d, X%d", a, g.operand)
		result86(g.file, fmt.Sprintf("X%d", a), free, g.v, lower, o)
		result86(g.file, fmt.Sprintf("X%d", g.operand), free, g.v, upper, o)
	}
}

func repeat(word string, n int) (words []string) {
	for range n {
		words = append(words, word)
	}
	return words
}
