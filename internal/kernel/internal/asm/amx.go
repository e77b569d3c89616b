package asm

// AMX holds the arguments of a kernel on tile registers: 32 rows of each of some panels times any number of tokens,
// over groups of columns with one sum each.
//
//	y[t][g][m] = Σ weight[m][k]·x[t][k] over the columns k of group g
//
// Columns are counted in groups of four. A kernel configures the tile registers and releases them, so that no other
// code runs while they are in use. (A fault in mapped weights leaves them configured: that slows thread switches
// until the thread's next call.) A kernel modifies Panels and the fields after Table. Without permission from the
// system, which isa.go requests, tile instructions are illegal.
type AMX struct {
	W          *byte // first packed byte of the rows
	Panels     int   // at least 1
	PanelBytes int   // from a panel to the next
	X          *int8 // first activation of the first token; in a tile, activations after the last column are zero
	LdX        int   // bytes between tokens
	Tokens     int   // at least 1
	Rows       int   // of a tile of tokens: 16, or Tokens where these are fewer
	Y          *int32
	LdY        int   // bytes between tokens
	LdPanel    int   // bytes between the results of adjacent panels
	TileY      int   // bytes from the results of the first 16 rows to the results of the second
	Groups     int   // at least 1
	LdGroup    int   // bytes between results of groups
	Quads      int   // columns of a group, in fours
	LastQuads  int   // of the last group
	RoomQuads  int   // columns that Room takes, in fours, whole tiles
	Lines      int   // lines of weights that are prefetched for every 64 columns of a tile of tokens, at least 1
	Room       *byte // at a multiple of AMXAlign; kernels for whole rows use its first 8 KiB as a ring
	Sums       *byte // room for AMXSums bytes for every 32 tokens
	// where the parts of a panel begin that kernels for whole rows and FewAMX prefetch beside the first one
	Streams [3]int

	Config [64]byte    // of the tile registers
	Table  [8][64]byte // what codes are unpacked by: for fields operands, then shifts for the two tiles of rows

	// Working state of kernels. Addresses that run past their object are not pointers to the garbage collector.
	PanelW, PanelY, GroupY, GroupsLeft, QuadsLeft, TokensLeft, Begun, Columns, Steps, B, Packed, Ahead, SecondY int
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

// AMXGroups holds the arguments of a kernel on tile registers that scales the sums of groups (docs/NUMERICS.md, N15).
// The fields of AMX mean the same, but: results are floats, one for each token and row; Quads are the columns of a
// row; RoomQuads are 256 columns; X are tokens in tiles, [32 tokens][64 columns][token][column of the 64], a multiple
// of 256 columns, zero after the last; Sums is a room of AMXGroupSums bytes, at a page. Rows, LdX, and LdGroup are
// unused, as are Groups and LastQuads. Factors are read for all of the last 32 tokens, and for whole passes of
// groups. Weights that are multiplied where they lie (int8) have no zero points.
//
//	y[t][m] = +0, then for groups g
//	y[t][m] = fma(float(Σ (weight[m][k] − zero[m][g])·x[t][k]) · scale[t][g], scale[m][g], y[t][m])
type AMXGroups struct {
	AMX

	Opener     int      // which of the kernels with sums unpacks the same weights, in their order
	Kind       int      // of pass: 0, 2, 4, 6 for groups of 32, 64, 128, 256 columns; 1 more for two tiles of tokens
	GroupQuads int      // columns of a group, in fours
	TakenQuads int      // columns of a pass, in fours
	Together   int      // groups of 256 columns
	LdPair     int      // bytes from 32 tokens to the next
	ChunkX     int      // bytes from 256 columns of 32 tokens to the next
	T          *byte    // where results wait, AMXGroupT bytes for every 32 tokens, at a page
	Unused     *byte    // another AMXGroupT bytes
	Factors    *float32 // scales of the activations, [group][token], from the first token on; 1 = none
	LdFactors  int      // bytes between factors, or TokenGroups, of adjacent groups
	LdPass     int      // bytes between factors of adjacent passes

	TokenGroups *TokenGroup // of FewAMX, in place of Factors, [group][token]

	TokensY        int // tokens whose results are prefetched in a pass
	ChunkLdFactors int // bytes between factors of groups 256 columns apart

	// Of the weights, [panel][unit of a row][row of a panel], from the first of the rows on.
	// Scales are floats of ScaleBytes bytes; nil = none, then the scale of the activations is not rounded before the
	// addition.
	Scales        *float32
	Zeros         *int8 // nil = none; a weight less its zero point is an int8
	UnitGroups    int   // groups that share a scale and a zero point
	ScaleBytes    int   // 4, or 2
	SecondRow     int   // rows from the first tile to the second
	SecondScale   int   // bytes of scales from the rows of the first tile to those of the second
	UnitBytes     int   // bytes of scales from a unit to the next
	UnitRows      int   // scales from a unit to the next
	LdUnits       int   // scales from a panel to the next
	PassUnitBytes int   // of UnitAt for the groups of a pass

	// Working state of kernels: of the columns that are unpacked (Unit…, Chunk…), of the tokens and columns that are
	// multiplied (Token…, Pass…), and of what is scaled beside the next pass (Next…; NextPresent is −1 where a group of
	// the pass exists). UnitAt holds the units of eight groups, and room for a pass that reads four from any of them.
	UnitAt                                                          [12]int
	ScalesAt, NextScales, NextPresent                               [4]int
	PanelUnit, Unit, UnitLeft, ColumnX, ChunkFactors, LdB           int
	TokenX, TokenFactors, TokenT, PassFactors, PassUnits, PassQuads int
	NextFactors, NextT, AheadY                                      int
}

// Sizes of the rooms of a kernel on tile registers.
const (
	AMXRoom  = 128      // bytes for four columns
	AMXAlign = 16 << 10 // of Room
	AMXRing  = 8 << 10  // bytes of Room that kernels for whole rows and FewAMX use
	AMXFew   = 8        // tokens that FewAMX multiplies at most
	AMXSums  = 4 * 4096

	AMXGroupSums = 2 * 4 * 4096
	AMXGroupT    = 4096
)
