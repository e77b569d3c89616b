package rows

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// TestWrite: bit by bit, field i holds number i, whatever the width and shape.
func TestWrite(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for bits, a := range map[int]pack.Alphabet{2: pack.Ternary, 4: pack.E2M1, 8: pack.Int8} {
		for _, s := range []pack.Shape{{M: 1, K: 1}, {M: 3, K: 7}, {M: 5, K: 8}, {M: 9, K: 33}, {M: 130, K: 1030}} {
			m := pack.NewMatrix(s, a)
			for i := range m.Codes {
				m.Codes[i] = a.Values[r.IntN(len(a.Values))]
			}
			stored := func(c int8) uint8 { return uint8(c) & (1<<bits - 1) } // of e2m1 not all are different
			f := Form{Bits: bits, Columns: s.K + r.IntN(5), Fill: 1, Numbers: NumbersOf(a, stored)}
			want := make([]byte, Size(s.M*f.Columns, bits))
			for i := range s.M * f.Columns {
				number := uint8(1)
				if k := i % f.Columns; k < s.K {
					number = stored(m.Codes[i/f.Columns*s.K+k])
				}
				want[i*bits/8] |= number << (i * bits % 8)
			}
			var got bytes.Buffer
			if err := f.Write(&got, m); err != nil || !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%d bits, %v: %v, or other bytes", bits, s, err)
			}
		}
	}
}
