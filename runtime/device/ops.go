package device

import "unsafe"

// Kernel names one of the operations that a pass consists of. A backend has all of them.
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
)

// Kernels lists all kernels, in the order in which a pass first needs them.
func Kernels() []Kernel {
	return []Kernel{KernelPrepare, KernelCodes, KernelFloats, KernelHeads, KernelScores, KernelAttend, KernelResidual,
		KernelFinish}
}

// Buffers is the number of buffers of a kernel.
func (k Kernel) Buffers() int {
	return map[Kernel]int{KernelPrepare: 8, KernelCodes: 6, KernelFloats: 4, KernelHeads: 10, KernelScores: 5,
		KernelAttend: 6, KernelResidual: 5, KernelFinish: 3}[k]
}

// Constants is the number of constants of a kernel.
func (k Kernel) Constants() int {
	return map[Kernel]int{KernelPrepare: len(Words(Prepare{})), KernelCodes: len(Words(Codes{})),
		KernelFloats: len(Words(Floats{})), KernelHeads: len(Words(Heads{})), KernelScores: len(Words(Scores{})),
		KernelAttend: len(Words(Attend{})), KernelResidual: len(Words(Residual{})),
		KernelFinish: len(Words(Finish{}))}[k]
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
// Row p of the cache of a head: element ((pages[Pages + p/PageRows]·KVHeads + head)·PageRows + p mod PageRows)·Dim.
// The flag of a token is set if the mean square of a norm is not finite.
//
// Buffers: 0 y f32 [N][LDY], 1 tokens [N], 2 trig f32 [N][2][Rot], 3 weights of QNorm, 4 weights of KNorm, 5 pages u32,
// 6 q f32 [N][Heads][Dim] (out), 7 keys f32 (out), 8 values f32 (out), 9 flags u32 [N] (in, out).
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
// Buffers: 0 q f32 [N][Heads][Dim], 1 keys f32, 2 tokens [N], 3 pages u32, 4 z f32 [N][Heads][Span] (out).
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
//
// Buffers: 0 z f32 [N][Heads][Span] (in, scratch), 1 values f32, 2 tokens [N], 3 pages u32, 4 sinks f32 [Heads],
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

// Operation is one of the structs of constants.
type Operation interface {
	Prepare | Codes | Floats | Heads | Scores | Attend | Residual | Finish
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
