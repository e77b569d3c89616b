package verify

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/lowpack/lowpack/verify/internal/half"
)

// TestLookedUp: codes that are looked up by the bits of a weight are those of the definition, for all weights that are
// numbers.
func TestLookedUp(t *testing.T) {
	for name, d := range definitions {
		if d.code == nil {
			continue
		}
		for _, a := range []float32{1, 0.37, 1e-30, 1e30, float32(math.Inf(1))} {
			for dtype, value := range map[string]func(bits uint16) float32{
				"F16":  half.Value,
				"BF16": func(bits uint16) float32 { return math.Float32frombits(uint32(bits) << 16) },
			} {
				u := units{def: d, dtype: dtype, whole: &extent{}}
				for bits := range 1 << 16 {
					w := []float32{value(uint16(bits))}
					if w[0] != w[0] {
						continue
					}
					bytes, code := binary.LittleEndian.AppendUint16(nil, uint16(bits)), d.code(w[0], a)
					if u.differ([]int8{code}, w, bytes, a) != 1 || u.differ([]int8{code + 1}, w, bytes, a) != 0 {
						t.Fatalf("%s, parameter %v: %s %v has another code", name, a, dtype, w[0])
					}
				}
			}
		}
	}
}

// TestMismatch changes one code at a time, and the other fields of a byte at random.
func TestMismatch(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for n := range 50 {
		for shift := 0; shift < 8; shift += 2 {
			fields, codes := make([]byte, n), make([]int8, n)
			for i := range fields {
				fields[i] = byte(r.Uint32())
				codes[i] = int8(fields[i]>>shift&3) - 1
			}
			if got := mismatch(fields, codes, shift); got != n {
				t.Fatalf("%d codes in bits %d: the one at %d differs", n, shift, got)
			}
			for i, c := range codes {
				for codes[i] == c {
					codes[i] = int8(r.Uint32())
				}
				if got := mismatch(fields, codes, shift); got != i {
					t.Fatalf("%d codes in bits %d: %d instead of %d", n, shift, got, i)
				}
				codes[i] = c
			}
		}
	}
}
