package packed

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/fence"
	"github.com/lowpack/lowpack/pack"
)

// numbersByDefinition is FORMAT F12, one code at a time.
func numbersByDefinition(m *pack.Matrix) []byte {
	bits := 1
	for 1<<bits < len(m.Alphabet.Values) {
		bits *= 2
	}
	q := (m.K*bits + 7) / 8
	out := make([]byte, m.M*q)
	for i, c := range m.Codes {
		row, column := i/m.K, i%m.K
		number := slices.Index(m.Alphabet.Values, c)
		if m.Alphabet.Name == pack.Int8.Name {
			number = (int(c) + 127 + 256) % 256
		}
		out[row*q+column%q] |= byte(number << (column / q * bits))
	}
	return out
}

// TestNumbers compares every implementation that runs on this processor with the definition, between guard bytes.
func TestNumbers(t *testing.T) {
	defer func(b bool) { subtracts = b }(subtracts)
	for _, subtracts = range slices.Compact([]bool{false, subtracts}) {
		testNumbers(t)
	}
}

func testNumbers(t *testing.T) {
	random := rand.New(rand.NewPCG(12, 12))
	in, out := fence.New(t, 3*300), fence.New(t, 3*300)
	for _, a := range pack.Alphabets() {
		for k := 1; k <= 300; k++ {
			m := &pack.Matrix{Shape: pack.Shape{M: 3, K: k}, Alphabet: a, Codes: fence.Tail[int8](in, 3*k)}
			for i := range m.Codes {
				m.Codes[i] = a.Values[random.IntN(len(a.Values))]
			}
			want := numbersByDefinition(m)
			n := NewNumbers(a, k)
			if got := n.Write(fence.Tail[byte](out, len(want)), m.Codes); !bytes.Equal(got, want) {
				t.Fatalf("%s, %d columns: %x instead of %x", a.Name, k, got, want)
			}
			out.Check(t)
			h := sha256.New()
			fmt.Fprintf(h, "lowpack codes v2\n%s 3 %d\n", a.Name, k)
			h.Write(want)
			if got := CodesDigest(m); got != hex.EncodeToString(h.Sum(nil)) {
				t.Fatalf("%s, %d columns: digest %s", a.Name, k, got)
			}
			if got := n.Write(CodeBytes(m.Codes), m.Codes); !bytes.Equal(got, want) {
				t.Fatalf("%s, %d columns, in place: %x instead of %x", a.Name, k, got, want)
			}
		}
	}
}

// TestNumbersByHand is a row of FORMAT F12 that was packed by hand.
func TestNumbersByHand(t *testing.T) {
	for _, c := range []struct {
		alphabet pack.Alphabet
		codes    []int8
		want     string
	}{
		{pack.Ternary, []int8{-1, 0, 1, 1, 0, -1}, "18" + "09"}, // Q = 2: columns 0, 2, 4 and 1, 3, 5
		{pack.Int1, []int8{1, -1, -1, 1, 1, -1, -1, -1, 1}, "15" + "02"},
		{pack.Int4, []int8{-8, 7, 0}, "80" + "0f"},
		{pack.Int8, []int8{-127, 0, 127, -128}, "007ffeff"},
	} {
		n := NewNumbers(c.alphabet, len(c.codes))
		if got := hex.EncodeToString(n.Write(make([]byte, n.Row()), c.codes)); got != c.want {
			t.Errorf("%s %v: %s, not %s", c.alphabet.Name, c.codes, got, c.want)
		}
	}
}

// BenchmarkNumbers reports codes per second on one core, for rows that stay in the L2 cache.
func BenchmarkNumbers(b *testing.B) {
	for _, a := range pack.Alphabets() {
		b.Run(a.Name, func(b *testing.B) {
			m := pack.NewMatrix(pack.Shape{M: 64, K: 2560}, a)
			for i := range m.Codes {
				m.Codes[i] = a.Values[i%len(a.Values)]
			}
			n := NewNumbers(a, m.K)
			dst := make([]byte, m.M*n.Row())
			for b.Loop() {
				n.Write(dst, m.Codes)
			}
			b.ReportMetric(float64(len(m.Codes))*float64(b.N)/1e9/b.Elapsed().Seconds(), "Gcodes/s")
		})
	}
}
