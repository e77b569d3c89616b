package main

import (
	"fmt"
	"strconv"
	"strings"
)

// Digits in two planes (layout vnni4p): for each group of four columns the words of the lower parts of the digits of 32
// rows, then those of the upper parts. A plane of w bits has 4·w lanes; a lane holds rows 4·w apart in its fields. So a
// register of the lower plane and one of the upper plane, repeated and shifted lane by lane, hold digits of the same
// rows.

// digitPlanes are the numbers of bits of both parts of a digit.
type digitPlanes struct{ low, high int }

// planeKinds are the widths that layout vnni4p has.
var planeKinds = []digitPlanes{{2, 1}, {4, 1}, {4, 2}}

func (p digitPlanes) bits() int { return p.low + p.high }

// four is the number of bytes of four columns of 32 rows; the upper parts begin at byte upper.
func (p digitPlanes) four() int  { return 16 * p.bits() }
func (p digitPlanes) upper() int { return 16 * p.low }

// name is the name of a function for this kind, from a pattern with a place for the number of bits.
func (p digitPlanes) name(pattern string) string { return fmt.Sprintf(pattern, p.bits()) }

func (p digitPlanes) what() string {
	return fmt.Sprintf("digits of %d bits in planes of %d and %d", p.bits(), p.low, p.high)
}

// chosen are the bits of a byte that hold lower parts: two, where both digits of a byte fit it, or one.
func (p digitPlanes) chosen() byte {
	if p.low == 2 {
		return 0x33
	}
	return 0x0f
}

// masks are the bits of the lower and of the upper part in a byte.
func (p digitPlanes) masks() (low, high byte) {
	return 1<<p.low - 1, (1<<p.high - 1) << p.low
}

// digit256 is how 256-bit kernels make digits: rows 8·j to 8·j+7 in a register, unsigned.
type digit256 struct {
	*file
	digitPlanes
	parts, free       int    // registers: the upper parts, and one to work with
	lowMask, highMask string // registers or memory
	spread            string // the shift of each lane, where the upper plane has only four
}

// spread256 is the shift of the lanes of an upper plane of one bit.
func spread256() []string { return append(repeat("0", 4), repeat("1", 4)...) }

// open loads the upper parts of four columns, so that those of rows 8·j begin at bit 2·j.
func (g *digit256) open(upper string) {
	if g.high == 2 {
		g.p("VMOVDQU %s, Y%d", upper, g.parts)
		return
	}
	g.p("VBROADCASTI128 %s, Y%d", upper, g.parts)
	g.p("VPSRLVD %s, Y%d, Y%d", g.spread, g.parts, g.parts)
}

// make makes digits j; lower is the address of a register of the lower plane.
func (g *digit256) make(j, d int, lower func(register int) string) {
	registers := g.low / 2
	g.p("VMOVDQU %s, Y%d", lower(j%registers), d)
	if field := j / registers; field > 0 {
		g.p("VPSRLW $%d, Y%d, Y%d", g.low*field, d, d)
	}
	g.p("VPAND %s, Y%d, Y%d", g.lowMask, d, d)
	from := g.parts
	if right := 2*j - g.low; right > 0 {
		g.p("VPSRLW $%d, Y%d, Y%d", right, from, g.free)
		from = g.free
	} else if right < 0 {
		g.p("VPSLLW $%d, Y%d, Y%d", -right, from, g.free)
		from = g.free
	}
	g.p("VPAND %s, Y%d, Y%d", g.highMask, from, g.free)
	g.p("VPOR Y%d, Y%d, Y%d", g.free, d, d)
}

// openPlanes256 writes the functions that make int8 of digits, in the order of vnni4.
func openPlanes256(f *file) {
	for _, p := range planeKinds {
		declareOpen(f, p, p.name("OpenPlanes%dAVX2"))
		low, high := p.masks()
		constant := func(words string, y int) string {
			f.p("VMOVDQU %s, Y%d", f.rodata("y"+words[2:], repeat(words, 8)), y)
			return fmt.Sprintf("Y%d", y)
		}
		g := digit256{file: f, digitPlanes: p, parts: 4, free: 5, lowMask: constant(bytesOf(low), 6),
			highMask: constant(bytesOf(high), 7)}
		zero := constant(bytesOf(1<<(p.bits()-1)), 8)
		f.p("VMOVDQU %s, Y9", f.rodata("yShiftOne", spread256()))
		g.spread = "Y9"
		f.p("MOVQ dst+0(FP), DI")
		f.p("MOVQ src+8(FP), SI")
		f.p("MOVQ fours+16(FP), CX")
		next := f.newLabel("four")
		f.at(next)
		f.p("PREFETCHT0 %d(SI)", distance)
		g.open(fmt.Sprintf("%d(SI)", p.upper()))
		for j := range operandsY {
			g.make(j, j, func(register int) string { return fmt.Sprintf("%d(SI)", 32*register) })
			f.p("VPSUBB %s, Y%d, Y%d", zero, j, j)
			f.p("VMOVDQU Y%d, %d(DI)", j, 32*j)
		}
		f.p("ADDQ $%d, SI", p.four())
		f.p("ADDQ $128, DI")
		f.p("DECQ CX")
		f.p("JNZ %s", next)
		f.p("VZEROUPPER")
		f.p("RET")
	}
}

// declareOpen declares such a function.
func declareOpen(f *file, p digitPlanes, name string) {
	what := "makes int8 in the order of vnni4 of " + p.what() + ", four columns of 32 rows at a time, at least once."
	f.declare(name, what, "dst, src *byte, fours int", 3)
}

// displaced is a memory operand some bytes after another one.
func displaced(at string, by int) string {
	number, registers, _ := strings.Cut(at, "(")
	offset, _ := strconv.Atoi(number) // none = 0
	return fmt.Sprintf("%d(%s", offset+by, registers)
}
