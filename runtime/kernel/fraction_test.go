package kernel_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/kernel"
	"github.com/lowpack/lowpack/runtime/kernel/ceiling"
)

// product is a Task: panels of a matrix times a batch.
type product struct {
	w   *kernel.Weights
	y   []int32
	ldy int
	x   *kernel.Activations
}

func (p *product) Do(from, to int) { p.w.Mul(p.y, p.ldy, p.x, from, to) }

// BenchmarkFractions measures kernels against the limits of the machine, in turns with them, and reports the fastest of
// many runs of each: docs/KERNELS.md is made of its figures.
//
//	memory/…: matrix–vector products over 256 MB of weights, as a fraction of what a loop that only reads gets
//	cache/…:  the same over 512 KiB, in GB/s
//	multiply/…: matrix–matrix products, as a fraction of a loop that only multiplies in registers
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
				b.Run("memory/"+name, func(b *testing.B) { vector(b, k, alphabet, pool, 256<<20, 1500*time.Millisecond) })
				b.Run("cache/"+name, func(b *testing.B) { vector(b, k, alphabet, pool, 512<<10, 100*time.Millisecond) })
				for _, tokens := range []int{4, 8, 32, 128} {
					b.Run(fmt.Sprintf("multiply/%s/tokens%d", name, tokens), func(b *testing.B) { batch(b, k, alphabet, pool, tokens) })
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
func bind(b *testing.B, k *kernel.Kernel, alphabet string, bytes, tokens int) (*product, func()) {
	name := k.Layout
	if name == "*" {
		name = "blocked"
	}
	l, err := pack.Open(pack.Spec{Name: name, Alphabet: alphabet})
	if err != nil {
		b.Fatal(err)
	}
	const columns, some = 2560, 640
	size, err := l.PackedSize(pack.Shape{M: some, K: columns})
	if err != nil {
		b.Fatal(err)
	}
	s := pack.Shape{M: max(some, bytes/size*some), K: columns}
	if size, err = l.PackedSize(s); err != nil {
		b.Fatal(err)
	}
	packed := make([]byte, size)
	for i := range packed {
		packed[i] = byte(i * 37 % 81) // a legal byte of every layout of four columns; what a kernel reads does not change its speed
	}
	if k.Layout == "*" {
		clear(packed)
	}
	w, err := kernel.BindWith(k, l, s, packed, 0)
	if err != nil {
		b.Skip(err)
	}
	return &product{w, make([]int32, tokens*s.M), s.M, kernel.NewActivations(tokens, columns)}, w.Close
}

func vector(b *testing.B, k *kernel.Kernel, alphabet string, pool *kernel.Pool, bytes int, d time.Duration) {
	p, done := bind(b, k, alphabet, bytes, 1)
	defer done()
	chunk := p.w.Chunk(1, pool.Threads())
	r := &ceiling.Reader{Memory: make([]byte, p.w.Bytes())}
	for i := range r.Memory {
		r.Memory[i] = byte(i)
	}
	// Slices of 8 MB, one after another: short enough for some to be undisturbed, all together too large for a cache.
	slices := max(1, bytes>>23)
	reads, muls := &slice{task: r, parts: r.Parts(), chunk: 4, of: slices}, &slice{task: p, parts: p.w.Panels(), chunk: chunk, of: slices}
	for b.Loop() {
		best := ceiling.Fastest(d, func() { reads.next(pool) }, func() { muls.next(pool) })
		read := ceiling.GBs(r.Bytes()/slices, best[0])
		mul := ceiling.GBs(p.w.Bytes()/slices, best[1])
		b.ReportMetric(read, "readGB/s")
		b.ReportMetric(mul, "GB/s")
		b.ReportMetric(mul/read, "fraction")
	}
}

// slice carries a task out one part after another.
type slice struct {
	task             kernel.Task
	parts, chunk, of int
	at               int
}

func (s *slice) Do(from, to int) { s.task.Do(s.at*s.parts/s.of+from, s.at*s.parts/s.of+to) }

func (s *slice) next(pool *kernel.Pool) {
	pool.Run(s.parts/s.of, s.chunk, s)
	s.at = (s.at + 1) % s.of
}

func batch(b *testing.B, k *kernel.Kernel, alphabet string, pool *kernel.Pool, tokens int) {
	p, done := bind(b, k, alphabet, 1<<20, tokens)
	defer done()
	m := &ceiling.Multiplier{ISA: k.ISA}
	const parts = 200
	for b.Loop() {
		best := ceiling.Fastest(150*time.Millisecond, func() { pool.Run(parts, 10, m) },
			func() { pool.Run(p.w.Panels(), p.w.Chunk(tokens, pool.Threads()), p) })
		limit := ceiling.GOPS(parts*m.Operations(), best[0])
		got := ceiling.GOPS(2*p.w.Shape.M*p.w.Shape.K*tokens, best[1])
		b.ReportMetric(limit, "limitGOPS")
		b.ReportMetric(got, "GOPS")
		b.ReportMetric(got/limit, "fraction")
	}
}
