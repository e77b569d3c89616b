package main

// Even and odd columns of BF16 (see pairs). 16 columns are 32 bytes, so that the same code with registers of 8 lanes
// serves both instruction sets.

func (m *x86) loadMask(d reg) { m.line("VMOVUPS %s, Y%d", m.of(0xffff0000), d) }

func (m *x86) splitX(even, odd reg, x ptr, off int) {
	m.line("VMOVUPS %s, Y%d", at(x, off), even)
	m.line("VSHUFPS $0xdd, %s, Y%d, Y%d", at(x, off+32), even, odd)
	m.line("VSHUFPS $0x88, %s, Y%d, Y%d", at(x, off+32), even, even)
	m.line("VPERMPD $0xd8, Y%d, Y%d", even, even)
	m.line("VPERMPD $0xd8, Y%d, Y%d", odd, odd)
}

func (m *x86) addPairs(acc []reg, w ptr, off int, x [2]reg, mask reg, tmp []reg) {
	a, b := tmp[0], tmp[1]
	m.line("VMOVDQU %s, Y%d", at(w, off), b)
	m.line("VPSLLD $16, Y%d, Y%d", b, a)
	m.line("VPAND Y%d, Y%d, Y%d", mask, b, b)
	m.line("VFMADD231PS Y%d, Y%d, Y%d", x[0], a, acc[0])
	m.line("VFMADD231PS Y%d, Y%d, Y%d", x[1], b, acc[1])
}

func (m *x86) sumPairs(acc [][]reg, p, step ptr, tmp []reg) {
	t0, t1 := tmp[0], tmp[1]
	for i, a := range acc {
		m.line("VPERM2F128 $0x20, Y%d, Y%d, Y%d", a[1], a[0], t0) // lane + 8: [even | odd], 4 lanes each
		m.line("VPERM2F128 $0x31, Y%d, Y%d, Y%d", a[1], a[0], t1)
		m.line("VADDPS Y%d, Y%d, Y%d", t1, t0, t0)
		m.line("VPERMILPS $0x4e, Y%d, Y%d", t0, t1) // lane + 4
		m.line("VADDPS Y%d, Y%d, Y%d", t1, t0, t0)
		m.line("VPERMILPS $0xb1, Y%d, Y%d", t0, t1) // lane + 2
		m.line("VADDPS Y%d, Y%d, Y%d", t1, t0, t0)
		m.line("VEXTRACTF128 $1, Y%d, X%d", t0, t1) // lane + 1
		m.line("VADDSS X%d, X%d, X%d", t1, t0, t0)
		m.line("VMOVSS X%d, %s", t0, at(p, 0))
		if i < len(acc)-1 {
			m.add(p, step)
		}
	}
}

func (m *x86) multiply(d, s ptr)       { m.line("IMULQ %s, %s", s.x86(), d.x86()) }
func (m *x86) maskLow(d ptr, mask int) { m.line("ANDQ $%d, %s", mask, d.x86()) }
