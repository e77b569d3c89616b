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
	Name   string // of the tensor of floats
	Use    Use
	Choice *Choice // of codes whose scales can be calibrated; nil = none
	Jobs   []quantize.Job
}

// tables measures all forms of all tables.
func (p *probe) tables() (costs [][]float64, err error) {
	for _, t := range p.Tables {
		stored, err := p.view.Tensor(t.Name)
		var list []float64
		if err == nil {
			list, err = p.table(t, stored)
		}
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		costs = append(costs, list)
	}
	return costs, nil
}

// table measures the forms of a table: the model computes the probes with their values as floats, of which there is
// room for one form at a time.
func (p *probe) table(t Table, stored packed.Tensor) (costs []float64, err error) {
	other := packed.Tensor{Name: t.Name, DType: safetensors.F32, Shape: stored.Shape}
	var values []float32 // of a head that is a second form of the embedding
	second := t.Use == (Use{Heads: true})
	for _, job := range t.Jobs {
		m, k, dtype := job.Shape.M, job.Shape.K, job.DType
		if len(stored.Data) != m*k*dtype.Size() {
			return nil, fmt.Errorf("%d bytes for %d × %d", len(stored.Data), m, k)
		}
		job.DType = quantize.F32
		code := nearest
		if rule, _ := quantize.Find(job.Rule); rule.Calibrates() && t.Choice != nil {
			job.Columns, code = t.Choice.Columns, t.Choice.coding()
		}
		z, err := quantize.New(job)
		if err != nil {
			return nil, err
		}
		switch {
		case second && values == nil:
			values = make([]float32, m*k)
		case !second && other.Data == nil:
			other.Data = make([]byte, 4*m*k)
		}
		err = parallel.Do(p.ctx, p.Threads, m, rowsAtOnce, func(from, to int) error {
			w := make([]float32, (to-from)*k)
			dtype.Widen(w, stored.Data[from*k*dtype.Size():])
			if second {
				return code(z, between(from, to), w, values[from*k:to*k])
			}
			own := make([]float32, len(w))
			err := code(z, between(from, to), w, own)
			copy(other.Data[4*from*k:], quantize.FloatBytes(own))
			return err
		})
		if err != nil {
			return nil, err
		}
		d, err := p.withTable(other, values)
		if err != nil {
			return nil, err
		}
		costs = append(costs, d)
	}
	return costs, nil
}

// withTable computes the probes with another table, or with other values of a head that is a second form of the
// embedding: these take the place of what hidden states multiply, and of nothing else.
func (p *probe) withTable(other packed.Tensor, head []float32) (float64, error) {
	if head == nil {
		return p.with(other)
	}
	defer func() { p.rounded = nil }()
	p.rounded = map[string][]float32{p.Head: head}
	return p.cost(p.engine)
}

// with computes the probes with other tensors in the place of those that have their names, and returns the divergence.
func (p *probe) with(others ...packed.Tensor) (float64, error) {
	e, err := onePass(replaced{p.view, others}, p.Threads, p.Probes, nil)
	if err != nil {
		return 0, err
	}
	defer e.Close()
	return p.cost(e)
}

// replaced is a view with other tensors in the place of those that have their names.
type replaced struct {
	packed.View
	others []packed.Tensor
}

func (v replaced) Tensor(name string) (packed.Tensor, error) {
	for _, t := range v.others {
		if name == t.Name {
			return t, nil
		}
	}
	return v.View.Tensor(name)
}
