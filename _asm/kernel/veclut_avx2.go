package main

import "fmt"

// Vec-LUT with 256-bit registers: tables over 32 tokens; a table row is 32 sums of 16 bits, 64 bytes. A packed index
// selects a row for all tokens; multiplication reduces to adding rows.
//
// internal/kernel/veclut.go describes how the pieces work together.

const (
	lutRow    = 64 // bytes
	lutColumn = 32 // activations per column
	lutBlock  = 80 // rows of weights whose indices are kept at a time
)

// lutAdds are the kinds of tables and indices: columns and number of tables, consecutive indices of a row.
var lutAdds = []struct{ digits, groups, tile int }{
	{4, 8, 1}, {4, 8, 4}, {4, 8, 8},
	{5, 4, 1}, {5, 4, 2},
}

func vecLUTFile() *file {
	f := newFile("veclut_avx2", "amd64")
	for _, digits := range []int{4, 5} {
		lutBuild(f, digits)
	}
	for _, v := range lutAdds {
		lutAdd(f, v.digits, v.groups, v.tile)
	}
	lutWiden(f)
	lutTranspose(f)
	lutIndex(f)
	lutTrits(f)
	lutFields(f, 32)
	lutFields(f, 64)
	lutField(f)
	return f
}

// The declarations are the same for every architecture.

func declareBuild(f *file, digits int) {
	name := fmt.Sprintf("VecLUTBuild%d", digits)
	f.declare(name, fmt.Sprintf("makes tables for groups of %d columns, of which x holds 32 activations each.", digits),
		"lut *int16, x *int8, groups int", 3)
}

func declareAdd(f *file, digits, groups, tile int) {
	name := fmt.Sprintf("VecLUTAdd%dTile%d", digits, tile)
	f.declare(name,
		fmt.Sprintf("adds entries of %d tables for %d columns each to the sums of some rows. Indices, in bytes, lie "+
			"%d of a row next to each other.", groups, digits, tile),
		"sums *int16, index *uint16, lut *int16, rows int", 4)
}

func declareWiden(f *file) {
	f.declare("VecLUTWiden", "adds 16-bit sums to 32-bit sums and clears them; 32 per row.",
		"wide *int32, sums *int16, rows int", 3)
}

func declareTranspose(f *file) {
	f.declare("VecLUTTranspose", "stores 8 tokens of 8 rows of wide sums, of which a row is 32 tokens. Results of "+
		"tokens lie ldy bytes apart.",
		"y *int32, ldy int, wide *int32", 3)
}

func declareIndex(f *file) {
	f.declare("VecLUTIndex", "turns 16·n bytes into offsets of table entries.", "index *uint16, packed *byte, n int", 3)
}

func declareTrits(f *file) {
	f.declare("VecLUTIndexBase3",
		"turns base-3 bytes of an 80-row panel into offsets of table entries, for n groups of four columns.",
		"index *uint16, packed *byte, n int", 3)
}

func declareFields(f *file, rows int) {
	f.declare(fmt.Sprintf("VecLUTIndexRows%d", rows),
		fmt.Sprintf("turns the trits of a %d-row panel into offsets of table entries, for n groups of four columns.",
			rows),
		"index *uint16, packed *byte, n int", 3)
}

func entries(digits int) int {
	n := 1
	for range digits {
		n *= 3
	}
	return n
}

// lutBuild makes tables: entry Σ dᵢ·3ⁱ is Σ (dᵢ−1)·xᵢ. Entry 0 subtracts all xᵢ; then, digit by digit, entry e + 3ⁱ is
// entry e plus xᵢ.
func lutBuild(f *file, digits int) {
	declareBuild(f, digits)
	f.p("MOVQ lut+0(FP), DI")
	f.p("MOVQ x+8(FP), SI")
	f.p("MOVQ groups+16(FP), CX")
	next := f.newLabel("group")
	f.at(next)
	f.p("VPXOR Y0, Y0, Y0")
	f.p("VPXOR Y1, Y1, Y1")
	for i := range digits {
		f.p("VPMOVSXBW %d(SI), Y%d", lutColumn*i, 2+2*i)
		f.p("VPMOVSXBW %d(SI), Y%d", lutColumn*i+16, 3+2*i)
		f.p("VPSUBW Y%d, Y0, Y0", 2+2*i)
		f.p("VPSUBW Y%d, Y1, Y1", 3+2*i)
	}
	f.p("VMOVDQU Y0, (DI)")
	f.p("VMOVDQU Y1, 32(DI)")
	for i, third := 0, 1; i < digits; i, third = i+1, 3*third {
		entry := f.newLabel("entry")
		f.p("MOVQ DI, R10")
		f.p("MOVQ $%d, BX", third)
		f.at(entry)
		for e := range 2 {
			f.p("VPADDW %d(R10), Y%d, Y0", e*lutRow, 2+2*i)
			f.p("VPADDW %d(R10), Y%d, Y1", e*lutRow+32, 3+2*i)
			f.p("VMOVDQU Y0, %d(R10)", (third+e)*lutRow)
			f.p("VMOVDQU Y1, %d(R10)", (third+e)*lutRow+32)
		}
		f.p("ADDQ $%d, R10", 2*lutRow)
		f.p("DECQ BX")
		f.p("JNZ %s", entry)
	}
	f.p("ADDQ $%d, DI", entries(digits)*lutRow)
	f.p("ADDQ $%d, SI", lutColumn*digits)
	f.p("DECQ CX")
	f.p("JNZ %s", next)
	f.p("VZEROUPPER")
	f.p("RET")
}

// lutAdd adds the entries selected by the indices of a row of weights to the sums of that row.
func lutAdd(f *file, digits, groups, tile int) {
	declareAdd(f, digits, groups, tile)
	f.p("MOVQ sums+0(FP), AX")
	f.p("MOVQ index+8(FP), R9")
	f.p("MOVQ lut+16(FP), R8")
	f.p("MOVQ rows+24(FP), CX")
	regs := []string{"BX", "DX", "SI", "DI", "R10", "R11", "R12", "R13"}
	loop := f.newLabel("row")
	f.p("PCALIGN $32")
	f.at(loop)
	for q := range groups {
		f.p("MOVWLZX %d(R9), %s", q/tile*(2*tile*lutBlock)+q%tile*2, regs[q])
	}
	f.p("VMOVDQU (AX), Y0")
	f.p("VMOVDQU 32(AX), Y1")
	for q := range groups {
		table := q * entries(digits) * lutRow
		f.p("VPADDW %d(R8)(%s*1), Y0, Y0", table, regs[q])
		f.p("VPADDW %d(R8)(%s*1), Y1, Y1", table+32, regs[q])
	}
	f.p("VMOVDQU Y0, (AX)")
	f.p("VMOVDQU Y1, 32(AX)")
	f.p("ADDQ $%d, AX", lutRow)
	f.p("ADDQ $%d, R9", 2*tile)
	f.p("DECQ CX")
	f.p("JNZ %s", loop)
	f.p("VZEROUPPER")
	f.p("RET")
}

func lutWiden(f *file) {
	declareWiden(f)
	f.p("MOVQ wide+0(FP), DI")
	f.p("MOVQ sums+8(FP), SI")
	f.p("MOVQ rows+16(FP), CX")
	f.p("VPXOR Y4, Y4, Y4")
	loop := f.newLabel("row")
	f.at(loop)
	for i := range 4 {
		f.p("VPMOVSXWD %d(SI), Y%d", 16*i, i)
		f.p("VPADDD %d(DI), Y%d, Y%d", 32*i, i, i)
		f.p("VMOVDQU Y%d, %d(DI)", i, 32*i)
	}
	f.p("VMOVDQU Y4, (SI)")
	f.p("VMOVDQU Y4, 32(SI)")
	f.p("ADDQ $128, DI")
	f.p("ADDQ $64, SI")
	f.p("DECQ CX")
	f.p("JNZ %s", loop)
	f.p("VZEROUPPER")
	f.p("RET")
}

// lutTranspose turns 8 rows of 8 tokens into 8 tokens of 8 rows, in three rounds of interleaving.
func lutTranspose(f *file) {
	declareTranspose(f)
	f.p("MOVQ y+0(FP), DI")
	f.p("MOVQ ldy+8(FP), R8")
	f.p("MOVQ wide+16(FP), SI")
	for i := range 8 {
		f.p("VMOVDQU %d(SI), Y%d", 128*i, i)
	}
	for i := 0; i < 8; i += 2 {
		f.p("VPUNPCKLDQ Y%d, Y%d, Y%d", i+1, i, 8+i)
		f.p("VPUNPCKHDQ Y%d, Y%d, Y%d", i+1, i, 9+i)
	}
	for _, half := range []int{0, 4} {
		for j := range 2 {
			f.p("VPUNPCKLQDQ Y%d, Y%d, Y%d", 10+half+j, 8+half+j, half+2*j)
			f.p("VPUNPCKHQDQ Y%d, Y%d, Y%d", 10+half+j, 8+half+j, half+2*j+1)
		}
	}
	for i := range 8 {
		imm := 0x20
		if i >= 4 {
			imm = 0x31
		}
		f.p("VPERM2I128 $%#x, Y%d, Y%d, Y8", imm, 4+i%4, i%4)
		f.p("VMOVDQU Y8, (DI)")
		if i < 7 {
			f.p("ADDQ R8, DI")
		}
	}
	f.p("VZEROUPPER")
	f.p("RET")
}

// lutIndex converts bytes to offsets of entries.
func lutIndex(f *file) {
	declareIndex(f)
	f.p("MOVQ index+0(FP), DI")
	f.p("MOVQ packed+8(FP), SI")
	f.p("MOVQ n+16(FP), CX")
	loop := f.newLabel("bytes")
	f.at(loop)
	f.p("VPMOVZXBW (SI), Y0")
	f.p("VPSLLW $6, Y0, Y0")
	f.p("VMOVDQU Y0, (DI)")
	f.p("ADDQ $16, SI")
	f.p("ADDQ $32, DI")
	f.p("DECQ CX")
	f.p("JNZ %s", loop)
	f.p("VZEROUPPER")
	f.p("RET")
}

// lutTrits converts base-3 bytes to offsets of entries: digits as in trits256, then as in lutFields.
func lutTrits(f *file) {
	declareTrits(f)
	f.p("MOVQ index+0(FP), DI")
	f.p("MOVQ packed+8(FP), SI")
	f.p("MOVQ n+16(FP), CX")
	lutScales(f, 15, 14)
	loop := f.newLabel("quad")
	f.at(loop)
	for h := range 2 {
		const v, other, digit = 10, 12, 13
		f.p("VMOVDQU %d(SI), Y%d", 32*h, v)
		tritDigits(f, v, other, digit, func(i int) {
			f.p("VPMADDUBSW Y15, Y%d, Y%d", digit, 2*i+h)
			f.p("VPMADDWD Y14, Y%d, Y%d", 2*i+h, 2*i+h)
		})
	}
	lutStore(f, 2*trits)
	f.p("ADDQ $64, SI")
	f.p("ADDQ $%d, DI", 2*lutBlock)
	f.p("DECQ CX")
	f.p("JNZ %s", loop)
	f.p("VZEROUPPER")
	f.p("RET")
}

// lutScales loads the multipliers for the digits of four columns: powers of three, then the bytes of an entry.
func lutScales(f *file, powers, entry int) {
	f.p("VPBROADCASTD %s, Y%d", f.rodata("lutPowers", dwords([]byte{1, 3, 9, 27})), powers)
	f.p("VPBROADCASTD %s, Y%d", f.rodata("lutEntry", []string{"0x00400040"}), entry)
}

// lutStore stores 32-bit lanes of the first n registers as 16 bits.
func lutStore(f *file, n int) {
	for i := 0; i < n; i += 2 {
		f.p("VPACKUSDW Y%d, Y%d, Y10", i+1, i)
		f.p("VPERMQ $0xD8, Y10, Y10")
		f.p("VMOVDQU Y10, %d(DI)", 16*i)
	}
}

// lutFields converts the fields of 2-bit panels to offsets of entries: digits by byte shuffles, then 64·(d₀ + 3·d₁ +
// 9·d₂ + 27·d₃) by two rounds of multiplying and adding adjacent ones, then 32-bit lanes to 16 bits.
func lutFields(f *file, rows int) {
	declareFields(f, rows)
	f.p("MOVQ index+0(FP), DI")
	f.p("MOVQ packed+8(FP), SI")
	f.p("MOVQ n+16(FP), CX")
	f.p("VMOVDQU %s, Y15", f.rodata("lutLow", repeat(bytesOf(0x0f), 8)))
	var lower, upper [16]byte
	for i := range 16 {
		digits := []byte{1, 2, 0, 0}
		lower[i], upper[i] = digits[i&3], digits[i>>2]
	}
	f.p("VBROADCASTI128 %s, Y14", f.rodata("lutLower", dwords(lower[:])))
	f.p("VBROADCASTI128 %s, Y13", f.rodata("lutUpper", dwords(upper[:])))
	lutScales(f, 12, 11)
	loop := f.newLabel("quad")
	f.at(loop)
	halves := rows / 32
	for h := range halves {
		f.p("VMOVDQU %d(SI), Y8", 32*h)
		f.p("VPSRLW $4, Y8, Y9")
		f.p("VPAND Y15, Y8, Y8")
		f.p("VPAND Y15, Y9, Y9")
		for field := range 4 {
			d := field*halves + h
			f.p("VPSHUFB Y%d, Y%d, Y%d", 8+field/2, 14-field%2, d)
			f.p("VPMADDUBSW Y12, Y%d, Y%d", d, d)
			f.p("VPMADDWD Y11, Y%d, Y%d", d, d)
		}
	}
	lutStore(f, 4*halves)
	f.p("ADDQ $%d, SI", rows)
	f.p("ADDQ $%d, DI", 2*lutBlock)
	f.p("DECQ CX")
	f.p("JNZ %s", loop)
	f.p("VZEROUPPER")
	f.p("RET")
}

// lutField converts a field of 32 bytes of a row, 32 columns, to offsets of entries.
func lutField(f *file) {
	f.declare("VecLUTIndexI2S", "turns the fields at a bit of 32 bytes of a row, which lie stride bytes apart, into "+
		"offsets of entries of eight tables.",
		"index *uint16, packed *byte, stride, rows, bit int", 5)
	f.p("MOVQ index+0(FP), DI")
	f.p("MOVQ packed+8(FP), SI")
	f.p("MOVQ stride+16(FP), R8")
	f.p("MOVQ rows+24(FP), CX")
	f.p("VMOVQ bit+32(FP), X4")
	f.p("VMOVDQU %s, Y3", f.rodata("lutDigit", repeat(bytesOf(3), 8)))
	lutScales(f, 2, 1)
	loop := f.newLabel("row")
	f.at(loop)
	f.p("VMOVDQU (SI), Y0")
	f.p("VPSRLW X4, Y0, Y0")
	f.p("VPAND Y3, Y0, Y0")
	f.p("VPMADDUBSW Y2, Y0, Y0")
	f.p("VPMADDWD Y1, Y0, Y0")
	f.p("VEXTRACTI128 $1, Y0, X5")
	f.p("VPACKUSDW X5, X0, X0")
	f.p("VMOVDQU X0, (DI)")
	f.p("ADDQ R8, SI")
	f.p("ADDQ $16, DI")
	f.p("DECQ CX")
	f.p("JNZ %s", loop)
	f.p("VZEROUPPER")
	f.p("RET")
}
