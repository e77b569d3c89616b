package calibrate

import (
	"fmt"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/internal/parallel"
)

// coding chooses codes for rows of weights, whose numbers in the matrix are given, and writes the values that they
// stand for.
type coding func(z *quantize.Quantizer, rows []int, w, values []float32) error

// nearest is the coding of a quantizer itself.
func nearest(z *quantize.Quantizer, rows []int, w, values []float32) error {
	k := len(w) / len(rows)
	kind, group := z.Kind()
	if kind != quantize.PerGroup {
		group = k
	}
	codes, perRow := make([]int8, k), (k+group-1)/group
	for i, m := range rows {
		if err := z.Quantize(codes, m, quantize.FloatBytes(w[i*k:][:k])); err != nil {
			return err
		}
		scales := z.Scales()[m*perRow:]
		for j, code := range codes {
			values[i*k+j] = float32(scales[j/group] * float32(code))
		}
	}
	return nil
}

// fed is the coding of error feedback for weights that stay where they are.
func (f *feedback) fed(z *quantize.Quantizer, rows []int, w, values []float32) error {
	t := target{feedback: f}
	return t.choose(z, rows, make([]int8, len(w)), w, values)
}

// comparedRows: every so many rows of a weight are compared in all forms. Errors of forms are alike in all rows.
const comparedRows = 4

// quantize gives a weight a form, and returns the sum of squared errors of the nearest codes in the rows that are
// compared, weighted by h. The values of the codes that a coding chooses, nil = of none, go to put, with the number of
// the first of them in the weight.
func (p *probe) quantize(name string, job quantize.Job, h []float32, code coding,
	put func(at int, values []float32)) (miss float64, err error) {
	stored, err := p.view.Tensor(name)
	if err != nil {
		return 0, err
	}
	m, k, size, dtype := job.Shape.M, job.Shape.K, job.DType.Size(), job.DType
	if len(h) != k || len(stored.Data) != m*k*size {
		return 0, fmt.Errorf("%d bytes, and means of %d columns", len(stored.Data), len(h))
	}
	job.DType = quantize.F32
	z, err := quantize.New(job)
	if err != nil {
		return 0, err
	}
	misses := make([]float64, (m+rowsAtOnce-1)/rowsAtOnce)
	err = parallel.Do(p.ctx, p.Threads, m, rowsAtOnce, func(from, to int) error {
		rows, w := between(from, to), make([]float32, (to-from)*k)
		dtype.Widen(w, stored.Data[from*k*size:])
		some := compared(w, k)
		v := make([]float32, len(some))
		if err := nearest(z, compared(rows, 1), some, v); err != nil {
			return err
		}
		misses[from/rowsAtOnce] = missedBy(h, some, v)
		if code == nil {
			return nil
		}
		values := make([]float32, len(w))
		err := code(z, rows, w, values)
		put(from*k, values)
		return err
	})
	for _, e := range misses {
		miss += e
	}
	return miss, err
}

// missedBy adds up the squared errors of rows, weighted by h.
func missedBy(h, w, values []float32) (sum float64) {
	for i, v := range values {
		e := float64(w[i]) - float64(v)
		sum += float64(float64(h[i%len(h)]) * float64(e*e))
	}
	return sum
}

// compared returns those rows of k elements that are compared in all forms, from the first one on.
func compared[T any](rows []T, k int) (list []T) {
	for at := 0; at < len(rows); at += comparedRows * k {
		list = append(list, rows[at:at+k]...)
	}
	return list
}
