package bench

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/version"
	"github.com/lowpack/lowpack/pack"
)

// ChoicesReport is what the kernels' choices cost and gain on this CPU, with one thread.
type ChoicesReport struct {
	Tunings    []TuningRow    `json:"tunings"` // none where there is no choice
	Thresholds []ThresholdRow `json:"thresholds"`
}

// TuningRow is a way to load weights.
type TuningRow struct {
	Name   string   `json:"name"`
	Time   Quantity `json:"time"` // of one token, over that with the tuning in force; the mean of some matrices
	Chosen bool     `json:"chosen"`
	Noise  bool     `json:"noise"` // true: the rest is not a result
}

// ThresholdRow is a number of tokens from which another way to multiply is faster.
type ThresholdRow struct {
	kernel.Threshold       // that was measured; 0 tokens = never
	InForce          int   `json:"in_force"` // tokens that this process used
	Measured         Case  `json:"measured"`
	Points           []Try `json:"points"` // in the order in which they were measured
	Noise            bool  `json:"noise"`  // true: the rest is not a result
}

// Case is the matrix that stands for all that a threshold is about.
type Case struct {
	Layout   string `json:"layout"`
	Alphabet string `json:"alphabet"`
	M        int    `json:"m"`
	K        int    `json:"k"`
	Group    int    `json:"group"` // columns that share a scale; 0 = all
}

// Try is the other way with a number of tokens.
type Try struct {
	Tokens int      `json:"tokens"`
	Time   Quantity `json:"time"` // over that of the usual way
}

// worth is the most time of another way, over that of the usual one, for it to be chosen: less gain is not told from
// none.
const worth = 0.97

// choicesMemory is the most memory that weights come from: more than the part that one core has of most last caches.
const choicesMemory = 128 << 20

// choicesShape is that of docs/notes/kernels.md.
var choicesShape = pack.Shape{M: 4096, K: 2560}

// tries are the numbers of tokens at which thresholds may lie.
var tries = []int{2, 3, 4, 5, 6, 8, 10, 12, 13, 14, 16, 18, 20, 22, 24, 26, 28, 32, 40, 48, 64, 96, 128}

// Choices measures the choices of the kernels that this process may use: how weights are loaded, and from how many
// tokens on each other way to multiply is faster, by both ways forced, one after the other.
func Choices(ctx context.Context, m Meter) (*ChoicesReport, error) {
	return measureChoices(ctx, m, kernel.Thresholds(), choicesShape)
}

func measureChoices(ctx context.Context, m Meter, lines []kernel.Threshold, s pack.Shape) (*ChoicesReport, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	if err := kernel.Check(); err != nil {
		return nil, err
	}
	m.Memory = cmp.Or(m.Memory, min(choicesMemory, memorySize(cacheLevels(), 1)))
	r := &choicesRun{kernelRun: newKernelRun(&KernelOptions{Meter: m, Threads: []int{1}}, bindKernel), shape: s,
		report: ChoicesReport{Tunings: []TuningRow{}, Thresholds: []ThresholdRow{}}, total: 1 + len(lines)}
	defer r.close()
	usual, cpu, _ := kernel.Tuned()
	defer kernel.Tune(usual)
	if cpu.Vendor != "" {
		if err := r.tunings(ctx, usual); err != nil {
			return nil, err
		}
	}
	for i := range lines {
		if err := r.threshold(ctx, lines[i], lines); err != nil {
			return nil, fmt.Errorf("%s on %s: %w", lines[i].Way, lines[i].ISA, err)
		}
	}
	return &r.report, r.noise()
}

type choicesRun struct {
	*kernelRun
	shape  pack.Shape
	report ChoicesReport
	total  int
}

// Kept returns what a report says for kernel.Take: all that is not noise.
func (r *ChoicesReport) Kept(date time.Time) *kernel.Choices {
	c := &kernel.Choices{CPU: kernel.ThisIdentity(), Tables: kernel.TablesVersion, Tool: version.Tool,
		Date: date.UTC().Format(time.DateOnly)}
	for _, row := range r.Tunings {
		if row.Chosen && !row.Noise {
			c.Tuning = row.Name
		}
	}
	for _, row := range r.Thresholds {
		if !row.Noise {
			t := row.Threshold
			t.From = ""
			c.Thresholds = append(c.Thresholds, t)
		}
	}
	return c
}

func (r *choicesRun) noise() error {
	noisy := 0
	for _, row := range r.report.Thresholds {
		if row.Noise {
			noisy++
		}
	}
	if slices.ContainsFunc(r.report.Tunings, func(t TuningRow) bool { return t.Noise }) {
		noisy++
	}
	return r.Meter.noise(noisy, len(r.report.Thresholds)+min(1, len(r.report.Tunings)))
}

// threshold measures a line of the table.
func (r *choicesRun) threshold(ctx context.Context, line kernel.Threshold, all []kernel.Threshold) error {
	spec, group := standsFor(line, all)
	l, err := pack.Open(spec)
	if err != nil {
		return err
	}
	list := kernel.For(l.Spec())
	at := slices.IndexFunc(list, func(k *kernel.Kernel) bool {
		return k.ISA == line.ISA && k.Layout == spec.Name && k.SumsGroups(group)
	})
	if at < 0 {
		return nil // a kernel that needs more features than its set
	}
	m, err := packRandom(l.Spec(), r.shape, group)
	if err != nil {
		return err
	}
	d, err := r.duel(line.Way, list[at], m)
	if err != nil {
		return err
	}
	defer d.close()
	row := ThresholdRow{Threshold: line, InForce: line.Tokens, Measured: Case{spec.Name, l.Spec().Alphabet, r.shape.M,
		r.shape.K, group}}
	row.Tokens, err = crossover(tries, func(n int) (bool, error) {
		r.progress(len(r.report.Thresholds)+1, r.total, fmt.Sprintf("%s, %s ×%d", line.Way, list[at], n))
		q, err := d.ratio(ctx, &r.Meter, n)
		row.Points = append(row.Points, Try{n, q})
		row.Noise = row.Noise || undecided(q, r.MaxSpread)
		return q.Median < worth, err
	})
	r.report.Thresholds = append(r.report.Thresholds, row)
	return err
}

// undecided reports whether a ratio may lie on either side of worth, and spreads too much to tell.
func undecided(q Quantity, most float64) bool {
	return q.Spread > most && math.Abs(q.Median-worth) < q.Spread*q.Median
}

// standsFor returns the matrix that is measured for a line. All layouts without a line of their own go by one of them.
func standsFor(line kernel.Threshold, all []kernel.Threshold) (s pack.Spec, group int) {
	s = pack.Spec{Name: line.Layout, Alphabet: line.Alphabet}
	switch {
	case line.Way == kernel.Int8First:
		s = pack.Spec{Name: "vnni4p", Alphabet: pack.Int6.Name}
	case line.Group != 0:
		if group = line.Group; group < 0 {
			group = 96
		}
		if line.Layout == "" {
			s = pack.Spec{Name: "vnni4i", Alphabet: pack.Int4.Name}
		}
	case line.Layout == "":
		s = pack.Spec{Name: "vnni4i", Alphabet: pack.Ternary.Name}
		if slices.ContainsFunc(all, func(t kernel.Threshold) bool {
			return t.Way == line.Way && t.ISA == line.ISA && t.Layout == s.Name
		}) {
			s.Name = "i2"
		}
	}
	return s, group
}

// crossover returns the first of some numbers from which on the other way is faster, 0 if it is not with the last one:
// the more tokens, the more it gains.
func crossover(list []int, faster func(int) (bool, error)) (int, error) {
	lo, hi := 0, len(list)-1
	for at := hi; ; at = (lo + hi) / 2 {
		is, err := faster(list[at])
		if err != nil || !is && at == len(list)-1 {
			return 0, err
		}
		if is {
			hi = at
		} else {
			lo = at + 1
		}
		if lo == hi {
			return list[lo], nil
		}
	}
}

// duel is a matrix multiplied in two ways.
type duel struct {
	ways [2]*copies // the usual one, and the other
	x    *reference
	pool *kernel.Pool
}

// duel binds copies of a matrix twice, with the other way never taken, and with it taken for all numbers of tokens.
func (r *choicesRun) duel(way kernel.Way, k *kernel.Kernel, m *matrix) (d *duel, err error) {
	defer func() { r.bind = bindKernel }()
	d = &duel{pool: r.limits[0].pool, x: &reference{x: randomActivations(slices.Max(tries), m.shape.K)}}
	for i := range d.ways {
		r.bind = func(k *kernel.Kernel, m *matrix, packed []byte) (product, error) {
			w, err := kernel.Forced{Way: way, Tokens: i}.BindWith(k, m.layout, m.shape, packed, m.group)
			return asProduct(w, err)
		}
		if d.ways[i], err = r.copies(k, m); err != nil {
			d.close()
			return nil, err
		}
	}
	return d, nil
}

func (d *duel) close() {
	for _, c := range d.ways {
		if c != nil {
			c.close()
		}
	}
}

// ratio returns the time of the other way over that of the usual one, with some tokens. Both must compute the same.
func (d *duel) ratio(ctx context.Context, m *Meter, tokens int) (Quantity, error) {
	d.x.use(tokens)
	var once [2]func()
	var tasks [2]*multiplication
	for i, c := range d.ways {
		tasks[i] = &multiplication{c.list[0], make([]int32, tokens*c.shape.M), c.shape.M, d.x.x}
		chunk := c.list[0].Chunk(tokens, 1)
		once[i] = func() {
			c.at = (c.at + 1) % len(c.list)
			tasks[i].product = c.list[c.at]
			d.pool.Run(c.list[c.at].Panels(), chunk, tasks[i])
		}
		once[i]()
	}
	if !slices.Equal(tasks[0].y, tasks[1].y) {
		return Quantity{}, fmt.Errorf("%w: both ways differ with %d tokens", ErrWrong, tokens)
	}
	d.ways[1].at = len(d.ways[1].list) / 2 // both read the same memory, at different times
	return steady(m, func() (Quantity, error) {
		t, err := m.sample(ctx, once[:]...)
		if err != nil {
			return Quantity{}, err
		}
		return ratios(t[1], t[0]), nil
	}, func(q Quantity) float64 { return q.Spread })
}

// ratios is the quantity of quotients of times in one turn.
func ratios(a, b []time.Duration) Quantity {
	list := make([]float64, len(a))
	for i := range a {
		list[i] = a[i].Seconds() / b[i].Seconds()
	}
	return quantity(list)
}

// tunings measures products of one token with every tuning, and takes the fastest for what follows.
func (r *choicesRun) tunings(ctx context.Context, usual kernel.Tuning) error {
	list := kernel.Tunings()
	rows := make([]TuningRow, len(list))
	specs := []pack.Spec{{Name: "vnni4i", Alphabet: pack.Ternary.Name}, {Name: "vnni4i", Alphabet: pack.Int4.Name},
		{Name: "vnni4", Alphabet: pack.Int8.Name}}
	for _, spec := range specs {
		r.progress(0, r.total, "tunings, "+spec.Alphabet)
		q, err := r.tuningsOf(ctx, spec, list, usual)
		if err != nil {
			return err
		}
		for i := range rows {
			rows[i].Name = list[i].Name
			rows[i].Time.Median += q[i].Median / float64(len(specs))
			rows[i].Time.Spread = max(rows[i].Time.Spread, q[i].Spread)
		}
	}
	for i := range rows {
		rows[i].Noise = undecided(rows[i].Time, r.MaxSpread)
	}
	best := fastest(rows, slices.IndexFunc(list, func(t kernel.Tuning) bool { return t.Name == usual.Name }))
	rows[best].Chosen = true
	kernel.Tune(list[best])
	r.report.Tunings = rows
	return nil
}

// fastest returns the row of the tuning to take: the usual one, unless another is worth it and no noise, as thresholds
// are measured with it, and kept.
func fastest(rows []TuningRow, usual int) int {
	best := usual
	for i := range rows {
		if !rows[i].Noise && rows[i].Time.Median < min(worth, rows[best].Time.Median) {
			best = i
		}
	}
	return best
}

// tuningsOf returns the time of each tuning over that of the usual one, for one form of weights.
func (r *choicesRun) tuningsOf(ctx context.Context, spec pack.Spec, list []kernel.Tuning,
	usual kernel.Tuning) ([]Quantity, error) {
	m, err := packRandom(spec, r.shape, 0)
	if err != nil {
		return nil, err
	}
	c, err := r.copies(chosen(m), m)
	if err != nil {
		return nil, err
	}
	defer c.close()
	ref := &reference{x: randomActivations(1, m.shape.K)}
	task := &multiplication{c.list[0], make([]int32, c.shape.M), c.shape.M, ref.x}
	with := func(t kernel.Tuning) func() {
		return func() {
			kernel.Tune(t)
			c.at = (c.at + 1) % len(c.list)
			task.product = c.list[c.at]
			r.limits[0].pool.Run(task.Panels(), task.Chunk(1, 1), task)
		}
	}
	functions := []func(){with(usual)}
	for _, t := range list {
		functions = append(functions, with(t))
	}
	most := func(q []Quantity) (spread float64) {
		for i := range q {
			spread = max(spread, q[i].Spread)
		}
		return spread
	}
	return steady(&r.Meter, func() ([]Quantity, error) {
		t, err := r.sample(ctx, functions...)
		if err != nil {
			return nil, err
		}
		q := make([]Quantity, len(list))
		for i := range q {
			q[i] = ratios(t[i+1], t[0])
		}
		return q, nil
	}, most)
}
