package main

import (
	"fmt"
	"strings"
)

// i4Block is the number of codes in 16 bytes, which tensor.i4Block explains; i4Values are their values.
const i4Block = 32

var i4Values = [16]int8{6, 18, 30, 43, 57, 73, 93, 121, -6, -18, -30, -43, -57, -73, -93, -121}

// i4Table writes the values of codes of four bits, as often as there are 16 bytes in a register.
func i4Table(b *strings.Builder, times int) {
	for i := range 4 * times {
		word := uint32(0)
		for j, v := range i4Values[i%4*4:][:4] {
			word |= uint32(uint8(v)) << (8 * j)
		}
		fmt.Fprintf(b, "DATA i4Values<>+%d(SB)/4, $0x%08x\n", 4*i, word)
	}
	fmt.Fprintf(b, "GLOBL i4Values<>(SB), RODATA|NOPTR, $%d\n\n", 16*times)
}

// Registers of a table and a mask, on x86 also of what the codes are shifted by; the others are free.
const i4Registers = reg(13)

// prepareI4 shifts the second 16 bytes of a register by four bits: each byte is loaded twice.
func (m *x86) prepareI4() {
	m.line("VMOVDQU i4Values<>(SB), Y%d", i4Registers)
	m.line("VMOVDQU %s, Y%d", m.of(0x0f0f0f0f), i4Registers+1)
	m.line("VMOVDQU i4Shifts<>(SB), Y%d", i4Registers+2)
}

func (m *x86) valuesI4(y, x ptr, block int) {
	r := reg(block)
	m.line("VBROADCASTI128 %s, Y%d", at(x, 16*block), r)
	m.line("VPSRLVD Y%d, Y%d, Y%d", i4Registers+2, r, r)
	m.line("VPAND Y%d, Y%d, Y%d", i4Registers+1, r, r)
	m.line("VPSHUFB Y%d, Y%d, Y%d", r, i4Registers, r)
	m.line("VMOVDQU Y%d, %s", r, at(y, 32*block))
}

func (m *x86) i4Data(b *strings.Builder) {
	i4Table(b, 2)
	for i := range 8 {
		fmt.Fprintf(b, "DATA i4Shifts<>+%d(SB)/4, $%d\n", 4*i, i/4*4)
	}
	b.WriteString("GLOBL i4Shifts<>(SB), RODATA|NOPTR, $32\n\n")
}

func (m *arm) prepareI4() {
	m.line("MOVD $i4Values<>(SB), %s", armGeneral)
	m.line("FMOVQ (%s), F%d", armGeneral, i4Registers)
	m.fill(i4Registers+1, 0x0f0f0f0f)
}

func (m *arm) valuesI4(y, x ptr, block int) {
	low, high := reg(2*block), reg(2*block+1)
	m.load(low, x, 16*block)
	m.word2("ushr #4 .16b", 0x6f0c0400, high, low)
	m.word("and .16b", 0x4e201c00, low, low, i4Registers+1)
	for i, r := range []reg{low, high} {
		m.word("tbl .16b", 0x4e000000, r, i4Registers, r)
		m.store(r, y, 32*block+16*i)
	}
}
