package main

import "fmt"

// Vec-LUT with 128-bit registers: a row of a table, 32 sums of 16 bits, is four registers. The functions are the same
// as in veclut_avx2.go, and need nothing beyond ARMv8.0.

func vecLUTNEONFile() *file {
	f := newFile("veclut_neon", "arm64")
	for _, digits := range []int{4, 5} {
		lutBuildNEON(f, digits)
	}
	for _, v := range lutAdds {
		lutAddNEON(f, v.digits, v.groups, v.tile)
	}
	lutWidenNEON(f)
	lutTransposeNEON(f)
	lutIndexNEON(f)
	lutTritsNEON(f)
	lutFieldsNEON(f, 32)
	lutFieldsNEON(f, 64)
	lutRowsNEON(f, 0)
	lutRowsNEON(f, 2)
	return f
}

// arguments loads the arguments of a function, words, into registers R0, R1 …
func (f *file) arguments(names ...string) {
	for i, name := range names {
		f.p("MOVD %s+%d(FP), R%d", name, 8*i, i)
	}
}

// loopARM emits a loop around body; a register holds the count.
func (f *file) loopARM(count int, body func()) {
	loop := f.newLabel("loop")
	f.at(loop)
	body()
	f.p("SUBS $1, R%d, R%d", count, count)
	f.p("BNE %s", loop)
	f.p("RET")
}

// loadRow loads four registers from v on.
func (f *file) loadRow(r, v int) {
	f.p("FLDPQ (R%d), (F%d, F%d)", r, v, v+1)
	f.p("FLDPQ 32(R%d), (F%d, F%d)", r, v+2, v+3)
}

// storeRow stores four registers from v on.
func (f *file) storeRow(r, v int) {
	f.p("FSTPQ (F%d, F%d), (R%d)", v, v+1, r)
	f.p("FSTPQ (F%d, F%d), 32(R%d)", v+2, v+3, r)
}

// words16 adds the four registers from v on to the four from sum on, or subtracts them.
func (f *file) words16(op string, v, sum int) {
	for i := range 4 {
		f.p("%s V%d.H8, V%d.H8, V%d.H8", op, v+i, sum+i, sum+i)
	}
}

// lutBuildNEON makes tables as lutBuild does: entry e + 3ⁱ is entry e plus xᵢ.
func lutBuildNEON(f *file, digits int) {
	declareBuild(f, digits)
	f.arguments("lut", "x", "groups")
	next := f.newLabel("group")
	f.at(next)
	f.zero(0, 4)
	for i := range digits {
		x := 4 + 4*i
		f.p("FLDPQ %d(R1), (F%d, F%d)", lutColumn*i, x+1, x+3)
		for _, half := range []int{x, x + 2} {
			f.w("sxtl", half, half+1)
			f.w("sxtl2", half+1, half+1)
		}
		f.words16("VSUB", x, 0)
	}
	f.storeRow(0, 0)
	for i, third := 0, 1; i < digits; i, third = i+1, 3*third {
		entry := f.newLabel("entry")
		f.p("MOVD R0, R6")
		f.p("ADD $%d, R0, R7", third*lutRow)
		f.p("MOVD $%d, R5", 2*third)
		f.at(entry)
		f.loadRow(6, 0)
		f.words16("VADD", 4+4*i, 0)
		f.storeRow(7, 0)
		f.p("ADD $%d, R6, R6", lutRow)
		f.p("ADD $%d, R7, R7", lutRow)
		f.p("SUBS $1, R5, R5")
		f.p("BNE %s", entry)
	}
	f.p("ADD $%d, R0, R0", entries(digits)*lutRow)
	f.p("ADD $%d, R1, R1", lutColumn*digits)
	f.p("SUBS $1, R2, R2")
	f.p("BNE %s", next)
	f.p("RET")
}

// lutAddNEON keeps the addresses of the tables in registers, so that an entry is one addition away.
func lutAddNEON(f *file, digits, groups, tile int) {
	declareAdd(f, digits, groups, tile)
	f.arguments("sums", "index", "lut", "rows")
	tables := []int{10, 11, 12, 13, 14, 15, 16, 17}[:groups]
	for q, r := range tables {
		f.p("ADD $%d, R2, R%d", q*entries(digits)*lutRow, r)
	}
	f.loopARM(3, func() {
		f.loadRow(0, 0)
		for q, r := range tables {
			entry, at := 4+q%4, 4+4*(q%4)
			f.p("MOVHU %d(R1), R%d", q/tile*(2*tile*lutBlock)+q%tile*2, entry)
			f.p("ADD R%d, R%d, R%d", r, entry, entry)
			f.loadRow(entry, at)
			f.words16("VADD", at, 0)
		}
		f.storeRow(0, 0)
		f.p("ADD $%d, R0, R0", lutRow)
		f.p("ADD $%d, R1, R1", 2*tile)
	})
}

func lutWidenNEON(f *file) {
	declareWiden(f)
	f.arguments("wide", "sums", "rows")
	f.zero(16, 2)
	f.loopARM(2, func() {
		f.loadRow(1, 12)
		for i := range 4 {
			a, b := 2*i, 2*i+1
			f.p("FLDPQ %d(R0), (F%d, F%d)", 32*i, a, b)
			f.w("saddw", a, a, 12+i)
			f.w("saddw2", b, b, 12+i)
			f.p("FSTPQ (F%d, F%d), %d(R0)", a, b, 32*i)
		}
		f.p("FSTPQ (F16, F17), (R1)")
		f.p("FSTPQ (F16, F17), 32(R1)")
		f.p("ADD $128, R0, R0")
		f.p("ADD $64, R1, R1")
	})
}

// lutTransposeNEON turns 8 rows of 8 tokens into 8 tokens of 8 rows, in blocks of four by four.
func lutTransposeNEON(f *file) {
	declareTranspose(f)
	f.arguments("y", "ldy", "wide")
	for i := range 8 {
		f.p("FLDPQ (R2), (F%d, F%d)", i, 8+i) // tokens 0 to 3, 4 to 7
		f.p("ADD $128, R2, R2")
	}
	for block := 0; block < 16; block += 4 {
		for i := 0; i < 4; i += 2 {
			f.p("VTRN1 V%d.S4, V%d.S4, V%d.S4", block+i+1, block+i, 16+i)
			f.p("VTRN2 V%d.S4, V%d.S4, V%d.S4", block+i+1, block+i, 17+i)
		}
		for i := range 2 {
			f.p("VZIP1 V%d.D2, V%d.D2, V%d.D2", 18+i, 16+i, block+i)
			f.p("VZIP2 V%d.D2, V%d.D2, V%d.D2", 18+i, 16+i, block+i+2)
		}
	}
	for i := range 8 {
		f.p("FSTPQ (F%d, F%d), (R0)", i+i/4*4, i+i/4*4+4)
		if i < 7 {
			f.p("ADD R1, R0, R0")
		}
	}
	f.p("RET")
}

func lutIndexNEON(f *file) {
	declareIndex(f)
	f.arguments("index", "packed", "n")
	f.loopARM(2, func() {
		f.p("FMOVQ (R1), F0")
		f.p("VUSHLL $6, V0.B8, V1.H8")
		f.p("VUSHLL2 $6, V0.B16, V2.H8")
		f.p("FSTPQ (F1, F2), (R0)")
		f.p("ADD $16, R1, R1")
		f.p("ADD $32, R0, R0")
	})
}

// lutTritsNEON converts base-3 bytes to offsets of entries, as lutFieldsNEON does: two registers of weights are eight
// rows of each digit.
func lutTritsNEON(f *file) {
	declareTrits(f)
	const powers = 16
	tritTables(f, 9, 3, 1)
	lutPowersNEON(f, powers)
	f.arguments("index", "packed", "n")
	f.loopARM(2, func() {
		for two := range 2 {
			for r := range 2 {
				f.p("FMOVQ %d(R1), F%d", 32*two+16*r, tritByte)
				tritDigitsNEON(f, func(i, digit int) {
					f.w("mul", 2*i+r, digit, powers)
					f.w("uaddlp", 2*i+r, 2*i+r)
				})
			}
			for i := range trits {
				lutStoreNEON(f, 2*i, 2*(16*i+8*two))
			}
		}
		f.p("ADD $64, R1, R1")
		f.p("ADD $%d, R0, R0", 2*lutBlock)
	})
}

// lutPowersNEON loads powers of three, for the digits of four columns.
func lutPowersNEON(f *file, v int) {
	var power [16]byte
	for i := range power {
		power[i] = []byte{1, 3, 9, 27}[i%4]
	}
	f.loadConst("lutPowers", power, v)
}

// lutStoreNEON adds adjacent elements of two registers and stores eight offsets of entries.
func lutStoreNEON(f *file, v, at int) {
	f.p("VADDP V%d.H8, V%d.H8, V%d.H8", v+1, v, v)
	f.p("VSHL $6, V%d.H8, V%d.H8", v, v)
	f.p("FMOVQ F%d, %d(R0)", v, at)
}

// lutFieldsNEON converts the fields of 2-bit panels to offsets of entries: digits by byte shuffles, times powers of
// three, then the four bytes of a lane by two rounds of adding adjacent bytes.
func lutFieldsNEON(f *file, rows int) {
	declareFields(f, rows)
	const mask, lower, upper, powers = 31, 30, 29, 28
	var low, up [16]byte
	for i := range 16 {
		digits := []byte{1, 2, 0, 0}
		low[i], up[i] = digits[i&3], digits[i>>2]
	}
	f.p("VMOVI $15, V%d.B16", mask)
	f.loadConst("lutLower", low, lower)
	f.loadConst("lutUpper", up, upper)
	lutPowersNEON(f, powers)
	f.arguments("index", "packed", "n")
	f.loopARM(2, func() {
		for two := range rows / 32 {
			const v, nibbles, digit = 0, 2, 6 // two registers of weights are eight rows of each field
			f.p("FLDPQ %d(R1), (F%d, F%d)", 32*two, v, v+1)
			for i := range 2 {
				f.p("VAND V%d.B16, V%d.B16, V%d.B16", mask, v+i, nibbles+i)
				f.p("VUSHR $4, V%d.B16, V%d.B16", v+i, nibbles+2+i)
			}
			for field := range 4 {
				for i := range 2 {
					f.p("VTBL V%d.B16, [V%d.B16], V%d.B16", nibbles+field/2*2+i, lower-field%2, digit+i)
					f.w("mul", digit+i, digit+i, powers)
					f.w("uaddlp", digit+i, digit+i)
				}
				lutStoreNEON(f, digit, 2*(field*rows/4+8*two))
			}
		}
		f.p("ADD $%d, R1, R1", rows)
		f.p("ADD $%d, R0, R0", 2*lutBlock)
	})
}

// lutRowsNEON converts two fields of 16 bytes of a row, 16 columns each, to offsets of entries.
func lutRowsNEON(f *file, field int) {
	f.declare(fmt.Sprintf("VecLUTIndexI2SARM%d", field),
		fmt.Sprintf("turns fields %d and %d of 16 bytes of a row, which lie stride bytes apart, into offsets of "+
			"entries of eight tables.", field, field+1),
		"index *uint16, packed *byte, stride, rows int", 4)
	const mask, powers, digit = 31, 28, 1
	f.p("VMOVI $3, V%d.B16", mask)
	lutPowersNEON(f, powers)
	f.arguments("index", "packed", "stride", "rows")
	f.loopARM(3, func() {
		f.p("FMOVQ (R1), F0")
		for i := range 2 {
			from := 0
			if shift := 6 - 2*(field+i); shift > 0 {
				f.p("VUSHR $%d, V0.B16, V%d.B16", shift, digit+i)
				from = digit + i
			}
			f.p("VAND V%d.B16, V%d.B16, V%d.B16", mask, from, digit+i)
			f.w("mul", digit+i, digit+i, powers)
			f.w("uaddlp", digit+i, digit+i)
		}
		lutStoreNEON(f, digit, 0)
		f.p("ADD R2, R1, R1")
		f.p("ADD $16, R0, R0")
	})
}
