package kernel

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/pack"
)

// Way is another way to multiply, which pays from some number of tokens on.
type Way string

// The ways.
const (
	DenseTiles Way = "dense-tiles" // weights of two bits are unpacked once (dense.go)
	Int8First  Way = "int8-first"  // digits in two planes become int8 (opened.go)
	VecLUT     Way = "vec-lut"     // products are looked up (veclut.go)
	OnTiles    Way = "tiles"       // of AMX (amx.go)
)

// about says for people what a way is.
var about = map[Way]string{
	DenseTiles: "weights of two bits unpacked once", Int8First: "int8 in place of two planes", VecLUT: "Vec-LUT",
	OnTiles: "tile registers",
}

// Threshold is the number of tokens from which kernels of an instruction set multiply in another way. What is best
// depends on the CPU, and changes no output.
type Threshold struct {
	Way      Way    `json:"way"`
	ISA      ISA    `json:"instruction_set"`
	Layout   string `json:"layout,omitempty"`   // "" = all others
	Alphabet string `json:"alphabet,omitempty"` // "" = all others
	Group    int    `json:"group,omitempty"`    // for tiles: columns that share a scale, or one of the two below
	Tokens   int    `json:"tokens"`             // 0 = never
	From     string `json:"from,omitempty"`     // what it was measured on, date and revision
}

// Groups in a Threshold that are no numbers of columns.
const (
	wholeRows   = 0
	otherGroups = -1
)

// MaxThreshold bounds the numbers of tokens that Take accepts.
const MaxThreshold = 1 << 16

const (
	never    = 1 << 30 // more tokens than there are
	byTuning = -1      // in place of tokens: those of Tuning
)

// thresholds is the table. The line of a layout comes before that of all others. With fewer tokens than Vec-LUT begins
// with, too much of its 32 is wasted; tiles unpack base-3 bytes three times, and read 64 rows of int8 in halves of
// lines (docs/notes/kernels.md).
var thresholds = slices.Concat([]Threshold{
	{Way: DenseTiles, ISA: AVX512VNNI, Tokens: byTuning},
	{Way: Int8First, ISA: AVX512VNNI, Tokens: byTuning},
	{Int8First, AVXVNNI, "", "", 0, 8, "Sapphire Rapids, family 6 model 143, 2026-11-28, revision 41d07a56"},
	{Int8First, DotProd, "", "", 0, 8, estimated},
	{Int8First, NEON, "", "", 0, 4, estimated},
	{VecLUT, AVX2, "vnni4i", "", 0, 26, zen4AVX2},
	{VecLUT, AVX2, "vnni4i-64", "", 0, 24, zen4AVX2},
	{VecLUT, AVX2, "vnni4t", "", 0, 10, zen4AVX2},
	{VecLUT, AVX2, "i2s", "", 0, 28, zen4AVX2},
	{VecLUT, AVX2, "", "", 0, 20, zen4AVX2},
	{VecLUT, AVXVNNI, "vnni4i-64", "", 0, 32, zen5AVXVNNI},
	{VecLUT, AVXVNNI, "vnni4t", "", 0, 16, zen5AVXVNNI},
	{VecLUT, AVXVNNI, "i2s", "", 0, 28, zen5AVXVNNI},
	{VecLUT, AVXVNNI, "", "", 0, 128, zen5AVXVNNI}, // with fewer it takes longer, with 128 0.99 to 1.04 of the time
	{VecLUT, DotProd, "", "", 0, 28, estimated},
	{VecLUT, NEON, "", "", 0, 12, estimated},
	{OnTiles, AMX, "vnni4t", "", wholeRows, 6, wholeRowsAMX},
	{OnTiles, AMX, "vnni4-64", pack.Int8.Name, wholeRows, 6, wholeRowsAMX},
	{OnTiles, AMX, "", "", wholeRows, 2, wholeRowsAMX},
	{OnTiles, AMX, "", "", otherGroups, 12, "Sapphire Rapids, family 6 model 143, 2026-11-23, revision e946bfe6"},
}, groupsOnTiles("vnni4t", 12, 8), groupsOnTiles("vnni4-64", 12, 8), groupsOnTiles("vnni4i-64", 12, 8),
	groupsOnTiles("", 6, 2))

// groupsOnTiles are the lines for groups of 32 columns, which half fill a tile, and for larger ones. Panels of 64 rows
// are read twice.
func groupsOnTiles(layout string, half, whole int) (lines []Threshold) {
	for _, p := range tilePasses {
		from := whole
		if p.group < amxGroup {
			from = half
		}
		lines = append(lines, Threshold{OnTiles, AMX, layout, "", p.group, from, groupsAMX})
	}
	return lines
}

const (
	zen4AVX2     = "Zen 4, family 25 model 17, kernels for AVX2, 2026-11-29, revision c9bb8066"
	zen5AVXVNNI  = "Zen 5, family 26 model 2, kernels for AVX-VNNI, 2026-12-01, revision d7dfaccb"
	wholeRowsAMX = "Emerald Rapids, family 6 model 207, 2026-11-28, revision 460e4b3c"
	groupsAMX    = "Intel with AMX, family 6 model 167, 2026-12-01, revision c99e6def"
	estimated    = "estimated from instructions (docs/notes/neon.md)"
)

// inForce are the thresholds of this process: the table, with what Take replaced.
var inForce = thresholds

// same reports whether two lines are about the same.
func (t *Threshold) same(u *Threshold) bool {
	return t.Way == u.Way && t.ISA == u.ISA && t.Layout == u.Layout && t.Alphabet == u.Alphabet && t.Group == u.Group
}

// fits reports whether a line is about a layout and an alphabet.
func (t *Threshold) fits(s pack.Spec) bool {
	return (t.Layout == "" || t.Layout == s.Name) && (t.Alphabet == "" || t.Alphabet == s.Alphabet)
}

// tokensFrom returns from how many tokens on a matrix is multiplied in a way.
func (w *Weights) tokensFrom(way Way, group int) int {
	if w.forced.Way == way {
		return orNever(w.forced.Tokens)
	}
	return tokensFrom(way, w.Kernel.ISA, w.Layout.Spec(), group)
}

// tokensFrom looks up a threshold; never if there is no line for it. What tiles do not multiply is multiplied as on
// AVX-512.
func tokensFrom(way Way, isa ISA, s pack.Spec, group int) int {
	if isa == AMX && way != OnTiles {
		isa = AVX512VNNI
	}
	i := slices.IndexFunc(inForce, func(t Threshold) bool {
		return t.Way == way && t.ISA == isa && t.Group == group && t.fits(s)
	})
	if i < 0 {
		return never
	}
	return orNever(inForce[i].Tokens)
}

func orNever(tokens int) int {
	if tokens == 0 {
		return never
	}
	return tokens
}

// atLeast reports whether a number of tokens reaches a threshold, or, where that is byTuning, the one of the tuning.
func atLeast(tokens, threshold, ofTuning int) bool {
	if threshold == byTuning {
		threshold = orNever(ofTuning)
	}
	return tokens >= threshold
}

// Forced is a way that a matrix is multiplied in from a given number of tokens on, whatever the tables say, to measure
// it; the zero value forces nothing.
type Forced struct {
	Way    Way
	Tokens int // 0 = never
}

// Thresholds lists from how many tokens on the kernels of this process multiply in another way.
func Thresholds() []Threshold {
	list := slices.Clone(inForce)
	for i := range list {
		if t := &list[i]; t.Tokens == byTuning {
			t.Tokens, t.From = map[Way]int{DenseTiles: tuned.dense, Int8First: tuned.opened}[t.Way], tunedWhy
		}
	}
	return slices.DeleteFunc(list, func(t Threshold) bool { return !Have(t.ISA) })
}

// InUse reports whether the kernels of the best instruction set go by a line. What is not for tiles is multiplied as on
// AVX-512.
func (t *Threshold) InUse() bool { return t.ISA == Best() || t.ISA == AVX512VNNI && Best() == AMX }

// String is a line for people.
func (t *Threshold) String() string {
	of := cmp.Or(t.Layout, "other layouts")
	if t.Alphabet != "" {
		of += " of " + t.Alphabet
	}
	switch {
	case t.Group > 0:
		of += fmt.Sprintf(", groups of %d", t.Group)
	case t.Group == otherGroups:
		of += ", other groups"
	case t.Way == OnTiles:
		of += ", whole rows"
	}
	from := "never"
	if t.Tokens > 0 {
		from = fmt.Sprintf("from %d tokens on", t.Tokens)
	}
	return fmt.Sprintf("%s, %s: %s (%s)", about[t.Way], of, from, t.From)
}
