package export

import (
	"math"
	"slices"

	"github.com/lowpack/lowpack/internal/float8"
	"github.com/lowpack/lowpack/pack"
)

// holdsNVFP4: groups of a multiple of 16 columns, in blocks of 64, with scales that are halves of E4M3 numbers without
// a sign.
func holdsNVFP4(a pack.Alphabet, u units, _ bool) bool {
	return a.Name == pack.E2M1.Name && u.zeros == nil && u.minima == nil &&
		u.all(func(x unit) bool { _, ok := e4m3(2 * x.scale); return ok })
}

// e4m3 returns the byte of an E4M3 number that is not negative.
func e4m3(x float32) (b byte, ok bool) {
	i, ok := slices.BinarySearch(float8.E4M3[:0x7f], x)
	return byte(i), ok && !math.Signbit(float64(x))
}

// nibbleE2M1 is the nibble of each code of E2M1.
var nibbleE2M1 = func() (t [256]byte) {
	for i, c := range pack.E2M1.Values[7:] {
		t[uint8(c)], t[uint8(-c)] = byte(i), byte(8+i)
	}
	t[0] = 0
	return t
}()

// encodeNVFP4: blocks of 64 columns are four scales, then the nibbles of 16 columns for each, the first eight low.
func encodeNVFP4(dst []byte, m *pack.Matrix, u units) error {
	for i := 0; i < len(m.Codes); i += 16 {
		b, g := dst[i/64*36:], i/16%4
		b[g], _ = e4m3(2 * u.at(i/m.K, i%m.K).scale)
		for j := range 8 {
			b[4+8*g+j] = nibbleE2M1[uint8(m.Codes[i+j])] | nibbleE2M1[uint8(m.Codes[i+8+j])]<<4
		}
	}
	return nil
}
