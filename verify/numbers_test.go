package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/fence"
	"github.com/lowpack/lowpack/pack"
)

// TestNumbered: the two implementations of FORMAT F12 agree, for every alphabet and number of columns, between fences.
func TestNumbered(t *testing.T) {
	in := fence.New(t, 3*300)
	random := rand.New(rand.NewPCG(12, 34))
	for _, a := range pack.Alphabets() {
		for k := 1; k <= 300; k++ {
			m := randomMatrix(random, a, k)
			codes := fence.Tail[int8](in, 3*k)
			copy(codes, m.Codes)
			m.Codes = codes
			n, err := newNumbered(entryOf(m))
			if err != nil {
				t.Fatal(err)
			}
			src, other := make([]byte, 5*k), sha256.New()
			n.rows(m.Codes[:k], other, src[:k])
			n.rows(m.Codes[k:], other, src[k:])
			if want := sha256.Sum256(src); !bytes.Equal(other.Sum(nil), want[:]) {
				t.Fatalf("%s, %d columns: what is hashed beside is something else", a.Name, k)
			}
			if got, want := hex.EncodeToString(n.Sum(nil)), packed.CodesDigest(m); got != want {
				t.Fatalf("%s, %d columns: %s instead of %s", a.Name, k, got, want)
			}
		}
	}
}

func randomMatrix(r *rand.Rand, a pack.Alphabet, k int) *pack.Matrix {
	m := pack.NewMatrix(pack.Shape{M: 3, K: k}, a)
	for i := range m.Codes {
		m.Codes[i] = a.Values[r.IntN(len(a.Values))]
	}
	return m
}

func entryOf(m *pack.Matrix) *packed.Entry {
	return &packed.Entry{Shape: []int{m.M, m.K}, Layout: pack.Spec{Alphabet: m.Alphabet.Name}}
}

// BenchmarkNumbered reports codes per second of one core, without their digest.
func BenchmarkNumbered(b *testing.B) {
	m := randomMatrix(rand.New(rand.NewPCG(1, 2)), pack.Ternary, 2560)
	n, err := newNumbered(entryOf(m))
	if err != nil {
		b.Fatal(err)
	}
	codes, row := packed.CodeBytes(m.Codes[:m.K]), make([]byte, n.row)
	for b.Loop() {
		n.fill(row, codes)
	}
	b.ReportMetric(float64(m.K)*float64(b.N)/1e9/b.Elapsed().Seconds(), "Gcodes/s")
}
