package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/kernel/roofline"
	"github.com/lowpack/lowpack/pack"
)

// MachineSchema names the form of a MachineReport in JSON. It changes when a field changes its meaning.
const MachineSchema = "lowpack.bench.machine/1"

// MachineReport is the limits of a machine.
type MachineReport struct {
	Schema string       `json:"schema"`
	Host   Host         `json:"host"`
	Rows   []MachineRow `json:"rows"`
	// Choices are those of kernels; nil if they were not measured.
	Choices *ChoicesReport `json:"choices,omitempty"`
}

// MachineRow is one limit.
type MachineRow struct {
	What    string   `json:"what"`          // Read or Operate
	Where   string   `json:"where"`         // level of the caches or "memory"; instruction set
	Bytes   int      `json:"bytes"`         // read repeatedly by all threads together; 0 if nothing is read
	Threads int      `json:"threads"`       // that work at the same time
	How     string   `json:"how,omitempty"` // memory was read fastest
	Seconds Quantity `json:"seconds"`       // of one turn
	Rate    float64  `json:"rate"`          // bytes or operations per second
	Noise   bool     `json:"noise"`         // true: the rest is not a result
}

// What a MachineRow measures.
const (
	Read    = "read"     // a loop that only reads
	Operate = "multiply" // a loop that multiplies and adds registers; each is an operation
)

// memoryLevel is MachineRow.Where for data that no cache holds.
const memoryLevel = "memory"

// Machine measures the limits of this machine, with each number of threads (0 = all).
func Machine(ctx context.Context, m Meter, threads []int) (*MachineReport, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	if err := kernel.Check(); err != nil {
		return nil, err
	}
	if len(threads) == 0 {
		return nil, fmt.Errorf("%w: without a number of threads nothing is measured", pack.ErrUnsupported)
	}
	r := &machineRun{Meter: &m, MachineReport: MachineReport{Schema: MachineSchema, Host: host()}}
	threads = threadCounts(threads)
	levels := cacheLevels()
	r.total = len(threads) * (len(levels) + 1 + len(r.Host.ISAs))
	memory := m.newMemory(slices.Max(threads))
	for _, n := range threads {
		if err := r.threads(ctx, levels, memory, n); err != nil {
			return nil, err
		}
	}
	noisy := 0
	for _, row := range r.Rows {
		if row.Noise {
			noisy++
		}
	}
	return &r.MachineReport, m.noise(noisy, len(r.Rows))
}

type machineRun struct {
	*Meter
	MachineReport
	total int
}

// threads measures the limits of n threads.
func (r *machineRun) threads(ctx context.Context, levels []level, memory []byte, n int) error {
	l := newLimits(memory, n)
	defer l.close()
	for _, level := range levels {
		t := newRereads(level.share(n), n)
		row := MachineRow{What: Read, Where: level.name, Bytes: n * len(t.private[0]), Threads: n}
		if err := r.row(ctx, row, t.bytes(), func() { l.pool.Run(n, 1, t) }); err != nil {
			return err
		}
	}
	row := MachineRow{What: Read, Where: memoryLevel, Bytes: l.buffer.Bytes(), Threads: n, How: l.buffer.About()}
	if err := r.row(ctx, row, l.readBytes(), l.readOnce); err != nil {
		return err
	}
	for _, isa := range r.Host.ISAs {
		mul := &roofline.Multiplier{ISA: isa}
		row := MachineRow{What: Operate, Where: string(isa), Threads: n}
		if err := r.row(ctx, row, l.multiplyOps(mul), func() { l.multiplyOnce(mul) }); err != nil {
			return err
		}
	}
	return nil
}

// row measures work of a number of bytes or operations, and adds it to the report.
func (r *machineRun) row(ctx context.Context, row MachineRow, amount int, do func()) error {
	r.progress(len(r.Rows), r.total, fmt.Sprintf("%s %s, %s", row.What, row.Where, Threads(row.Threads)))
	var err error
	row.Seconds, err = steady(r.Meter, func() (Quantity, error) {
		t, err := r.sample(ctx, do)
		if err != nil {
			return Quantity{}, err
		}
		return seconds(t[0]), nil
	}, func(q Quantity) float64 { return q.Spread })
	if err != nil {
		return err
	}
	row.Rate = float64(amount) / row.Seconds.Median
	row.Noise = row.Seconds.Spread > r.MaxSpread
	r.Rows = append(r.Rows, row)
	return nil
}

// Threads describes a number of threads.
func Threads(n int) string {
	if n == 1 {
		return "1 thread"
	}
	return strconv.Itoa(n) + " threads"
}

// rereads is a task of one part per thread: each rereads its own memory for a tenth of a millisecond or so.
type rereads struct {
	private [][]byte
	times   int
}

func newRereads(bytes, threads int) *rereads {
	const run = 512 // bytes that roofline.Read reads at a time
	const perTurn = 8 << 20
	bytes = max(run, bytes/run*run)
	r := &rereads{times: max(1, perTurn/bytes)}
	for range threads {
		b := make([]byte, bytes)
		touch(b)
		r.private = append(r.private, b)
	}
	return r
}

// bytes that all parts read.
func (r *rereads) bytes() int { return len(r.private) * len(r.private[0]) * r.times }

func (r *rereads) Do(from, to int) {
	for _, b := range r.private[from:to] {
		for range r.times {
			roofline.Read(b)
		}
	}
}
