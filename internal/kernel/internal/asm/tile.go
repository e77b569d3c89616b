// Package asm holds the assembly kernels of package kernel: their argument struct, the Go declarations and the code, all of
// it written by _asm/kernel. It decides nothing; internal/kernel/dispatch.go says which function is for what.
//
// A name tells weights, rows of a panel and instruction set: Fields2Rows64AVX2 multiplies 2-bit fields in panels of 64 rows. A
// table holds its functions by the number of tokens that they multiply at once, less one.
package asm

// Tile is the arguments of an assembly kernel: the rows of some panels times a few tokens over a range of columns, in groups
// that have a sum each. A kernel computes
//
//	y[t][g][m] = Mul·Σ operand[m][k]·x[t][k] + Adds[g][t] over the columns k of group g
//
// where operand is the number that the kernel makes of a code: an affine function of the weight, which Mul and Adds turn
// back. Sums are taken modulo 2³². A kernel moves W and Y on.
type Tile struct {
	W           *byte    // first packed byte of the columns
	Panels      int      // at least 1
	PanelBytes  int      // from a panel to the next
	X           *int8    // first activation of the first token
	LdX         int      // bytes between tokens
	Y           *int32   // first result of the first token
	LdY         int      // bytes between tokens
	Groups      int      // at least 1; 1 for kernels without group-wise scales
	LdGroup     int      // bytes between results of groups
	Steps       int      // whole steps along the columns of a group
	LastSteps   int      // of the last group
	TailMask    int      // mask of the 32-bit lanes of a last, incomplete step of the last group; 0 = none
	SecondPanel int      // where a kernel takes two panels for one: bytes to the second
	PrefetchAt  int      // where calls take a part of a panel each: bytes from W to those of the next panel that one prefetches
	Adds        *int32   // of the first group and token, for kernels with group-wise scales
	LdAdds      int      // bytes between those of groups
	Scales      *float32 // of the first panel and group, for kernels with group-wise scales; nil where sums are results
	LdScales    int      // bytes between those of panels
	Mul         int32
	Add         [MaxTokens]int32 // in place of Adds

	// For kernels that look fields up in 16-byte tables, by four bits: operands of the lower and of the upper field.
	Table [32]byte
	// For kernels that sum products of two columns in 16 bits: steps until a sum may overflow.
	Block int
}

const (
	MaxTokens    = 8  // of a tile
	MaxPanelRows = 80 // of a panel
)
