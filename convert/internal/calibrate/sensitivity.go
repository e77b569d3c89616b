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

// Form is a form that weights may be quantized in.
type Form struct {
	Jobs map[string]quantize.Job // by the name of the weight
	// Measured: the model computes all windows for each group, with its weights in this form. The first form is
	// measured.
	Measured bool
}

// Sensitivities measures what it costs to quantize some weights in each form. Small errors change the divergence as
// their squares do: that of a form that is not measured follows from the form before it that is, and from the errors of
// both, weighted by columns, the mean squares of the vectors that a weight multiplies (Columns).
func Sensitivities(ctx context.Context, v packed.View, forms []Form, columns map[string][]float32,
	o Options) ([]Group, error) {
	p := &probe{ctx: ctx, view: v, forms: forms, columns: columns, Options: o}
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
	forms   []Form
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
	wanted := func(name string) bool {
		_, ok := p.forms[0].Jobs[name]
		return ok
	}
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
	var divergence, measured float64 // of the last form that was measured, and the errors of its weights
	for _, form := range p.forms {
		rounded, miss := map[string][]float32{}, 0.0
		for _, name := range g.Names {
			values, e, err := p.round(name, form)
			if err != nil {
				return fmt.Errorf("tensor %q: %w", name, err)
			}
			rounded[name], miss = values, miss+e
		}
		if form.Measured {
			logits, err := p.logits(rounded)
			if err != nil {
				return err
			}
			if divergence, err = p.divergence(logits); err != nil {
				return err
			}
			measured = miss
		}
		share := 0.0
		if measured > 0 {
			share = miss / measured
		}
		g.Divergences = append(g.Divergences, divergence*share)
	}
	return nil
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

// comparedRows: every so many rows of a weight are compared in all forms. Errors of forms are alike in all rows.
const comparedRows = 4

// round quantizes a weight, and returns the sum of squared errors in the rows that are compared, weighted by the
// columns, and of a form that is measured the values that the codes stand for.
func (p *probe) round(name string, form Form) (values []float32, miss float64, err error) {
	stored, err := p.view.Tensor(name)
	if err != nil {
		return nil, 0, err
	}
	job := form.Jobs[name]
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
	perRow := (k + group - 1) / group
	misses := make([]float64, m)
	if form.Measured {
		values = make([]float32, m*k)
	}
	err = parallel.Do(p.ctx, p.Threads, m, rowsAtOnce, func(from, to int) error {
		codes, w := make([]int8, k), make([]float32, k)
		for row := from; row < to; row++ {
			compared := row%comparedRows == 0
			if !compared && !form.Measured {
				continue
			}
			src := stored.Data[row*k*size : (row+1)*k*size]
			job.DType.Widen(w, src)
			if err := z.Quantize(codes, row, src); err != nil {
				return err
			}
			scales := z.Scales()[row*perRow:]
			for i, code := range codes {
				v := float32(scales[i/group] * float32(code))
				if values != nil {
					values[row*k+i] = v
				}
				if e := float64(w[i]) - float64(v); compared {
					misses[row] += float64(float64(h[i]) * float64(e*e))
				}
			}
		}
		return nil
	})
	for _, e := range misses {
		miss += e
	}
	return values, miss, err
}
