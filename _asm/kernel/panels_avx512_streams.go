package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// streams512 lists the packed weights that 512-bit kernels read.
func streams512() []stream {
	var list []stream
	for _, panel := range []struct{ rows, bits, regs, split int }{
		{32, 1, 1, 4}, {64, 1, 1, 2},
		{32, 2, 1, 2}, {64, 2, 1, 1},
		{32, 4, 1, 1}, {64, 4, 2, 1},
	} {
		s := stream{bits: panel.bits, regs: panel.regs, split: panel.split, open: plain512}
		s.most = mostTokens(s)
		s.name = fmt.Sprintf("fields%dRows%dAVX512", panel.bits, panel.rows)
		s.what = fmt.Sprintf("%d-row panels of %d-bit fields", panel.rows, panel.bits)
		fields := s
		list = append(list, s)
		if panel.bits == 2 {
			s.name = fmt.Sprintf("ternaryRows%dAVX512", panel.rows)
			s.what = fmt.Sprintf("%d-row panels of trits 0, +1, −1 = 0, 1, 2", panel.rows)
			s.open, s.minus = ternary512, true
			list = append(list, s)
		}
		if panel.bits == 2 && panel.rows == 32 {
			for _, s := range []stream{s, fields} {
				s.name, s.pair, s.split = strings.Replace(s.name, "Rows32", "Pairs", 1), true, 1
				list = append(list, s)
			}
		}
	}
	for _, rows := range []int{32, 64} {
		for _, s := range []stream{{
			name: fmt.Sprintf("lookup4Rows%dAVX512", rows),
			what: fmt.Sprintf("%d-row panels of 4-bit fields that are looked up", rows),
			bits: 4, regs: rows / 32, split: 1, open: lookup512, whole: true, lookup: true,
		}, {
			name: fmt.Sprintf("int8Rows%dAVX512", rows),
			what: fmt.Sprintf("%d-row panels of int8", rows),
			bits: 8, regs: rows / 16, split: 1, open: bytes512,
		}} {
			s.most = mostTokens(s)
			list = append(list, s)
		}
	}
	for _, p := range planeKinds {
		s := stream{
			name: p.name("planes%dRows32AVX512"), what: "32-row panels of " + p.what(),
			bits: 4, regs: 1, split: 1, open: planes512, planes: p,
			whole: p.low > 2, // two digits of three bits are fields of a byte
		}
		s.most = mostTokens(s)
		list = append(list, s)
	}
	return append(list, sharing512(list)...)
}

// mostTokens is the number of tokens for which there are registers for 24 accumulators.
func mostTokens(s stream) int { return 24 / s.operands() }

// sharing512 lists, for one token, the streams that read two panels at a time, and four of two bits: the same number of
// memory streams.
func sharing512(list []stream) (sharing []stream) {
	add := func(s stream, panels int, name string) {
		s.name, s.share, s.regs, s.most = strings.Replace(s.name, "Rows", name, 1), panels, panels*s.regs, 1
		sharing = append(sharing, s)
	}
	for _, s := range list {
		if s.split == 1 && !s.pair {
			add(s, 2, "Pairs")
		}
		if s.bits == 2 && !s.pair {
			add(s, 4, "Fours")
		}
	}
	return sharing
}

// plain512 loads digits, which are the operands.
func plain512(g *vnni512, d []int, at string, masked bool) { g.load(d[0], at, masked) }

// ternary512 maps the trits 0, +1, −1 = 0, 1, 2 to 1 − w = 1, 0, 2 in all fields at once. The high bit of a field is
// right already; the low bit becomes the NOR of both bits.
func ternary512(g *vnni512, d []int, at string, masked bool) {
	g.load(d[0], at, masked)
	low, suffix := g.constant(bytesOf(0x55))
	g.p("VPSRLW $1, Z%d, Z%d", d[0], d[1])
	g.p("VPTERNLOGD%s $%#x, %s, Z%d, Z%d", suffix, ternlog(func(v, high, low bool) bool {
		if low {
			return !v && !high
		}
		return v
	}), low, d[1], d[0])
}

// bytes512 makes int8 unsigned by adding 128.
func bytes512(g *vnni512, d []int, at string, masked bool) {
	sign, suffix := g.constant(bytesOf(0x80))
	if suffix == "" {
		g.p("VPXORD %s, %s, Z%d", at, sign, d[0])
		return
	}
	g.load(d[0], at, masked)
	g.p("VPXORD%s %s, Z%d, Z%d", suffix, sign, d[0], d[0])
}

// lookup512 looks fields up: an operand is an unsigned byte of the table.
func lookup512(g *vnni512, d []int, at string, masked bool) {
	low, suffix := g.constant(bytesOf(0x0f))
	g.load(d[0], at, masked)
	g.p("VPSRLW $4, Z%d, Z%d", d[0], d[1])
	for _, v := range d {
		g.p("VPANDD%s %s, Z%d, Z%d", suffix, low, v, v)
		g.p("VPSHUFB Z%d, Z%d, Z%d", v, g.tableReg, v)
	}
}

// identity8 holds the unit vectors of eight bits.
func identity8() []string {
	return dwords(bytes.Repeat([]byte{1, 2, 4, 8, 16, 32, 64, 128}, 8))
}

// ternlog is the immediate of VPTERNLOG for a function of destination, second and third operand.
func ternlog(f func(a, b, c bool) bool) (imm int) {
	for i := range 8 {
		if f(i&4 != 0, i&2 != 0, i&1 != 0) {
			imm |= 1 << i
		}
	}
	return imm
}

// spread4 is the control of a byte shuffle that gives 128-bit lane l the l-th 32-bit word of its source.
func spread4() []string {
	var t [64]byte
	for i := range t {
		t[i] = byte(i/16*4 + i%4)
	}
	return dwords(t[:])
}

// dwords writes bytes as 32-bit constants.
func dwords(b []byte) (words []string) {
	for i := 0; i < len(b); i += 4 {
		words = append(words, fmt.Sprintf("0x%08x", binary.LittleEndian.Uint32(b[i:])))
	}
	return words
}
