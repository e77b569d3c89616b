package main

// avx512 needs AVX512F alone.
type avx512 struct{ output }

// widen loads 16 elements.
func (m *avx512) widen(typ string, _, dst int) {
	switch typ {
	case "F32":
		m.p("VMOVUPS (SI), Z%d", dst)
	case "F16":
		m.p("VCVTPH2PS (SI), Z%d", dst)
	case "BF16":
		m.p("VPMOVZXWD (SI), Z%d", dst)
		m.p("VPSLLD $16, Z%[1]d, Z%[1]d", dst)
	}
}

// double widens the floats of register s to the registers low and low+1.
func (m *avx512) double(convert string, s, low int) {
	m.p("VEXTRACTF64X4 $1, Z%d, Y%d", s, low+1)
	m.p("%s Y%d, Z%d", convert, s, low)
	m.p("%s Y%[2]d, Z%[2]d", convert, low+1)
}

func (m *avx512) measure() program {
	accumulators := func(load bool) {
		for i, off := range []int{sumsAbs, sumsAbs + 64, sumsPos, sumsNeg} {
			if load {
				m.p("VMOVUPD %d(DI), Z%d", off, 16+i)
			} else {
				m.p("VMOVUPD Z%d, %d(DI)", 16+i, off)
			}
		}
	}
	return program{
		args: argsMeasure,
		before: func() {
			m.p("MOVQ s+0(FP), DI")
			accumulators(true)
			m.p("MOVL $0x7fffffff, AX")
			m.p("VPBROADCASTD AX, Z31")
		},
		body: func(typ string) {
			m.widen(typ, 0, 0)
			m.p("VPMAXSD Z0, Z18, Z18")
			m.p("VPMAXUD Z0, Z19, Z19")
			m.p("VPANDD Z31, Z0, Z0")
			m.double("VCVTPS2PD", 0, 2)
			for i := range 2 {
				m.p("VADDPD Z%d, Z%[2]d, Z%[2]d", 2+i, 16+i)
			}
		},
		after: func() { accumulators(false) },
	}
}

func (m *avx512) climb() program {
	return program{
		args: argsClimb,
		before: func() {
			m.p("MOVQ dst+0(FP), DI")
			m.p("MOVQ l+32(FP), AX")
			for i := range 3 {
				m.p("VBROADCASTSS %d(AX), Z%d", ladderAt+4*i, 16+i)
			}
			m.p("VPBROADCASTD %d(AX), Z19", ladderFirst)
			m.p("VPBROADCASTD %d(AX), Z20", ladderStride)
		},
		body: func(typ string) {
			m.widen(typ, 0, 0)
			for i := range 3 {
				m.p("VCMPPS $%d, Z%d, Z0, K%d", greaterOrEqual, 16+i, 1+i)
			}
			m.p("VMOVDQA32 Z19, Z1")
			for i := range 3 {
				m.p("VPADDD Z20, Z1, K%d, Z1", 1+i)
			}
			m.p("VPMOVDB Z1, (DI)")
			m.p("ADDQ $16, DI")
		},
		after: func() {},
	}
}

func (m *avx512) divide() program {
	return program{
		args: argsDivideMiss,
		before: func() {
			m.p("MOVQ dst+0(FP), DI")
			m.p("VBROADCASTSS a+32(FP), Z16")
			m.p("VBROADCASTSS lo+36(FP), Z17")
			m.p("VBROADCASTSS hi+40(FP), Z18")
		},
		body: func(typ string) {
			m.widen(typ, 0, 0)
			m.p("VDIVPS Z16, Z0, Z0")
			m.p("VMAXPS Z17, Z0, Z0")
			m.p("VMINPS Z18, Z0, Z0")
			m.p("VCVTPS2DQ Z0, Z0") // ties to even
			m.p("VPMOVDB Z0, (DI)")
			m.p("ADDQ $16, DI")
		},
		after: func() {},
	}
}

func (m *avx512) miss() program {
	return program{
		args: argsDivideMiss,
		before: func() {
			m.p("MOVQ codes+0(FP), DI")
			m.p("MOVQ s+32(FP), AX")
			m.p("VCVTSS2SD scale+40(FP), X16, X16")
			m.p("VBROADCASTSD X16, Z16")
			for i := range 4 {
				m.p("VMOVUPD %d(AX), Z%d", 64*i, 17+i)
			}
		},
		body: func(typ string) {
			m.widen(typ, 0, 0)
			m.double("VCVTPS2PD", 0, 2)
			m.p("VPMOVSXBD (DI), Z1")
			m.double("VCVTDQ2PD", 1, 4)
			for i := range 2 {
				// the products w·w and code·scale are exact: not fused in effect
				m.p("VFMADD231PD Z%[1]d, Z%[1]d, Z%d", 2+i, 17+i)
				m.p("VFNMADD231PD Z%d, Z16, Z%d", 4+i, 2+i)
				m.p("VMULPD Z%[1]d, Z%[1]d, Z%[1]d", 2+i)
				m.p("VADDPD Z%d, Z%[2]d, Z%[2]d", 2+i, 19+i)
			}
			m.p("ADDQ $16, DI")
		},
		after: func() {
			for i := range 4 {
				m.p("VMOVUPD Z%d, %d(AX)", 17+i, 64*i)
			}
		},
	}
}
