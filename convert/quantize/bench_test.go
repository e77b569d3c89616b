package quantize

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lowpack/lowpack/pack"
)

// BenchmarkQuantize reports GB/s of source for one core, the best of all runs, on rows that stay in the second-level
// cache. "copy" is the ceiling: the same bytes copied.
func BenchmarkQuantize(b *testing.B) {
	s := pack.Shape{M: 32, K: 2560}
	before := level
	defer func() { level = before }()
	for _, d := range []DType{BF16, F16, F32} {
		src, codes := d.encode(normal(1, s.M*s.K)), make([]int8, s.M*s.K)
		dst := make([]byte, len(src))
		best(b, fmt.Sprintf("copy/%s", d), src, func() error { copy(dst, src); return nil })
		for _, l := range levels() {
			level = l
			for _, j := range []Job{{Rule: "absmean"}, {Rule: "absmax"}, {Rule: "absmax", Kind: PerGroup, Group: 256},
				{Rule: "sign-values"}, {Rule: "ternary-values"}, {Rule: "int2-values"}, {Rule: "int3-values"},
				{Rule: "int4-values"},
				{Rule: "int2-elastic"}, {Rule: "int8"}, {Rule: "mxfp4"}, {Rule: "iq4nl"}} {
				j.DType, j.Shape = d, s
				in := src
				if values, exact := exactAlphabets[j.Rule]; exact {
					in = d.encode(dequantized(d, mixed(values, s.M*s.K), 0.0625))
				}
				q, err := New(j)
				if err != nil {
					b.Fatal(err)
				}
				name := fmt.Sprintf("%s/%s%s/%s", d, j.Rule, j.Kind, l)
				if q.Passes() == 2 {
					best(b, "measure/"+name, in, func() error { return q.Measure(0, in) })
				}
				if err := q.Fix(); err != nil {
					b.Fatal(err)
				}
				best(b, "codes/"+name, in, func() error { return q.Quantize(codes, 0, in) })
			}
		}
	}
}

// mixed returns n random codes, none of them zero if the alphabet has no zero.
func mixed(values []int8, n int) []int8 {
	r := rand.New(rand.NewPCG(9, 9))
	codes := make([]int8, n)
	for i := range codes {
		codes[i] = values[r.IntN(len(values))]
	}
	return codes
}

// BenchmarkUnpackU8 reports GB/s of packed codes for one core.
func BenchmarkUnpackU8(b *testing.B) {
	s := pack.Shape{M: 128, K: 2560}
	packed, codes := make([]byte, 32*2560), make([]int8, s.M*s.K)
	for i := range packed {
		packed[i] = byte(i%3) | byte(i/3%3)<<2 | byte(i/9%3)<<4
	}
	best(b, "rows", packed, func() error { return unpackU8(codes, s, packed, 0, s.M) })
}

func best(b *testing.B, name string, src []byte, work func() error) {
	b.Run(name, func(b *testing.B) {
		least := time.Hour
		for b.Loop() {
			start := time.Now()
			if err := work(); err != nil {
				b.Fatal(err)
			}
			least = min(least, time.Since(start))
		}
		b.ReportMetric(float64(len(src))/float64(least.Nanoseconds()), "GB/s")
	})
}
