// Package roofline measures the roofs of a machine: how fast its cores read memory, and how fast they multiply small
// integers and floats. The speed of a kernel means something as a fraction of such a limit, measured in the same run,
// interleaved with it: clocks, other tenants and memory change from minute to minute.
package roofline

import (
	"time"

	"github.com/lowpack/lowpack/internal/kernel"
)

// Fastest runs each function in turn, again and again, for about the given time and three times at least, and returns
// the shortest time that each took. Disturbances only make a run longer, so the shortest is what the machine can do.
func Fastest(d time.Duration, functions ...func()) []time.Duration {
	best := make([]time.Duration, len(functions))
	start := time.Now()
	for round := 0; round < 3 || time.Since(start) < d; round++ {
		for i, f := range functions {
			t := time.Now()
			f()
			if took := max(time.Since(t), 1); round == 0 || took < best[i] {
				best[i] = took
			}
		}
	}
	return best
}

// Read reads p, in runs of 512 bytes, and does nothing with it. What is left over is not read.
func Read(p []byte) { stream(p) }

// way is one of the loops that read memory.
type way struct {
	about string
	read  func(p []byte)
}

// Reader reads memory and does nothing with it. It is a Task of len(Memory)/ReadBlock parts.
type Reader struct {
	Memory []byte
	way    int
}

// NewReader picks the loop that reads the memory fastest with the workers of a pool: with one stream or several, each
// with suitable prefetches. The limit of a machine is the best known, not what one loop reaches.
func NewReader(memory []byte, p *kernel.Pool) *Reader {
	const stretch, each = 8 << 20 / ReadBlock, 20 * time.Millisecond
	r := &Reader{Memory: memory}
	if len(ways) == 1 || r.Parts() == 0 {
		return r
	}
	tries, at := make([]func(), len(ways)), 0
	for i := range ways {
		tries[i] = func() {
			n := min(stretch, r.Parts())
			at = (at + n) % (r.Parts() - n + 1)
			part := &Reader{memory[at*ReadBlock:][:n*ReadBlock], i}
			part.Run(p)
		}
	}
	best := Fastest(time.Duration(len(ways))*each, tries...)
	for i, took := range best {
		if took < best[r.way] {
			r.way = i
		}
	}
	return r
}

// About says how memory is read.
func (r *Reader) About() string { return ways[r.way].about }

const (
	ReadBlock = 32 << 10            // bytes of a part
	ReadChunk = 1 << 20 / ReadBlock // parts for a worker to read at once: a beginning costs time, here as in kernels
)

// Parts is the number of parts; what is left over is not read.
func (r *Reader) Parts() int { return len(r.Memory) / ReadBlock }

// Bytes is the number of bytes that all parts read.
func (r *Reader) Bytes() int { return r.Parts() * ReadBlock }

// Do reads parts [from, to).
func (r *Reader) Do(from, to int) { ways[r.way].read(r.Memory[from*ReadBlock : to*ReadBlock]) }

// Run reads all of it with the workers of a pool.
func (r *Reader) Run(p *kernel.Pool) { p.Run(r.Parts(), ReadChunk, r) }

// Multiplier multiplies and adds in registers, with the instructions of one instruction set. It is a Task: a part is
// about a microsecond of work.
type Multiplier struct {
	ISA    kernel.ISA
	Floats bool // float32, products fused with their additions, in place of small integers
}

// multiplyTurns is the number of turns of the loops in one part.
const multiplyTurns = 64

// Operations is the number of operations of a part: a multiplication and an addition are two.
func (m *Multiplier) Operations() int {
	_, products := m.loop()
	return 2 * multiplyTurns * products
}

// Do multiplies parts [from, to).
func (m *Multiplier) Do(from, to int) {
	run, _ := m.loop()
	run((to - from) * multiplyTurns)
}

// loop is a function of a number of turns, and the products of a turn.
func (m *Multiplier) loop() (run func(n int), products int) {
	if m.Floats {
		return floats(m.ISA)
	}
	return integers(m.ISA)
}

// GBs is billions of bytes per second.
func GBs(bytes int, d time.Duration) float64 { return float64(bytes) / float64(d.Nanoseconds()) }

// GOPS is billions of operations per second.
func GOPS(operations int, d time.Duration) float64 {
	return float64(operations) / float64(d.Nanoseconds())
}
