package roofline

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/testkit/fence"
)

func TestFastest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		got := Fastest(0, func() { calls++; time.Sleep(time.Duration(calls) * time.Millisecond) },
			func() { time.Sleep(time.Microsecond) })
		if calls != 3 {
			t.Errorf("%d rounds instead of 3", calls)
		}
		if got[0] != time.Millisecond || got[1] != time.Microsecond {
			t.Errorf("fastest times %v", got)
		}
	})
}

// TestLimits holds the loops to bounds that no machine of this decade falls short of or exceeds, so that a loop that
// skips its work or miscounts it is found.
func TestLimits(t *testing.T) {
	p := kernel.NewPool(1)
	defer p.Close()
	r := &Reader{Memory: make([]byte, 1<<20+1)}
	if r.Bytes() != 1<<20 {
		t.Errorf("%d bytes", r.Bytes())
	}
	for _, isa := range kernel.Available() {
		m, f := &Multiplier{ISA: isa}, &Multiplier{ISA: isa, Floats: true}
		best := Fastest(20*time.Millisecond, func() { r.Run(p) }, func() { m.Do(0, 10) }, func() { f.Do(0, 10) })
		if v := GBs(r.Bytes(), best[0]); v < 0.5 || v > 1000 {
			t.Errorf("%s: %.1f GB/s", isa, v)
		}
		for i, m := range []*Multiplier{m, f} {
			if v := GOPS(10*m.Operations(), best[1+i]); v < 0.01 || v > 10000 {
				t.Errorf("%s, floats %v: %.1f GOPS", isa, m.Floats, v)
			}
		}
	}
}

func BenchmarkLimits(b *testing.B) {
	p := kernel.NewPool(1)
	defer p.Close()
	for _, size := range []int{32 << 10, 512 << 10, 256 << 20} {
		r := &Reader{Memory: make([]byte, size)}
		for i := 0; i < size; i += 4096 {
			r.Memory[i] = 1
		}
		b.Logf("%d KiB: %.1f GB/s", size>>10, GBs(r.Bytes(), Fastest(300*time.Millisecond, func() { r.Run(p) })[0]))
	}
	for _, isa := range kernel.Available() {
		for _, floats := range []bool{false, true} {
			m := &Multiplier{isa, floats}
			b.Logf("%s, floats %v: %.0f GOPS", isa, floats,
				GOPS(100*m.Operations(), Fastest(100*time.Millisecond, func() { m.Do(0, 100) })[0]))
		}
	}
}

// TestWays: every loop reads within its memory, takes no less time than any machine needs for all of it, and the one
// that is chosen is one of them.
func TestWays(t *testing.T) {
	region := fence.New(t, 2<<20)
	for i, w := range ways {
		for _, n := range []int{0, 511, 512, 4096, 32 << 10, 32<<10 + 512, 1<<20 + 4096 + 512} {
			w.read(fence.Tail[byte](region, n))
			w.read(fence.Head[byte](region, n))
		}
		b := make([]byte, 8<<20)
		took := Fastest(0, func() { w.read(b) })[0]
		if v := GBs(len(b), took); v < 0.2 || v > 1000 {
			t.Errorf("way %d, %s: %.1f GB/s", i, w.about, v)
		}
	}
	p := kernel.NewPool(1)
	defer p.Close()
	r := NewReader(make([]byte, 1<<20), p)
	if r.About() == "" || r.Parts() != 32 {
		t.Errorf("%q, %d parts", r.About(), r.Parts())
	}
}
