package calibrate

import (
	"fmt"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/parallel"
)

// Table is a matrix outside of the blocks, the embedding or the output head, and the forms that it may be quantized in.
type Table struct {
	Name string
	Jobs []quantize.Job
}

// tables measures all forms of all tables.
func (p *probe) tables() (costs [][]float64, err error) {
	for _, t := range p.Tables {
		var list []float64
		for _, job := range t.Jobs {
			d, err := p.table(t.Name, job)
			if err != nil {
				return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
			}
			list = append(list, d)
		}
		costs = append(costs, list)
	}
	return costs, nil
}

// table measures a form of a table: the model computes the probes with its values as floats.
func (p *probe) table(name string, job quantize.Job) (float64, error) {
	stored, err := p.view.Tensor(name)
	if err != nil {
		return 0, err
	}
	m, k, dtype := job.Shape.M, job.Shape.K, job.DType
	if len(stored.Data) != m*k*dtype.Size() {
		return 0, fmt.Errorf("%d bytes for %d × %d", len(stored.Data), m, k)
	}
	job.DType = quantize.F32
	z, err := quantize.New(job)
	if err != nil {
		return 0, err
	}
	values := make([]float32, m*k)
	err = parallel.Do(p.ctx, p.Threads, m, rowsAtOnce, func(from, to int) error {
		w := make([]float32, (to-from)*k)
		dtype.Widen(w, stored.Data[from*k*dtype.Size():])
		return nearest(z, between(from, to), w, values[from*k:to*k])
	})
	if err != nil {
		return 0, err
	}
	stored.Name, stored.DType, stored.Data = name, safetensors.F32, quantize.FloatBytes(values)
	e, err := onePass(replaced{p.view, stored}, p.Threads, p.Probes, nil)
	if err != nil {
		return 0, err
	}
	defer e.Close()
	logits := make([]float32, len(p.exact))
	if err := passAll(p.ctx, e, p.Probes, logits); err != nil {
		return 0, err
	}
	return p.divergence(logits)
}

// replaced is a view with another tensor in the place of the one that has its name.
type replaced struct {
	packed.View
	tensor packed.Tensor
}

func (v replaced) Tensor(name string) (packed.Tensor, error) {
	if name == v.tensor.Name {
		return v.tensor, nil
	}
	return v.View.Tensor(name)
}
