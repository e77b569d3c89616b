package main

import "fmt"

// 1-bit weights with AVX-512 and VBMI: the only multiplications are at the end of a block. Four bits of a byte are four
// columns of a row and index a table of the 16 sums that these columns can give, split into four lower and five upper
// bits; a byte permutation looks up 64 rows and groups of columns. Eight lookups are added as bytes (8·31 < 256) before
// dot products gather the groups of a row into 32 bits. The tables belong to a token
// (internal/kernel/activations_lut4_split.go).
//
// In VNNI4 order bytes hold four bits of two rows, in VNNI4I order one column of eight rows: GF2P8AFFINEQB with the
// weights as the matrix transposes 8 × 8 bits. After that, lower bits are odd rows, and a group's columns are reversed.
//
// A step is 16 columns of 64 rows, two registers of 64 bytes: of a panel of 64 rows one after the other, two groups of
// columns each; of two panels of 32 rows one each, four groups. So the tables, which do not fit the L1 cache together
// with weights, are read once for 64 rows. Hardware prefetchers follow neither the two weight streams nor the table
// stream if all three are interleaved (13 GB/s); weights are prefetched line by line in memory order: the next pair
// while the current one is multiplied.
//
// General registers: DI weights, R11 bytes to the second panel, R12 weights to prefetch, SI tables, CX steps.
type signs512 struct {
	*file
	rows      int // per panel
	interlace bool
}

// Registers. 32-bit accumulators are [half][nibble] of rows; so are byte accumulators if each half has its own, lower
// then upper.
const (
	signSums   = 0
	signBytes  = 4
	signTables = 12 // lower bits, upper bits
	signFree   = 14 // three
	signUnit   = 24 // unit vectors
	signMask   = 25 // lower half of bytes
	signSelect = 26 // bits 4 and 5 of an index: the group of columns; one per register of a panel
	signGather = 28 // controls that bring the bytes of a row together, also one per register
	signScale  = 30 // multipliers of these: lower bits by 1, upper bits by 16
)

const (
	signGroups = 4 // groups of columns per step
	signAdds   = 8 // maximum number of entries per byte sum
	signAhead  = 8192

	signScalesAhead = 4096 // prefetch distance of scales, one more stream that hardware does not follow
)

func signs512File() *file {
	f := newFile("binarylut_avx512", "amd64")
	for _, g := range []*signs512{{f, 32, false}, {f, 64, false}, {f, 32, true}, {f, 64, true}} {
		g.function()
	}
	quadTables(f, "BuildLUT4Split", false)
	quadTables(f, "BuildLUT4SplitReversed", true)
	return f
}

// wide reports whether both registers of a step belong to one panel.
func (g *signs512) wide() bool { return g.rows == 64 }

// adds is the number of entries that a step adds to a byte.
func (g *signs512) adds() int { return g.rows / 32 }

// sum is the register of the 32-bit sums for rows of half k, nibble n.
func (g *signs512) sum(k, n int) int { return signSums + 2*k + n }

// bytes is the register of the byte sums of half k: part 0 or 1 of the entries of nibble n.
func (g *signs512) bytes(k, n, part int) int {
	if g.wide() {
		k = 0
	}
	return signBytes + 4*k + 2*n + part
}

func (g *signs512) function() {
	name, doc := fmt.Sprintf("binaryLUTRows%dAVX512", g.rows), "bits in VNNI4 order"
	if g.interlace {
		name, doc = fmt.Sprintf("binaryLUTInterleavedRows%dAVX512", g.rows), "bits in VNNI4I order"
	}
	if !g.wide() {
		doc += ", two panels at a time"
	}
	beginTile512(g.file, name+"x1", 1)
	g.p("MOVQ Tile_SecondPanel(AX), R11")
	if g.wide() {
		g.p("XORL R11, R11")
	}
	g.constants()
	panels86(g.file, 64, func() {
		g.p("LEAQ %d(DI)(R11*1), R12", signAhead)
		groups86(g.file, 64, func() {
			for i := signSums; i < signBytes; i++ {
				g.p("VPXORD Z%d, Z%d, Z%d", i, i, i)
			}
			g.group()
			g.finish()
		})
	})
	g.table(name, fmt.Sprintf("multiply %d-row panels of %s by tables, one token at a time.", g.rows, doc),
		[]string{name + "x1"})
}

func (g *signs512) constants() {
	g.p("VPBROADCASTD %s, Z%d", g.word(bytesOf(0x0f)), signMask)
	if g.interlace {
		g.p("VMOVDQU64 %s, Z%d", g.rodata("units8", identity8()), signUnit)
	}
	scales := []string{bytesOf(1), bytesOf(16)}
	if g.wide() {
		scales = []string{"0x10100101"}
	}
	for i, c := range scales {
		g.p("VPBROADCASTD %s, Z%d", g.word(c), signScale+i)
	}
	for k := range g.adds() {
		var groups, control [64]byte
		for i := range groups {
			groups[i] = byte(i / (g.rows / 2) << 4)
			groups[i] += byte(k * signGroups / 2 << 4)
			control[i] = byte(g.place(16*k+pairAt(i/4)) + i%4*g.rows/2)
		}
		g.p("VMOVDQU64 %s, Z%d", g.rodata(fmt.Sprintf("signGroups%dRows%d", k, g.rows), dwords(groups[:])),
			signSelect+k)
		g.p("VMOVDQU64 %s, Z%d", g.rodata(fmt.Sprintf("signGather%dRows%d%v", k, g.rows, g.interlace),
			dwords(control[:])),
			signGather+k)
	}
}

// pairAt is the pair of rows whose sums lane i holds. With it, interleaving sums of even and of odd rows within 128
// bits gives rows in order, the first 16 from the lower two lanes of each four, the others from the upper ones.
func pairAt(i int) int { return i/4*2 + i%2 + i%4/2*8 }

// place is the byte of a group of columns that holds a pair of rows.
func (g *signs512) place(pair int) int {
	if !g.interlace {
		return pair
	}
	words := g.rows / 16 // of 64 bits per group of columns, eight pairs each
	return pair%words*8 + pair/words
}

// group emits the loops over blocks of steps, and over the remaining steps. Only the last group has an incomplete step.
func (g *signs512) group() {
	block := signAdds / g.adds()
	loop, rest, one := g.newLabel("loop"), g.newLabel("rest"), g.newLabel("one")
	tail, whole, done := g.newLabel("tail"), g.newLabel("whole"), g.newLabel("done")
	g.p("SUBQ $%d, CX", block)
	g.p("JLT %s", rest)
	g.p("PCALIGN $64")
	g.at(loop)
	for u := range block {
		g.step(u, u == 0, false)
	}
	g.gather()
	g.advance(block)
	g.p("SUBQ $%d, CX", block)
	g.p("JGE %s", loop)
	g.at(rest)
	g.p("XORL BX, BX")
	g.p("TESTQ R15, R15")
	g.p("CMOVQEQ Tile_TailMask(AX), BX")
	g.p("ADDQ $%d, CX", block)
	g.p("MOVQ CX, R10")
	g.p("ORQ BX, R10")
	g.p("JZ %s", done)
	for i := signBytes; i < signTables; i++ {
		g.p("VPXORD Z%d, Z%d, Z%d", i, i, i)
	}
	g.p("TESTQ CX, CX")
	g.p("JZ %s", tail)
	g.at(one)
	g.step(0, false, false)
	g.advance(1)
	g.p("DECQ CX")
	g.p("JNZ %s", one)
	g.at(tail)
	g.p("TESTQ BX, BX")
	g.p("JZ %s", whole)
	for k := range g.adds() {
		g.p("KMOVW BX, K%d", 1+k)
		g.p("SHRQ $16, BX")
	}
	g.step(0, false, true)
	g.at(whole)
	g.gather()
	g.at(done)
}

func (g *signs512) advance(steps int) {
	g.p("ADDQ $%d, DI", 64*g.adds()*steps)
	g.p("ADDQ $%d, SI", 128*steps)
	g.p("ADDQ $%d, R12", 128*steps)
}

// step emits step u of a block; its first lookups start the byte sums.
func (g *signs512) step(u int, first, masked bool) {
	g.p("VMOVDQU64 %d(SI), Z%d", 128*u, signTables)
	g.p("VMOVDQU64 %d(SI), Z%d", 128*u+64, signTables+1)
	for k := range 2 {
		g.p("PREFETCHT1 %d(R12)", 128*u+64*k)
		g.half(u, k, first && (k == 0 || !g.wide()), masked)
	}
}

// half emits the code for one register of weights.
func (g *signs512) half(u, k int, first, masked bool) {
	const lower, upper, entry = signFree, signFree + 1, signFree + 2
	g.load(u, k, lower, masked)
	g.p("VPSRLW $4, Z%d, Z%d", lower, upper)
	index := ternlog(func(v, mask, groups bool) bool { return v && mask || groups })
	groups := signSelect + k%g.adds()
	g.p("VPTERNLOGD $%#x, Z%d, Z%d, Z%d", index, groups, signMask, lower)
	g.p("VPTERNLOGD $%#x, Z%d, Z%d, Z%d", index, groups, signMask, upper)
	for n, v := range []int{lower, upper} {
		low, high := g.bytes(k, n, 0), g.bytes(k, n, 1)
		if first {
			g.p("VPERMB Z%d, Z%d, Z%d", signTables, v, low)
			g.p("VPERMB Z%d, Z%d, Z%d", signTables+1, v, high)
			continue
		}
		g.p("VPERMB Z%d, Z%d, Z%d", signTables, v, entry)
		g.p("VPERMB Z%d, Z%d, Z%d", signTables+1, v, v)
		g.p("VPADDB Z%d, Z%d, Z%d", entry, low, low)
		g.p("VPADDB Z%d, Z%d, Z%d", v, high, high)
	}
}

// load emits the load of register k of step u, four columns of a row in each half of a byte.
func (g *signs512) load(u, k, v int, masked bool) {
	from := fmt.Sprintf("%d(DI)", 128*u+64*k)
	if !g.wide() {
		from = fmt.Sprintf("%d(DI)%s", 64*u, []string{"", "(R11*1)"}[k])
	}
	if masked {
		g.p("VMOVDQU32.Z %s, K%d, Z%d", from, 1+k%g.adds(), v)
		from = fmt.Sprintf("Z%d", v)
	}
	if g.interlace {
		g.p("VGF2P8AFFINEQB $0, %s, Z%d, Z%d", from, signUnit, v)
	} else if !masked {
		g.p("VMOVDQU64 %s, Z%d", from, v)
	}
}

// gather emits the summation of bytes over groups, in 32 bits.
func (g *signs512) gather() {
	for k := range 2 {
		for n := range 2 {
			sum, low, high := g.sum(k, n), g.bytes(k, n, 0), g.bytes(k, n, 1)
			if g.wide() {
				g.p("VMOVDQA64 Z%d, Z%d", signGather+k, signFree+n)
				g.p("VPERMI2B Z%d, Z%d, Z%d", high, low, signFree+n)
				g.p("VPDPBUSD Z%d, Z%d, Z%d", signScale, signFree+n, sum)
				continue
			}
			for part, v := range []int{low, high} {
				g.p("VPERMB Z%d, Z%d, Z%d", v, signGather, v)
				g.p("VPDPBUSD Z%d, Z%d, Z%d", signScale+part, v, sum)
			}
		}
	}
}

// finish puts the sums of the group into row order, and stores them, or scales them and adds them to the results.
func (g *signs512) finish() {
	const add, free, factor, rows = signBytes, signBytes + 1, signBytes + 2, signBytes + 4
	g.p("VPBROADCASTD TokenGroup_Add(R14), Z%d", add)
	for k := range 2 {
		even, odd := g.sum(k, 0), g.sum(k, 1)
		if g.interlace {
			even, odd = odd, even
		}
		for _, v := range []int{even, odd} {
			g.p("VPADDD Z%d, Z%d, Z%d", v, v, v)
			g.p("VPSUBD Z%d, Z%d, Z%d", v, add, v)
		}
		g.p("VPUNPCKLDQ Z%d, Z%d, Z%d", odd, even, rows+2*k)
		g.p("VPUNPCKHDQ Z%d, Z%d, Z%d", odd, even, rows+2*k+1)
	}
	results86(g.file, 1, "Z", factor, false, func(_ int, o outcome) {
		for i := range 4 {
			if o.scalesBoth() {
				g.p("PREFETCHT1 %d(CX)", signScalesAhead+16*o.size()*i)
			}
			result86(g.file, fmt.Sprint("Z", rows+i), free, factor, 64*i, o)
		}
	})
}

// quadTables emits the function that makes the tables of a token. An entry is the sum of the positive activations whose
// bits are set and of the magnitudes of the negative ones whose bits are clear. Sums of two columns are bytes, and the
// sum of two such sums has nine bits, of which an average gives the upper eight.
func quadTables(f *file, name string, reversed bool) {
	f.declare(name, "makes the tables of n steps of 16 activations, 128 bytes per step, and the sums of magnitudes up "+
		"to the end of each.",
		"tables *byte, sums *int32, x *int8, n int", 4)
	f.p("MOVQ tables+0(FP), DI")
	f.p("MOVQ sums+8(FP), DX")
	f.p("MOVQ x+16(FP), SI")
	f.p("MOVQ n+24(FP), CX")
	f.p("XORL BX, BX")
	f.p("VPXOR X0, X0, X0")
	const first, term = 16, 4 // registers of four controls and of the selected terms
	for j := range 4 {
		var pick [64]byte
		for i := range pick {
			bit := j
			if reversed {
				bit = 3 - j
			}
			pick[i] = byte(i/16*4 + j)
			if i>>bit&1 == 0 {
				pick[i] += 16
			}
		}
		f.p("VMOVDQU64 %s, Z%d", f.rodata(fmt.Sprintf("quadPick%d%v", j, reversed), dwords(pick[:])), first+j)
	}
	const one, four, five = 20, 21, 22 // masks of bits
	for i, c := range []byte{0x01, 0x0f, 0x1f} {
		f.p("VPBROADCASTD %s, Z%d", f.word(bytesOf(c)), one+i)
	}
	loop := f.newLabel("step")
	f.at(loop)
	f.p("VMOVDQU (SI), X1")
	f.p("VPSUBB X1, X0, X2")
	f.p("VPMAXSB X0, X1, X1")
	f.p("VPMAXSB X0, X2, X2")
	f.p("VPADDB X1, X2, X3")
	f.p("VPSADBW X0, X3, X3")
	f.p("VPSHUFD $0x4E, X3, X8")
	f.p("VPADDD X8, X3, X3")
	f.p("VMOVD X3, R8")
	f.p("ADDL R8, BX")
	f.p("MOVL BX, (DX)")
	f.p("VINSERTI128 $1, X2, Y1, Y1")
	for j := range 4 {
		f.p("VPERMB Z1, Z%d, Z%d", first+j, term+j)
	}
	f.p("VPADDB Z4, Z5, Z4")
	f.p("VPADDB Z6, Z7, Z6")
	f.p("VPADDB Z4, Z6, Z5")
	f.p("VPANDD Z%d, Z5, Z5", four)
	f.p("VMOVDQU64 Z5, (DI)")
	f.p("VPAVGB Z4, Z6, Z5")
	f.p("VPXORD Z4, Z6, Z6")
	f.p("VPANDD Z%d, Z6, Z6", one)
	f.p("VPSUBB Z6, Z5, Z5")
	f.p("VPSRLW $3, Z5, Z5")
	f.p("VPANDD Z%d, Z5, Z5", five)
	f.p("VMOVDQU64 Z5, 64(DI)")
	f.p("ADDQ $16, SI")
	f.p("ADDQ $128, DI")
	f.p("ADDQ $4, DX")
	f.p("DECQ CX")
	f.p("JNZ %s", loop)
	f.p("VZEROUPPER")
	f.p("RET")
}
