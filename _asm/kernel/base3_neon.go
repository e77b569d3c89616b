package main

// Base-3 bytes on 128-bit registers, one token. A step is four columns of 80 rows, 64 bytes: four registers of four
// lanes, each byte with the digits of five rows. Remainders by 81 and 27 take two subtractions and two minima each, as
// in trits256.go; the rest is below 32, and is decoded by a table of two registers.
//
// With dot products the remainders are multiplied, and the sums of the digits are differences of their sums, as in
// trits256.go. The byte itself is made signed by subtracting 128.
//
// Without them operands are digits, so that products fit into 16 bits for many steps. Only the accumulators of half of
// the lanes fit the registers: a panel is processed in two passes.
type trit128 struct {
	*file
	dot bool
}

// Registers: accumulators 0 to 19, then three tables of two registers. The third table is for digits; otherwise its
// registers are free.
const (
	tritSums  = 20
	tritTable = 20
	tritFlip  = 24 // 128 in every byte, with dot products
	trit81    = 26
	trit27    = 27
	tritX     = 28
	tritByte  = 29
	tritOther = 30
	tritDigit = 31
)

func tritsNEON(f *file, name string, dot bool) {
	g := &trit128{f, dot}
	frame := 0
	if !dot {
		frame = 16 * tritSums
	}
	panelsARM(f, name+"x1", tritRows, frame, func() {
		if dot {
			f.p("VMOVI $128, V%d.B16", tritFlip)
			tritTables(f, 9, 3)
		} else {
			tritTables(f, 9, 3, 1)
		}
	}, func() {
		if dot {
			g.linear()
			return
		}
		for half := range 2 {
			g.digits(half)
		}
	})
	f.table(name, "multiply 80-row panels of base-3 bytes, one token at a time.", []string{name + "x1"})
}

// tritTables loads the lookup tables for v below 27, and the limits of remainders: two tables for v mod 9 and v mod 3,
// or three for the digits of 9, 3 and 1.
func tritTables(f *file, powers ...int) {
	for i, power := range powers {
		var table [32]byte
		for v := range table {
			if table[v] = byte(v % power); len(powers) == 3 {
				table[v] = byte(v / power % 3)
			}
		}
		words := dwords(table[:])
		f.p("MOVD $%s, R6", f.rodata("trits"+words[0][2:]+words[2][2:], words))
		f.p("FLDPQ (R6), (F%d, F%d)", tritTable+2*i, tritTable+2*i+1)
	}
	f.p("VMOVI $81, V%d.B16", trit81)
	f.p("VMOVI $27, V%d.B16", trit27)
}

// tritRemainder sets register to to the remainder of register from by the value in register limit, a third of its
// bound.
func tritRemainder(f *file, limit, from, to int) {
	for range 2 {
		f.p("VSUB V%d.B16, V%d.B16, V%d.B16", limit, from, tritOther)
		f.w("umin", to, from, tritOther)
		from = to
	}
}

// tritLookup looks up the byte, below 27, in a table.
func tritLookup(f *file, table int) {
	t := tritTable + 2*table
	f.p("VTBL V%d.B16, [V%d.B16, V%d.B16], V%d.B16", tritByte, t, t+1, tritDigit)
}

// tritDigitsNEON computes one digit of the byte after another, in a register. The upper two bits of 81 and 162 are the
// digit, and the upper three of 27 and 54, rounded.
func tritDigitsNEON(f *file, use func(i, digit int)) {
	rest, digit := tritByte, tritDigit
	for i, limit := range []int{trit81, trit27} {
		rest, digit = digit, rest
		tritRemainder(f, limit, digit, rest)
		f.p("VSUB V%d.B16, V%d.B16, V%d.B16", rest, digit, digit)
		if limit == trit81 {
			f.p("VUSHR $6, V%d.B16, V%d.B16", digit, digit)
		} else {
			f.w("urshr, #5", digit, digit)
		}
		use(i, digit)
	}
	for i := range 3 {
		tritLookup(f, i)
		use(2+i, tritDigit)
	}
}

// linear multiplies the byte and its remainders.
func (g *trit128) linear() {
	g.zero(0, tritSums)
	loop := g.newLabel("loop")
	g.at(loop)
	g.prefetchARM(0)
	g.p("FMOVS (R4), F%d", tritX)
	for r := range 4 {
		g.p("FMOVQ %d(R1), F%d", 16*r, tritByte)
		g.p("VEOR V%d.B16, V%d.B16, V%d.B16", tritFlip, tritByte, tritDigit)
		g.sdot(trits*r, tritDigit, tritX, 0)
		for i, limit := range []int{trit81, trit27} {
			tritRemainder(g.file, limit, tritByte, tritByte)
			g.sdot(trits*r+1+i, tritByte, tritX, 0)
		}
		for i := range 2 {
			tritLookup(g.file, i)
			g.sdot(trits*r+3+i, tritDigit, tritX, 0)
		}
	}
	g.p("ADD $64, R1, R1")
	g.p("ADD $4, R4, R4")
	g.p("SUBS $1, R3, R3")
	g.p("BNE %s", loop)
	g.finishLinear()
}

// finishLinear computes the sums of the digits and stores them. Subtracting 128 from the byte removed 128·Σ x, and Σ x
// is −add.
func (g *trit128) finishLinear() {
	g.p("MOVW Tile_Add(R0), R2")
	g.p("VDUP R2, V%d.S4", tritX)
	g.p("VSHL $7, V%d.S4, V%d.S4", tritX, tritOther)
	for r := range 4 {
		g.p("VSUB V%d.S4, V%d.S4, V%d.S4", tritOther, trits*r, trits*r)
	}
	for i := range trits {
		if i < trits-1 {
			g.p("MOVD $%s, R6", tritInverses[i])
			g.p("VDUP R6, V%d.S4", tritOther)
		}
		for r := range 4 {
			sum := trits*r + i
			if i < trits-1 {
				g.p("VSUB V%d.S4, V%d.S4, V%d.S4", sum+1, sum, sum)
				g.w("mul 4s", sum, sum, tritOther)
			}
			g.p("VADD V%d.S4, V%d.S4, V%d.S4", tritX, sum, sum)
			g.p("FMOVQ F%d, %d(R11)", sum, 64*i+16*r)
		}
	}
}

// digits multiplies the digits of half of the lanes, two registers of a step.
func (g *trit128) digits(half int) {
	g.p("ADD $%d, R10, R1", 32*half)
	g.p("MOVD Tile_Steps(R0), R3")
	g.p("MOVD Tile_X(R0), R4")
	g.zero(0, tritSums)
	storeSums(g.file, tritSums)
	blocksARM(g.file, func() {
		if half == 0 {
			g.prefetchARM(0)
		}
		g.p("VLD1R (R4), [V%d.S4]", tritX)
		for r := range 2 {
			g.p("FMOVQ %d(R1), F%d", 16*r, tritByte)
			tritDigitsNEON(g.file, func(i, digit int) {
				sum := 2 * (trits*r + i)
				g.w("smlal", sum, digit, tritX)
				g.w("smlal2", sum+1, digit, tritX)
			})
		}
		g.p("ADD $64, R1, R1")
		g.p("ADD $4, R4, R4")
	}, func() { widenSums(g.file, tritSums, tritOther) })
	g.p("MOVW Tile_Add(R0), R2")
	g.p("VDUP R2, V%d.S4", tritX)
	for sum := range tritSums / 2 {
		g.p("FMOVQ %d(RSP), F%d", 16+32*sum, tritDigit)
		g.p("FMOVQ %d(RSP), F%d", 32+32*sum, tritOther)
		g.p("VADDP V%d.S4, V%d.S4, V%d.S4", tritOther, tritDigit, tritDigit)
		g.p("VADD V%d.S4, V%d.S4, V%d.S4", tritX, tritDigit, tritDigit)
		g.p("FMOVQ F%d, %d(R11)", tritDigit, 64*(sum%trits)+16*(sum/trits)+32*half)
	}
}
