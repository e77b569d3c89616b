package main

import "fmt"

// streams512 lists the packed weights that 512-bit kernels read.
func streams512() []stream {
	var list []stream
	for _, panel := range []struct{ rows, bits, regs, split int }{
		{32, 1, 1, 4}, {64, 1, 1, 2},
		{32, 2, 1, 2}, {64, 2, 1, 1},
		{32, 4, 1, 1}, {64, 4, 2, 1},
	} {
		s := stream{bits: panel.bits, regs: panel.regs, split: panel.split, most: 6, open: plain512}
		if panel.bits == 1 {
			s.most = 3
		}
		s.name = fmt.Sprintf("fields%dRows%d512", panel.bits, panel.rows)
		s.doc = fmt.Sprintf("multiply %d-row panels of %d-bit fields, 1 to %d tokens at once.", panel.rows, panel.bits, s.most)
		list = append(list, s)
		if panel.bits == 2 {
			s.name = fmt.Sprintf("ternaryRows%d512", panel.rows)
			s.doc = fmt.Sprintf("multiply %d-row panels of trits 0, +1, −1 = 0, 1, 2, 1 to %d tokens at once.", panel.rows, s.most)
			s.open = ternary512
			list = append(list, s)
		}
	}
	for _, rows := range []int{32, 64} {
		list = append(list, stream{
			name: fmt.Sprintf("bytesRows%d512", rows),
			doc:  fmt.Sprintf("multiply %d-row panels of int8, 1 to 6 tokens at once.", rows),
			bits: 8, regs: rows / 16, split: 1, most: 6, open: bytes512,
		})
	}
	return list
}

// plain512: a digit is what is multiplied.
func plain512(g *vnni512, d []int, off int, masked bool) { g.load(d[0], off, masked) }

// ternary512 turns the trits 0, +1, −1 = 0, 1, 2 into 1 − w = 1, 0, 2 in all fields at once. The high bit of a field is
// right already; the low bit becomes that of neither bit being set.
func ternary512(g *vnni512, d []int, off int, masked bool) {
	g.load(d[0], off, masked)
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
func bytes512(g *vnni512, d []int, off int, masked bool) {
	sign, suffix := g.constant(bytesOf(0x80))
	if suffix == "" {
		g.p("VPXORD %d(DI), %s, Z%d", off, sign, d[0])
		return
	}
	g.load(d[0], off, masked)
	g.p("VPXORD%s %s, Z%d, Z%d", suffix, sign, d[0], d[0])
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
func spread4() (words []string) {
	for lane := range 4 {
		for range 4 {
			words = append(words, fmt.Sprintf("0x%08x", 0x03020100+0x04040404*lane))
		}
	}
	return words
}
