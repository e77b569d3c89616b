package kernel_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/kernel/roofline"
	"github.com/lowpack/lowpack/internal/offheap"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/pack"
)

// product is a Task: panels of a matrix times a batch.
type product struct {
	w      *kernel.Weights
	y      []int32
	scaled []float32 // in place of y, with group-wise scales
	ldy    int
	x      *kernel.Activations
}

func (p *product) Do(from, to int) {
	if p.scaled != nil {
		p.w.MulScaled(p.scaled, p.ldy, p.x, from, to)
	} else {
		p.w.Mul(p.y, p.ldy, p.x, from, to)
	}
}

// bytes of weights, and of the group-wise scales as the kernel reads them.
func (p *product) bytes() int {
	if p.scaled == nil {
		return p.w.Bytes()
	}
	return p.w.Bytes() + p.w.ScaleBytes()
}

// BenchmarkFractions measures kernels against the limits of the machine, interleaved with them, and reports the fastest
// of many runs of each: docs/notes/kernels.md is made of its figures.
//
//	memory/…: matrix–vector products over 256 MB of weights, as a fraction of what a loop that only reads gets
//	cache/…:  the same over 512 KiB, in GB/s
//	groups/…: matrix–vector products with group-wise scales, over 256 MB and, in GB/s, over 512 KiB
//	multiply/…: matrix–matrix products, of whole rows and of groups, as a fraction of a loop that only multiplies in
//	registers
func BenchmarkFractions(b *testing.B) {
	for _, threads := range []int{1, 2} {
		pool := kernel.NewPool(threads)
		defer pool.Close()
		for _, k := range kernel.Kernels() {
			if k.ISA == kernel.Generic || !kernel.Have(k.ISA) {
				continue
			}
			for _, alphabet := range alphabets(b, k) {
				name := fmt.Sprintf("%v-%s/threads%d", k, alphabet, threads)
				b.Run("memory/"+name, func(b *testing.B) {
					vector(b, k, benchShape{alphabet, 0, 1, 256 << 20}, pool, 1500*time.Millisecond)
				})
				b.Run("cache/"+name, func(b *testing.B) {
					vector(b, k, benchShape{alphabet, 0, 1, 512 << 10}, pool, 100*time.Millisecond)
				})
				for _, group := range []int{128, 64, 32, 16} {
					name := fmt.Sprintf("groups/%s/group%d", name, group)
					b.Run(name+"/memory", func(b *testing.B) {
						vector(b, k, benchShape{alphabet, group, 1, 256 << 20}, pool, time.Second)
					})
					b.Run(name+"/cache", func(b *testing.B) {
						vector(b, k, benchShape{alphabet, group, 1, 512 << 10}, pool, 100*time.Millisecond)
					})
				}
				for _, tokens := range []int{4, 8, 32, 128} {
					b.Run(fmt.Sprintf("multiply/%s/tokens%d", name, tokens),
						func(b *testing.B) { batch(b, k, benchShape{alphabet, 0, tokens, 1 << 20}, pool) })
				}
				for _, group := range []int{256, 128, 64, 32} {
					for _, tokens := range []int{4, 8, 16, 32, 128, 512} {
						b.Run(fmt.Sprintf("multiply/%s/group%d/tokens%d", name, group, tokens),
							func(b *testing.B) { batch(b, k, benchShape{alphabet, group, tokens, 32 << 20}, pool) })
					}
				}
			}
		}
	}
}

// alphabets lists those that differ in the kernel.
func alphabets(b *testing.B, k *kernel.Kernel) []string {
	if k.Layout == "*" {
		return []string{pack.Ternary.Name}
	}
	info, err := pack.FindLayout(k.Layout)
	if err != nil {
		b.Fatal(err)
	}
	if k.Alphabets != nil {
		return k.Alphabets[:1]
	}
	return info.AlphabetNames()[:1]
}

// bind makes a matrix of about the given number of packed bytes, with 2560 columns.
func bind(b *testing.B, k *kernel.Kernel, alphabet string, group, bytes, tokens int) (*product, func()) {
	name := k.Layout
	if name == "*" {
		name = "blocked"
	}
	l, err := pack.Open(pack.Spec{Name: name, Alphabet: alphabet})
	if err != nil {
		b.Fatal(err)
	}
	const columns, some = 2560, 320
	size, err := l.PackedSize(pack.Shape{M: some, K: columns})
	if err != nil {
		b.Fatal(err)
	}
	s := pack.Shape{M: max(some, bytes/size*some), K: columns}
	if size, err = l.PackedSize(s); err != nil {
		b.Fatal(err)
	}
	buffer, err := offheap.New(size)
	if err != nil {
		b.Fatal(err)
	}
	packed := buffer.Bytes
	for i := range packed {
		// a legal byte of every layout of four columns; what a kernel reads does not change its speed
		packed[i] = byte(i * 37 % 81)
	}
	if k.Layout == "*" {
		clear(packed)
	}
	w, err := kernel.BindWith(k, l, s, packed, group)
	if err != nil {
		b.Skip(err)
	}
	p := &product{w: w, ldy: s.M, x: kernel.NewActivations(tokens, columns)}
	if w.Groups() == 1 {
		p.y = make([]int32, tokens*s.M)
	} else if err := w.Scale(kernel.Scales{Halves: make([]byte, 2*s.M*w.Groups()), Group: w.Group},
		tensor.BlockScales); err != nil {
		b.Fatal(err)
	} else {
		p.scaled = make([]float32, tokens*s.M)
	}
	return p, func() { w.Close(); buffer.Free() }
}

// benchShape is a matrix of the given number of bytes of weights, and the tokens that it is multiplied by.
type benchShape struct {
	alphabet             string
	group, tokens, bytes int
}

func vector(b *testing.B, k *kernel.Kernel, shape benchShape, pool *kernel.Pool, d time.Duration) {
	bytes := shape.bytes
	p, done := bind(b, k, shape.alphabet, shape.group, bytes, 1)
	defer done()
	chunk := p.w.Chunk(1, pool.Threads())
	r := roofline.NewReader(p.w.Memory(), pool) // the same bytes: the place in memory makes a difference of a fifth
	// short enough for some runs to be undisturbed, all together too large for a cache
	const part = 8 << 20
	n := max(1, bytes/part)
	reads, muls := newSlices(r, r.Parts(), roofline.ReadChunk, n), newSlices(p, p.w.Panels(), chunk, n)
	for b.Loop() {
		for start := time.Now(); time.Since(start) < d; {
			for i := range n {
				reads.run(pool, i)
				muls.run(pool, (i+n/2)%n)
			}
		}
		read, mul := roofline.GBs(r.Bytes(), reads.total()), roofline.GBs(p.bytes(), muls.total())
		b.ReportMetric(read, "readGB/s")
		b.ReportMetric(mul, "GB/s")
		b.ReportMetric(mul/read, "fraction")
	}
}

// slices carry a task out in parts and keep the shortest time that each took.
type slices struct {
	task     kernel.Task
	n, chunk int
	best     []time.Duration
	first    int
}

func newSlices(task kernel.Task, n, chunk, parts int) *slices {
	return &slices{task: task, n: n, chunk: chunk, best: make([]time.Duration, parts)}
}

func (s *slices) Do(from, to int) { s.task.Do(s.first+from, s.first+to) }

func (s *slices) run(pool *kernel.Pool, i int) {
	s.first = s.n * i / len(s.best)
	start := time.Now()
	pool.Run(s.n*(i+1)/len(s.best)-s.first, s.chunk, s)
	if took := time.Since(start); s.best[i] == 0 || took < s.best[i] {
		s.best[i] = took
	}
}

// total is the time of all parts when each is at its best.
func (s *slices) total() (d time.Duration) {
	for _, t := range s.best {
		d += t
	}
	return d
}

// batch multiplies matrices of up to 4 MiB by turns: their results stay in a cache, as those of a model's matrices do.
func batch(b *testing.B, k *kernel.Kernel, shape benchShape, pool *kernel.Pool) {
	const most, parts = 4 << 20, 200
	var muls []*slices
	operations := 0
	for range max(1, shape.bytes/most) {
		p, done := bind(b, k, shape.alphabet, shape.group, min(shape.bytes, most), shape.tokens)
		defer done()
		muls = append(muls, newSlices(p, p.w.Panels(), p.w.Chunk(shape.tokens, pool.Threads()), 1))
		operations += 2 * p.w.Shape.M * p.w.Shape.K * shape.tokens
	}
	m := &roofline.Multiplier{ISA: k.ISA}
	peak := newSlices(m, parts, 10, 1)
	for b.Loop() {
		for i, start := 0, time.Now(); i < 3*len(muls) || time.Since(start) < 150*time.Millisecond; i++ {
			peak.run(pool, 0)
			muls[i%len(muls)].run(pool, 0)
		}
		var took time.Duration
		for _, s := range muls {
			took += s.total()
		}
		limit, got := roofline.GOPS(parts*m.Operations(), peak.total()), roofline.GOPS(operations, took)
		b.ReportMetric(limit, "limitGOPS")
		b.ReportMetric(got, "GOPS")
		b.ReportMetric(got/limit, "fraction")
	}
}
