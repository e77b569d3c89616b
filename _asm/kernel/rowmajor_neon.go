package main

import "fmt"

// Row-major dot products on 128-bit registers, for bitnet.cpp's ARM stream: 64 columns of a row are 16 bytes, whose
// fields of two bits, the highest first, are 16 columns each. So a field is multiplied by 16 consecutive activations in
// memory, and a row has four sums, which are added at its end. Four rows at a time share the activations; remaining
// rows are processed one at a time.
//
// Without dot products the products of 64 columns (8 · 2·127 per sum at most) are summed in 16 bits, then in 32.
//
// In the tile panels are rows.
type rows128 struct {
	*file
	dot    bool
	tokens int
	rows   int // rows processed together
}

// Registers.
const (
	rowsW     = 16 // packed bytes of a row, from here on
	rowsDigit = 20
	rowsX     = 21 // activations of a token, from here on
	rowsShort = 25 // 16-bit sums of a row, from here on
	rowsMask  = 29
)

// rowPointers are the general registers that point at rows of weights.
var rowPointers = []int{1, 15, 16, 17}

func rowsNEON(f *file, suffix string, dot bool) {
	table, tokens := "rowMajor"+suffix, 1
	if dot {
		tokens = 4
	}
	var funcs []string
	for t := 1; t <= tokens; t++ {
		g := &rows128{f, dot, t, 0}
		name := fmt.Sprintf("%sx%d", table, t)
		g.function(name)
		funcs = append(funcs, name)
	}
	f.table(table, "multiply rows of 2-bit fields, 64 columns in 16 bytes; by tokens − 1.", funcs)
}

func (g *rows128) acc(r, t int) int { return r*g.tokens + t }

func (g *rows128) function(name string) {
	fmt.Fprintf(&g.body, "\n// func %s(t *Tile)\nTEXT ·%s(SB), NOSPLIT, $0-8\n", name, name)
	g.p("MOVD t+0(FP), R0")
	g.p("VMOVI $3, V%d.B16", rowsMask)
	g.p("MOVD Tile_Panels(R0), R8")
	g.p("MOVD Tile_PanelBytes(R0), R9")
	g.p("MOVD Tile_LdY(R0), R7")
	g.p("MOVD Tile_W(R0), R10")
	g.p("MOVD Tile_Y(R0), R11")
	four, rest, one, done := g.newLabel("four"), g.newLabel("rest"), g.newLabel("one"), g.newLabel("done")
	g.p("SUBS $4, R8, R8")
	g.p("BLT %s", rest)
	g.at(four)
	g.some(4)
	g.p("SUBS $4, R8, R8")
	g.p("BGE %s", four)
	g.at(rest)
	g.p("ADDS $4, R8, R8")
	g.p("BEQ %s", done)
	g.at(one)
	g.some(1)
	g.p("SUBS $1, R8, R8")
	g.p("BNE %s", one)
	g.at(done)
	g.p("RET")
}

// some multiplies some rows and advances past them.
func (g *rows128) some(rows int) {
	g.rows = rows
	g.p("MOVD R10, R1")
	for r := range rows - 1 {
		g.p("ADD R9, R%d, R%d", rowPointers[r], rowPointers[r+1])
	}
	g.p("ADD R9, R%d, R10", rowPointers[rows-1])
	g.p("ADD $%d, R1, R2", distanceARM)
	g.p("MOVD Tile_X(R0), R4")
	g.p("MOVD Tile_LdX(R0), R6")
	for t := range g.tokens - 1 {
		g.p("ADD R6, R%d, R%d", pointersNEON[t], pointersNEON[t+1])
	}
	g.p("MOVD Tile_Steps(R0), R3")
	g.zero(0, rows*g.tokens)
	loop := g.newLabel("loop")
	g.at(loop)
	g.step()
	g.p("SUBS $1, R3, R3")
	g.p("BNE %s", loop)
	g.finish()
	g.p("ADD $%d, R11, R11", 4*rows)
}

// step multiplies 64 columns.
func (g *rows128) step() {
	g.p("PRFM (R2), PLDL1KEEP")
	g.p("ADD $%d, R2, R2", 16*g.rows)
	for r := range g.rows {
		g.p("FMOVQ (R%d), F%d", rowPointers[r], rowsW+r)
		g.p("ADD $16, R%d, R%d", rowPointers[r], rowPointers[r])
	}
	for field := range 4 {
		for t := range g.tokens {
			g.p("FMOVQ %d(R%d), F%d", 16*field, pointersNEON[t], rowsX+t)
		}
		for r := range g.rows {
			digit := g.digit(rowsW+r, field)
			if g.dot {
				for t := range g.tokens {
					g.w("sdot", g.acc(r, t), digit, rowsX+t)
				}
				continue
			}
			first := "smlal"
			if field == 0 {
				first = "smull"
			}
			g.w(first, rowsShort+r, digit, rowsX)
			g.w("smlal2", rowsShort+r, digit, rowsX)
		}
	}
	if !g.dot {
		for r := range g.rows {
			g.w("sadalp", r, rowsShort+r)
		}
	}
	for t := range g.tokens {
		g.p("ADD $64, R%d, R%d", pointersNEON[t], pointersNEON[t])
	}
}

// digit extracts a field of packed bytes.
func (g *rows128) digit(w, field int) int {
	if shift := 6 - 2*field; shift > 0 {
		g.p("VUSHR $%d, V%d.B16, V%d.B16", shift, w, rowsDigit)
		w = rowsDigit
	}
	if field > 0 {
		g.p("VAND V%d.B16, V%d.B16, V%d.B16", rowsMask, w, rowsDigit)
	}
	return rowsDigit
}

// finish adds the sums of each row and Tile.Add, and stores them.
func (g *rows128) finish() {
	g.p("MOVD R11, R6")
	for t := range g.tokens {
		a := g.acc(0, t)
		if g.rows == 4 {
			b, c, d := g.acc(1, t), g.acc(2, t), g.acc(3, t)
			g.p("VADDP V%d.S4, V%d.S4, V%d.S4", b, a, a)
			g.p("VADDP V%d.S4, V%d.S4, V%d.S4", d, c, c)
			g.p("VADDP V%d.S4, V%d.S4, V%d.S4", c, a, a)
		} else {
			g.p("VADDV V%d.S4, V%d", a, a)
		}
		g.p("MOVW (Tile_Add+%d)(R0), R4", 4*t)
		g.p("VDUP R4, V%d.S4", rowsDigit)
		g.p("VADD V%d.S4, V%d.S4, V%d.S4", rowsDigit, a, a)
		move := "FMOVQ"
		if g.rows == 1 {
			move = "FMOVS"
		}
		g.p("%s F%d, (R6)", move, a)
		if t < g.tokens-1 {
			g.p("ADD R7, R6, R6")
		}
	}
}
