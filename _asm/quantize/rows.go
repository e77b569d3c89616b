package main

// program is a function: the code before the loop, the loop body for one type, the code after it.
type program struct {
	args   int // bytes
	before func()
	body   func(typ string)
	after  func()
}

// sumRegisters are the first registers of each kind in measure.
type sumRegisters struct{ pos, neg, abs, mask, x, wide int }

func (e *emitter) sumRegisters() sumRegisters {
	if e.wide {
		return sumRegisters{abs: 16, pos: 18, neg: 19, mask: 31, x: 0, wide: 2}
	}
	return sumRegisters{pos: 0, neg: 2, abs: 4, mask: 12, x: 13, wide: 14}
}

// each calls do for every register of sums, in ascending order.
func (r sumRegisters) each(e *emitter, do func(register, offset int)) {
	offsets := map[int]int{}
	for i := range e.parts {
		offsets[r.pos+i], offsets[r.neg+i] = sumsPos+i*e.bytes(), sumsNeg+i*e.bytes()
	}
	for i := range 2 * e.parts {
		offsets[r.abs+i] = sumsAbs + i*e.bytes()
	}
	for register := range 32 {
		if offset, ok := offsets[register]; ok {
			do(register, offset)
		}
	}
}

// measure sums magnitudes and keeps the largest bit patterns.
func (e *emitter) measure() program {
	r := e.sumRegisters()
	return program{
		args: argsMeasure,
		before: func() {
			e.p("MOVQ s+0(FP), DI")
			r.each(e, func(register, offset int) { e.p("VMOVUPD %d(DI), R%d", offset, register) })
			e.magnitudeMask(r.mask)
		},
		body: func(typ string) {
			for h := range e.parts {
				e.widen(typ, h, r.x)
				e.p("VPMAXSD R%d, R%[2]d, R%[2]d", r.x, r.pos+h)
				e.p("VPMAXUD R%d, R%[2]d, R%[2]d", r.x, r.neg+h)
				e.and(r.mask, r.x)
				e.double("VCVTPS2PD", r.x, r.wide)
				for i := range 2 {
					e.p("VADDPD R%d, R%[2]d, R%[2]d", r.wide+i, r.abs+2*h+i)
				}
			}
		},
		after: func() {
			r.each(e, func(register, offset int) { e.p("VMOVUPD R%d, %d(DI)", register, offset) })
		},
	}
}

// climb counts thresholds.
func (e *emitter) climb() program {
	floats, codes := 0, 1
	if !e.wide { // store expects codes in Y0 and Y1
		floats, codes = 2, 0
	}
	return program{
		args: argsClimb,
		before: func() {
			e.p("MOVQ dst+0(FP), DI")
			e.p("MOVQ l+32(FP), AX")
			for i := range 3 {
				e.p("VBROADCASTSS %d(AX), R%d", ladderAt+4*i, e.first+i)
			}
			e.p("VPBROADCASTD %d(AX), R%d", ladderFirst, e.first+3)
			e.p("VPBROADCASTD %d(AX), R%d", ladderStride, e.first+4)
		},
		body: func(typ string) {
			for h := range e.parts {
				e.widen(typ, h, floats)
				e.count(floats, codes+h)
			}
			e.store(codes)
		},
		after: func() {},
	}
}

// divide rounds quotients.
func (e *emitter) divide() program {
	constants := []string{"a+32", "lo+36", "hi+40"}
	return program{
		args: argsDivideMiss,
		before: func() {
			e.p("MOVQ dst+0(FP), DI")
			for i, c := range constants {
				e.p("VBROADCASTSS %s(FP), R%d", c, e.first+i)
			}
		},
		body: func(typ string) {
			for h := range e.parts {
				e.widen(typ, h, h)
				for i, do := range []string{"VDIVPS", "VMAXPS", "VMINPS"} {
					e.p("%s R%d, R%[3]d, R%[3]d", do, e.first+i, h)
				}
				e.p("VCVTPS2DQ R%[1]d, R%[1]d", h) // ties to even
			}
			e.store(0)
		},
		after: func() {},
	}
}

// miss sums squares of weights and of errors, the former in the first half of the accumulators.
func (e *emitter) miss() program {
	scale, sums := 6, 8
	if e.wide {
		scale, sums = 16, 17
	}
	return program{
		args: argsDivideMiss,
		before: func() {
			e.p("MOVQ codes+0(FP), DI")
			e.p("MOVQ s+32(FP), AX")
			if !e.wide {
				e.p("VXORPS X%[1]d, X%[1]d, X%[1]d", scale)
			}
			e.p("VCVTSS2SD scale+40(FP), X%[1]d, X%[1]d", scale)
			e.p("VBROADCASTSD X%[1]d, R%[1]d", scale)
			for i := range 4 * e.parts {
				e.p("VMOVUPD %d(AX), R%d", e.bytes()*i, sums+i)
			}
		},
		body: func(typ string) {
			for h := range e.parts {
				e.widen(typ, h, 0)
				e.double("VCVTPS2PD", 0, 2)
				e.p("VPMOVSXBD %d(DI), R%d", 8*h, 1)
				e.double("VCVTDQ2PD", 1, 4)
				for i := range 2 {
					// the products w·w and code·scale are exact: fusing changes nothing
					e.p("VFMADD231PD R%[1]d, R%[1]d, R%[2]d", 2+i, sums+2*h+i)
					e.p("VFNMADD231PD R%d, R%d, R%d", 4+i, scale, 2+i)
					e.p("VMULPD R%[1]d, R%[1]d, R%[1]d", 2+i)
					e.p("VADDPD R%d, R%[2]d, R%[2]d", 2+i, sums+2*e.parts+2*h+i)
				}
			}
			e.p("ADDQ $16, DI")
		},
		after: func() {
			for i := range 4 * e.parts {
				e.p("VMOVUPD R%d, %d(AX)", sums+i, e.bytes()*i)
			}
		},
	}
}
