package kernel

import (
	"github.com/lowpack/lowpack/internal/kernel/internal/asm"
	"github.com/lowpack/lowpack/pack"
)

// The methods of the tables in dispatch.go: how weights in panels are multiplied.

// funcs are the functions of a method for panels of 32 and of 64 rows, each by tokens − 1.
type funcs [2][]func(*asm.Tile)

// height selects among them.
type height int

const (
	rows32 height = iota
	rows64
)

// panelSet holds the functions of one instruction set that multiply 32 rows at a time, and their operands in place of
// weights.
type panelSet struct {
	isa   ISA
	about string

	fields1, fields2, fields4, fields8 funcs             // fields of so many bits
	pairs4, pairs8                     []func(*asm.Tile) // the last two, two panels of 32 rows at a time, by tokens − 1
	large4                             funcs             // four bits, weights up to ±127; without them fields4
	pairsLarge4                        []func(*asm.Tile)
	planes3, planes5, planes6          planeFuncs // digits in two planes
	int4                               funcs      // int4 that is not looked up; without them it is
	lookup                             func(values []int8, bits int) operands
	binary, int8                       operands
	binaryMax                          int   // columns that a sum of 1-bit weights holds; 0 = any number
	binaryLUT                          funcs // 1-bit weights in VNNI4 order, by lookup tables
	base3                              []func(*asm.Tile)
	base3Operands                      operands
	rowMajor                           *rowMajorLayout
	rowMajorFuncs                      []func(*asm.Tile)

	groupwise bool // functions for fields and for base-3 bytes take all groups of a panel in a call
}

// tiledMethod is the method of a family of functions, with operands by alphabet.
func tiledMethod(about string, step int, f family, operandsOf func(alphabet string) operands) method {
	return method{about: about, groupStep: step, bind: func(w *Weights) (product, error) {
		return newTiled(w, w.Layout.(pack.Paneled), w.packed, f, operandsOf(w.Layout.Spec().Alphabet))
	}}
}

// always are operands that do not depend on the alphabet.
func always(o operands) func(string) operands { return func(string) operands { return o } }

// digitsOf are operands that are the digits of a layout.
func digitsOf(alphabet string) operands { return digits[alphabet] }

// upTo limits the columns of a group.
func (m method) upTo(columns int) method {
	m.groupMax = columns
	return m
}

// needing asks for CPU features.
func (m method) needing(f feature) method {
	m.needs = f
	return m
}

// vecLUT adds Vec-LUT for large batches.
func (m method) vecLUT(phases func(*Weights) ([]lutPhase, error)) method {
	few := m.bind
	m.about += "; large batches by Vec-LUT"
	m.bind = func(w *Weights) (product, error) {
		p, err := few(w)
		if err != nil {
			return nil, err
		}
		ph, err := phases(w)
		return &vecLUT{w, p, w.tokensFrom(VecLUT, wholeRows), ph}, err
	}
	return m
}

// family is the family of functions that multiply 32 rows of fields at a time, one group of four columns per step.
// Panels of 64 rows interleave two such parts.
func (s *panelSet) family(bits int, h height, list []func(*asm.Tile)) family {
	f := family{funcs: list, columns: 4, groupwise: s.groupwise, parts: 1 + int(h), partBytes: 16 * bits,
		partRows: 4 * bits}
	if h == rows32 {
		f.pairs = map[int][]func(*asm.Tile){4: s.pairs4, 8: s.pairs8}[bits]
	}
	return f
}

// fields looks up fields of two or four bits.
func (s *panelSet) fields(bits int, h height) method {
	list := s.fields2[h]
	if bits == 4 {
		list = s.fields4[h]
	}
	return tiledMethod("codes looked up by byte shuffles, "+s.about, 4, s.family(bits, h, list),
		func(alphabet string) operands {
			return s.lookup(stored[alphabet], bits)
		})
}

// largeFields looks up fields of four bits whose weights reach ±127. Where products are summed in 16 bits, the products
// of two columns by weights less the lowest one would not fit, those by the weights themselves do (2·127·127 < 2¹⁵).
func (s *panelSet) largeFields(h height) method {
	if s.large4[h] == nil {
		return s.fields(4, h)
	}
	f := s.family(4, h, s.large4[h])
	if h == rows32 {
		f.pairs = s.pairsLarge4
	}
	return tiledMethod("codes looked up by byte shuffles, products of two columns widened at once", 4, f,
		func(alphabet string) operands { return signedLookup(stored[alphabet], 4) })
}

// whole takes fields whose operands are not looked up.
func (s *panelSet) whole(bits int, h height, list funcs, o operands) method {
	return tiledMethod(s.about, 4, s.family(bits, h, list[h]), always(o))
}

// int4Fields sums lower and upper fields together where there are functions for that: 16 times the largest weight by
// the columns stays below 2³¹ for 2¹⁶ columns.
func (s *panelSet) int4Fields(h height) method {
	if s.int4[h] == nil {
		return s.fields(4, h)
	}
	return s.whole(4, h, s.int4, digits[pack.Int4.Name]).upTo(1 << 16)
}

// planeFuncs are the functions for digits in two planes.
type planeFuncs struct {
	rows, pairs []func(*asm.Tile)               // one panel, and two at a time; by tokens − 1
	open        func(dst, src *byte, fours int) // for many tokens; nil = they are multiplied as few are
}

// joined joins the parts of digits in two planes.
func (s *panelSet) joined(f *planeFuncs) method {
	few := family{funcs: f.rows, columns: 4, groupwise: s.groupwise, pairs: f.pairs}
	about := s.about
	if s.large4[rows32] != nil { // no dot products
		about = "products widened at once"
	}
	m := tiledMethod("parts of digits joined, "+about, 4, few, digitsOf)
	if f.open == nil {
		return m
	}
	return m.opening(f.open, s.family(8, rows32, s.fields8[rows32]), s.int8)
}

// binaryFields multiplies fields of one bit.
func (s *panelSet) binaryFields(h height) method {
	return s.whole(1, h, s.fields1, s.binary).upTo(s.binaryMax)
}

// lut4 is for 1-bit weights in VNNI4 order, and needs no dot products. A lane is a group of four columns.
func (s *panelSet) lut4(h height) method {
	f := family{funcs: s.binaryLUT[h], columns: 8, lanes: 1, tables: func(x *Activations, t, lo, _ int) (*int8, int32) {
		return &asInt8(x.lut4Tables(t))[lo/8*64], 0
	}}
	return tiledMethod("sums of four columns looked up by byte shuffles", 8, f, always(operands{}))
}

// base3Bytes is for five trits in a byte.
func (s *panelSet) base3Bytes() method {
	f := family{funcs: s.base3, columns: 4, groupwise: s.groupwise}
	return tiledMethod("remainders by powers of three, "+s.about, 4, f, always(s.base3Operands))
}

// scaledMax bounds the columns of methods that sum fields at their place in the byte. The highest field has the largest
// sums: 192·127 per column for two bits, 240·127 for four, less than 2³¹ for this many columns.
const scaledMax = 1 << 16

// maskedAVX512 extracts fields by masks. A step has the given number of columns; four columns fill the given number of
// lanes.
func maskedAVX512(columns, lanes int, list, pairs, fours []func(*asm.Tile)) method {
	f := family{funcs: list, columns: columns, groupwise: true, halves: true, begins: true, lanes: lanes, pairs: pairs,
		fours: fours}
	return tiledMethod(masked, columns, f, digitsOf).upTo(scaledMax)
}

const masked = "fields cut out by masks, 512-bit dot products"

// int4AVX512 is maskedAVX512 for 32-row panels of int4, with functions that keep results.
func int4AVX512(list, kept, pairs []func(*asm.Tile)) method {
	return tiledMethod(masked, 4, bytes512(list, kept, pairs).waiting(2), digitsOf).upTo(scaledMax)
}

// int8AVX512 multiplies int8.
func int8AVX512(list, kept, pairs []func(*asm.Tile)) method {
	return tiledMethod("512-bit dot products", 4, bytes512(list, kept, pairs).waiting(4), digitsOf)
}

// lookupAVX512 looks up fields of four bits.
func lookupAVX512(list, kept, pairs []func(*asm.Tile)) method {
	return tiledMethod("codes looked up by a byte shuffle, 512-bit dot products", 4, bytes512(list, kept, pairs),
		func(alphabet string) operands { return unsignedLookup(stored[alphabet], 4) })
}

// planesAVX512 joins the parts of digits in two planes.
func planesAVX512(list, kept, pairs []func(*asm.Tile), open func(dst, src *byte, fours int)) method {
	return tiledMethod("parts of digits joined, 512-bit dot products", 4, bytes512(list, kept, pairs), digitsOf).
		opening(open, bytes512(asm.Int8Rows32AVX512, asm.Int8Rows32KeptAVX512, asm.Int8Pairs32AVX512),
			digits[pack.Int8.Name])
}

// bytes512 is the family of functions on 512-bit registers with four columns per step.
func bytes512(list, kept, pairs []func(*asm.Tile)) family {
	return family{funcs: list, columns: 4, groupwise: true, halves: true, begins: true, lanes: 16, pairs: pairs,
		kept: kept}
}

// waiting is f that waits for memory with up to so many tokens.
func (f family) waiting(tokens int) family {
	f.few = tokens
	return f
}

// base3AVX512 is for five trits in a byte.
func base3AVX512(list []func(*asm.Tile)) method {
	f := family{funcs: list, columns: 4, groupwise: true, halves: true}
	return tiledMethod("digits looked up by byte permutations, 512-bit dot products", 4, f, always(operands{add: -1})).
		needing(vbmi).upTo(scaledMax)
}

// splitLUTAVX512 looks up the sums of four columns of 1-bit weights; the functions take the given number of panels as
// one, and four columns fill the given number of lanes of a step.
func splitLUTAVX512(needs feature, order bitOrder, panels, lanes int, list []func(*asm.Tile)) method {
	f := family{funcs: list, columns: splitColumns, groupwise: true, halves: true, lanes: lanes, panels: panels}
	f.tables = func(x *Activations, t, lo, hi int) (*int8, int32) {
		tables, sum := x.splitTables(order, t, lo, hi)
		return &asInt8(tables)[0], sum
	}
	f.tokens = func(x *Activations, group int) []asm.TokenGroup { return x.splitGroups(order, group) }
	return tiledMethod("sums of four columns looked up by byte permutations", splitColumns, f, always(operands{})).
		needing(vbmi | needs)
}
