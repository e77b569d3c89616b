package main

import "fmt"

// allocatePlanes takes the registers that planes512 works with, and loads those that hold constants.
func (g *vnni512) allocatePlanes() {
	g.partReg, g.shifts = g.take(1)[0], map[int]int{}
	for _, width := range []int{g.planes.low, g.planes.high} {
		if width == 4 {
			continue
		}
		g.shifts[width] = g.take(1)[0]
		at := g.rodata(fmt.Sprintf("shiftPlane%d", width), shiftPlane(width))
		g.p("VMOVDQU64 %s, Z%d", at, g.shifts[width])
	}
}

// planes512 makes digits of their parts; without whole, bytes of two digits.
func planes512(g *vnni512, d []int, at string, masked bool) {
	upper := d[1]
	if !g.whole {
		upper = d[0]
	}
	g.plane(g.planes.low, at, g.partReg)
	g.plane(g.planes.high, displaced(at, g.planes.upper()), upper)
	if g.whole {
		joinPlanes(g.file, g.planes, g.partReg, d[0], d[1], g.constant)
		return
	}
	joinPair(g.file, g.planes, g.partReg, upper, g.constant)
	both, suffix := g.constant(bytesOf((1<<g.planes.bits() - 1) * 0x11))
	g.p("VPANDD%s %s, Z%d, Z%d", suffix, both, upper, upper)
}

// planesHalf512 is planes512 for half of the rows; without whole, a field of bytes of two digits.
func planesHalf512(g *vnni512, d int, at string) {
	g.plane(g.planes.low, at, g.partReg)
	g.plane(g.planes.high, displaced(at, g.planes.upper()), d)
	mask := byte(1<<g.planes.bits() - 1)
	switch {
	case !g.whole:
		joinPair(g.file, g.planes, g.partReg, d, g.constant)
		mask <<= 4 * g.half
	case g.half == 0:
		g.p("VPSLLW $4, Z%d, Z%d", d, d)
		chooseLower(g.file, g.planes, g.partReg, d, g.constant)
	default:
		g.p("VPSRLW $4, Z%d, Z%d", g.partReg, g.partReg)
		chooseLower(g.file, g.planes, g.partReg, d, g.constant)
	}
	c, suffix := g.constant(bytesOf(mask))
	g.p("VPANDD%s %s, Z%d, Z%d", suffix, c, d, d)
}

// plane loads a plane of the given width. A rotation of its lanes would save a shift of the upper parts, but on Zen 4
// rotations use the ports of products.
func (g *vnni512) plane(width int, at string, z int) {
	g.p("%s %s, Z%d", map[int]string{1: "VBROADCASTI32X4", 2: "VBROADCASTI64X4", 4: "VMOVDQU64"}[width], at, z)
	if width < 4 {
		g.p("VPSRLVQ Z%d, Z%d, Z%d", g.shifts[width], z, z)
	}
}

// shiftPlane are the shifts of 64-bit lanes that a plane of the given width fills repeatedly: by its width more in each
// repetition.
func shiftPlane(width int) (words []string) {
	for lane := range 8 {
		words = append(words, fmt.Sprintf("0x%08x", lane/(2*width)*width), "0x00000000")
	}
	return words
}

// joinPair makes bytes of two digits, of at most four bits, of parts as joinPlanes has them; other bits stay.
func joinPair(f *file, p digitPlanes, lower, upper int, constant func(word string) (operand, suffix string)) {
	f.p("VPSLLW $%d, Z%d, Z%d", p.low, upper, upper)
	chooseLower(f, p, lower, upper, constant)
}

// chooseLower puts lower parts, from bits 0 and 4 on, beside upper parts in register d.
func chooseLower(f *file, p digitPlanes, lower, d int, constant func(word string) (operand, suffix string)) {
	c, suffix := constant(bytesOf(p.chosen()))
	f.p("VPTERNLOGD%s $%#x, %s, Z%d, Z%d", suffix, ternlog(func(upper, lower, mask bool) bool {
		if mask {
			return lower
		}
		return upper
	}), c, lower, d)
}

// joinPlanes makes digits on 512 bits. The registers of the lower plane and of the upper one, which is second, hold the
// parts of rows 0 to 15 from bit 0 on, and those of rows 16 to 31 from bit 4 on, and above them parts of other rows,
// which are cut off. Digits of rows 0 to 15 go to register first, the others to second. constant gives the operand that
// has a 32-bit word in every lane, and the suffix of the instruction.
func joinPlanes(f *file, p digitPlanes, lower, first, second int, constant func(word string) (operand, suffix string)) {
	choose := func(d int) { chooseLower(f, p, lower, d, constant) }
	cut := func(from, d int) {
		c, suffix := constant(bytesOf(1<<p.bits() - 1))
		f.p("VPANDD%s %s, Z%d, Z%d", suffix, c, from, d)
	}
	if p.low == 2 { // two digits fit a byte
		joinPair(f, p, lower, second, constant)
		cut(second, first)
		f.p("VPSRLW $4, Z%d, Z%d", second, second)
	} else {
		f.p("VPSLLW $4, Z%d, Z%d", second, first)
		choose(first)
		cut(first, first)
		f.p("VPSRLW $4, Z%d, Z%d", lower, lower)
		choose(second)
	}
	cut(second, second)
}

// openPlanes512 writes the functions that make int8 of digits, in the order of vnni4.
func openPlanes512(f *file) {
	const lower, first, second, zero, free = 0, 1, 2, 3, 4
	for _, p := range planeKinds {
		declareOpen(f, p, p.name("OpenPlanes%dAVX512"))
		f.p("MOVQ dst+0(FP), DI")
		f.p("MOVQ src+8(FP), SI")
		f.p("MOVQ fours+16(FP), CX")
		s := stream{name: "open", planes: p}
		g := &vnni512{file: f, stream: &s, free: free}
		g.allocatePlanes()
		registers := map[string]string{}
		for _, word := range []string{bytesOf(p.chosen()), bytesOf(1<<p.bits() - 1)} {
			registers[word] = fmt.Sprintf("Z%d", g.take(1)[0])
			f.p("VPBROADCASTD %s, %s", f.word(word), registers[word])
		}
		f.p("VPBROADCASTD %s, Z%d", f.word(bytesOf(1<<(p.bits()-1))), zero)
		next := f.newLabel("four")
		f.at(next)
		f.p("PREFETCHT0 %d(SI)", distance)
		g.plane(p.low, "(SI)", lower)
		g.plane(p.high, displaced("(SI)", p.upper()), second)
		joinPlanes(f, p, lower, first, second, func(word string) (string, string) { return registers[word], "" })
		for i, z := range []int{first, second} {
			f.p("VPSUBB Z%d, Z%d, Z%d", zero, z, z)
			f.p("VMOVDQU64 Z%d, %d(DI)", z, pace*i)
		}
		f.p("ADDQ $%d, SI", p.four())
		f.p("ADDQ $%d, DI", roomQuad)
		f.p("DECQ CX")
		f.p("JNZ %s", next)
		f.p("VZEROUPPER")
		f.p("RET")
	}
}
