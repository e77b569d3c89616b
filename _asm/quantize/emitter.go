package main

import "strings"

// emitter writes instructions for registers of one width. In the texts of p, R%d is a register, H%d its lower half.
type emitter struct {
	output
	wide    bool // 512 bits: AVX-512, needs only AVX512F; else 256: AVX2 with FMA and F16C
	parts   int  // registers per block of floats; twice as many for float64
	names   *strings.Replacer
	extract string // the instruction for the upper half
	first   int    // first register of the constants
}

func newEmitter(wide bool) *emitter {
	if wide {
		return &emitter{wide: true, parts: 1, names: strings.NewReplacer("R%", "Z%", "H%", "Y%"),
			extract: "VEXTRACTF64X4", first: 16}
	}
	return &emitter{parts: 2, names: strings.NewReplacer("R%", "Y%", "H%", "X%"), extract: "VEXTRACTF128", first: 8}
}

// bytes of a register.
func (e *emitter) bytes() int { return 64 / e.parts }

func (e *emitter) p(format string, args ...any) { e.output.p(e.names.Replace(format), args...) }

// widen loads part h of the 16 elements at SI as floats, and advances nothing.
func (e *emitter) widen(typ string, h, dst int) {
	at := h * sizes[typ] * 16 / e.parts
	switch typ {
	case "F32":
		e.p("VMOVUPS %d(SI), R%d", at, dst)
	case "F16":
		e.p("VCVTPH2PS %d(SI), R%d", at, dst)
	case "BF16":
		e.p("VPMOVZXWD %d(SI), R%d", at, dst)
		e.p("VPSLLD $16, R%[1]d, R%[1]d", dst)
	}
}

// double converts a register of 32-bit numbers to float64, in the registers low and low+1.
func (e *emitter) double(convert string, s, low int) {
	e.p(e.extract+" $1, R%d, H%d", s, low+1)
	e.p("%s H%d, R%d", convert, s, low)
	e.p("%s H%[2]d, R%[2]d", convert, low+1)
}

// magnitudeMask sets every lane of a register to 0x7fffffff, for and.
func (e *emitter) magnitudeMask(r int) {
	if e.wide {
		e.p("MOVL $0x7fffffff, AX")
		e.p("VPBROADCASTD AX, R%d", r)
		return
	}
	e.p("VPCMPEQD R%[1]d, R%[1]d, R%[1]d", r)
	e.p("VPSRLD $1, R%[1]d, R%[1]d", r)
}

func (e *emitter) and(mask, r int) {
	if e.wide {
		e.p("VPANDD R%d, R%[2]d, R%[2]d", mask, r)
	} else {
		e.p("VPAND R%d, R%[2]d, R%[2]d", mask, r)
	}
}

// count sets register n to the code of the floats in x: the first code plus one stride for each threshold that they
// reach. These are the constants, five in all.
func (e *emitter) count(x, n int) {
	code, stride := e.first+3, e.first+4
	if !e.wide {
		e.p("VMOVDQA R%d, R%d", code, n)
		for i := range 3 {
			e.p("VCMPPS $%d, R%d, R%d, Y3", greaterOrEqual, e.first+i, x)
			e.p("VPAND R%d, Y3, Y3", stride)
			e.p("VPADDD Y3, R%[1]d, R%[1]d", n)
		}
		return
	}
	for i := range 3 {
		e.p("VCMPPS $%d, R%d, R%d, K%d", greaterOrEqual, e.first+i, x, 1+i)
	}
	e.p("VMOVDQA32 R%d, R%d", code, n)
	for i := range 3 {
		e.p("VPADDD R%d, R%d, K%d, R%[2]d", stride, n, 1+i)
	}
}

// store writes 16 int32 in the range of int8, in the registers from n on, to DI, and advances it.
func (e *emitter) store(n int) {
	if e.wide {
		e.p("VPMOVDB R%d, (DI)", n)
	} else {
		e.p("VPACKSSDW Y%d, Y%d, Y0", n+1, n)
		e.p("VPERMQ $0xd8, Y0, Y0") // packing works within 128-bit halves
		e.p("VEXTRACTI128 $1, Y0, X1")
		e.p("VPACKSSWB X1, X0, X0")
		e.p("VMOVDQU X0, (DI)")
	}
	e.p("ADDQ $16, DI")
}
