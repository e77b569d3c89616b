package main

// Weights of 16 bits processed as stored, 16 in a register of AVX2, without converting them to floats; and packed
// codes.

// measureWords sums |w| of BF16. A float64 with the bits of |w| from bit 45 on is |w| · 2⁻⁸⁹⁶, exactly, including
// denormals; sums round the same except for that factor, which is removed at the end. Words 4q+j of a block, for each
// of the four j, are extracted from 64-bit lanes q by a shift and a mask, so that sum j has lanes j, j+4, j+8 and j+12.
func measureWords() string {
	o := &output{}
	o.WriteString("\nTEXT ·measureBF16AVX2(SB), NOSPLIT, $0-24\n")
	o.p("MOVQ s+0(FP), DI")
	o.p("MOVQ src+8(FP), SI")
	o.p("MOVQ n+16(FP), CX")
	for _, r := range []int{4, 5, 12, 13, 14, 15} {
		o.p("VPXOR Y%[1]d, Y%[1]d, Y%[1]d", r)
	}
	o.p("MOVQ $0x0fffe00000000000, AX") // 15 bits from bit 45 on
	o.p("VMOVQ AX, X8")
	o.p("VPBROADCASTQ X8, Y8")
	o.WriteString("loop:\n")
	o.p("VMOVDQU (SI), Y0")
	o.p("VPMAXSW Y0, Y4, Y4")
	o.p("VPMAXUW Y0, Y5, Y5")
	for j, shift := range []string{"VPSLLQ $45", "VPSLLQ $29", "VPSLLQ $13", "VPSRLQ $3"} {
		o.p("%s, Y0, Y1", shift)
		o.p("VPAND Y8, Y1, Y1")
		o.p("VADDPD Y1, Y%[1]d, Y%[1]d", 12+j)
	}
	o.p("ADDQ $32, SI")
	o.p("SUBQ $16, CX")
	o.p("JNZ loop")
	o.p("MOVQ $0x77f0000000000000, AX") // 2⁸⁹⁶
	o.p("VMOVQ AX, X8")
	o.p("VPBROADCASTQ X8, Y8")
	for j := range 4 {
		o.p("VMULPD Y8, Y%[1]d, Y%[1]d", 12+j)
	}
	o.p("VUNPCKLPD Y13, Y12, Y0") // the lanes of the four sums in order
	o.p("VUNPCKHPD Y13, Y12, Y1")
	o.p("VUNPCKLPD Y15, Y14, Y2")
	o.p("VUNPCKHPD Y15, Y14, Y3")
	for i, half := range []string{"$0x20", "$0x31"} {
		for k := range 2 {
			o.p("VPERM2F128 %s, Y%d, Y%d, Y6", half, 2+k, k)
			o.p("VMOVUPD Y6, %d(DI)", sumsAbs+32*(2*i+k))
		}
	}
	for i, at := range []int{sumsPos, sumsNeg} {
		for k := range 2 {
			o.p("VEXTRACTI128 $%d, Y%d, X6", k, 4+i)
			o.p("VPMOVZXWD X6, Y6")
			o.p("VPSLLD $16, Y6, Y6")
			o.p("VMOVDQU Y6, %d(DI)", at+32*k)
		}
	}
	o.p("VZEROUPPER")
	o.p("RET")
	return o.String()
}

// climbWords counts thresholds by comparing keys, signed integers in the order of the weights: 32 weights at a time, of
// BF16 or F16.
func climbWords() string {
	o := &output{}
	o.WriteString("\nTEXT ·climbWordsAVX2(SB), NOSPLIT, $0-32\n")
	o.p("MOVQ dst+0(FP), DI")
	o.p("MOVQ src+8(FP), SI")
	o.p("MOVQ n+16(FP), CX")
	o.p("MOVQ l+24(FP), AX")
	for i := range 5 { // three keys, the first code, the stride
		o.p("VPBROADCASTW %d(AX), Y%d", 2*i, 8+i)
	}
	o.p("VPCMPEQW Y13, Y13, Y13")
	o.p("VPSRLW $1, Y13, Y13")
	o.WriteString("loop:\n")
	for b := range 2 {
		x, t := 4*b, 4*b+1
		o.p("VMOVDQU %d(SI), Y%d", 32*b, x)
		o.p("VPSRAW $15, Y%d, Y%d", x, t)
		o.p("VPAND Y13, Y%[1]d, Y%[1]d", t)
		o.p("VPXOR Y%d, Y%[2]d, Y%[2]d", t, x)
		o.p("VPCMPGTW Y8, Y%d, Y%d", x, t) // −1 if reached
		o.p("VPCMPGTW Y9, Y%d, Y%d", x, t+1)
		o.p("VPCMPGTW Y10, Y%d, Y%d", x, t+2)
		o.p("VPADDW Y%d, Y%[2]d, Y%[2]d", t+1, t)
		o.p("VPADDW Y%d, Y%[2]d, Y%[2]d", t+2, t)
		o.p("VPMULLW Y12, Y%[1]d, Y%[1]d", t)
		o.p("VPSUBW Y%d, Y11, Y%d", t, x)
	}
	o.p("VPACKSSWB Y4, Y0, Y0")
	o.p("VPERMQ $0xd8, Y0, Y0") // packing works within 128-bit halves
	o.p("VMOVDQU Y0, (DI)")
	o.p("ADDQ $64, SI")
	o.p("ADDQ $32, DI")
	o.p("SUBQ $32, CX")
	o.p("JNZ loop")
	o.p("VZEROUPPER")
	o.p("RET")
	return o.String()
}

// unpackU8 extracts a 2-bit field from 32 bytes at a time, minus one, and checks for threes.
func unpackU8() string {
	o := &output{}
	o.WriteString("\nTEXT ·unpackU8AVX2(SB), NOSPLIT, $0-33\n")
	o.p("MOVQ dst+0(FP), DI")
	o.p("MOVQ src+8(FP), SI")
	o.p("MOVQ n+16(FP), CX")
	o.p("VMOVQ shift+24(FP), X8")
	o.p("VPCMPEQB Y9, Y9, Y9") // −1
	o.p("VPABSB Y9, Y10")
	o.p("VPADDB Y10, Y10, Y11")
	o.p("VPADDB Y10, Y11, Y10") // 3
	o.p("VPXOR Y12, Y12, Y12")  // where a three was
	o.WriteString("loop:\n")
	o.p("VMOVDQU (SI), Y0")
	o.p("VPSRLW X8, Y0, Y0")
	o.p("VPAND Y10, Y0, Y0")
	o.p("VPCMPEQB Y10, Y0, Y1")
	o.p("VPOR Y1, Y12, Y12")
	o.p("VPADDB Y9, Y0, Y0")
	o.p("VMOVDQU Y0, (DI)")
	o.p("ADDQ $32, SI")
	o.p("ADDQ $32, DI")
	o.p("SUBQ $32, CX")
	o.p("JNZ loop")
	o.p("VPTEST Y12, Y12")
	o.p("SETEQ ret+32(FP)")
	o.p("VZEROUPPER")
	o.p("RET")
	return o.String()
}
