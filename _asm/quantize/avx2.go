package main

// avx2 needs AVX2, FMA and F16C.
type avx2 struct{ output }

// widen loads 8 of the 16 elements.
func (m *avx2) widen(typ string, block, dst int) {
	at := 8 * block * sizes[typ]
	switch typ {
	case "F32":
		m.p("VMOVUPS %d(SI), Y%d", at, dst)
	case "F16":
		m.p("VCVTPH2PS %d(SI), Y%d", at, dst)
	case "BF16":
		m.p("VPMOVZXWD %d(SI), Y%d", at, dst)
		m.p("VPSLLD $16, Y%[1]d, Y%[1]d", dst)
	}
}

// double widens register s to low and low+1.
func (m *avx2) double(convert string, s, low int) {
	m.p("VEXTRACTF128 $1, Y%d, X%d", s, low+1)
	m.p("%s X%d, Y%d", convert, s, low)
	m.p("%s X%[2]d, Y%[2]d", convert, low+1)
}

// store8 stores 16 int32 in Y0 and Y1 as int8; they are in its range.
func (m *avx2) store8() {
	m.p("VPACKSSDW Y1, Y0, Y0")
	m.p("VPERMQ $0xd8, Y0, Y0") // packing works within halves of 128 bits
	m.p("VEXTRACTI128 $1, Y0, X1")
	m.p("VPACKSSWB X1, X0, X0")
	m.p("VMOVDQU X0, (DI)")
	m.p("ADDQ $16, DI")
}

func (m *avx2) measure() program {
	offsets := []int{sumsPos, sumsPos + 32, sumsNeg, sumsNeg + 32}
	for i := range 4 {
		offsets = append(offsets, sumsAbs+32*i)
	}
	const pos, neg, abs, mask = 0, 2, 4, 12
	return program{
		args: argsMeasure,
		before: func() {
			m.p("MOVQ s+0(FP), DI")
			for i, off := range offsets {
				m.p("VMOVUPD %d(DI), Y%d", off, i)
			}
			m.p("VPCMPEQD Y%[1]d, Y%[1]d, Y%[1]d", mask)
			m.p("VPSRLD $1, Y%[1]d, Y%[1]d", mask)
		},
		body: func(typ string) {
			for h := range 2 {
				m.widen(typ, h, 13)
				m.p("VPMAXSD Y13, Y%[1]d, Y%[1]d", pos+h)
				m.p("VPMAXUD Y13, Y%[1]d, Y%[1]d", neg+h)
				m.p("VPAND Y%d, Y13, Y13", mask)
				m.double("VCVTPS2PD", 13, 14)
				for i := range 2 {
					m.p("VADDPD Y%d, Y%[2]d, Y%[2]d", 14+i, abs+2*h+i)
				}
			}
		},
		after: func() {
			for i, off := range offsets {
				m.p("VMOVUPD Y%d, %d(DI)", i, off)
			}
		},
	}
}

func (m *avx2) climb() program {
	return program{
		args: argsClimb,
		before: func() {
			m.p("MOVQ dst+0(FP), DI")
			m.p("MOVQ l+32(FP), AX")
			for i := range 3 {
				m.p("VBROADCASTSS %d(AX), Y%d", ladderAt+4*i, 8+i)
			}
			m.p("VPBROADCASTD %d(AX), Y11", ladderFirst)
			m.p("VPBROADCASTD %d(AX), Y12", ladderStride)
		},
		body: func(typ string) {
			for h := range 2 {
				m.widen(typ, h, 2)
				m.p("VMOVDQA Y11, Y%d", h)
				for i := range 3 {
					m.p("VCMPPS $%d, Y%d, Y2, Y3", greaterOrEqual, 8+i)
					m.p("VPAND Y12, Y3, Y3")
					m.p("VPADDD Y3, Y%[1]d, Y%[1]d", h)
				}
			}
			m.store8()
		},
		after: func() {},
	}
}

func (m *avx2) divide() program {
	return program{
		args: argsDivideMiss,
		before: func() {
			m.p("MOVQ dst+0(FP), DI")
			m.p("VBROADCASTSS a+32(FP), Y8")
			m.p("VBROADCASTSS lo+36(FP), Y9")
			m.p("VBROADCASTSS hi+40(FP), Y10")
		},
		body: func(typ string) {
			for h := range 2 {
				m.widen(typ, h, h)
				m.p("VDIVPS Y8, Y%[1]d, Y%[1]d", h)
				m.p("VMAXPS Y9, Y%[1]d, Y%[1]d", h)
				m.p("VMINPS Y10, Y%[1]d, Y%[1]d", h)
				m.p("VCVTPS2DQ Y%[1]d, Y%[1]d", h) // ties to even
			}
			m.store8()
		},
		after: func() {},
	}
}

func (m *avx2) miss() program {
	return program{
		args: argsDivideMiss,
		before: func() {
			m.p("MOVQ codes+0(FP), DI")
			m.p("MOVQ s+32(FP), AX")
			m.p("VXORPS X6, X6, X6")
			m.p("VCVTSS2SD scale+40(FP), X6, X6")
			m.p("VBROADCASTSD X6, Y6")
			for i := range 8 {
				m.p("VMOVUPD %d(AX), Y%d", 32*i, 8+i)
			}
		},
		body: func(typ string) {
			for h := range 2 {
				m.widen(typ, h, 0)
				m.double("VCVTPS2PD", 0, 2)
				m.p("VPMOVSXBD %d(DI), Y1", 8*h)
				m.double("VCVTDQ2PD", 1, 4)
				for i := range 2 {
					// the products w·w and code·scale are exact: not fused in effect
					m.p("VFMADD231PD Y%[1]d, Y%[1]d, Y%d", 2+i, 8+2*h+i)
					m.p("VFNMADD231PD Y%d, Y6, Y%d", 4+i, 2+i)
					m.p("VMULPD Y%[1]d, Y%[1]d, Y%[1]d", 2+i)
					m.p("VADDPD Y%d, Y%[2]d, Y%[2]d", 2+i, 12+2*h+i)
				}
			}
			m.p("ADDQ $16, DI")
		},
		after: func() {
			for i := range 8 {
				m.p("VMOVUPD Y%d, %d(AX)", 8+i, 32*i)
			}
		},
	}
}
