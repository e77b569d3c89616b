package bench

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
)

// Runner measures some work once: its rate, and that which the nearer limit of the machine allows.
type Runner func(ctx context.Context, w Work) (rate, limit float64, err error)

// Reporter completes reports.
type Reporter struct {
	Runners  []Runner            // of the forms of the report
	More     func() bool         // false ends the measurement after a turn
	Save     func(*Report) error // is called after every turn
	Progress func(done, total int, at string)
}

// Run measures what a report does not have yet.
func (p *Reporter) Run(ctx context.Context, r *Report) error {
	missing := r.Missing()
	total := len(r.Samples) + len(missing)
	for _, s := range missing {
		if !p.More() {
			return nil
		}
		w, f := r.Works[s.Work], &r.Forms[s.Form]
		at := fmt.Sprintf("round %d of %d, %s, %s: %s", s.Round+1, r.Rounds, w.Model, w.Label(), f.Runtime)
		p.Progress(len(r.Samples), total, at)
		before := processors()
		var err error
		if s.Rate, s.Limit, err = p.Runners[s.Form](ctx, w); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		s.Others = before.others(processors())
		r.Samples = append(r.Samples, s)
		r.Busy = r.others() > mostOthers
		if err := p.Save(r); err != nil {
			return err
		}
	}
	return nil
}

// Roofs measure the limits of the machine beside the work of runners.
type Roofs struct {
	limits  *limits
	threads int
}

// NewRoofs returns the limits of a number of threads. Close ends them.
func NewRoofs(m *Meter, threads int) *Roofs {
	return &Roofs{newLimits(m.newMemory(threads), threads), threads}
}

// Close ends the threads.
func (f *Roofs) Close() { f.limits.close() }

// reportPasses is how often a turn computes a prompt after its warm-up: the rounds repeat it.
const reportPasses = 2

// Packed returns a runner that measures a packed file in this process. Keys and values are f16, as in llama.cpp.
func (f *Roofs) Packed(path string) Runner {
	return func(ctx context.Context, w Work) (rate, limit float64, err error) {
		file, d, err := openModel(path)
		if err != nil {
			return 0, 0, err
		}
		defer file.Close()
		r := &modelRun{ModelOptions: &ModelOptions{Cache: engine.CacheF16, Generate: w.Tokens}, file: file,
			ops: countOperations(d, file.Manifest()), passes: reportPasses}
		r.MaxSpread = math.MaxFloat64 // the rounds show how much it spreads
		row := ModelRow{What: w.What, Tokens: w.Tokens, Batch: w.Batch, Threads: f.threads}
		f.limits.warm()
		if err := r.row(ctx, f.limits, row); err != nil {
			return 0, 0, err
		}
		got := &r.Rows[0]
		if got.Refused != "" {
			return 0, 0, fmt.Errorf("%w: %s", pack.ErrUnsupported, got.Refused)
		}
		return got.TokensPerSec, got.TokensPerSec / got.Fraction.Median, nil
	}
}

// HashRate measures how many bytes per second one SHA-256 digests.
func HashRate() float64 {
	data := make([]byte, 32<<20)
	sha256.Sum256(data) // new memory
	t := now()
	sha256.Sum256(data)
	return float64(len(data)) / max(since(t), 1).Seconds()
}

// ticks are times of processors, in the unit of the system.
type ticks struct{ all, idle, own float64 }

// processors reads how long all processors worked, and how long they did for this process and those that it waited for;
// nothing where the system does not say.
func processors() (t ticks) {
	system, _ := os.ReadFile("/proc/stat") // no file: no fields
	line, _, _ := strings.Cut(string(system), "\n")
	for i, x := range numbers(line) {
		if i < 8 { // later ones are counted in the first two
			t.all += x
		}
		if i == 3 || i == 4 {
			t.idle += x
		}
	}
	process, _ := os.ReadFile("/proc/self/stat")
	_, rest, _ := strings.Cut(string(process), ") ") // the name may have spaces
	if fields := numbers(rest); len(fields) > 14 {
		for _, x := range fields[10:14] { // utime, stime and those of children
			t.own += x
		}
	}
	return t
}

// numbers parses the fields of a line after the first one.
func numbers(line string) (list []float64) {
	fields := strings.Fields(line)
	for _, s := range fields[min(1, len(fields)):] {
		x, _ := strconv.ParseFloat(s, 64) // a field that is none is not read
		list = append(list, x)
	}
	return list
}

// others returns the share of the processors that other processes, and other tenants of the host, took since t.
func (t ticks) others(later ticks) float64 {
	all := later.all - t.all
	if all <= 0 || later.own == 0 {
		return -1
	}
	busy := all - (later.idle - t.idle)
	return max(0, busy-(later.own-t.own)) / all
}
