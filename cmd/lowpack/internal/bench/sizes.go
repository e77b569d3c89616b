package bench

import (
	"fmt"
	"math"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/plot"
)

// SizesSchema names the form of Sizes in JSON.
const SizesSchema = "lowpack.bench.sizes/2"

// Sizes are how far a model is expected to get from its floats in packed files of different sizes. Nothing of it
// depends on the machine.
type Sizes struct {
	Schema string        `json:"schema"`
	Model  string        `json:"model"`
	Method packed.Method `json:"method"` // that is expected to choose the codes
	Chosen []SizeRow     `json:"chosen"` // a form for each layer, the embedding and the head, in files that grow
	Alone  []SizeRow     `json:"alone"`  // one form for all layers, with all else as it is
}

// Expectation says what is expected of codes that a method chooses.
func Expectation(m packed.Method) string {
	if m == packed.GPTQ {
		return "with error feedback"
	}
	return "from rounding alone"
}

// SizeRow is a packed file.
type SizeRow struct {
	Form       string      `json:"form,omitempty"`   // of all layers
	Bytes      int64       `json:"bytes"`            // everything included
	Budget     int64       `json:"budget,omitempty"` // of bytes, for which forms were chosen
	Bits       float64     `json:"bits,omitempty"`   // per weight of the layers for which there is a choice
	Tables     []TableForm `json:"tables,omitempty"` // the embedding and the head, if there is a choice for them
	Divergence float64     `json:"divergence"`       // from the floats, in nats per token
	Ratio      float64     `json:"ratio"`            // e^divergence: of the perplexity to that of the floats
	Activation string      `json:"activation"`
	Shares     []FormShare `json:"shares,omitempty"`
}

// FormShare is the share of the weights that have a form.
type FormShare struct {
	Form  string  `json:"form"`
	Share float64 `json:"share"`
}

// TableForm is the form of the embedding or of the head.
type TableForm struct {
	Name string `json:"name"`
	Form string `json:"form"`
}

// Tables names the forms that an allocation has for the embedding and the head.
func Tables(a *convert.Allocation) (list []TableForm) {
	for _, t := range a.Tables {
		form := "as it is"
		if r := t.Rule; r.Quant != "" {
			form = r.Quant + " " + r.Scale
		}
		list = append(list, TableForm{t.Name, form})
	}
	return list
}

// NewSizes describes the allocations of a front.
func NewSizes(model string, front []*convert.Allocation) *Sizes {
	s := &Sizes{Schema: SizesSchema, Model: model, Method: front[0].Method}
	for _, a := range front {
		row := SizeRow{Bytes: a.Bytes, Budget: a.Budget.Bytes, Bits: a.Bits, Tables: Tables(a),
			Divergence: a.Divergence, Ratio: math.Exp(a.Divergence), Activation: a.Activation.String()}
		for _, f := range a.Forms {
			if f.Weights > 0 {
				row.Shares = append(row.Shares, FormShare{f.Name, float64(f.Weights) / float64(a.Weights)})
			}
		}
		s.Chosen = append(s.Chosen, row)
	}
	for _, f := range front[0].Forms {
		s.Alone = append(s.Alone, SizeRow{Form: f.Name, Bytes: f.Bytes, Divergence: f.Divergence,
			Ratio: math.Exp(f.Divergence), Activation: f.Activation.String()})
	}
	return s
}

// Plot shows what files of a size are expected to cost.
func (s *Sizes) Plot() plot.Chart {
	points := func(rows []SizeRow) (list []plot.Point) {
		for _, r := range rows {
			form := r.Form
			if form == "" {
				form = fmt.Sprintf("%.2f bits per weight of the layers", r.Bits)
				for _, t := range r.Tables {
					form += ", " + t.Name + " " + t.Form
				}
			}
			list = append(list, plot.Point{X: float64(r.Bytes), Y: r.Divergence,
				Label: fmt.Sprintf("%s: %s, %s nats, perplexity × %.3f", form, plot.Bytes(float64(r.Bytes)),
					plot.Short(r.Divergence), r.Ratio)})
		}
		return list
	}
	return &plot.Lines{Title: s.Model, Note: "expected " + Expectation(s.Method),
		X: plot.Axis{Label: "packed file", Format: plot.Bytes},
		Y: plot.Axis{Label: "KL divergence from the floats, nats", Log: true},
		Series: []plot.Series{{Name: "form for each tensor", Points: points(s.Chosen)},
			{Name: "one form for all layers", Points: points(s.Alone)}}}
}
