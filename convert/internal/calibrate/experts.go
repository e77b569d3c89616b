package calibrate

import (
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/safetensors"
)

// Experts are the weights of one projection of all experts of a block.
type Experts struct {
	Name  string   // of Form.Jobs
	Parts []string // tensors that hold the rows, as many each, one after another
}

// areExperts reports whether a weight is one of experts.
func (p *probe) areExperts(name string) bool {
	return slices.ContainsFunc(p.Experts, func(x Experts) bool { return x.Name == name })
}

// experts measures a projection of experts. Calibration leaves them alone, as each sees too few tokens: their codes are
// the nearest ones, and all columns count alike. The router is as it is, and the model computes the probes with the
// values of the codes in place of the weights, for which there is room once.
func (p *probe) experts(x Experts) (Group, error) {
	g := Group{Names: []string{x.Name}}
	others, err := p.room(x)
	if err != nil {
		return g, err
	}
	return g, p.fill(&g, func(form Form) (miss float64, cost func() (float64, error), err error) {
		miss, err = p.formOf(x, form, others)
		return miss, func() (float64, error) { return p.with(others...) }, err
	})
}

// room returns a tensor of float32 for each part of experts.
func (p *probe) room(x Experts) (others []packed.Tensor, err error) {
	shape := p.forms[0].Jobs[x.Name].Shape
	for _, part := range x.Parts {
		stored, err := p.view.Tensor(part)
		if err != nil {
			return nil, err
		}
		others = append(others, packed.Tensor{Name: part, DType: safetensors.F32, Shape: stored.Shape,
			Data: make([]byte, 4*shape.M/len(x.Parts)*shape.K)})
	}
	return others, nil
}

// formOf gives experts a form, adds up the errors of their weights and, if the form is measured, writes its values.
func (p *probe) formOf(x Experts, form Form, others []packed.Tensor) (miss float64, err error) {
	job := form.Jobs[x.Name]
	job.Shape.M /= len(x.Parts)
	all, code := slices.Repeat([]float32{1}, job.Shape.K), form.coding(nearest)
	for i, part := range x.Parts {
		e, err := p.quantize(part, job, all, code, func(at int, values []float32) {
			copy(others[i].Data[4*at:], quantize.FloatBytes(values))
		})
		if err != nil {
			return 0, fmt.Errorf("tensor %q: %w", part, err)
		}
		miss += e
	}
	return miss, nil
}
