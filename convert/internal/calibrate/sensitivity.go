package calibrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/runtime/engine"
)

// Group holds weights that multiply the same vectors, or those of one projection of all experts of a block.
type Group struct {
	Names []string
	// Divergences has the expected KL divergence of the model's predictions from those of the floats, in nats per
	// token, if these weights alone are quantized, by form.
	Divergences []float64
}

// Costs are expected divergences.
type Costs struct {
	Groups      []Group
	Tables      [][]float64 // of Sensing, by table and job
	Activations []float64   // of Sensing: of the floats that multiply rounded vectors
	Head        []float64   // of Sensing.Activations: of a head of floats that multiplies rounded vectors
}

// Form is a form that weights may be quantized in.
type Form struct {
	Jobs map[string]quantize.Job // by the name of the weight
	// Measured: the model computes all windows for each group, with its weights in this form. The first form is
	// measured.
	Measured bool
}

// coding is a coding for a form whose values are wanted; nil = none.
func (f Form) coding(c coding) coding {
	if f.Measured {
		return c
	}
	return nil
}

// Sensing configures Sensitivities.
type Sensing struct {
	Threads  int
	Probes   [][]int                 // token ids of the windows that the model computes for each group
	Progress func(done, total int64) // counts groups

	Experts     []Experts // among the weights of the forms
	Tables      []Table
	Activations []packed.Activation // roundings of what the weights multiply
	Head        string              // the weight of the output head

	// Columns has the mean squares of what weights multiply, by which scales are chosen and errors of codes that are
	// rounded count; nil = error feedback chooses the codes, with the Gram matrices of Windows.
	Columns map[string][]float32
	Windows [][]int
}

// Sensitivities measures what it costs to quantize some weights in each form. Small errors change the divergence as
// their squares do: that of a form that is not measured follows from the form before it that is, and from the squared
// errors of both. For codes that are rounded, these are weighted by columns. With error feedback they are those of the
// products with what a group multiplies in the windows, as the floats compute them.
func Sensitivities(ctx context.Context, v packed.View, forms []Form, s Sensing) (*Costs, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := &probe{ctx: ctx, cancel: cancel, view: v, forms: forms, Sensing: s}
	var err error
	if p.engine, err = onePass(v, s.Threads, s.Probes, p.observe); err != nil {
		return nil, err
	}
	defer p.engine.Close()
	for _, w := range s.Probes {
		p.tokens += len(w)
	}
	if p.exact, err = p.logits(p.engine); err != nil {
		return nil, err
	}
	if len(p.groups) == 0 {
		return nil, errors.New("calibration: the engine did not show what any of the weights multiplies")
	}
	costs := &Costs{Groups: p.groups}
	if costs.Activations, err = p.activations(p.wants); err != nil {
		return nil, err
	}
	if costs.Head, err = p.activations(func(name string) bool { return name == s.Head }); err != nil {
		return nil, err
	}
	if costs.Tables, err = p.tables(); err != nil {
		return nil, err
	}
	if err := p.measureAll(); err != nil {
		return nil, err
	}
	for _, x := range s.Experts {
		g, err := p.experts(x)
		if err != nil {
			return nil, err
		}
		costs.Groups = append(costs.Groups, g)
	}
	return costs, nil
}

// measureAll measures all groups, with error feedback or from rounding alone.
func (p *probe) measureAll() error {
	if p.Columns == nil {
		return p.feed()
	}
	for i := range p.groups {
		if err := p.measure(&p.groups[i], p.Columns[p.groups[i].Names[0]], nearest); err != nil {
			return err
		}
	}
	return nil
}

// probe is the state of Sensitivities.
type probe struct {
	ctx    context.Context
	cancel context.CancelCauseFunc // ends the pass over the windows with an error
	view   packed.View
	forms  []Form
	Sensing

	engine  *engine.Engine
	tokens  int
	exact   []float32            // logits of the floats, by token; nil before the model has run
	groups  []Group              // those that the model has shown
	rounded map[string][]float32 // weights that are replaced
	rounds  *rounds              // nil = vectors are not rounded
	done    int                  // groups that are measured
}

// rounds says how vectors are rounded, and which weights multiply them.
type rounds struct {
	packed.Activation
	by func(name string) bool
}

// wants reports whether forms of a weight are measured.
func (p *probe) wants(name string) bool {
	_, ok := p.forms[0].Jobs[name]
	return ok
}

// observe is Options.Observe of the engine.
func (p *probe) observe(in engine.Input) [][]float32 {
	names := in.Weights
	if p.rounds != nil && slices.ContainsFunc(names, p.rounds.by) {
		roundActivations(in.Vectors, in.Size, p.rounds.Activation)
	}
	grouped := func(name string) bool { return p.wants(name) && !p.areExperts(name) }
	if p.exact == nil && slices.ContainsFunc(names, grouped) {
		var g Group
		for _, name := range names {
			if grouped(name) {
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

// logits computes the predictions of an engine for all probes.
func (p *probe) logits(e *engine.Engine) ([]float32, error) {
	logits := make([]float32, p.tokens*e.Description().Vocab)
	if err := passAll(p.ctx, e, p.Probes, logits); err != nil {
		return nil, fmt.Errorf("calibration: %w", err)
	}
	return logits, nil
}

// cost is the divergence of what an engine predicts.
func (p *probe) cost(e *engine.Engine) (float64, error) {
	logits, err := p.logits(e)
	if err != nil {
		return 0, err
	}
	return p.divergence(logits)
}

// activations measures the roundings of what some weights multiply.
func (p *probe) activations(by func(name string) bool) (divergences []float64, err error) {
	defer func() { p.rounds = nil }()
	for _, a := range p.Activations {
		p.rounds = &rounds{a, by}
		d, err := p.cost(p.engine)
		if err != nil {
			return nil, err
		}
		divergences = append(divergences, d)
	}
	return divergences, nil
}

// feed measures the groups as a pass over the windows comes to them.
func (p *probe) feed() error {
	e, err := onePass(p.view, p.Threads, p.Windows, p.reach)
	if err != nil {
		return err
	}
	defer e.Close()
	err = passAll(p.ctx, e, p.Windows, nil)
	if err = cmp.Or(context.Cause(p.ctx), err); err != nil {
		return fmt.Errorf("calibration: %w", err)
	}
	if p.done < len(p.groups) {
		return errors.New("calibration: the engine did not show what all of the weights multiply")
	}
	return nil
}

// reach is Options.Observe of the engine that computes the windows.
func (p *probe) reach(in engine.Input) [][]float32 {
	i := slices.IndexFunc(p.groups, func(g Group) bool { return slices.Contains(in.Weights, g.Names[0]) })
	if i < 0 || p.ctx.Err() != nil {
		return nil
	}
	v := vectors{n: in.Size, x: in.Vectors, factors: importance(in)}
	h, _, err := v.grams(p.ctx, p.Threads)
	var f *feedback
	if err == nil {
		f, _, err = newFeedback(p.ctx, p.Threads, h, in.Size)
	}
	if err == nil {
		err = p.measure(&p.groups[i], f.weights, f.fed)
	}
	if err != nil {
		p.cancel(err)
	}
	return nil
}

// measure fills in the divergences of a group, whose columns count by h.
func (p *probe) measure(g *Group, h []float32, code coding) error {
	return p.fill(g, func(form Form) (miss float64, cost func() (float64, error), err error) {
		rounded, code := map[string][]float32{}, form.coding(code)
		for _, name := range g.Names {
			job := form.Jobs[name]
			if rule, _ := quantize.Find(job.Rule); rule.Calibrates() {
				job.Columns = h
			}
			if code != nil {
				rounded[name] = make([]float32, job.Shape.M*job.Shape.K)
			}
			values := rounded[name]
			e, err := p.quantize(name, job, h, code, func(at int, v []float32) { copy(values[at:], v) })
			if err != nil {
				return 0, nil, fmt.Errorf("tensor %q: %w", name, err)
			}
			miss += e
		}
		return miss, func() (float64, error) {
			p.rounded = rounded
			return p.cost(p.engine)
		}, nil
	})
}

// fill fills in the divergences of a group. Of each form it is told the errors of the weights, and how to measure their
// divergence.
func (p *probe) fill(g *Group, in func(form Form) (miss float64, cost func() (float64, error), err error)) error {
	var divergence, measured float64 // of the last form that was measured, and the errors of its weights
	for _, form := range p.forms {
		miss, cost, err := in(form)
		if err != nil {
			return err
		}
		if form.Measured {
			if divergence, err = cost(); err != nil {
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
	p.done++
	p.Progress(int64(p.done), int64(len(p.groups)+len(p.Experts)))
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
