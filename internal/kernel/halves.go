package kernel

import (
	"encoding/binary"

	"github.com/lowpack/lowpack/internal/float16"
)

// Weight scales of 16 bits: most files store scales as binary16, and decode reads them along with the weights. Where a
// kernel takes them as they are, groups of 32 columns of int4 have 4.5 bits per weight in memory instead of 5.

// takesHalves reports whether a product takes weight scales of 16 bits.
func takesHalves(p product) bool {
	if b, ok := p.(*batches); ok {
		p = b.tiled
	}
	t, ok := p.(*tiled)
	return ok && t.halves
}

// readHalves sets dst to stored scales.
func readHalves(dst []uint16, stored []byte) {
	for i := range dst {
		dst[i] = binary.LittleEndian.Uint16(stored[2*i:])
	}
}

// widen returns dst with the values of halves.
func widen(dst []float32, halves []uint16) []float32 {
	for i := range dst {
		dst[i] = float16.Widen(halves[i])
	}
	return dst
}

// width is Tile.Halves.
func (s *scaling) width() int {
	if s.halves != nil {
		return 1
	}
	return 0
}
