package convert

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/convert/internal/pipeline"
	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// notExact reports that the values of a tensor do not fit an exact quantizer.
type notExact struct{ error }

func (e notExact) Unwrap() error { return e.error }

// notHeld reports that the chosen layout cannot hold the codes of a quantizer.
type notHeld struct{ error }

func (e notHeld) Unwrap() error { return e.error }

// quantize plans codes and scales made from floats.
func (d *decider) quantize(m matrix, c choice) error {
	if m.head && c.scale == "" {
		c.scale = tableScale(c.quant)
	}
	kind, group, err := parseScale(c.scale)
	if err == nil && m.head && c.quant == string(packed.HeadInt4) {
		err = checkHeadGroup(kind, group)
	}
	if err != nil {
		return inTensor(m.from, err)
	}
	if err := m.checkParts(kind); err != nil {
		return err
	}
	if rule, _ := quantize.Find(c.quant); kind == "" && m.experts > 0 && slices.Contains(rule.Kinds, quantize.PerRow) {
		kind = quantize.PerRow // a rule that chooses might choose one for all experts
	}
	job := quantize.Job{Rule: c.quant, DType: quantize.DType(m.from.DType), Shape: m.shape, Kind: kind, Group: group}
	q, err := quantize.New(job)
	if err != nil {
		return inTensor(m.from, err)
	}
	s := &step{from: m.from, source: m.source(), job: job, twice: q.Passes() == 2, use: d.useOf(m)}
	s.open = func([][]byte) (coder, error) {
		if job.Stats = d.o.Report; !d.calibrates(m, q) {
			return newFloatDecoder(job)
		}
		if s.isTable() {
			return newTableDecoder(job, d.choices[s.use])
		}
		if d.chosen != nil {
			return d.chosen.decoder(m.name, job)
		}
		job.Columns = d.columns[m.name]
		return newFloatDecoder(job)
	}
	exact := q.Rule().Exact()
	if exact {
		if err := d.probe(q, m); err != nil {
			return err
		}
		if n := q.Replaced(); n == 0 {
			s.open = func([][]byte) (coder, error) { return floatDecoder{q: q}, nil }
			s.twice = false
		} else {
			exact = false // the error is measured
			s.row.Note = fmt.Sprintf("weights that are 0 and become +1 times the scale of their row: %d", n)
		}
	}
	l, err := d.layout(m, c, q.Rule().Alphabet, m.head)
	if err != nil {
		return notHeld{inTensor(m.from, err)}
	}
	if !q.Rule().Exact() && !d.accepted(m, q) {
		return d.lossy(m, job)
	}
	if !q.Rule().Exact() && !m.head && !d.trained(m, q) {
		s.untrained = len(q.Rule().Alphabet.Values)
	}
	return d.pack(m, s, l, packed.Entry{Scale: scaleMade(q), Quantizer: c.quant, Calibrated: d.calibrates(m, q)}, exact)
}

// checkHeadGroup refuses scales of a 4-bit output head that are not of groups of 32 columns, or 64. One scale per row
// costs far more than it saves.
func checkHeadGroup(kind quantize.ScaleKind, group int) error {
	if kind == quantize.PerGroup && (group == 32 || group == 64) {
		return nil
	}
	asked := packed.Scale{Kind: packed.ScaleKind(kind), Group: group}
	return fmt.Errorf("%w: an int4 output head with scale %v; it has scale group:32 or group:64",
		pack.ErrUnsupported, asked)
}

// checkParts refuses experts that cannot have scales of a kind, or whose tensors are of several types.
func (m *matrix) checkParts(kind quantize.ScaleKind) error {
	if kind == quantize.PerTensor && m.experts > 0 {
		return fmt.Errorf("%w: tensor %q: one scale for all experts; theirs are per row or group of "+
			"columns (--scale row)",
			pack.ErrUnsupported, m.name)
	}
	for _, t := range m.parts {
		if t.DType != m.from.DType {
			return inTensor(t, fmt.Errorf("%w: type %s, and %q has type %s; experts of one block have one type",
				pack.ErrUnsupported, t.DType, m.from.Name, m.from.DType))
		}
	}
	return nil
}

// accepted reports whether a quantizer that changes the weights may be used: if the checkpoint was trained for exactly
// that, if codes have at least 8 bits, or if the user asked for it, for all tensors or for the head.
func (d *decider) accepted(m matrix, q *quantize.Quantizer) bool {
	asked := m.head && string(d.Recipe.Head) == q.Rule().Name
	return d.trained(m, q) || asked || q.Rule().Alphabet.Name == pack.Int8.Name || d.Recipe.AllowLossy
}

// probe is pass 1 of an exact quantizer. The first block nearly always shows whether the values fit.
func (d *decider) probe(q *quantize.Quantizer, m matrix) error {
	err := measure(d.ctx, pipeline.NewSweep(d.read, m.source(), m.shape, d.o.Threads), q, m.from)
	if errors.Is(err, pack.ErrUnsupported) {
		return notExact{err}
	}
	return err
}

// lossy refuses to change the weights unasked, and reports by how much they would change.
func (d *decider) lossy(m matrix, job quantize.Job) error {
	if d.model == nil && d.source.IsDir() {
		return fmt.Errorf("%w: tensor %q: there is no config.json, which would say how the weights were trained; put "+
			"it beside them, or keep the floats with --quant none", pack.ErrUnsupported, m.name)
	}
	e, err := relError(d.ctx, d.Plan, m.from, m.source(), job)
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: tensor %q holds floats for which the checkpoint declares no quantization; %s would change "+
		"them by %.1f %% (relative error %.4f). Allow that with --allow-lossy, or keep them with --quant none",
		pack.ErrUnsupported, m.name, job.Rule, 100*e, e)
}

// importCodes plans to take over the codes of a packed checkpoint.
func (d *decider) importCodes(m matrix, c choice) error {
	if !c.takesOver() {
		return fmt.Errorf("%w: tensor %q holds codes with one scale, which can only be taken over (--quant auto); "+
			"leave out %s", pack.ErrUnsupported, m.name, d.contrary(m.name))
	}
	stored, err := d.storedScale(m)
	if err != nil {
		return err
	}
	divides := d.model.Quant.ScaleDivides
	scale, err := quantize.ScaleU8(stored, divides)
	if err != nil {
		return inTensor(m.from, err)
	}
	s := &step{from: m.from, source: u8Source(m.from, m.shape)}
	s.open = func([][]byte) (coder, error) { return u8Decoder{m.shape, scale}, nil }
	l, err := d.layout(m, c, pack.Ternary, m.head)
	if err != nil {
		return inTensor(m.from, err)
	}
	s.row.Note = fmt.Sprintf("weight_scale %v multiplies (linear_class autobitlinear)", stored)
	if divides {
		s.row.Note = fmt.Sprintf("weight_scale %v divides (linear_class bitlinear): scale %v", stored, scale)
	}
	return d.pack(m, s, l, packed.Entry{Scale: u8Scale, Quantizer: quantize.ImportU8}, true)
}

// takesOver reports whether a choice leaves codes with one scale as they are.
func (c choice) takesOver() bool {
	return !c.keep && c.quant == QuantAuto && (c.scale == "" || c.scale == string(packed.ScaleTensor))
}

// contrary names what of the recipe does not take over the codes of a linear layer.
func (d *decider) contrary(name string) string {
	var list []string
	if !(choice{quant: d.Recipe.Quant}).takesOver() {
		list = append(list, "--quant "+d.Recipe.Quant)
	}
	if !(choice{quant: QuantAuto, scale: d.Recipe.Scale}).takesOver() {
		list = append(list, "--scale "+d.Recipe.Scale)
	}
	rules := packed.Recipe{Quant: QuantAuto, Rules: d.Recipe.Rules}
	if !choose(&rules, name).takesOver() {
		list = append(list, "the rule for it, or --size, --bits or --min-quality, which make rules")
	}
	return strings.Join(list, " and ")
}

// storedScale reads the weight_scale stored with packed codes: one float.
func (d *decider) storedScale(m matrix) (float32, error) {
	name := strings.TrimSuffix(m.name, "weight") + "weight_scale"
	t, ok := d.source.Lookup(name)
	if !ok {
		return 0, fmt.Errorf("%w: tensor %q holds packed codes, but %q is missing", pack.ErrCorrupt, m.name, name)
	}
	size := quantize.DType(t.DType).Size()
	if size == 0 || t.Size != int64(size) {
		return 0, fmt.Errorf("%w: tensor %q is %s %v; it should be one F32, F16 or BF16 value", pack.ErrCorrupt, name,
			t.DType, t.Shape)
	}
	d.used[name] = true
	b, v := make([]byte, size), make([]float32, 1)
	if err := d.read(t, b, 0); err != nil {
		return 0, err
	}
	quantize.DType(t.DType).Widen(v, b)
	return v[0], nil
}

// pack completes a step whose layout is known: the decoder, and in the entry what is stored with the codes.
func (d *decider) pack(m matrix, s *step, l pack.Layout, e packed.Entry, exact bool) error {
	spec := l.Spec()
	e.Name, e.Shape, e.Layout = m.name, []int{m.shape.M, m.shape.K}, spec
	if m.experts > 0 {
		e.Shape = []int{m.experts, m.shape.M / m.experts, m.shape.K}
	}
	var err error
	if e.Bytes, err = l.PackedSize(e.MatrixShape()); err != nil {
		return inTensor(m.from, err)
	}
	if _, err := e.ScaleCount(); err != nil {
		return err
	}
	s.entry = &e
	s.row = Row{
		Tensor: m.name, Shape: e.Shape, DType: string(m.from.DType),
		Rule: e.Quantizer, Layout: spec.Name, Alphabet: spec.Alphabet, Scale: e.Scale.String(),
		BytesIn: s.size(), BytesOut: e.AllBytes(), BitsPerWeight: e.Bits(), Note: s.row.Note,
	}
	if exact {
		zero := 0.0
		s.row.RelError = &zero
	}
	d.steps = append(d.steps, s)
	return nil
}
