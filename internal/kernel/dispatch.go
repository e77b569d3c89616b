package kernel

import (
	"cmp"
	"math"
	"slices"

	"github.com/lowpack/lowpack/internal/kernel/internal/asm"
	"github.com/lowpack/lowpack/pack"
)

// The complete choice of a kernel: the kernels for each layout, alphabet and instruction set, their functions for one
// token (GEMV) and for several (GEMM), and their order of preference.

//go:generate go run -C ../../_asm ./kernel

// kernels of this build, the generic one last.
var kernels []*Kernel

func init() {
	for _, isa := range []ISA{AMX, AVX512VNNI} {
		kernels = append(kernels, build(isa, avx512Table(isa))...)
	}
	for _, set := range panelSets() {
		kernels = append(kernels, build(set.isa, set.table())...)
	}
	kernels = append(kernels, generic)
}

// Kernels lists all kernels of this build, whether this CPU can run them or not.
func Kernels() []*Kernel { return slices.Clone(kernels) }

// row is a line of a table: the kernel of an instruction set for a layout and some alphabets. If several lines match
// the same weights, the first one wins.
type row struct {
	layout string // "*" for every layout
	codes  []string
	how    method
}

// method is the way in which a kernel multiplies; its fields are fields of Kernel.
type method struct {
	about               string
	needs               feature
	groupStep, groupMax int
	copies              bool
	bind                func(w *Weights) (product, error)
	tiles               *tileMethod // for batches, where there are tile registers
}

// build makes the kernels of a table, none if the build has no assembly of the instruction set.
func build(isa ISA, table []row) (list []*Kernel) {
	if ladder[rung(isa)].arch != asm.Arch {
		return nil
	}
	for _, r := range table {
		m := r.how
		if isa == AMX && m.tiles != nil {
			m = m.onTiles()
		}
		list = append(list, &Kernel{r.layout, r.codes, isa, m.about, m.needs, m.groupStep, m.groupMax,
			m.copies, m.bind})
	}
	return list
}

// The alphabets of the tables.
var (
	int1    = []string{pack.Int1.Name}
	ternary = []string{pack.Ternary.Name}
	int2s   = []string{pack.Int2.Name, pack.Int2Odd.Name, pack.Int2Q.Name}
	int3    = []string{pack.Int3.Name}
	int4    = []string{pack.Int4.Name}
	int5    = []string{pack.Int5.Name}
	int6    = []string{pack.Int6.Name}
	small4  = []string{pack.E2M1.Name, pack.Int4Odd.Name, pack.IQ2.Name, pack.IQ3XXS.Name}
	iq4nl   = []string{pack.IQ4NL.Name}
	tables4 = slices.Concat(small4, iq4nl) // of four bits, of which a table makes weights
	int8s   = []string{pack.Int8.Name}
)

// avx512Table lists the kernels on 512-bit registers. With tile registers they become AMX kernels, which multiply
// batches on tiles if the method has functions for that.
func avx512Table(isa ISA) []row {
	return []row{
		{"vnni4", int1, splitLUTAVX512(0, columnsUp, 2, 4, asm.BinaryLUTRows32AVX512).
			tiled(bits16AMX, bitTiles(1))},
		{"vnni4-64", int1, splitLUTAVX512(0, columnsUp, 1, 8, asm.BinaryLUTRows64AVX512).
			tiled(bits32AMX, bitTiles(2))},
		{"vnni4i", int1, splitLUTAVX512(gfni, columnsDown, 2, 4, asm.BinaryLUTInterleavedRows32AVX512).
			tiled(interleavedBits16AMX, interleavedBitTiles(1))},
		{"vnni4i-64", int1, splitLUTAVX512(gfni, columnsDown, 1, 8, asm.BinaryLUTInterleavedRows64AVX512).
			tiled(interleavedBits32AMX, interleavedBitTiles(2))},
		{"vnni4i", ternary,
			maskedAVX512(8, 8, asm.TernaryRows32AVX512, asm.TernaryPairsAVX512, asm.TernaryFours32AVX512).
				densely(asm.TernaryPairsFirstAVX512, asm.Fields2PairsDenseAVX512).
				tiled(fields32AMX, fields2Tiles(1))},
		{"vnni4i", int2s, maskedAVX512(8, 8, asm.Fields2Rows32AVX512, asm.Fields2PairsAVX512, asm.Fields2Fours32AVX512).
			densely(asm.Fields2PairsFirstAVX512, asm.Fields2PairsDenseAVX512).tiled(fields32AMX, fields2Tiles(1))},
		{"vnni4i", int1, maskedAVX512(16, 4, asm.Fields1Rows32AVX512, nil, nil)},
		{"vnni4i", int4,
			int4AVX512(asm.Fields4Rows32AVX512, asm.Fields4Rows32KeptAVX512, asm.Fields4Pairs32AVX512).
				tiled(fields64AMX, fields4Tiles(1))},
		{"vnni4i-64", ternary,
			maskedAVX512(4, 16, asm.TernaryRows64AVX512, asm.TernaryPairs64AVX512, asm.TernaryFours64AVX512).
				densely(asm.TernaryRows64FirstAVX512, asm.Fields2Rows64DenseAVX512).
				tiled(fields64AMX, fields2Tiles(2))},
		{"vnni4i-64", int2s,
			maskedAVX512(4, 16, asm.Fields2Rows64AVX512, asm.Fields2Pairs64AVX512, asm.Fields2Fours64AVX512).
				densely(asm.Fields2Rows64FirstAVX512, asm.Fields2Rows64DenseAVX512).
				tiled(fields64AMX, fields2Tiles(2))},
		{"vnni4i-64", int1, maskedAVX512(8, 8, asm.Fields1Rows64AVX512, nil, nil)},
		{"vnni4i-64", int4, maskedAVX512(4, 32, asm.Fields4Rows64AVX512, asm.Fields4Pairs64AVX512, nil).
			tiled(fields128AMX, fields4Tiles(2))},
		{"vnni4i", tables4,
			lookupAVX512(asm.Lookup4Rows32AVX512, asm.Lookup4Rows32KeptAVX512, asm.Lookup4Pairs32AVX512).
				tiled(fields64AMX, fields4Tiles(1))},
		{"vnni4i-64", tables4, lookupAVX512(asm.Lookup4Rows64AVX512, nil, asm.Lookup4Pairs64AVX512).
			tiled(fields128AMX, fields4Tiles(2))},
		{"vnni4p", int3,
			planesAVX512(asm.Planes3Rows32AVX512, asm.Planes3Rows32KeptAVX512, asm.Planes3Pairs32AVX512,
				asm.OpenPlanes3AVX512).
				upTo(scaledMax).tiled(planes3AMX, planeTiles)},
		{"vnni4p", int5,
			planesAVX512(asm.Planes5Rows32AVX512, asm.Planes5Rows32KeptAVX512, asm.Planes5Pairs32AVX512,
				asm.OpenPlanes5AVX512).
				tiled(planes5AMX, planeTiles)},
		{"vnni4p", int6,
			planesAVX512(asm.Planes6Rows32AVX512, asm.Planes6Rows32KeptAVX512, asm.Planes6Pairs32AVX512,
				asm.OpenPlanes6AVX512).
				tiled(planes6AMX, planeTiles)},
		{"vnni4", int8s,
			int8AVX512(asm.Int8Rows32AVX512, asm.Int8Rows32KeptAVX512, asm.Int8Pairs32AVX512).
				tiled(bytes128AMX, byteTiles(1))},
		{"vnni4-64", int8s, int8AVX512(asm.Int8Rows64AVX512, nil, asm.Int8Pairs64AVX512).
			tiled(bytes256AMX, byteTiles(2))},
		{"vnni4t", ternary, base3AVX512(asm.Base3AVX512).tiled(base3AMX, base3Tiles)},
		{"i2s", ternary, rowMajorAVX512(isa, asm.RowMajorAVX512)},
		{"*", nil, repacked(isa)},
	}
}

// panelSets returns the functions of the instruction sets with 256 and with 128 bits. They share one table.
func panelSets() []panelSet {
	return []panelSet{{
		isa: AVXVNNI, about: "256-bit dot products",
		fields1:   funcs{asm.Fields1Rows32AVXVNNI, asm.Fields1Rows64AVXVNNI},
		binary:    binaryX86(),
		binaryMax: binaryMaxX86,
		fields2:   funcs{asm.Fields2Rows32AVXVNNI, asm.Fields2Rows64AVXVNNI},
		fields4:   funcs{asm.Fields4Rows32AVXVNNI, asm.Fields4Rows64AVXVNNI}, lookup: unsignedLookup,
		fields8: funcs{asm.Fields8Rows32AVXVNNI, asm.Fields8Rows64AVXVNNI}, int8: digits[pack.Int8.Name],
		planes3:   planeFuncs{asm.Planes3Rows32AVXVNNI, nil, asm.OpenPlanes3AVX2},
		planes5:   planeFuncs{asm.Planes5Rows32AVXVNNI, nil, asm.OpenPlanes5AVX2},
		planes6:   planeFuncs{asm.Planes6Rows32AVXVNNI, nil, asm.OpenPlanes6AVX2},
		binaryLUT: funcs{asm.BinaryLUTRows32AVX2, asm.BinaryLUTRows64AVX2},
		base3:     asm.Base3AVXVNNI, base3Operands: base3X86,
		rowMajor: i2s, rowMajorFuncs: asm.RowMajorAVX2,
		groupwise: true,
	}, {
		isa: AVX2, about: "products of two columns summed in 16 bits",
		fields1: funcs{asm.Fields1Rows32AVX2, asm.Fields1Rows64AVX2}, binary: binaryX86(), binaryMax: binaryMaxX86,
		fields2: funcs{asm.Fields2Rows32AVX2, asm.Fields2Rows64AVX2},
		fields4: funcs{asm.Fields4Rows32AVX2, asm.Fields4Rows64AVX2}, lookup: unsignedLookup,
		large4: funcs{asm.Large4Rows32AVX2, asm.Large4Rows64AVX2}, pairsLarge4: asm.Large4PairsAVX2,
		fields8: funcs{asm.Fields8Rows32AVX2, asm.Fields8Rows64AVX2}, int8: operands{mul: 1},
		pairs4: asm.Fields4PairsAVX2, pairs8: asm.Fields8PairsAVX2,
		planes3:   planeFuncs{asm.Planes3Rows32AVX2, asm.Planes3PairsAVX2, nil},
		planes5:   planeFuncs{asm.Planes5Rows32AVX2, asm.Planes5PairsAVX2, nil},
		planes6:   planeFuncs{asm.Planes6Rows32AVX2, asm.Planes6PairsAVX2, nil},
		binaryLUT: funcs{asm.BinaryLUTRows32AVX2, asm.BinaryLUTRows64AVX2},
		base3:     asm.Base3AVX2, base3Operands: base3X86,
		rowMajor: i2s, rowMajorFuncs: asm.RowMajorAVX2,
		groupwise: true,
	}, {
		isa: DotProd, about: "dot products",
		fields1: funcs{asm.Fields1Rows32DotProd, asm.Fields1Rows64DotProd}, binary: binaryNEON,
		fields2: funcs{asm.Fields2Rows32DotProd, asm.Fields2Rows64DotProd},
		fields4: funcs{asm.Fields4Rows32DotProd, asm.Fields4Rows64DotProd}, lookup: signedLookup,
		int4:    funcs{asm.Int4Rows32DotProd, asm.Int4Rows64DotProd},
		fields8: funcs{asm.Fields8Rows32DotProd, asm.Fields8Rows64DotProd}, int8: operands{mul: 1},
		planes3:   planeFuncs{asm.Planes3Rows32DotProd, nil, asm.OpenPlanes3NEON},
		planes5:   planeFuncs{asm.Planes5Rows32DotProd, nil, asm.OpenPlanes5NEON},
		planes6:   planeFuncs{asm.Planes6Rows32DotProd, nil, asm.OpenPlanes6NEON},
		binaryLUT: funcs{asm.BinaryLUTRows32NEON, asm.BinaryLUTRows64NEON},
		base3:     asm.Base3DotProd, base3Operands: operands{add: -1},
		rowMajor: i2sARM, rowMajorFuncs: asm.RowMajorDotProd,
	}, {
		isa: NEON, about: "products summed in 16 bits",
		fields1: funcs{asm.Fields1Rows32NEON, asm.Fields1Rows64NEON}, binary: binaryNEON,
		fields2: funcs{asm.Fields2Rows32NEON, asm.Fields2Rows64NEON},
		fields4: funcs{asm.Fields4Rows32NEON, asm.Fields4Rows64NEON}, lookup: signedLookup,
		large4:  funcs{asm.Large4Rows32NEON, asm.Large4Rows64NEON},
		fields8: funcs{asm.Fields8Rows32NEON, asm.Fields8Rows64NEON}, int8: operands{mul: 1},
		planes3:   planeFuncs{asm.Planes3Rows32NEON, nil, asm.OpenPlanes3NEON},
		planes5:   planeFuncs{asm.Planes5Rows32NEON, nil, asm.OpenPlanes5NEON},
		planes6:   planeFuncs{asm.Planes6Rows32NEON, nil, asm.OpenPlanes6NEON},
		binaryLUT: funcs{asm.BinaryLUTRows32NEON, asm.BinaryLUTRows64NEON},
		base3:     asm.Base3NEON, base3Operands: operands{add: -1, block: columns16(2)},
		rowMajor: i2sARM, rowMajorFuncs: asm.RowMajorNEON,
	}}
}

// table lists the kernels of a set; large batches of ternary weights go by Vec-LUT.
func (s *panelSet) table() []row {
	repack := repacked(s.isa)
	return []row{
		{"*", nil, repack},
		{"vnni4i", ternary, s.fields(2, rows32).vecLUT(panelPhases(32, 32, asm.VecLUTIndexRows32))},
		{"vnni4i-64", ternary, s.fields(2, rows64).vecLUT(panelPhases(64, 64, asm.VecLUTIndexRows64))},
		{"vnni4t", ternary, s.base3Bytes().vecLUT(panelPhases(80, 64, asm.VecLUTIndexBase3))},
		{"vnni4i", int2s, s.fields(2, rows32)},
		{"vnni4i", small4, s.fields(4, rows32)},
		{"vnni4i", iq4nl, s.largeFields(rows32)},
		{"vnni4i", int4, s.int4Fields(rows32)},
		{"vnni4p", int3, s.joined(&s.planes3)},
		{"vnni4p", int5, s.joined(&s.planes5)},
		{"vnni4p", int6, s.joined(&s.planes6)},
		{"vnni4", int8s, s.whole(8, rows32, s.fields8, s.int8)},
		{"vnni4", int1, s.lut4(rows32)},
		{"vnni4i", int1, s.binaryFields(rows32)},
		{"vnni4i-64", int2s, s.fields(2, rows64)},
		{"vnni4i-64", small4, s.fields(4, rows64)},
		{"vnni4i-64", iq4nl, s.largeFields(rows64)},
		{"vnni4i-64", int4, s.int4Fields(rows64)},
		{"vnni4-64", int8s, s.whole(8, rows64, s.fields8, s.int8)},
		{"vnni4-64", int1, s.lut4(rows64)},
		{"vnni4i-64", int1, s.binaryFields(rows64)},
		{"i1", nil, repack.vecLUT(indexPhases(5, 1))},
		{"i1-t2", nil, repack.vecLUT(indexPhases(5, 2))},
		{"i2", nil, repack.vecLUT(indexPhases(4, 1))},
		{"i2-t4", nil, repack.vecLUT(indexPhases(4, 4))},
		{"i2-t8", nil, repack.vecLUT(indexPhases(4, 8))},
		{s.rowMajor.layout, ternary, s.rowMajorDots()},
	}
}

// Bounds and operands of sets. 1-bit weights are summed at their place in the byte, 8 at most: two columns per step in
// 16 bits, any number of columns up to binaryMaxX86 in 32.
const binaryMaxX86 = math.MaxInt32 / (8 * MaxActivation)

func binaryX86() operands {
	o := digits[pack.Int1.Name]
	o.block = math.MaxInt16 / (8 * 2 * MaxActivation)
	return o
}

var (
	// +1, −1 = 0, 1 are multiplied as 0, −1
	binaryNEON = operands{mul: 2, add: 1, block: columns16(1)}
	base3X86   = operands{add: -1, block: math.MaxInt16 / (2 * 2 * MaxActivation)} // digits of two columns per step
)

// serves reports whether k multiplies matrices of this layout on this CPU.
func (k *Kernel) serves(s pack.Spec) bool {
	return Have(k.ISA) && selected.features&k.needs == k.needs &&
		(k.Layout == "*" || k.Layout == s.Name) && (k.Alphabets == nil || slices.Contains(k.Alphabets, s.Alphabet))
}

// For lists the kernels for a layout that this CPU can run, the best first; the generic one is always the last.
func For(s pack.Spec) []*Kernel {
	var list []*Kernel
	for _, k := range kernels {
		if k.serves(s) {
			list = append(list, k)
		}
	}
	prefer(list, s.Alphabet)
	return list
}

// prefer sorts kernels for weights of one alphabet, best first. Better instruction sets come first: no measurement
// contradicts that. Within an instruction set, of the layout's own kernel and the one that repacks every layout, the
// faster one with one token in the table Measured comes first, or the layout's own if it was not measured. Decode
// consists of products with one token; batches would choose the same, except for 1-bit weights of VNNI4I on AVX2.
func prefer(list []*Kernel, alphabet string) {
	slices.SortStableFunc(list, func(a, b *Kernel) int {
		if c := cmp.Compare(rung(a.ISA), rung(b.ISA)); c != 0 {
			return c
		}
		x, hasX := a.vector(alphabet)
		y, hasY := b.vector(alphabet)
		if hasX && hasY {
			return cmp.Compare(y, x)
		}
		return cmp.Compare(b.Layout, a.Layout) // "*" is before all letters
	})
}

// repackGain is the minimum speedup that justifies repacking: it costs a second copy of the weights in memory, and the
// time to make it whenever a file is opened (328 MB and 0.4 s for an int8 head of 128,256 rows).
const repackGain = 1.25

// vector returns the speed of k with one token; ok is false if it was not measured.
func (k *Kernel) vector(alphabet string) (speed float64, ok bool) {
	for _, m := range measured {
		if m.Kernel == k.String() && m.Alphabet == alphabet {
			if k.Layout == "*" {
				return m.Vector / repackGain, true
			}
			return m.Vector, true
		}
	}
	return 0, false
}
