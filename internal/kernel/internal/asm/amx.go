package asm

// AMX holds the arguments of a kernel on tile registers: 32 rows of each of some panels times any number of tokens,
// over groups of columns with one sum each.
//
//	y[t][g][m] = Σ weight[m][k]·x[t][k] over the columns k of group g
//
// Columns are counted in groups of four. A kernel configures the tile registers and releases them, so that no other
// code runs while they are in use. (A fault in mapped weights leaves them configured: that slows thread switches until
// the thread's next call.) A kernel modifies the fields after Table. Without permission from the system, which isa.go
// requests, tile instructions are illegal.
type AMX struct {
	W          *byte // first packed byte of the rows
	Panels     int   // at least 1
	PanelBytes int   // from a panel to the next
	X          *int8 // first activation of the first token; in a tile, activations after the last column are zero
	LdX        int   // bytes between tokens
	Tokens     int   // at least 1
	Rows       int   // of a tile of tokens: 16, or Tokens where these are fewer
	Y          *int32
	LdY        int // bytes between tokens
	LdPanel    int // bytes between the results of adjacent panels
	TileY      int // bytes from the results of the first 16 rows to the results of the second
	Groups     int // at least 1
	LdGroup    int // bytes between results of groups
	Quads      int // columns of a group, in fours
	LastQuads  int // of the last group
	RoomQuads  int // columns that Room takes, in fours, whole tiles
	Lines      int // lines of weights that are prefetched for every 64 columns of a tile of tokens, at least 1
	Room       *byte
	Sums       *byte // room for AMXSums bytes for every 32 tokens

	Config [64]byte    // of the tile registers
	Table  [8][64]byte // what codes are looked up in; for fields operands, then shifts for the two tiles of rows

	// Working state of kernels. Addresses that run past their object are not pointers to the garbage collector.
	PanelW, PanelY, GroupY, GroupsLeft, QuadsLeft, Begun, Columns, Steps, B, Packed, Ahead, SecondY int
}

// Scaling holds the arguments of ScaleSums, which scales the sums of a group of columns, of 16 rows and any number of
// tokens (docs/NUMERICS.md, N15). Distances are in bytes.
//
//	y[t][m] += (float(sums[t][m] − Zeros[m]·Tokens[t].Sum) · Tokens[t].Scale) · Scales[m]
type Scaling struct {
	Sums   *int32
	LdSums int
	Y      *int32 // bits of floats
	LdY    int
	N      int         // tokens, at least 1
	Tokens *TokenGroup // of the group
	// of the weights; nil = none, then the scale of the activations is not rounded before the addition
	Scales *float32
	Zeros  *int8 // of the weights; nil = none
}

// Sizes of the rooms of a kernel on tile registers.
const (
	AMXRoom  = 128 // bytes for four columns
	AMXAlign = 16 << 10
	AMXSums  = 4 * 4096
)
