package pack

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Speed is given as GB/s of the bf16 weights that the codes stand for, two bytes each, on one core, and as a fraction
// of the speed at which the same core copies bytes of that number in memory, measured before and after.

func BenchmarkPack(b *testing.B) {
	for _, l := range everyLayout(b) {
		b.Run(label(l), func(b *testing.B) {
			m, packed := benchMatrix(b, l)
			bench(b, m.Shape, func() error { return l.Pack(packed, m) })
		})
	}
}

func BenchmarkUnpack(b *testing.B) {
	for _, l := range everyLayout(b) {
		b.Run(label(l), func(b *testing.B) {
			m, packed := benchMatrix(b, l)
			bench(b, m.Shape, func() error { return l.Unpack(m, packed) })
		})
	}
}

func benchMatrix(b *testing.B, l Layout) (*Matrix, []byte) {
	m := NewMatrix(benchShape, alphabetOf(b, l))
	randomize(rand.New(rand.NewPCG(1, 1)), m.Codes, m.Alphabet)
	return m, packed(b, l, m)
}

func bench(b *testing.B, s Shape, do func() error) {
	bytes := 2 * s.M * s.K
	before := copySpeed(bytes)
	best := time.Duration(1<<63 - 1)
	for b.Loop() {
		start := time.Now()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		best = min(best, time.Since(start))
	}
	ceiling := max(before, copySpeed(bytes))
	speed := float64(bytes) / best.Seconds()
	b.ReportMetric(speed/1e9, "GB/s")
	b.ReportMetric(100*speed/ceiling, "%copy")
	b.ReportMetric(0, "ns/op")
}

// copySpeed is the best of a few copies, in bytes per second.
func copySpeed(n int) float64 {
	n = max(n, 64<<20)
	from, to := make([]byte, n), make([]byte, n)
	for i := range from {
		from[i] = byte(i)
	}
	best := time.Duration(1<<63 - 1)
	for range 5 {
		start := time.Now()
		copy(to, from)
		best = min(best, time.Since(start))
	}
	return float64(n) / best.Seconds()
}

// benchShape is a block of rows of BitNet b1.58 2B4T that stays in the L2 cache, as convert and verify take them.
var benchShape = Shape{128, 2560}
