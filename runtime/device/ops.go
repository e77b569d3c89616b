package device

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"
)

// Kernel names one of the operations that a pass consists of. A backend has all but those of Info.Lacks.
//
// Buffers are arrays of 32-bit words; their elements are float32 (f32), int32, uint32 (u32), or four int8 in a word,
// the first one in the lowest byte (i8×4). Every buffer of a step is bound, in the order that its kernel lists, also
// those that its flags leave unused. A step writes what its kernel says and nothing else. The constants of a step are
// the fields of the struct of the same name, in their order, a word each.
//
// All kernels compute by docs/NUMERICS.md to the bit; their comments name the rules.
type Kernel string

// The kernels.
const (
	KernelPrepare  Kernel = "prepare"  // Prepare
	KernelCodes    Kernel = "codes"    // Codes
	KernelFloats   Kernel = "floats"   // Floats
	KernelHeads    Kernel = "heads"    // Heads
	KernelScores   Kernel = "scores"   // Scores
	KernelAttend   Kernel = "attend"   // Attend
	KernelResidual Kernel = "residual" // Residual
	KernelFinish   Kernel = "finish"   // Finish

	// Of weights with zero points or minima, or an order of columns.
	KernelReorder     Kernel = "reorder"      // Reorder
	KernelSums        Kernel = "sums"         // Sums
	KernelOffsetCodes Kernel = "offset_codes" // OffsetCodes

	// Of what needs the largest logits only. A device that lacks it returns all of them.
	KernelTop Kernel = "top" // Top
)

// kernels has the number of buffers and constants of each kernel.
var kernels = []struct {
	Kernel
	buffers, constants int
}{
	{KernelPrepare, 8, len(Words(Prepare{}))},
	{KernelCodes, 6, len(Words(Codes{}))},
	{KernelFloats, 4, len(Words(Floats{}))},
	{KernelHeads, 10, len(Words(Heads{}))},
	{KernelScores, 5, len(Words(Scores{}))},
	{KernelAttend, 6, len(Words(Attend{}))},
	{KernelResidual, 5, len(Words(Residual{}))},
	{KernelFinish, 3, len(Words(Finish{}))},
	{KernelReorder, 3, len(Words(Reorder{}))},
	{KernelSums, 4, len(Words(Sums{}))},
	{KernelOffsetCodes, 9, len(Words(OffsetCodes{}))},
	{KernelTop, 2, len(Words(Top{}))},
}

// ofCache are the kernels of attention, which there are for each format of the KV cache.
var ofCache = []Kernel{KernelHeads, KernelScores, KernelAttend}

// Kernels lists all kernels: those of a KV cache of float32, and then those of the other formats.
func Kernels() (list []Kernel) {
	for i := range kernels {
		list = append(list, kernels[i].Kernel)
	}
	for _, c := range []CacheType{CacheF16, CacheI8, CacheI4} {
		for _, k := range ofCache {
			list = append(list, k.With(c))
		}
	}
	return list
}

// With is a kernel of attention with a KV cache of some format. Its buffers and constants are those of the kernel.
func (k Kernel) With(c CacheType) Kernel {
	if c == CacheF32 {
		return k
	}
	return k + Kernel("_"+c.String())
}

// Of is the inverse of With.
func (k Kernel) Of() (base Kernel, c CacheType) {
	for _, c := range []CacheType{CacheF16, CacheI8, CacheI4} {
		if base, ok := strings.CutSuffix(string(k), "_"+c.String()); ok {
			return Kernel(base), c
		}
	}
	return k, CacheF32
}

// Buffers is the number of buffers of a kernel, 0 if there is no such kernel.
func (k Kernel) Buffers() int { n, _ := k.sizes(); return n }

// Constants is the number of constants of a kernel, 0 if there is no such kernel.
func (k Kernel) Constants() int { _, n := k.sizes(); return n }

func (k Kernel) sizes() (buffers, constants int) {
	base, c := k.Of()
	if c != CacheF32 && !slices.Contains(ofCache, base) {
		return 0, 0
	}
	for i := range kernels {
		if kernels[i].Kernel == base {
			return kernels[i].buffers, kernels[i].constants
		}
	}
	return 0, 0
}

// CacheType is the number format of a KV cache (N27, N82).
type CacheType uint32

// The formats. A row of a cache is the elements of a head at a position: 32-bit floats, or 2, 4 or 8 elements in a
// word, the first in its lowest bits. Behind the words of I8 and I4 comes the scale of the row. Elements that fill the
// last word are 0, or in I4 anything. A code of I4 is the index of a magnitude of N82, plus 8 if it is negative.
const (
	CacheF32 CacheType = iota
	CacheF16
	CacheI8
	CacheI4
)

var cacheTypes = [...]string{"f32", "f16", "i8", "i4"}

// String is the name of a format.
func (c CacheType) String() string {
	if int(c) < len(cacheTypes) {
		return cacheTypes[c]
	}
	return fmt.Sprint(uint32(c))
}

// RowWords is the number of words of a row of a cache.
func (c CacheType) RowWords(dim int) int {
	n := (dim + 1<<c - 1) >> c
	if c >= CacheI8 {
		n++
	}
	return n
}

// QueryWords is the number of words of a query: floats, or with I8 and I4 a row of I8.
func (c CacheType) QueryWords(dim int) int {
	if c >= CacheI8 {
		return CacheI8.RowWords(dim)
	}
	return dim
}

// Token is what a step knows about a token: element t of the buffer "tokens", 4 words each.
type Token struct {
	Position uint32  // in its sequence
	Pages    uint32  // index in the buffer "pages" of the number of the first page of its sequence
	From     uint32  // first position of its attention span in local blocks; it is 0 in all others
	Scale    float32 // of its rotated queries (N17, QueryBeta); 0 = none
}

// NoStep is the value of a flag of a token that has only finite values so far. Flags are u32, one per token of the
// pass; a kernel that finds a value which is not finite (N4) sets the flag of the token to the minimum of it and its
// constant Step.
const NoStep = 1<<32 - 1

// A Prepare step makes the input of a linear layer from the rows of src, one row per token: first the gated product
// (N19) or the activation (N41), if Gate is not GateNone; then the norm (N13, N40) if there is one; then int8 codes
// (N14), if Quantize is set.
//
// Token t reads row t of src; with Gather, row rows[t]. Its flag is flags[t]; with Gather, flags[rows[t]]. It is set
// if the mean square of the norm is not finite, or, with Quantize, if an element of x is not.
//
// Element k of x lies at x[t·In + k], its code in byte k of the row of QWords words at q[t·QWords]; bytes from In on
// become 0. The activation scales lie at d[t·⌈In/Group⌉ + g]. x holds the result as f32 on return, and is scratch
// memory before: it may be one of the vectors that nobody reads.
//
// Buffers: 0 src f32 [.][Stride], 1 norm weights f32 [In], 2 norm bias f32 [In], 3 x f32 [N][In] (out),
// 4 q i8×4 [N][QWords] (out), 5 d f32 [N][groups] (out), 6 flags u32 (in, out), 7 rows u32 [N].
type Prepare struct {
	N      uint32 // tokens
	In     uint32 // elements of a vector
	Stride uint32 // elements of a row of src
	QWords uint32 // words of a row of q: ⌈In/4⌉ at least, a multiple of 4
	Group  uint32 // columns per activation scale; In = one scale

	Gate     Gate // of the first In elements of a row; up, if there is one, are the In elements after them
	Norm     Norm
	Bias     uint32 // the norm has one
	Quantize uint32
	Gather   uint32
	Step     uint32
	Eps      float32    // of the norm
	Params   [4]float32 // of Gate: N42 a, b, β, ε with a, b as softplus made them; N19 α, L
}

// Gate is the activation of an MLP.
type Gate uint32

// The gates. Those of an MLP without a gate (N41) are the same with Single added: they read In elements of a row.
const (
	GateNone Gate = iota
	GateSiLU
	GateReLU2
	GateGELUTanh
	GateXIELU
	GateClamped // ClampedSwiGLU

	GateSingle Gate = 16
)

// Norm is the kind of a norm.
type Norm uint32

// The norms. A bare norm has weights of 1; those of NormPlusOne have been added.
const (
	NormNone  Norm = iota
	NormRMS        // N13
	NormLayer      // N40
)

// A Codes step multiplies a matrix of codes by quantized vectors (N15): y[t·LDY + At + m] for the rows m.
//
// The matrix lies as layouts vnni4i and vnni4 have it: panels of Lanes·8/Bits rows, ⌈K/4⌉·Lanes words each. Word
// (panel·⌈K/4⌉ + k/4)·Lanes + lane holds, for j = 0 … 8/Bits − 1, the digit of row j·Lanes + lane of the panel at
// column k: in bits Bits·j … Bits·j + Bits − 1 of byte k mod 4. K is padded to 4 columns with digits of any code: q is
// 0 there. Rows are padded to whole panels, and are not stored in y.
//
// The code of a digit v is Mul·v + Add; with Bits 8, it is v, a signed byte. With Ternary the digits are 0, 1, 2 for
// the codes 0, +1, −1, and Mul and Add are not used.
//
// Scales of weights: f32, PerRow of them for a row, one per Group columns; PerRow 0 = one for all rows, and Group is
// K. Scales of activations: ⌈K/ActGroup⌉ of a token. The blocks of columns of N15 have min(Group, ActGroup) columns;
// of its four cases, that of weights with groups applies if Grouped is set, that of activations with groups if
// ActGrouped is.
//
// Then the bias is added, if Bias is set. With Add, the result is added to what y holds (N20), after its product with
// ResidualScale if that is not 0; otherwise it replaces it.
//
// Buffers: 0 codes u32, 1 scales f32, 2 q i8×4 [N][QWords], 3 d f32 [N][⌈K/ActGroup⌉], 4 bias f32 [Rows],
// 5 y f32 [N][LDY] (out, or in and out).
type Codes struct {
	N      uint32 // tokens
	Rows   uint32
	K      uint32 // columns
	QWords uint32 // words of a row of q
	LDY    uint32 // elements of a row of y
	At     uint32 // column of y of the first row

	Lanes   uint32 // 4, 8, 16, 32 or 64
	Bits    uint32 // 1, 2, 4 or 8
	Mul     int32
	Add     int32
	Ternary uint32

	PerRow     uint32
	Group      uint32
	Grouped    uint32 // the scales of weights are those of groups, of which a row may have one only
	ActGroup   uint32
	ActGrouped uint32 // the scales of activations are those of groups

	Bias          uint32
	Accumulate    uint32 // add to y
	ResidualScale float32
}

// MatrixTokens is the number of tokens from which cooperative matrices compute a Codes step: half of the 32 that they
// compute at once, whether there are so many or not. It is a guess: no GPU has been measured.
const MatrixTokens = 16

// ByMatrices reports whether a device with cooperative matrices of int8 computes the step by them: codes are signed
// bytes, and panels tile 64 rows.
func (c Codes) ByMatrices() bool {
	if c.N < MatrixTokens || 64%(c.Lanes*8/c.Bits) != 0 {
		return false
	}
	most := int32(1)<<c.Bits - 1
	return c.Bits == 8 || c.Ternary != 0 || c.Mul >= 0 && c.Mul*most <= 255 && c.Add >= -128 && c.Add+c.Mul*most <= 127
}

// A Reorder step makes code k of out that at order[k] of q, for the columns of a matrix with an order (FORMAT F24).
// Codes from K on become 0.
//
// Buffers: 0 q i8×4 [N][QWords], 1 order u32 [K], 2 out i8×4 [N][QWords] (out).
type Reorder struct {
	N, K   uint32
	QWords uint32
}

// A Sums step adds up the codes of quantized vectors: sums[t·⌈K/b⌉ + i] is that of block i, of b = min(Group, ActGroup)
// columns; a vector has at most 1024. s[t·Width + g] is s[g] of N39, where Group is the columns of a minimum; elements
// from ⌈K/Group⌉ on become +0.
//
// Buffers: 0 q i8×4 [N][QWords], 1 d f32 [N][⌈K/ActGroup⌉], 2 sums int32 [N][⌈K/b⌉] (out), 3 s f32 [N][Width] (out).
type Sums struct {
	N, K            uint32
	QWords          uint32
	Group, ActGroup uint32
	Width           uint32
}

// An OffsetCodes step is a Codes step whose weights have zero points or minima (N15, N39). The zero point of a row at
// column k is byte row·PerRow + k/Group of zeros, or Zero unless Zeros is set. With Terms, terms[t·LDY + At + m], a
// product of minima, is added before the bias.
//
// Buffers: 0 … 5 as of Codes, 6 zeros i8×4 [Rows][PerRow], 7 sums int32 [N][⌈K/b⌉] of Sums with the Group of this step,
// 8 terms f32 [N][LDY].
type OffsetCodes struct {
	Codes
	Zeros uint32
	Zero  int32
	Terms uint32
}

// A Floats step multiplies a matrix of floats by vectors (N16). Bias, Accumulate and ResidualScale are those of Codes.
// Row m starts at element m·K of the matrix, which for F16 and BF16 need not be the start of a word: element i is the
// half i mod 2, lower first, of word i/2.
//
// Buffers: 0 weights, 1 x f32 [N][K], 2 bias f32 [Rows], 3 y f32 [N][LDY] (out, or in and out).
type Floats struct {
	N, Rows, K uint32
	LDY, At    uint32
	Type       FloatType

	Bias          uint32
	Accumulate    uint32
	ResidualScale float32
}

// FloatType is the type of stored floats.
type FloatType uint32

// The types.
const (
	F32 FloatType = iota
	F16
	BF16
)

// A Heads step splits outputs of the query, key and value linear layers (N17, step 2 of the forward pass): the elements
// are limited to ±Clip if that is not 0; queries and keys are normalized (N13, N40; not if QNorm or KNorm is NormNone)
// and rotated, or the reverse with RotateFirst; queries are multiplied by the Scale of their token if that is not 0.
// Queries go to q, keys and values to row Position of the KV cache of their sequence.
//
// In a row of y come Heads query heads, KVHeads heads of keys and KVHeads heads of values, Dim elements each. The
// rotation turns the first Rot elements of a head, pair i by trig: cosines, then sines, Rot/2 each. A token has those
// of global blocks, then those of local ones: set Local of them is at trig[(t·2 + Local)·Rot]. Rot 0 rotates nothing.
// A norm has Dim weights; with Own, each head has its own, Dim·Heads and Dim·KVHeads in all.
//
// Row p of the cache of a head: number (pages[Pages + p/PageRows]·KVHeads + head)·PageRows + p mod PageRows. With I4
// the queries, keys and values are transformed (N82). The flag of a token is set if the mean square of a norm is not
// finite, or with I8 and I4 an element of what becomes codes: a query, key or value. These are anything then: nothing
// of such a token is used.
//
// Buffers: 0 y f32 [N][LDY], 1 tokens [N], 2 trig f32 [N][2][Rot], 3 weights of QNorm, 4 weights of KNorm, 5 pages u32,
// 6 q [N][Heads] of QueryWords each (out), 7 keys, 8 values, of RowWords each (out), 9 flags u32 [N] (in, out).
type Heads struct {
	N, Heads, KVHeads, Dim uint32
	LDY                    uint32
	Rot                    uint32
	Local                  uint32 // 0 or 1: which rotations
	QNorm, KNorm           Norm
	Own                    uint32
	RotateFirst            uint32
	Pairs                  uint32 // elements 2i and 2i + 1 rotate together; otherwise i and i + Rot/2
	PageRows               uint32
	Step                   uint32
	Clip                   float32
	Eps                    float32
}

// A Scores step computes the scores of N18: z[(t·Heads + h)·Span + j − from] for the positions j = from … Position,
// where from is 0, or From of the token with Local. There are at most Span of them. z = dot(q, k[j])·Scale, then
// Cap·tanh(z/Cap) if Cap is not 0. Query head h reads key head h / (Heads/KVHeads). The cache is that of Heads.
//
// Buffers: 0 q, 1 keys, 2 tokens [N], 3 pages u32, 4 z f32 [N][Heads][Span] (out).
type Scores struct {
	N, Heads, KVHeads, Dim uint32
	PageRows               uint32
	Span                   uint32
	Local                  uint32
	Scale                  float32
	Cap                    float32
}

// An Attend step computes the rest of N18 from the scores: the weights e[j], which may replace the scores, their sum in
// the lanes of N5 from the first position of the span on, and the weighted sum of the values, divided by that.
// With Sinks, head h has the score sinks[h] more: it counts in the maximum, and exp(sinks[h] − m) is added to the sum.
// With I4 the quotients are transformed back (N82).
//
// Buffers: 0 z f32 [N][Heads][Span] (in, scratch), 1 values, 2 tokens [N], 3 pages u32, 4 sinks f32 [Heads],
// 5 o f32 [N][Heads][Dim] (out).
type Attend struct {
	N, Heads, KVHeads, Dim uint32
	PageRows               uint32
	Span                   uint32
	Local                  uint32
	Sinks                  uint32
}

// A Residual step normalizes elements At … At + Len − 1 of the rows of y in place (N13, N40), if Norm is not NormNone,
// and with Accumulate adds them, times Scale if that is not 0, to the rows of h (N20). The flag of a token is set if
// the mean square of the norm is not finite.
//
// Buffers: 0 y f32 [N][LDY] (in, out), 1 weights f32 [Len], 2 bias f32 [Len], 3 h f32 [N][Len] (in, out),
// 4 flags u32 [N] (in, out).
type Residual struct {
	N, Len     uint32
	LDY, At    uint32
	Norm       Norm
	Bias       uint32 // the norm has one
	Accumulate uint32
	Step       uint32
	Eps        float32
	Scale      float32
}

// A Finish step finishes logits in place: each is divided by Divisor, multiplied by Scale, capped by Cap
// (Cap·tanh(y/Cap)), each unless it is 0. It sets flags[rows[r]] if a logit of row r is not finite.
//
// Buffers: 0 y f32 [N][Vocab] (in, out), 1 rows u32 [N], 2 flags u32 (in, out).
type Finish struct {
	N, Vocab            uint32
	Step                uint32
	Divisor, Scale, Cap float32
}

// The sizes of a Top step.
const (
	TopPart = 4096 // elements of a part of a row
	TopMost = 64   // elements that are taken of a part, at most
)

// NoToken is the id of a pair without an element.
const NoToken = 1<<32 - 1

// A Top step takes the Most largest elements of each part of a row: of TopPart elements, or fewer at the end of the
// row. Their order is that of N21: descending, with −0 as large as +0, and equal ones by their place in the row; a NaN
// is smaller than −Inf. Most is 1 … TopMost.
//
// An element has an id: its place in the row, or with Pairs its own. Pairs are words of a value and of an id. Pair i
// of part p of row r is out[(r·⌈Len/TopPart⌉ + p)·Most + i]; what a part has too few elements for becomes −Inf and
// NoToken. So the pairs of a row are a row of another Top step, down to one part, which then has the largest of all.
//
// Buffers: 0 f32 [N][Len], or with Pairs pairs [N][Len], 1 out pairs [N][⌈Len/TopPart⌉][Most] (out).
type Top struct {
	N, Len, Most uint32
	Pairs        uint32
}

// Operation is one of the structs of constants.
type Operation interface {
	Prepare | Codes | Floats | Heads | Scores | Attend | Residual | Finish | Reorder | Sums | OffsetCodes | Top
}

// Words are the constants of an operation, as words.
func Words[T Operation](op T) []uint32 {
	at := (*uint32)(unsafe.Pointer(&op))
	return append([]uint32(nil), unsafe.Slice(at, unsafe.Sizeof(op)/4)...)
}

// OperationOf is the inverse of Words. The words must be those of a T.
func OperationOf[T Operation](words []uint32) (op T) {
	copy(unsafe.Slice((*uint32)(unsafe.Pointer(&op)), unsafe.Sizeof(op)/4), words)
	return op
}
