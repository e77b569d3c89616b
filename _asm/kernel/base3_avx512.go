package main

import "fmt"

// Base-3 bytes with 512-bit VPDPBUSD and VBMI. A step is four columns of 80 rows, 64 bytes; each byte r holds the
// digits of five rows. r mod 81 is below 128, so one byte permutation decodes its four digits into 2-bit fields, which
// are extracted by masks alone. Five operands have their own accumulators: the byte, the fields together, and three
// fields in place.
//
// All of them share activations, so the sums of the digits follow at the end: the first field's sum is the sum of all
// fields minus the others, and the first digit's sum is the byte's sum minus the others, divided by 81, which has an
// inverse modulo 2³².
type trits512 struct {
	*file
	tokens int

	copies       int // of the accumulators, used alternately, to hide the latency of the additions
	xs           []int
	byte, other  int    // registers: weights, then digits 1 to 4; scratch for the remainder
	field        [2]int // cut out
	limit, table int
	rest         string   // second half of the table, a register or memory
	masks        []string // of fields 1 to 3, the same
	free         int
}

const (
	trits        = 5  // digits of a byte
	tritRows     = 80 // of a panel
	tritInverse  = "0x781948b1"
	tritUnrolled = 4 // steps
)

func trits512File() *file {
	f := newFile("base3_avx512", "amd64")
	var funcs []string
	for t := 1; t <= 5; t++ {
		g := &trits512{file: f, tokens: t, copies: max(1, 2/t)}
		name := fmt.Sprintf("base3AVX512x%d", t)
		g.function(name)
		funcs = append(funcs, name)
	}
	f.table("base3AVX512", "multiply 80-row panels of base-3 bytes, 1 to 5 tokens at once.", funcs)
	return f
}

// acc is the accumulator of operand i.
func (g *trits512) acc(t, i, copy int) int { return (copy*g.tokens+t)*trits + i }

func (g *trits512) take() int {
	if g.free == 32 {
		panic("trits512: out of registers")
	}
	g.free++
	return g.free - 1
}

func (g *trits512) function(name string) {
	beginTile512(g.file, name, g.tokens)
	sums := g.copies * g.tokens * trits
	g.free = sums
	g.allocate()
	panels86(g.file, tritRows, func() {
		groups86(g.file, tritRows, func() {
			for i := range sums {
				g.p("VPXORD Z%d, Z%d, Z%d", i, i, i)
			}
			g.group()
		})
	})
}

// allocate assigns the registers above the accumulators. Activations without a register are memory operands.
func (g *trits512) allocate() {
	g.byte, g.other, g.field = g.take(), g.take(), [2]int{g.take(), g.take()}
	g.limit, g.table = g.take(), g.take()
	g.p("VPBROADCASTD %s, Z%d", g.word(bytesOf(81)), g.limit)
	for range g.tokens {
		if g.tokens <= 4 {
			g.xs = append(g.xs, g.take())
		}
	}
	registers := tritTable512()
	g.p("VMOVDQU64 %s, Z%d", g.rodata("trits0", registers[:16]), g.table)
	if g.rest = g.rodata("trits1", registers[16:]); g.free < 32 {
		r := g.take()
		g.p("VMOVDQU64 %s, Z%d", g.rest, r)
		g.rest = fmt.Sprintf("Z%d", r)
	}
	for f := 1; f < 4; f++ {
		mask := g.word(bytesOf(3 << (2 * f)))
		if g.free < 32 {
			r := g.take()
			g.p("VPBROADCASTD %s, Z%d", mask, r)
			mask = fmt.Sprintf("Z%d", r)
		}
		g.masks = append(g.masks, mask)
	}
}

// group multiplies the columns of a group.
func (g *trits512) group() {
	loop, rest, one, done := g.newLabel("loop"), g.newLabel("rest"), g.newLabel("one"), g.newLabel("done")
	g.p("SUBQ $%d, CX", tritUnrolled)
	g.p("JLT %s", rest)
	g.p("PCALIGN $64")
	g.at(loop)
	prefetchEvery(g.file, tritUnrolled*pace, func() { prefetchPage(g.file) })
	for u := range tritUnrolled {
		g.step(u)
	}
	g.advance(tritUnrolled)
	g.p("SUBQ $%d, CX", tritUnrolled)
	g.p("JGE %s", loop)
	g.at(rest)
	g.p("ADDQ $%d, CX", tritUnrolled)
	g.p("JZ %s", done)
	g.at(one)
	g.step(0)
	g.advance(1)
	g.p("DECQ CX")
	g.p("JNZ %s", one)
	g.at(done)
	g.finish()
}

func (g *trits512) advance(steps int) {
	g.p("ADDQ $%d, DI", pace*steps)
	g.p("ADDQ $%d, SI", 4*steps)
}

// step emits the loop body at unroll index u.
func (g *trits512) step(u int) {
	for t, x := range g.xs {
		g.p("VPBROADCASTD %d%s, Z%d", 4*u, tokenAddress(t), x)
	}
	g.p("VMOVDQU64 %d(DI), Z%d", pace*u, g.byte)
	g.multiply(g.byte, 0, u)
	for range 2 { // a negative difference wraps, and is not the minimum
		g.p("VPSUBB Z%d, Z%d, Z%d", g.limit, g.byte, g.other)
		g.p("VPMINUB Z%d, Z%d, Z%d", g.other, g.byte, g.byte)
	}
	g.p("VPERMI2B %s, Z%d, Z%d", g.rest, g.table, g.byte)
	g.multiply(g.byte, 1, u)
	g.mask(0)
	for i := range g.masks {
		if i+1 < len(g.masks) {
			g.mask(i + 1) // one product ahead: 2 % faster than just in time
		}
		g.multiply(g.field[i%2], 2+i, u)
	}
}

// mask extracts field i+1.
func (g *trits512) mask(i int) {
	suffix := ""
	if g.masks[i][0] != 'Z' {
		suffix = ".BCST"
	}
	g.p("VPANDD%s %s, Z%d, Z%d", suffix, g.masks[i], g.byte, g.field[i%2])
}

// multiply adds the products of a register with all tokens to the accumulators of operand i.
func (g *trits512) multiply(v, i, u int) {
	for t := range g.tokens {
		a := g.acc(t, i, u%g.copies)
		if g.xs == nil {
			g.p("VPDPBUSD.BCST %d%s, Z%d, Z%d", 4*u, tokenAddress(t), v, a)
		} else {
			g.p("VPDPBUSD Z%d, Z%d, Z%d", g.xs[t], v, a)
		}
	}
}

// finish computes the sums of the digits from the sums of the operands, and stores the results.
func (g *trits512) finish() {
	n := g.tokens * trits
	for i := n; i < n*g.copies; i++ {
		g.p("VPADDD Z%d, Z%d, Z%d", i, i%n, i%n)
	}
	add, rest := g.other, g.byte
	for t := range g.tokens {
		d := g.acc(t, 0, 0)
		for i := 2; i < trits; i++ {
			g.p("VPSUBD Z%d, Z%d, Z%d", d+i, d+1, d+1)
			g.p("VPSRAD $%d, Z%d, Z%d", 2*(i-1), d+i, d+i)
		}
		g.p("VMOVDQA64 Z%d, Z%d", d+1, rest)
		for i := 2; i < trits; i++ { // 27·d₁ + 9·d₂ + 3·d₃ + d₄
			g.p("VPADDD Z%d, Z%d, Z%d", rest, rest, add)
			g.p("VPADDD Z%d, Z%d, Z%d", add, rest, rest)
			g.p("VPADDD Z%d, Z%d, Z%d", d+i, rest, rest)
		}
		g.p("VPSUBD Z%d, Z%d, Z%d", rest, d, d)
		g.p("VPMULLD.BCST %s, Z%d, Z%d", g.word(tritInverse), d, d)
		g.p("VPBROADCASTD (TokenGroup_Add+%d*TokenGroup__size)(R14), Z%d", t, add)
		for i := range trits {
			g.p("VPADDD Z%d, Z%d, Z%d", add, d+i, d+i)
		}
	}
	results86(g.file, g.tokens, "Z", rest, false, func(t int, o outcome) {
		for i := range trits {
			result86(g.file, fmt.Sprintf("Z%d", g.acc(t, i, 0)), g.other, rest, pace*i, o)
		}
	})
}

// tritTable512 maps a number below 81 to its four digits, the most significant one in the lowest of four 2-bit fields.
func tritTable512() []string {
	var fields [128]byte
	for v := range fields {
		fields[v] = byte(v/27%3 | v/9%3<<2 | v/3%3<<4 | v%3<<6)
	}
	return dwords(fields[:])
}
