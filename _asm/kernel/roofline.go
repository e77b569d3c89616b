package main

import "fmt"

// The limits of a machine: loops that only read, and loops that only multiply in registers.

func rooflineFiles() []*file {
	x86 := newFile("roofs", "amd64")
	x86.dir = "roofline"
	stream86(x86, "512", "Z", 64, "VPORD")
	stream86(x86, "256", "Y", 32, "VPOR")
	for _, streams := range []int{1, 4, 8} {
		streams86(x86, vector512, streams, true)
		streams86(x86, vector256, streams, true)
	}
	streams86(x86, vector256, 4, false)
	multiplyTiles86(x86)
	multiply86(x86, "512", 16, func(i int) []string {
		return []string{fmt.Sprintf("VPDPBUSD Z31, Z30, Z%d", i)}
	})
	multiply86(x86, "VNNI256", 14, func(i int) []string { return []string{vpdpbusd(i, 14, 15)} })
	multiply86(x86, "256", 8, func(i int) []string {
		return []string{fmt.Sprintf("VPMADDUBSW Y15, Y14, Y%d", 8+i%4),
			fmt.Sprintf("VPADDW Y%d, Y%d, Y%d", 8+i%4, i, i)}
	})
	floats86(x86, "512", "Z", 16)
	floats86(x86, "256", "Y", 8)
	arm := newFile("roofs", "arm64")
	arm.dir = "roofline"
	streamARM(arm)
	multiplyARM(arm, "Dot", 16, func(i int) { arm.sdot(i, 30, 31, 0) })
	multiplyARM(arm, "NEON", 16, func(i int) {
		arm.w("smlal", i, 30, 31)
		arm.w("smlal2", i, 30, 31)
	})
	floatsARM(arm)
	return []*file{x86, arm}
}

const (
	streamBlock = 512  // bytes per iteration
	readAhead   = 4096 // bytes
)

func stream86(f *file, suffix, r string, width int, or string) {
	f.declare("stream"+suffix, fmt.Sprintf("reads n·%d bytes.", streamBlock), "p *byte, n int", 2)
	f.p("MOVQ p+0(FP), SI")
	f.p("MOVQ n+8(FP), CX")
	loop86(f, func() {
		for off := 0; off < streamBlock; off += 64 {
			f.p("PREFETCHT1 %d(SI)", readAhead+off)
		}
		for off := 0; off < streamBlock; off += width {
			f.p("%s %d(SI), %s%d, %s%d", or, off, r, off/width%8, r, off/width%8)
		}
		f.p("ADDQ $%d, SI", streamBlock)
	})
}

// loop86 emits a body that is repeated CX times, and the end of the function.
func loop86(f *file, body func()) {
	turns86(f, body)
	f.p("VZEROUPPER")
	f.p("RET")
}

// turns86 emits a loop of CX iterations.
func turns86(f *file, body func()) {
	loop := f.newLabel("loop")
	f.p("PCALIGN $64")
	f.at(loop)
	body()
	f.p("DECQ CX")
	f.p("JNZ %s", loop)
}

// Prefetch distances of loops that read several streams, or one into the nearest cache; with four streams the first 16
// lines of their next pages are prefetched one after the other (prefetchRule). docs/notes/kernels.md says where each is
// best.
const (
	nearAhead  = 2048 // one stream
	eightAhead = 1024
	streamTurn = 128 // bytes per iteration of each stream
)

// vectors86 are the registers of an instruction set: their bits, letter and bytes, and the load instruction.
type vectors86 struct {
	bits, letter string
	bytes        int
	or           string
}

var (
	vector512 = vectors86{"512", "Z", 64, "VPORD"}
	vector256 = vectors86{"256", "Y", 32, "VPOR"}
)

// streams86 reads several streams concurrently, whole pages apart; without prefetches it is called plain.
func streams86(f *file, v vectors86, streams int, prefetch bool) {
	name := fmt.Sprintf("streams%dx%s", streams, v.bits)
	if !prefetch {
		name = fmt.Sprintf("plain%dx%s", streams, v.bits)
	}
	about := fmt.Sprintf("reads n·%d bytes of each of %d streams, ld bytes apart.", streamTurn, streams)
	f.declare(name, about, "p *byte, n, ld int", 3)
	f.p("MOVQ p+0(FP), SI")
	f.p("MOVQ n+8(FP), CX")
	f.p("MOVQ ld+16(FP), R8")
	f.p("LEAQ (R8)(R8*2), R10")
	f.p("LEAQ (R8)(R8*4), R13")
	f.p("LEAQ (R10)(R8*4), R11")
	places := []string{"", "(R8*1)", "(R8*2)", "(R10*1)", "(R8*4)", "(R13*1)", "(R10*2)", "(R11*1)"}[:streams]
	ahead := map[int]int{1: nearAhead, 8: eightAhead}[streams]
	loop86(f, func() {
		if streams == 4 && prefetch {
			f.p("LEAQ 4096(SI), R12")
			f.p("ANDQ $-4096, R12")
			f.p("MOVQ SI, BX")
			f.p("ANDQ $4095, BX")
			f.p("SHRQ $2, BX")
			f.p("ADDQ BX, R12")
			for _, at := range places {
				f.p("PREFETCHT1 (R12)%s", at)
			}
		}
		i := 0
		for _, at := range places {
			for off := 0; ahead > 0 && off < streamTurn; off += 64 {
				f.p("PREFETCHT0 %d(SI)%s", ahead+off, at)
			}
			for off := 0; off < streamTurn; off += v.bytes {
				f.p("%s %d(SI)%s, %s%d, %s%d", v.or, off, at, v.letter, i%8, v.letter, i%8)
				i++
			}
		}
		f.p("ADDQ $%d, SI", streamTurn)
	})
}

func multiply86(f *file, suffix string, chains int, step func(i int) []string) {
	f.declare("multiply"+suffix, fmt.Sprintf("multiplies and adds n·%d registers.", 4*chains), "n int", 1)
	repeat86(f, chains, step)
}

// multiplyTiles86 multiplies whole tiles, two by two, as kernels do. The operands count: a core multiplies zeros at a
// higher clock than other numbers.
func multiplyTiles86(f *file) {
	f.declare("multiplyTiles", "multiplies and adds n·4 tiles, all with the operands of one.",
		"config *[64]byte, operands *[1024]int8, n int", 3)
	f.p("MOVQ config+0(FP), AX")
	f.p("MOVQ operands+8(FP), DX")
	f.p("MOVQ n+16(FP), CX")
	f.tileConfig("AX")
	f.p("MOVQ $64, BX")
	for i := range 4 {
		f.tileLoad(tokensAMX+i, 0, "DX", "BX")
	}
	turns86(f, func() {
		for i := range 4 {
			f.tileDot(i, tokensAMX+i/2, weightsAMX+i%2)
		}
	})
	f.tileRelease()
	f.p("RET")
}

// floats86 uses fused multiply-adds (NUMERICS N6).
func floats86(f *file, suffix, r string, chains int) {
	f.declare("floats"+suffix, fmt.Sprintf("multiplies and adds n·%d registers of float32.", 4*chains), "n int", 1)
	repeat86(f, chains, func(i int) []string {
		return []string{fmt.Sprintf("VFMADD231PS %[1]s%[2]d, %[1]s%[2]d, %[1]s%[3]d", r, 2*chains-1, i)}
	})
}

func repeat86(f *file, chains int, step func(i int) []string) {
	f.p("MOVQ n+0(FP), CX")
	loop86(f, func() {
		for i := range 4 * chains {
			for _, s := range step(i % chains) {
				f.p("%s", s)
			}
		}
	})
}

func streamARM(f *file) {
	f.declare("streamNEON", fmt.Sprintf("reads n·%d bytes.", streamBlock), "p *byte, n int", 2)
	f.p("MOVD p+0(FP), R0")
	f.p("MOVD n+8(FP), R1")
	loop := f.newLabel("loop")
	f.at(loop)
	for off := 0; off < streamBlock; off += 64 {
		f.p("PRFM %d(R0), PLDL1KEEP", readAhead+off)
	}
	for off := 0; off < streamBlock; off += 16 {
		f.p("FMOVQ %d(R0), F%d", off, off/16%16)
	}
	f.p("ADD $%d, R0, R0", streamBlock)
	f.p("SUBS $1, R1, R1")
	f.p("BNE %s", loop)
	f.p("RET")
}

func multiplyARM(f *file, suffix string, chains int, step func(i int)) {
	f.declare("multiply"+suffix, fmt.Sprintf("multiplies and adds n·%d registers.", 4*chains), "n int", 1)
	repeatARM(f, chains, step)
}

func floatsARM(f *file) {
	f.declare("floatsNEON", "multiplies and adds n·64 registers of float32.", "n int", 1)
	repeatARM(f, 16, func(i int) { f.w("fmla", i, 31, 31) })
}

func repeatARM(f *file, chains int, step func(i int)) {
	f.p("MOVD n+0(FP), R1")
	loop := f.newLabel("loop")
	f.at(loop)
	for i := range 4 * chains {
		step(i % chains)
	}
	f.p("SUBS $1, R1, R1")
	f.p("BNE %s", loop)
	f.p("RET")
}
