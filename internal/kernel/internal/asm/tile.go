// Package asm holds the assembly kernels of package kernel: their argument struct, the Go declarations and the code,
// all of it written by _asm/kernel. It decides nothing; internal/kernel/dispatch.go says which function is for what.
//
// A name tells weights, rows of a panel and instruction set: Fields2Rows64AVX2 multiplies 2-bit fields in panels of 64
// rows. A table holds its functions by the number of tokens that they multiply at once, less one.
package asm

// Tile holds the arguments of an assembly kernel: the rows of some panels times a few tokens over a range of columns,
// in groups with one sum each. A kernel computes
//
//	y[t][g][m] = Mul·Σ operand[m][k]·x[t][k] + Add[t] over the columns k of group g
//
// where operand is the number that the kernel derives from a code: an affine function of the weight, which Mul and Add
// invert. Sums are taken modulo 2³². A kernel advances W and Y. Kernels with group-wise scales take Add from Tokens,
// apply the zero-point correction, and may scale the sums of groups and add them up (docs/NUMERICS.md, N15).
type Tile struct {
	W           *byte  // first packed byte of the columns
	Panels      int    // at least 1
	PanelBytes  int    // from a panel to the next
	X           *int8  // first activation of the first token
	LdX         int    // bytes between tokens
	Y           *int32 // first result of the first token
	LdY         int    // bytes between tokens
	Groups      int    // at least 1; 1 for kernels without group-wise scales
	LdGroup     int    // bytes between results of groups
	Steps       int    // whole steps along the columns of a group
	LastSteps   int    // of the last group
	TailMask    int    // mask of the 32-bit lanes of a last, incomplete step of the last group; 0 = none
	SecondPanel int    // for kernels that take two panels at once: bytes to the second
	// for calls that take part of a panel each: bytes from W to the weights of the next panel that a call prefetches
	PrefetchAt int
	Prefetch   Prefetch // of weights, for kernels on x86
	Mul        int32
	Add        [MaxTokens]int32

	// For kernels with group-wise scales. Scales and zero points of the weights are [panel][unit of a row][row of a
	// panel].
	Tokens   *TokenGroup // of the first group and token
	LdTokens int         // bytes between the terms of adjacent groups
	Scaled   int         // 1 where results are scaled sums, floats; 0 where they are sums
	Scales   *float32    // of the weights, where Scaled; nil = none
	Halves   int         // 1 where Scales are binary16; for kernels on 512-bit registers
	// 1 where tokens have scales of groups; where it is 0, those in Tokens are 1, and kernels may leave them out
	TokenScales int
	Zeros       *int8 // of the weights; nil = none
	UnitGroups  int   // groups that share a scale and a zero point of the weights
	LdUnits     int   // scales from a panel, or pair of panels, to the next
	SecondUnit  int   // scales from a panel of a pair to the other
	PanelUnit   int   // first scale of the panel; what kernels count with, as are those that follow
	Unit        int   // scale of the first row of the group
	UnitLeft    int   // groups until the next one
	GroupSteps  int   // of the group

	// For kernels that unpack weights once for many tokens: one panel, or pair of panels, and one group.
	Room      *byte  // where the operands of the first tokens are stored
	From      *int32 // sums of the columns before these; nil = none
	To        *int32 // where sums are left for the columns that follow; nil = there are none, sums become results
	Next      *byte  // weights to prefetch
	NextBytes int    // from a line of them to the next, with two steps between

	// For kernels that look fields up in 16-byte tables, by four bits: operands of the lower and of the upper field.
	Table [32]byte
	// For kernels that sum products of two columns in 16 bits: steps until a sum may overflow.
	Block int
}

// Prefetch says which line a kernel prefetches at address p: the line at (p + Ahead) & Page + (p & Ramp) / 4. If a
// kernel prefetches several lines at a time, Line is the distance between consecutive ones; 0 is the same line again.
// Where Every is not 0, kernels on 512-bit registers that would prefetch fewer lines, as they have few products or
// follow pages, prefetch every line p + Every instead: one instruction each, without the arithmetic of the rule, leaves
// more of the core's window of instructions for loads of weights.
type Prefetch struct{ Ahead, Page, Ramp, Line, Every int }

// TokenGroup holds the terms that a token's activations contribute to the results of a group of columns.
type TokenGroup struct {
	Add   int32   // to the sums
	Sum   int32   // of the activations, which zero points are multiplied by
	Scale float32 // of the activations; 1 where they have one for all columns

	Fields [2]int32 // initial sums of 4-bit fields in place of Add: 17 and 16 times Add
}

const (
	MaxTokens    = 12 // of a tile
	MaxPanelRows = 80 // of a panel
)
