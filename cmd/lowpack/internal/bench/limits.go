package bench

import (
	"cmp"
	"context"
	"time"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/kernel/roofline"
	"github.com/lowpack/lowpack/internal/offheap"
)

// limits bound the work of some threads: memory bandwidth and peak int8 throughput.
type limits struct {
	pool   *kernel.Pool
	read   *stretch
	buffer *roofline.Reader
}

// newMemory allocates memory for limits to read, more than the caches of that many threads hold.
func (m *Meter) newMemory(threads int) []byte {
	b := largeBuffer(cmp.Or(m.Memory, memorySize(cacheLevels(), threads)))
	touch(b)
	return b
}

// largeBuffer allocates memory that is kept until the process ends, in large pages if available: a mapped file is
// contiguous in memory as well, while small pages of the heap are scattered, which slows reading down by up to a third.
func largeBuffer(n int) []byte {
	b, err := offheap.New(n)
	if err != nil {
		return make([]byte, n)
	}
	return b.Bytes
}

// touch writes to every page: memory never written to is one page of zeros, read from the nearest cache.
func touch(b []byte) {
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
}

// newLimits returns the limits of a number of threads. Each turn reads another stretch of the memory: short enough that
// most are undisturbed on a machine that occasionally does other work, all of them together too large for a cache.
func newLimits(memory []byte, threads int) *limits {
	const perThread = 2 << 20
	pool := kernel.NewPool(threads)
	r := roofline.NewReader(memory, pool)
	of := max(1, r.Bytes()/(perThread*threads))
	return &limits{pool, &stretch{task: r, parts: r.Parts() / of, of: of}, r}
}

func (l *limits) close() { l.pool.Close() }

// readOnce reads readBytes of memory.
func (l *limits) readOnce() {
	l.pool.Run(l.read.parts, roofline.ReadChunk, l.read)
	l.read.at = (l.read.at + 1) % l.read.of
}

// warm reads all of the memory: the host of a virtual machine takes away what was not read for minutes, and to bring it
// back is slower by a factor of ten or more than to read it.
func (l *limits) warm() {
	for range l.read.of {
		l.readOnce()
	}
}

// asleep is longer than workers spin before they sleep.
const asleep = time.Millisecond

// once measures how long it takes to read readBytes and to multiply multiplyOps, reading for some time. Before, the
// spinning workers of other pools go to sleep; afterwards, the workers of this pool do.
func (l *limits) once(mul *roofline.Multiplier, d time.Duration) (read, multiply time.Duration) {
	time.Sleep(asleep)
	defer time.Sleep(asleep)
	l.readOnce()
	n, t := 0, now()
	for ; n == 0 || since(t) < d; n++ {
		l.readOnce()
	}
	read = since(t)
	t = now()
	l.multiplyOnce(mul)
	return read / time.Duration(n), since(t)
}

func (l *limits) readBytes() int { return l.read.parts * roofline.ReadBlock }

// stretch is the part of a task that the next turn carries out.
type stretch struct {
	task      kernel.Task
	parts, of int // of one stretch; number of stretches
	at        int
}

func (s *stretch) Do(from, to int) { s.task.Do(s.at*s.parts+from, s.at*s.parts+to) }

// multiplyParts of a turn of multiplication, per thread: some tenths of a millisecond.
const multiplyParts = 200

// multiplyOnce multiplies with one instruction set.
func (l *limits) multiplyOnce(m *roofline.Multiplier) {
	l.pool.Run(multiplyParts*l.pool.Threads(), multiplyParts/10, m)
}

func (l *limits) multiplyOps(m *roofline.Multiplier) int {
	return multiplyParts * l.pool.Threads() * m.Operations()
}

// Figures of some work, and of the limits that were measured interleaved with it.
type Figures struct {
	Turns    int      `json:"turns"`
	Seconds  Quantity `json:"seconds"`
	GBs      float64  `json:"gb_per_second"`      // weights
	GOPS     float64  `json:"gops"`               // a multiplication and an addition are two operations
	ReadGBs  float64  `json:"read_gb_per_second"` // limit: the fastest loop that only reads memory
	PeakGOPS float64  `json:"multiply_gops"`      // limit: a loop that only multiplies and adds registers
	Bound    Bound    `json:"bound"`              // the nearer limit
	Fraction Quantity `json:"fraction"`           // of the speed at which the work would meet this limit
	Noise    bool     `json:"noise"`              // true: the rest is not a result
}

// Bound names a limit.
type Bound string

// The limits.
const (
	Memory   Bound = "memory"
	Multiply Bound = "multiply"
)

// work is a measured operation to compare with the limits.
type work struct {
	isa   kernel.ISA // of the multiplications
	bytes int        // of weights read, and of KV
	ops   int        // integer operations
	scale float64    // times that one call is of the whole that bytes and ops are about

	floats bool // the operations are those of float32, and so is the limit of multiplication
}

// multiplier is the loop that limits the operations.
func (w *work) multiplier() *roofline.Multiplier {
	return &roofline.Multiplier{ISA: w.isa, Floats: w.floats}
}

// turn holds the duration of each operation in one turn.
type turn struct{ work, read, multiply time.Duration }

// measure holds do against the limits for some time.
func (l *limits) measure(ctx context.Context, m *Meter, w work, do func()) (Figures, error) {
	mul := w.multiplier()
	return steady(m, func() (Figures, error) {
		t, err := m.sample(ctx, do, l.readOnce, func() { l.multiplyOnce(mul) })
		if err != nil {
			return Figures{}, err
		}
		return l.judge(m, w, asTurns(t[0], t[1], t[2])), nil
	}, Figures.spread)
}

// measureCold is measure for work on workers of its own that finds nothing in a cache but what prepare leaves there. In
// each turn all of the memory is read first, and workers go to sleep before those of others start.
func (l *limits) measureCold(ctx context.Context, m *Meter, w work, prepare, do func()) (Figures, error) {
	mul := w.multiplier()
	rest := func() { time.Sleep(asleep) }
	return steady(m, func() (Figures, error) {
		t, err := m.sample(ctx, l.warm, rest, prepare, do, rest, l.readOnce, func() { l.multiplyOnce(mul) })
		if err != nil {
			return Figures{}, err
		}
		return l.judge(m, w, asTurns(t[3], t[5], t[6])), nil
	}, Figures.spread)
}

// asTurns puts the durations of each turn together.
func asTurns(work, read, multiply []time.Duration) []turn {
	list := make([]turn, len(work))
	for i := range list {
		list[i] = turn{work[i], read[i], multiply[i]}
	}
	return list
}

// judge computes figures from turns. The fraction of a turn is the time that the work would take at the nearer limit,
// as measured in this turn, over the time that it took (the roofline of Williams, Waterman and Patterson, 2009).
func (l *limits) judge(m *Meter, w work, list []turn) Figures {
	mul := w.multiplier()
	var took, read, multiply, fraction []float64
	for _, t := range list {
		perByte := t.read.Seconds() / float64(l.readBytes())
		perOp := t.multiply.Seconds() / float64(l.multiplyOps(mul))
		seconds := t.work.Seconds() * w.scale
		took, read, multiply = append(took, seconds), append(read, 1e-9/perByte), append(multiply, 1e-9/perOp)
		fraction = append(fraction, max(perByte*float64(w.bytes), perOp*float64(w.ops))/seconds)
	}
	f := Figures{Turns: len(list), Seconds: quantity(took), ReadGBs: quantity(read).Median,
		PeakGOPS: quantity(multiply).Median, Fraction: quantity(fraction)}
	f.GBs, f.GOPS = float64(w.bytes)/f.Seconds.Median/1e9, float64(w.ops)/f.Seconds.Median/1e9
	f.Bound = Memory
	if float64(w.ops)/f.PeakGOPS > float64(w.bytes)/f.ReadGBs {
		f.Bound = Multiply
	}
	f.Noise = f.spread() > m.MaxSpread
	return f
}

// apart returns the figures without limits: those of this CPU are not those of a device.
func (f Figures) apart(m *Meter) Figures {
	f.ReadGBs, f.PeakGOPS, f.Bound, f.Fraction = 0, 0, "", Quantity{}
	f.Noise = f.Seconds.Spread > m.MaxSpread
	return f
}

func (f Figures) spread() float64 { return max(f.Seconds.Spread, f.Fraction.Spread) }
