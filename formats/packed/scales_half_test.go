package packed

import (
	"encoding/binary"
	"testing"

	"github.com/lowpack/lowpack/internal/float16"
)

// TestValidHalves: each of the 65,536 numbers, at each of the places of eleven, is taken or refused as its value is.
func TestValidHalves(t *testing.T) {
	for _, s := range []Scale{{}, {Signed: true}} {
		for half := range 1 << 16 {
			value := []float32{float16.Widen(uint16(half))}
			for at := range 11 {
				data := make([]byte, 22)
				binary.LittleEndian.PutUint16(data[2*at:], uint16(half))
				if got, want := s.validHalves(data), s.valid(value); got != want {
					t.Fatalf("%#04x at %d, signed %v: %v, want %v", half, at, s.Signed, got, want)
				}
			}
		}
	}
}
