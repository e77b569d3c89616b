package convert

import (
	"time"

	"github.com/lowpack/lowpack/convert/internal/pipeline"
	"github.com/lowpack/lowpack/convert/report"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// outcome holds what Run finds out about one tensor.
type outcome struct {
	scales   report.Scales
	codes    []report.Code
	relError *float64 // nil: use the plan's value
	took     time.Duration
}

// of a quantized tensor.
func (o *outcome) of(e *packed.Entry, x pipeline.Result, d coder) {
	a, _ := pack.FindAlphabet(e.Layout.Alphabet) // the pipeline has found it
	o.codes, o.scales, o.relError, o.took = report.Codes(a, x.Counts), report.ScalesOf(d.scales()), d.relError(), x.Took
}

// Report returns one row per tensor, sorted by name, after Run of a plan that was made with Options.Report.
func (p *Plan) Report() []report.Row {
	rows := make([]report.Row, len(p.steps))
	for i, s := range p.steps {
		r, o := &s.row, &s.outcome
		rows[i] = report.Row{
			Tensor:   r.Tensor,
			Shape:    r.Shape,
			DType:    r.DType,
			Rule:     r.Rule,
			Layout:   r.Layout,
			Alphabet: r.Alphabet,
			Scale:    r.Scale,
			Scales:   o.scales,
			Codes:    o.codes,
			RelError: r.RelError,
			BytesIn:  r.BytesIn,
			BytesOut: r.BytesOut,
			Seconds:  o.took.Seconds(),
		}
		if o.relError != nil {
			rows[i].RelError = o.relError
		}
	}
	return rows
}
