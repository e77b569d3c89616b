package calibrate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/runtime/engine"
)

// Group holds weights that multiply the same vectors.
type Group struct {
	Names []string
	// Divergences has the expected KL divergence of the model's predictions from those of the floats, in nats per
	// token, if these weights alone are quantized, by form.
	Divergences []float64
}

// Sensitivities measures what it costs to quantize some weights in the forms of their jobs. The first form is measured:
// the model computes all windows once for each group, with the rounded weights of that group. The divergence is a
// quadratic form of the errors; those of the other forms follow from theirs, weighted by columns, the mean squares of
// the vectors that a weight multiplies (Columns).
func Sensitivities(ctx context.Context, v packed.View, jobs map[string][]quantize.Job, columns map[string][]float32,
	o Options) ([]Group, error) {
	p := &probe{ctx: ctx, view: v, jobs: jobs, columns: columns, Options: o}
	longest := 0
	for _, w := range o.Windows {
		longest, p.tokens = max(longest, len(w)), p.tokens+len(w)
	}
	var err error
	p.engine, err = engine.New(v, engine.Options{Threads: o.Threads, Context: longest, Sequences: len(o.Windows),
		Batch: p.tokens, OnePass: true, Observe: p.observe})
	if err != nil {
		return nil, err
	}
	defer p.engine.Close()
	if p.exact, err = p.logits(nil); err != nil {
		return nil, err
	}
	for i := range p.groups {
		if err := p.measure(&p.groups[i]); err != nil {
			return nil, err
		}
		o.Progress(int64(i+1), int64(len(p.groups)))
	}
	if len(p.groups) == 0 {
		return nil, errors.New("calibration: the engine did not show what any of the weights multiplies")
	}
	return p.groups, nil
}

// probe is the state of Sensitivities.
type probe struct {
	ctx     context.Context
	view    packed.View
	jobs    map[string][]quantize.Job
	columns map[string][]float32
	Options

	engine  *engine.Engine
	tokens  int
	exact   []float32            // logits of the floats, by token; nil before the model has run
	groups  []Group              // those that the model has shown
	rounded map[string][]float32 // weights that are replaced
}

// observe is Options.Observe of the engine.
func (p *probe) observe(names []string, _ []float32, _ int) [][]float32 {
	wanted := func(name string) bool { return p.jobs[name] != nil }
	if p.exact == nil && slices.ContainsFunc(names, wanted) {
		var g Group
		for _, name := range names {
			if wanted(name) {
				g.Names = append(g.Names, name)
			}
		}
		p.groups = append(p.groups, g)
	}
	if !slices.ContainsFunc(names, func(name string) bool { return p.rounded[name] != nil }) {
		return nil
	}
	others := make([][]float32, len(names))
	for i, name := range names {
		others[i] = p.rounded[name]
	}
	return others
}

// logits computes the predictions for all windows with some weights replaced.
func (p *probe) logits(rounded map[string][]float32) ([]float32, error) {
	p.rounded = rounded
	vocab := p.engine.Description().Vocab
	logits := make([]float32, p.tokens*vocab)
	var batch []engine.Chunk
	at := 0
	for _, w := range p.Windows {
		s, err := p.engine.NewSequence()
		if err != nil {
			return nil, err
		}
		defer s.Close()
		batch = append(batch, engine.Chunk{Seq: s, Tokens: w, Logits: logits[at*vocab : (at+len(w))*vocab]})
		at += len(w)
	}
	if err := p.engine.Forward(p.ctx, batch); err != nil {
		return nil, fmt.Errorf("calibration: %w", err)
	}
	for _, c := range batch {
		if c.Err != nil {
			return nil, fmt.Errorf("calibration: %w", c.Err)
		}
	}
	return logits, nil
}

// measure fills in the divergences of a group.
func (p *probe) measure(g *Group) error {
	rounded, misses := map[string][]float32{}, []float64(nil)
	for _, name := range g.Names {
		for form, job := range p.jobs[name] {
			values, miss, err := p.round(name, job)
			if err != nil {
				return fmt.Errorf("tensor %q: %w", name, err)
			}
			if form == 0 {
				rounded[name] = values
			}
			if form == len(misses) {
				misses = append(misses, 0)
			}
			misses[form] += miss
		}
	}
	logits, err := p.logits(rounded)
	if err != nil {
		return err
	}
	divergence, err := p.divergence(logits)
	for _, miss := range misses {
		share := 0.0
		if misses[0] > 0 {
			share = miss / misses[0]
		}
		g.Divergences = append(g.Divergences, divergence*share)
	}
	return err
}

// divergence is the mean of KL(exact ‖ logits) over all tokens.
func (p *probe) divergence(logits []float32) (float64, error) {
	vocab, each := len(logits)/p.tokens, make([]float64, p.tokens)
	err := parallel.Do(p.ctx, p.Threads, p.tokens, 8, func(from, to int) error {
		scratch := [2][]float32{make([]float32, vocab), make([]float32, vocab)}
		for t := from; t < to; t++ {
			exact := engine.NewPrediction(p.exact[t*vocab:][:vocab], scratch[0])
			each[t] = exact.Divergence(engine.NewPrediction(logits[t*vocab:][:vocab], scratch[1]))
		}
		return nil
	})
	sum := 0.0
	for _, d := range each {
		sum += d
	}
	return sum / float64(p.tokens), err
}

// round quantizes a weight, and returns the values that its codes stand for and the sum of their squared errors,
// weighted by the columns.
func (p *probe) round(name string, job quantize.Job) (values []float32, miss float64, err error) {
	stored, err := p.view.Tensor(name)
	if err != nil {
		return nil, 0, err
	}
	h, m, k, size := p.columns[name], job.Shape.M, job.Shape.K, job.DType.Size()
	if len(h) != k || len(stored.Data) != m*k*size {
		return nil, 0, fmt.Errorf("%d bytes, and means of %d columns", len(stored.Data), len(h))
	}
	if rule, _ := quantize.Find(job.Rule); rule.Calibrates() {
		job.Columns = h
	}
	z, err := quantize.New(job)
	if err != nil {
		return nil, 0, err
	}
	kind, group := z.Kind()
	if kind != quantize.PerGroup {
		group = k
	}
	values, misses := make([]float32, m*k), make([]float64, m)
	err = parallel.Do(p.ctx, p.Threads, m, rowsAtOnce, func(from, to int) error {
		codes, w := make([]int8, (to-from)*k), make([]float32, (to-from)*k)
		src := stored.Data[from*k*size : to*k*size]
		job.DType.Widen(w, src)
		if err := z.Quantize(codes, from, src); err != nil {
			return err
		}
		perRow := (k + group - 1) / group
		for i, code := range codes {
			row, column := from+i/k, i%k
			v := float32(z.Scales()[row*perRow+column/group] * float32(code))
			e := float64(w[i]) - float64(v)
			values[row*k+column] = v
			misses[row] += float64(float64(h[column]) * float64(e*e))
		}
		return nil
	})
	for _, e := range misses {
		miss += e
	}
	return values, miss, err
}
