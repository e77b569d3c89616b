package kernel_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/kernel/roofline"
	"github.com/lowpack/lowpack/pack"
)

// BenchmarkTunings measures the chosen kernels under every tuning, interleaved with each other and with the limits, and
// reports fractions of the nearer one by tuning: "1:" is the first of kernel.Tunings. The table in tune.go comes from
// its figures.
func BenchmarkTunings(b *testing.B) {
	was, _, _ := kernel.Tuned()
	defer kernel.Tune(was)
	for _, threads := range []int{1, 2} {
		pool := kernel.NewPool(threads)
		defer pool.Close()
		for _, c := range []struct {
			layout, alphabet string
			group            int
		}{
			{"vnni4i", pack.Ternary.Name, 0}, {"vnni4", pack.Int8.Name, 0}, {"vnni4i", pack.Int4.Name, 0},
			{"vnni4i", pack.Int4.Name, 128}, {"vnni4i", pack.Int4.Name, 32},
			{"vnni4i", pack.Ternary.Name, 128},
			{"vnni4i", pack.E2M1.Name, 32},
		} {
			for _, tokens := range []int{1, 2, 4, 8, 128} {
				name := fmt.Sprintf("%s-%s/group%d/threads%d/tokens%d", c.layout, c.alphabet, c.group, threads, tokens)
				b.Run(name, func(b *testing.B) { tune(b, c.layout, c.alphabet, c.group, pool, tokens) })
			}
		}
	}
}

func tune(b *testing.B, layout, alphabet string, group int, pool *kernel.Pool, tokens int) {
	k := kernel.For(pack.Spec{Name: layout, Alphabet: alphabet})[0]
	bytes := 192 << 20
	if tokens > 8 {
		bytes = 2 << 20
	}
	p, done := bind(b, k, alphabet, group, bytes, tokens)
	defer done()
	const part = 8 << 20
	n, chunk := max(1, bytes/part), p.w.Chunk(tokens, pool.Threads())
	r, m := roofline.NewReader(p.w.Memory(), pool), &roofline.Multiplier{ISA: k.ISA}
	reads, list := newSlices(r, r.Parts(), roofline.ReadChunk, n), kernel.Tunings()
	muls := make([]*slices, len(list))
	for i := range muls {
		muls[i] = newSlices(p, p.w.Panels(), chunk, n)
	}
	const parts = 100
	best := time.Hour
	for b.Loop() {
		for start := time.Now(); time.Since(start) < 1500*time.Millisecond; {
			for i := range n {
				reads.run(pool, i)
				begin := time.Now()
				pool.Run(parts, 10, m)
				best = min(best, time.Since(begin))
				for j, t := range list {
					kernel.Tune(t)
					muls[j].run(pool, (i+n*(j+1)/(len(list)+1))%n)
				}
			}
		}
		read, peak := roofline.GBs(r.Bytes(), reads.total()), roofline.GOPS(parts*m.Operations(), best)
		b.ReportMetric(read, "readGB/s")
		b.ReportMetric(peak, "peakGOPS")
		for j := range list {
			took := muls[j].total()
			gbs, gops := roofline.GBs(p.bytes(), took), roofline.GOPS(2*p.w.Shape.M*p.w.Shape.K*tokens, took)
			b.ReportMetric(max(gbs/read, gops/peak), fmt.Sprintf("%d:fraction", j+1))
		}
	}
}
