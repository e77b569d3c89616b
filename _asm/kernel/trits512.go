package main

import "fmt"

// Base-3 bytes with 512-bit VPDPBUSD and VBMI. A step is 20 columns of 64 rows, 256 bytes; each byte holds the digits of
// five columns of a row. Two tables of 256 bytes take a byte apart: the first gives digits 0 to 3 in fields of two bits,
// the second gives digit 4. A lookup is two permutations under complementary masks, as a permutation sees 128 entries.
//
// For one token the fields are cut out by masks alone and summed apart; for more they are shifted down, so that one sum
// serves all digits.

const tritRegs = 4 // 64-byte registers per step

type trits512 struct {
	*file
	tokens int
}

// Registers above the sums, of which there are at most 20.
const (
	tritTables = 20 // to 27: first table, second table
	tritBytes  = 28
	tritFields = 29
	tritDigit  = 30
	tritSpare  = 31
)

func trits512File() *file {
	f := newFile("trits_avx512vnni", "amd64")
	var funcs []string
	for t := 1; t <= 5; t++ {
		g := &trits512{f, t}
		name := fmt.Sprintf("trits512x%d", t)
		g.function(name)
		funcs = append(funcs, name)
	}
	f.table("trits512", "multiply 64-row panels of base-3 bytes, 1 to 5 tokens at once.", funcs)
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

func (g *trits512) function(name string) {
	beginTile512(g.file, name, g.tokens)
	for i, t := range tritTables512() {
		g.p("VMOVDQU64 %s, Z%d", g.rodata(fmt.Sprintf("trits%d", i), t), tritTables+i)
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
	for r := range tritRegs {
		g.p("PREFETCHT0 %d(DI)", distance+pace*r)
	}
	for r := range tritRegs {
		g.register(r)
	}
	g.p("ADDQ $%d, DI", pace*tritRegs)
	g.p("ADDQ $20, SI")
	g.p("DECQ CX")
	g.p("JNZ %s", loop)
	g.finish()
}

// register multiplies the five digits of a register.
func (g *trits512) register(r int) {
	g.p("VMOVDQU64 %d(DI), Z%d", pace*r, tritBytes)
	g.p("VPMOVB2M Z%d, K1", tritBytes)
	g.p("KNOTQ K1, K2")
	g.p("VMOVDQA64 Z%d, Z%d", tritBytes, tritFields)
	g.lookup(tritTables, tritFields)
	for i := range 4 {
		g.field(i)
		g.multiply(r, i, tritDigit)
	}
	g.lookup(tritTables+4, tritBytes)
	g.multiply(r, 4, tritBytes)
}

// lookup replaces bytes by what the table in registers t to t+3 says. Elements that one permutation leaves alone are
// still indices for the other.
func (g *trits512) lookup(t, v int) {
	g.p("VPERMI2B Z%d, Z%d, K2, Z%d", t+1, t, v)
	g.p("VPERMI2B Z%d, Z%d, K1, Z%d", t+3, t+2, v)
}

// field cuts digit i out of the fields.
func (g *trits512) field(i int) {
	if g.sums() > 1 {
		g.p("VPANDD.BCST %s, Z%d, Z%d", g.word(bytesOf(byte(3<<(2*i)))), tritFields, tritDigit)
		return
	}
	from := tritFields
	if i > 0 {
		from = tritDigit
		g.p("VPSRLW $%d, Z%d, Z%d", 2*i, tritFields, from)
	}
	g.p("VPANDD.BCST %s, Z%d, Z%d", g.word(bytesOf(3)), from, tritDigit)
}

func (g *trits512) multiply(r, digit, operand int) {
	for t := range g.tokens {
		g.p("VPDPBUSD.BCST %d%s, Z%d, Z%d", 4*digit, tokenAddress(t), operand, g.acc(t, r, digit))
	}
}

func (g *trits512) finish() {
	g.p("MOVQ tile_y(AX), DX")
	g.p("MOVQ tile_ldy(AX), R9")
	g.p("VPBROADCASTD tile_mul(AX), Z%d", tritSpare)
	for t := range g.tokens {
		g.p("VPBROADCASTD (tile_add+%d)(AX), Z%d", 4*t, tritDigit)
		for r := range tritRegs {
			a := g.acc(t, r, 0)
			for i := 1; i < g.sums(); i++ {
				g.p("VPSRAD $%d, Z%d, Z%d", 2*i, a+i, a+i)
				g.p("VPADDD Z%d, Z%d, Z%d", a+i, a, a)
			}
			g.p("VPMULLD Z%d, Z%d, Z%d", tritSpare, a, a)
			g.p("VPADDD Z%d, Z%d, Z%d", tritDigit, a, a)
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
