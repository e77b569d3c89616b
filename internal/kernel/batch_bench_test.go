package kernel_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/kernel/roofline"
	"github.com/lowpack/lowpack/pack"
)

// BenchmarkBatches measures small batches of every form of weights against the limits of the machine, interleaved with
// them: the fastest of many short runs. memory/… is a fraction of the nearer limit, with weights from memory; cache/…
// is a fraction of peak int8 throughput, with weights from the L2 cache, which separates core time from memory time.
func BenchmarkBatches(b *testing.B) {
	pool := kernel.NewPool(1)
	defer pool.Close()
	for _, c := range []struct {
		layout, alphabet string
		groups           []int
	}{
		{"vnni4i", pack.Int4.Name, []int{0, 128, 64, 32}}, {"vnni4i", pack.Ternary.Name, []int{0, 128}},
		{"vnni4i", pack.Int2.Name, []int{0, 128}},
		{"vnni4i", pack.E2M1.Name, []int{0, 128, 32}}, {"vnni4i", pack.IQ4NL.Name, []int{0, 32}},
		{"vnni4", pack.Int8.Name, []int{0, 128, 64, 32}},
		{"vnni4p", pack.Int3.Name, []int{0, 16, 32}}, {"vnni4p", pack.Int5.Name, []int{0, 32}},
		{"vnni4p", pack.Int6.Name, []int{0, 16, 32, 64}},
	} {
		for _, group := range c.groups {
			for _, tokens := range []int{1, 2, 4, 5, 6, 8, 12, 16, 128} {
				name := fmt.Sprintf("%s/group%d/tokens%d", c.alphabet, group, tokens)
				k := kernel.For(pack.Spec{Name: c.layout, Alphabet: c.alphabet})[0]
				shape := benchShape{c.alphabet, group, tokens, 512 << 10}
				b.Run("cache/"+name, func(b *testing.B) { batches(b, k, shape, pool, 100*time.Millisecond) })
				shape.bytes = 256 << 20 // far more than the last cache
				b.Run("memory/"+name, func(b *testing.B) { batches(b, k, shape, pool, 400*time.Millisecond) })
			}
		}
	}
}

func batches(b *testing.B, k *kernel.Kernel, shape benchShape, pool *kernel.Pool, d time.Duration) {
	bytes, tokens := shape.bytes, shape.tokens
	p, done := bind(b, k, shape.alphabet, shape.group, bytes, tokens)
	defer done()
	n, chunk := max(1, bytes>>20), p.w.Chunk(tokens, pool.Threads())
	r, m := roofline.NewReader(p.w.Memory(), pool), &roofline.Multiplier{ISA: k.ISA}
	reads, muls := newSlices(r, r.Parts(), roofline.ReadChunk, n), newSlices(p, p.w.Panels(), chunk, n)
	const parts = 20
	best := time.Hour
	for b.Loop() {
		for start := time.Now(); time.Since(start) < d; {
			for i := range n {
				if n > 1 {
					reads.run(pool, i)
				}
				begin := time.Now()
				pool.Run(parts, parts, m)
				best = min(best, time.Since(begin))
				muls.run(pool, (i+n/2)%n)
			}
		}
		took := muls.total()
		peak := roofline.GOPS(parts*m.Operations(), best)
		gops := roofline.GOPS(2*p.w.Shape.M*p.w.Shape.K*tokens, took)
		fraction := gops / peak
		if n > 1 {
			read, gbs := roofline.GBs(r.Bytes(), reads.total()), roofline.GBs(p.bytes(), took)
			b.ReportMetric(read, "readGB/s")
			fraction = max(fraction, gbs/read)
		}
		b.ReportMetric(peak, "peakGOPS")
		b.ReportMetric(fraction, "fraction")
	}
}
