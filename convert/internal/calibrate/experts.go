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
// values of the codes in place of the weights.
func (p *probe) experts(x Experts) (Group, error) {
	g := Group{Names: []string{x.Name}}
	return g, p.fill(&g, func(form Form) (miss float64, cost func() (float64, error), err error) {
		job := form.Jobs[x.Name]
		job.Shape.M /= len(x.Parts)
		all, code := slices.Repeat([]float32{1}, job.Shape.K), nearest
		if !form.Measured {
			code = nil
		}
		var others []packed.Tensor
		for _, part := range x.Parts {
			values, e, err := p.quantize(part, job, all, code)
			if err != nil {
				return 0, nil, fmt.Errorf("tensor %q: %w", part, err)
			}
			stored, err := p.view.Tensor(part)
			if err != nil {
				return 0, nil, err
			}
			miss += e
			others = append(others, packed.Tensor{Name: part, DType: safetensors.F32, Shape: stored.Shape,
				Data: quantize.FloatBytes(values)})
		}
		return miss, func() (float64, error) { return p.with(others...) }, nil
	})
}
