package main

import "fmt"

// Base-3 bytes with 512-bit VPDPBUSD and VBMI. A step is 20 columns of 64 rows, 256 bytes; each byte holds the digits of
// five columns of a row. Two tables of 256 bytes take a byte apart: the first gives digits 0 to 3 in fields of two bits,
// the second gives digit 4. A lookup is two permutations under complementary masks, as a permutation sees 128 entries.
//
// For one token the fields are cut out by masks alone and summed apart; for more they are shifted down, so that one sum
// serves all digits.
//
// A load of 64 bytes takes a core as long as a product. So activations are loaded once per digit for all rows of a step,
// and tables are kept in registers as far as these go.
type trits512 struct {
	*file
	tokens int

	tables []string // operands: two for the bytes below 128, two for the others; first for digits 0 to 3, then for digit 4
	fields [tritRegs]int
	xs     []int
	digit  int
	masks  map[string]int // constants that found a register
	free   int
}

const tritRegs = 4 // 64-byte registers per step

func trits512File() *file {
	f := newFile("trits_avx512vnni", "amd64")
	var funcs []string
	for t := 1; t <= 4; t++ {
		g := &trits512{file: f, tokens: t}
		name := fmt.Sprintf("trits512x%d", t)
		g.function(name)
		funcs = append(funcs, name)
	}
	f.table("trits512", "multiply 64-row panels of base-3 bytes, 1 to 4 tokens at once.", funcs)
	return f
}

// sums is the number of sums per token and register.
func (g *trits512) sums() int {
	if g.tokens == 1 {
		return 4
	}
	return 1
}

// acc is the sum of digit i.
func (g *trits512) acc(t, r, i int) int { return (t*tritRegs+r)*g.sums() + i%g.sums() }

func (g *trits512) take() int {
	if g.free == 32 {
		panic("trits512: out of registers")
	}
	g.free++
	return g.free - 1
}

func (g *trits512) function(name string) {
	beginTile512(g.file, name, g.tokens)
	g.free = g.tokens * tritRegs * g.sums()
	for r := range g.fields {
		g.fields[r] = g.take()
	}
	for range g.tokens {
		g.xs = append(g.xs, g.take())
	}
	g.digit = g.take()
	g.masks = map[string]int{}
	masks := []string{bytesOf(0x03)}
	if g.sums() > 1 {
		masks = append(masks, bytesOf(0x0c))
	}
	for _, m := range masks {
		g.masks[m] = g.take()
		g.p("VPBROADCASTD %s, Z%d", g.word(m), g.masks[m])
	}
	for i, t := range tritTables512() {
		table := g.rodata(fmt.Sprintf("trits%d", i), t)
		if i%2 == 0 || g.free+8-i <= 32 { // the second operand of a permutation may be memory
			r := g.take()
			g.p("VMOVDQU64 %s, Z%d", table, r)
			table = fmt.Sprintf("Z%d", r)
		}
		g.tables = append(g.tables, table)
	}
	panels86(g.file, 16*tritRegs, g.panel)
}

// panel multiplies the columns of a panel.
func (g *trits512) panel() {
	for i := range g.tokens * tritRegs * g.sums() {
		g.p("VPXORD Z%d, Z%d, Z%d", i, i, i)
	}
	loop := g.newLabel("loop")
	g.p("PCALIGN $64")
	g.at(loop)
	announce(g.file)
	for r, v := range g.fields {
		g.p("VMOVDQU64 %d(DI), Z%d", pace*r, v)
		g.p("VPMOVB2M Z%d, K%d", v, 1+r)
		g.lookup(g.tables[:4], r, v)
	}
	for i := range 5 {
		for t, x := range g.xs {
			g.p("VPBROADCASTD %d%s, Z%d", 4*i, tokenAddress(t), x)
		}
		for r := range tritRegs {
			g.makeDigit(r, i)
			for t, x := range g.xs {
				g.p("VPDPBUSD Z%d, Z%d, Z%d", x, g.digit, g.acc(t, r, i))
			}
		}
	}
	g.p("ADDQ $%d, DI", pace*tritRegs)
	g.p("ADDQ $20, SI")
	g.p("DECQ CX")
	g.p("JNZ %s", loop)
	g.finish()
}

// lookup replaces the bytes of register r of a step, in v, by what a table says. Elements that one permutation leaves
// alone are still indices for the other.
func (g *trits512) lookup(table []string, r, v int) {
	g.p("KNOTQ K%d, K7", 1+r)
	g.p("VPERMI2B %s, %s, K7, Z%d", table[1], table[0], v)
	g.p("VPERMI2B %s, %s, K%d, Z%d", table[3], table[2], 1+r, v)
}

// makeDigit makes digit i of register r an operand, times 4^i where digits have sums of their own.
func (g *trits512) makeDigit(r, i int) {
	if i == 4 {
		g.p("VMOVDQU64 %d(DI), Z%d", pace*r, g.digit)
		g.lookup(g.tables[4:], r, g.digit)
		return
	}
	from, mask := g.fields[r], bytesOf(3)
	if g.sums() > 1 {
		mask = bytesOf(byte(3 << (2 * i)))
	} else if i > 0 {
		g.p("VPSRLW $%d, Z%d, Z%d", 2*i, from, g.digit)
		from = g.digit
	}
	if m, ok := g.masks[mask]; ok {
		g.p("VPANDD Z%d, Z%d, Z%d", m, from, g.digit)
	} else {
		g.p("VPANDD.BCST %s, Z%d, Z%d", g.word(mask), from, g.digit)
	}
}

func (g *trits512) finish() {
	mul, add := g.xs[0], g.digit
	g.p("MOVQ tile_y(AX), DX")
	g.p("MOVQ tile_ldy(AX), R9")
	g.p("VPBROADCASTD tile_mul(AX), Z%d", mul)
	for t := range g.tokens {
		g.p("VPBROADCASTD (tile_add+%d)(AX), Z%d", 4*t, add)
		for r := range tritRegs {
			a := g.acc(t, r, 0)
			for i := 1; i < g.sums(); i++ {
				g.p("VPSRAD $%d, Z%d, Z%d", 2*i, a+i, a+i)
				g.p("VPADDD Z%d, Z%d, Z%d", a+i, a, a)
			}
			g.p("VPMULLD Z%d, Z%d, Z%d", mul, a, a)
			g.p("VPADDD Z%d, Z%d, Z%d", add, a, a)
			g.p("VMOVDQU32 Z%d, %d(DX)", a, pace*r)
		}
		g.p("ADDQ R9, DX")
	}
}

// tritTables512 is the digits of a byte b = ⌈256·v/243⌉, v = 81·d₀ + 27·d₁ + 9·d₂ + 3·d₃ + d₄: first d₀ to d₃ in fields
// of two bits, then d₄, in registers of 64 bytes.
func tritTables512() (registers [][]string) {
	var fields, last [256]byte
	for b := range 256 {
		v := b * 243 / 256
		fields[b] = byte(v/81 | v/27%3<<2 | v/9%3<<4 | v/3%3<<6)
		last[b] = byte(v % 3)
	}
	for _, table := range [][256]byte{fields, last} {
		for i := 0; i < 256; i += 64 {
			registers = append(registers, dwords(table[i:i+64]))
		}
	}
	return registers
}
