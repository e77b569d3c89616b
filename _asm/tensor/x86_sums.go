package main

// The tree of N5 over accumulators of 16 lanes. Several sums share the registers of a step: a register that holds the
// halves of two accumulators adds both, until one holds the lanes of four or of sixteen.

func (m *x86) sums(acc [][][]reg, integers bool, p, step ptr, tmp []reg) {
	add := "VADDPS"
	if integers {
		add = "VPADDD"
	}
	vectors, rows := len(acc), len(acc[0])
	switch {
	case vectors == 4 && rows == 4 && m.lanes == 16:
		m.sums16(acc, add, p, step, tmp)
	case vectors == 4 && rows == 1:
		m.spread(m.sums4([][]reg{acc[0][0], acc[1][0], acc[2][0], acc[3][0]}, add, tmp), p, step)
	case rows == 4:
		for i := range acc {
			m.line("VMOVUPS X%d, %s", m.sums4(acc[i], add, tmp), at(p, 0))
			if i < vectors-1 {
				m.add(p, step)
			}
		}
	case vectors == 2 && rows == 2:
		r := m.sums4([][]reg{acc[0][0], acc[0][1], acc[1][0], acc[1][1]}, add, tmp)
		m.line("VMOVLPS X%d, %s", r, at(p, 0))
		m.add(p, step)
		m.line("VMOVHPS X%d, %s", r, at(p, 0))
	case rows == 1:
		for i := range acc {
			m.sum(acc[i][0], add, p, tmp)
			if i < vectors-1 {
				m.add(p, step)
			}
		}
	default:
		panic("tensor: no sums of so many vectors and rows")
	}
}

// spread stores the four floats of a register step bytes apart.
func (m *x86) spread(r reg, p, step ptr) {
	m.line("VMOVSS X%d, %s", r, at(p, 0))
	for i := 1; i < 4; i++ {
		m.add(p, step)
		m.line("VEXTRACTPS $%d, X%d, %s", i, r, at(p, 0))
	}
}

func (m *x86) sum(acc []reg, add string, p ptr, tmp []reg) {
	a, t := int(acc[0]), int(tmp[0])
	if m.lanes == 16 {
		m.line("VEXTRACTF64X4 $1, Z%d, Y%d", a, t)
	} else {
		t = int(acc[1])
	}
	m.line(add+" Y%d, Y%d, Y%d", t, a, t)
	a = int(tmp[1])
	m.line("VEXTRACTF128 $1, Y%d, X%d", t, a)
	m.line(add+" X%d, X%d, X%d", a, t, t)
	m.line("VPERMILPS $0x4e, X%d, X%d", t, a)
	m.line(add+" X%d, X%d, X%d", a, t, t)
	m.line("VPERMILPS $0xb1, X%d, X%d", t, a)
	m.line(add+" X%d, X%d, X%d", a, t, t)
	m.line("VMOVSS X%d, %s", t, at(p, 0))
}

// halving is an instruction that selects lanes of two registers, and its immediates for the lower and the upper half of
// the lanes.
type halving struct{ shuffle, low, high string }

var (
	splitQuarters = halving{"VSHUFF64X2", "$0x88", "$0xdd"} // of 128 bits
	splitHalves   = halving{"VPERM2F128", "$0x20", "$0x31"} // of 128 bits
	splitPairs    = halving{"VSHUFPS", "$0x44", "$0xee"}    // of lanes
	splitLanes    = halving{"VSHUFPS", "$0x88", "$0xdd"}
)

// halves adds the upper half of the lanes of a and b to the lower half, into a.
func (m *x86) halves(s halving, add string, a, b, tmp reg) {
	m.line("%s %s, %s, %s, %s", s.shuffle, s.low, m.v(b), m.v(a), m.v(tmp))
	m.line("%s %s, %s, %s, %s", s.shuffle, s.high, m.v(b), m.v(a), m.v(a))
	m.line("%s %s, %s, %s", add, m.v(a), m.v(tmp), m.v(a))
}

// exchange is halves for [a|b] of two halves each: the lower one of a and the upper one of b stay in place, which a
// mask does, and one shuffle moves the others. Masks do not use the only shuffle port.
func (m *x86) exchange(shuffle, add, mask string, a, b, tmp reg) {
	m.line("VBLENDMPS %s, %s, %s, %s", m.v(b), m.v(a), mask, m.v(tmp))
	m.line("%s $0x4e, %s, %s, %s", shuffle, m.v(b), m.v(a), m.v(a))
	m.line("%s %s, %s, %s", add, m.v(a), m.v(tmp), m.v(a))
}

// Masks of exchange: the upper half of a register, and of each quarter.
const upperHalf, upperPairs = "K2", "K3"

func (m *x86) prepareSums() {
	if m.lanes == 16 {
		m.line("MOVL $0xff00, %s", x86Scratch)
		m.line("KMOVW %s, %s", x86Scratch, upperHalf)
		m.line("MOVL $0xcccc, %s", x86Scratch)
		m.line("KMOVW %s, %s", x86Scratch, upperPairs)
	}
}

// quarters reduces four accumulators of 512 bits: lanes + 8, of [a|b] and [c|d], then lanes + 4, of [a|b|c|d], into a.
func (m *x86) quarters(a, b, c, d reg, add string, tmp reg) {
	m.exchange("VSHUFF64X2", add, upperHalf, a, b, tmp)
	m.exchange("VSHUFF64X2", add, upperHalf, c, d, tmp)
	m.halves(splitQuarters, add, a, c, tmp)
}

// sums16 reduces four rows of four vectors into one register, a vector in each quarter.
func (m *x86) sums16(acc [][][]reg, add string, p, step ptr, tmp []reg) {
	r := acc[0]
	for i := range r {
		m.quarters(acc[0][i][0], acc[1][i][0], acc[2][i][0], acc[3][i][0], add, tmp[i])
	}
	// Lane + 2: [0 0 1 1] and [2 2 3 3]; lane + 1: [0 1 2 3].
	m.exchange("VSHUFPS", add, upperPairs, r[0][0], r[1][0], tmp[0])
	m.exchange("VSHUFPS", add, upperPairs, r[2][0], r[3][0], tmp[1])
	m.halves(splitLanes, add, r[0][0], r[2][0], tmp[0])
	m.line("VEXTRACTF32X4 $0, Z%d, %s", r[0][0], at(p, 0))
	for i := 1; i < 4; i++ {
		m.add(p, step)
		m.line("VEXTRACTF32X4 $%d, Z%d, %s", i, r[0][0], at(p, 0))
	}
}

// sums4 reduces four accumulators into one register of four lanes.
func (m *x86) sums4(acc [][]reg, add string, tmp []reg) reg {
	if m.lanes == 16 {
		return m.sums4AVX512(acc, add, tmp)
	}
	return m.sums4AVX2(acc, add, tmp)
}

func (m *x86) sums4AVX512(acc [][]reg, add string, tmp []reg) reg {
	t0, t1 := acc[0][0], tmp[0]
	m.quarters(t0, acc[1][0], acc[2][0], acc[3][0], add, t1)
	// Lanes + 2 and + 1: every lane of a quarter becomes its sum.
	m.line("VPERMILPS $0x4e, Z%d, Z%d", t0, t1)
	m.line(add+" Z%d, Z%d, Z%d", t1, t0, t0)
	m.line("VPERMILPS $0xb1, Z%d, Z%d", t0, t1)
	m.line(add+" Z%d, Z%d, Z%d", t1, t0, t0)
	m.line("VEXTRACTF64X4 $1, Z%d, Y%d", t0, t1)
	m.line("VUNPCKLPS Y%d, Y%d, Y%d", t1, t0, tmp[1]) // a c a c | b d b d
	m.line("VEXTRACTF128 $1, Y%d, X%d", tmp[1], t1)
	m.line("VUNPCKLPS X%d, X%d, X%d", t1, tmp[1], tmp[1])
	return tmp[1]
}

func (m *x86) sums4AVX2(acc [][]reg, add string, tmp []reg) reg {
	for _, a := range acc { // lane + 8
		m.line(add+" Y%d, Y%d, Y%d", a[1], a[0], a[0])
	}
	a, b, c, d := acc[0][0], acc[1][0], acc[2][0], acc[3][0]
	// Lane + 4: [a|b] and [c|d], 4 lanes each; lane + 2: [a a c c | b b d d]; lane + 1: each of them the sum.
	m.halves(splitHalves, add, a, b, tmp[0])
	m.halves(splitHalves, add, c, d, tmp[1])
	m.halves(splitPairs, add, a, c, tmp[0])
	t0, t1 := tmp[2], tmp[3]
	m.line("VPERMILPS $0xb1, Y%d, Y%d", a, t1)
	m.line(add+" Y%d, Y%d, Y%d", t1, a, t0)
	m.line("VEXTRACTF128 $1, Y%d, X%d", t0, t1)
	m.line("VBLENDPS $0xa, X%d, X%d, X%d", t1, t0, t0)
	return t0
}
