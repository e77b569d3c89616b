package quantize

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/lowpack/lowpack/internal/float16"
)

// levelSet holds the distinct nonzero values of a row of few-valued weights.
type levelSet struct {
	dtype   DType
	values  [maxLevels]float32 // in order of appearance
	n, most int
	zero    bool        // the row holds zeros, of either sign
	recent  [256]uint32 // patterns that came lately, by hash: nearly every weight is found here
}

// maxLevels is the size of the largest alphabet of an exact rule.
const maxLevels = 16

// noPattern is a NaN of every type.
const noPattern = math.MaxUint32

// scan enters all weights of a row, which may hold up to most different values. It returns the column of the first
// value beyond that, or −1.
func (s *levelSet) scan(src []byte, most int) int {
	s.most = most
	s.recent[slot(0)] = noPattern // the other slots hold the pattern 0, which never maps to them
	if s.dtype.Size() == 2 {
		for at := 0; at+2 <= len(src); at += 2 {
			p := uint32(binary.LittleEndian.Uint16(src[at:]))
			if s.recent[slot(p)] != p && !s.enter(p) {
				return at / 2
			}
		}
		return -1
	}
	for at := 0; at+4 <= len(src); at += 4 {
		p := binary.LittleEndian.Uint32(src[at:])
		if s.recent[slot(p)] != p && !s.enter(p) {
			return at / 4
		}
	}
	return -1
}

// slot of a pattern: the upper bits of a product with an odd number near 2³²/φ (Knuth).
func slot(p uint32) uint8 { return uint8(p * 0x9E3779B1 >> 24) }

// enter adds a pattern that recent does not contain, and reports whether there was room.
func (s *levelSet) enter(p uint32) bool {
	w := s.dtype.fromPattern(p)
	if w == 0 {
		s.zero = true
	} else if !slices.Contains(s.all(), w) {
		if s.n == s.most {
			return false
		}
		s.values[s.n] = w
		s.n++
	}
	s.recent[slot(p)] = p
	return true
}

func (s *levelSet) all() []float32 { return s.values[:s.n] }

// least is the smallest magnitude.
func (s *levelSet) least() float32 {
	least := float32(math.Inf(1))
	for _, v := range s.all() {
		least = min(least, max(v, -v))
	}
	return least
}

// fromPattern is the value of an element.
func (d DType) fromPattern(p uint32) float32 {
	switch d {
	case BF16:
		return float16.WidenBrain(uint16(p))
	case F16:
		return float16.Widen(uint16(p))
	}
	return math.Float32frombits(p)
}

// adjacent returns the next smaller and the next larger value of v > 0 in the type, and whether the pattern of v is
// even, so that ties round to it. Above the largest finite value it returns the value that an unlimited exponent would
// give.
func (d DType) adjacent(v float32) (below, above float64, even bool) {
	var p uint32
	switch d {
	case BF16:
		p = math.Float32bits(v) >> 16
	case F16:
		p = uint32(float16.Narrow(v))
	default:
		p = math.Float32bits(v)
	}
	below = float64(d.fromPattern(p - 1))
	above = float64(d.fromPattern(p + 1))
	if math.IsInf(above, 0) {
		above = 2*float64(v) - below
	}
	return below, above, p%2 == 0
}
