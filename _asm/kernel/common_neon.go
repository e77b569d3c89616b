package main

import (
	"fmt"
	"strings"
)

// Instructions that Go's assembler for arm64 lacks are written as words. A comment after each names it in the syntax of
// GNU's disassembler, with which TestWords compares it.

// word64 is an instruction by its operands: destination and one or two sources.
type word64 struct {
	code    int
	d, n, m string // arrangements; m is empty for a single source
}

// words64 are these instructions by name, with a constant operand after the comma.
var words64 = map[string]word64{
	"mul":       {0x4E209C00, "16b", "16b", "16b"},
	"mul 4s":    {0x4EA09C00, "4s", "4s", "4s"},
	"sadalp":    {0x4E606800, "4s", "8h", ""},
	"saddw":     {0x0E601000, "4s", "4s", "4h"},
	"saddw2":    {0x4E601000, "4s", "4s", "8h"},
	"sdot":      {0x4E809400, "4s", "16b", "16b"},
	"fmla":      {0x4E20CC00, "4s", "4s", "4s"},
	"shll, #8":  {0x2E213800, "8h", "8b", ""},
	"shll2, #8": {0x6E213800, "8h", "16b", ""},
	"smlal":     {0x0E208000, "8h", "8b", "8b"},
	"smlal2":    {0x4E208000, "8h", "16b", "16b"},
	"smull":     {0x0E20C000, "8h", "8b", "8b"},
	"smull2":    {0x4E20C000, "8h", "16b", "16b"},
	"sshr, #4":  {0x4F3C0400, "4s", "4s", ""},
	"sxtl":      {0x0F08A400, "8h", "8b", ""},
	"sxtl2":     {0x4F08A400, "8h", "16b", ""},
	"uaddlp":    {0x6E202800, "8h", "16b", ""},
	"umin":      {0x6E206C00, "16b", "16b", "16b"},
	"urshr, #5": {0x6F0B2400, "16b", "16b", ""},
}

// w writes such an instruction with registers d, n and m.
func (f *file) w(name string, regs ...int) {
	i := words64[name]
	code := i.code | regs[1]<<5 | regs[0]
	mnemonic, constant, _ := strings.Cut(name, ",")
	mnemonic, _, _ = strings.Cut(mnemonic, " ") // a suffix distinguishes forms of the same name
	text := fmt.Sprintf("%s v%d.%s, v%d.%s", mnemonic, regs[0], i.d, regs[1], i.n)
	if i.m != "" {
		code |= regs[2] << 16
		text += fmt.Sprintf(", v%d.%s", regs[2], i.m)
	}
	if constant != "" {
		text += "," + constant
	}
	f.p("WORD $%#08x // %s", code, text)
}

// sdot adds the dot products of each four bytes of n with bytes 4·i to 4·i+3 of m to the lanes of d.
func (f *file) sdot(d, n, m, i int) {
	f.p("WORD $%#08x // sdot v%d.4s, v%d.16b, v%d.4b[%d]", 0x4F80E000|i&1<<21|m<<16|i>>1<<11|n<<5|d, d, n, m, i)
}

// byElement is mul or mla of 16-bit lanes of n with lane i of m, one of the lower 16 registers.
func (f *file) byElement(name string, d, n, m, i int) {
	code := map[string]int{"mul": 0x4F408000, "mla": 0x6F400000}[name]
	f.p("WORD $%#08x // %s v%d.8h, v%d.8h, v%d.h[%d]", code|i>>2<<11|i>>1&1<<21|i&1<<20|m<<16|n<<5|d, name, d, n, m, i)
}

// panelsARM emits a kernel of one *tile: begin runs once, body for each panel. frame is the number of bytes of the
// stack that body uses, from 16(RSP) on.
//
// General registers: R0 the tile, R1 weights, R3 steps, R4 activations of the first token; R7 bytes between tokens of
// results, R8 panels, R9 bytes of a panel, R10 weights and R11 results of the panel. The others are free.
func panelsARM(f *file, name string, rows, frame int, begin, body func()) {
	if frame > 0 {
		frame += 16
	}
	fmt.Fprintf(&f.body, "\n// func %s(t *Tile)\nTEXT ·%s(SB), NOSPLIT, $%d-8\n", name, name, frame)
	f.p("MOVD t+0(FP), R0")
	begin()
	f.p("MOVD Tile_Panels(R0), R8")
	f.p("MOVD Tile_PanelBytes(R0), R9")
	f.p("MOVD Tile_LdY(R0), R7")
	f.p("MOVD Tile_W(R0), R10")
	f.p("MOVD Tile_Y(R0), R11")
	panel := f.newLabel("panel")
	f.at(panel)
	f.p("MOVD R10, R1")
	f.p("MOVD Tile_Steps(R0), R3")
	f.p("MOVD Tile_X(R0), R4")
	body()
	f.p("ADD R9, R10, R10")
	f.p("ADD $%d, R11, R11", 4*rows)
	f.p("SUBS $1, R8, R8")
	f.p("BNE %s", panel)
	f.p("RET")
}

// distanceARM is the prefetch distance in bytes. Not measured.
const distanceARM = 8192

// prefetchARM prefetches weights.
func (f *file) prefetchARM(off int) { f.p("PRFM %d(R1), PLDL1KEEP", distanceARM+off) }

// zero clears registers.
func (f *file) zero(from, n int) {
	for i := from; i < from+n; i++ {
		f.p("VEOR V%d.B16, V%d.B16, V%d.B16", i, i, i)
	}
}

// loadConst loads 16 constant bytes.
func (f *file) loadConst(name string, b [16]byte, v int) {
	f.p("MOVD $%s, R6", f.rodata(name, dwords(b[:])))
	f.p("FMOVQ (R6), F%d", v)
}

// blocksARM emits all steps in blocks of at most R2 = tile.block; accumulators are widened after each.
func blocksARM(f *file, step, widen func()) {
	next, few, loop := f.newLabel("next"), f.newLabel("few"), f.newLabel("loop")
	f.at(next)
	f.p("MOVD Tile_Block(R0), R2")
	f.p("CMP R2, R3")
	f.p("BGE %s", few)
	f.p("MOVD R3, R2")
	f.at(few)
	f.p("SUB R2, R3, R3")
	f.at(loop)
	step()
	f.p("SUBS $1, R2, R2")
	f.p("BNE %s", loop)
	widen()
	f.p("CBNZ R3, %s", next)
}
