package convert

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/model"
)

// Offer is a way to quantize full-precision floats, with its cost for SmolLM2-135M (docs/QUALITY.md).
type Offer struct {
	Form  string  // its name in docs/quality/smollm2.json
	Flags string  // of convert
	Bits  float64 // per weight, up to scales of rows
	Loss  float64 // of perplexity, relative
	Plain float64 // the same without a calibration text; 0 = it takes none
	Self  float64 // the same with a text that the model writes itself; 0 = not measured
}

// Offers returns the recommended choices, largest first.
func Offers() []Offer {
	const gptq = " --calibrate TEXT --allow-lossy"
	return []Offer{
		{"lowpack int8, per row", "--quant int8", 8.05, 0.0024, 0, 0},
		{"lowpack int5, group 64, GPTQ", "--quant int5 --scale group:64" + gptq, 5.25, 0.0156, 0.1169, 0},
		{"lowpack int4, group 32, GPTQ", "--quant int4 --scale group:32" + gptq, 4.5, 0.0561, 0.2548, 0},
		{"lowpack iq4nl, group 64, GPTQ", "--quant iq4nl --scale group:64" + gptq, 4.25, 0.0627, 0.2959, 0},
		{"lowpack int4, group 64, GPTQ", "--quant int4 --scale group:64" + gptq, 4.25, 0.0680, 0.3048, 0.1225},
		{"lowpack int3, group 32, GPTQ", "--quant int3 --scale group:32" + gptq, 3.5, 0.2449, 1.9250, 0},
	}
}

// adviseFloats suggests smaller formats for floats without declared quantization, and what they cost.
func (p *Plan) adviseFloats() {
	weights, bytes := 0, int64(0)
	for _, n := range p.model.Tensors() {
		if !n.Linear || n.Name == p.model.Head {
			continue
		}
		count := 1
		for _, dim := range n.Shape {
			count *= dim
		}
		weights += count
	}
	for _, s := range p.steps {
		if len(s.from.Shape) >= 2 && s.from.Name != p.model.Head && s.from.Name != p.model.Embed {
			bytes += s.from.Size
		}
	}
	why := "the weights are floats of full precision, and nothing says that they were trained to be fewer bits"
	if n, stored := p.source.Dequantized(); n > 0 {
		why = fmt.Sprintf("%s holds floats, not integers times a scale: %d matrices of %.0f MB become the floats that "+
			"its own dequantization gives, bit for bit", p.scheme.Method, n, float64(stored)/1e6)
	}
	var offers []string
	for _, o := range Offers() {
		offers = append(offers, fmt.Sprintf("%s: about %.0f MB, perplexity %+.1f %%", o.Flags,
			float64(weights)*o.Bits/8e6,
			100*o.Loss))
	}
	p.note("nothing is packed: %s. Their linear layers take %.0f MB; smaller, with the loss of SmolLM2-135M "+
		"(docs/QUALITY.md): %s", why, float64(bytes)/1e6, strings.Join(offers, "; "))
}

// fewBits reports whether a matrix, not trained for that, gets codes of two bits or fewer.
func fewBits(s *step) bool { return s.untrained > 0 && s.untrained <= 4 }

// adviseText says what a calibration text gains, where matrices get codes of three to five bits without one.
func (d *decider) adviseText() {
	i := slices.IndexFunc(d.steps, func(s *step) bool { return s.untrained > 4 && s.untrained <= 32 })
	if d.model == nil || i < 0 || d.o.calibrates() {
		return
	}
	quant := d.steps[i].entry.Quantizer
	o, self := offerFor(quant), ""
	if o.Self > 0 {
		self = fmt.Sprintf(", with --calibrate self, a text that the model writes itself, %.1f %%", 100*o.Self)
	}
	d.note("%s without a text: with --calibrate TEXT, SmolLM2-135M in %s loses %.1f %% of perplexity instead of "+
		"%.1f %%%s (%s; docs/QUALITY.md)", quant, o.quant(), 100*o.Loss, 100*o.Plain, self, o.Form)
}

// quant is the quantizer of an offer.
func (o Offer) quant() string { return strings.Fields(o.Flags)[1] }

// offerFor returns the smallest offer with a quantizer; of those without one, that with most figures.
func offerFor(quant string) (best Offer) {
	for _, o := range Offers() {
		if o.quant() == quant || best.Form == "" && o.Self > 0 {
			best = o
		}
	}
	return best
}

// warnFewBits notes the error of weights quantized to few bits without any sign that they were trained for it.
func (d *decider) warnFewBits() error {
	i := slices.IndexFunc(d.steps, fewBits)
	if d.model == nil || i < 0 {
		return nil
	}
	s := d.steps[i]
	e, err := relError(d.ctx, d.Plan, s.from, s.source, s.job)
	if err != nil {
		return err
	}
	count := 0
	for _, s := range d.steps {
		if fewBits(s) {
			count++
		}
	}
	d.note("WARNING: %s makes two bits or fewer of %d matrices for which nothing says that they were trained so; "+
		"%q changes by %.0f %% (relative error, without calibration). This ruins ordinary models: SmolLM2-135M in "+
		"int2 writes nothing that makes sense (docs/QUALITY.md); take --quant int4 or int8",
		s.entry.Quantizer, count, s.entry.Name, 100*e)
	return nil
}

// trained reports whether the checkpoint declares that the weights were trained for the quantizer.
func (d *decider) trained(m matrix, q *quantize.Quantizer) bool {
	kind, _ := q.Kind()
	return q.Rule().Name == "absmean" && kind == quantize.PerTensor && d.declared(m) == model.AbsMean
}
