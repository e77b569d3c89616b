package convert

import (
	"context"
	"time"

	"github.com/lowpack/lowpack/convert/report"
	"github.com/lowpack/lowpack/pack"
)

// outcome is what Run learns about one tensor.
type outcome struct {
	scales   report.Scales
	codes    []report.Code
	relError *float64 // nil: that of the plan
	took     time.Duration
}

// Report tells what became of every tensor, by name, after Run of a plan that was made with Options.Report.
func (p *Plan) Report() []report.Row {
	rows := make([]report.Row, len(p.steps))
	for i, s := range p.steps {
		r, o := &s.row, &s.outcome
		rows[i] = report.Row{
			Tensor: r.Tensor, Shape: r.Shape, DType: r.DType, Rule: r.Rule, Layout: r.Layout, Alphabet: r.Alphabet, Scale: r.Scale,
			Scales: o.scales, Codes: o.codes, RelError: r.RelError, BytesIn: r.BytesIn, BytesOut: r.BytesOut, Seconds: o.took.Seconds(),
		}
		if o.relError != nil {
			rows[i].RelError = o.relError
		}
	}
	return rows
}

// tell notes the outcome of a tensor whose codes are all in place.
func (r *run) tell(ctx context.Context, s *step, m *pack.Matrix, scales []float32) error {
	counts, err := countCodes(ctx, m, r.o.Jobs)
	s.outcome.codes, s.outcome.scales = report.Codes(m.Alphabet, counts), report.ScalesOf(scales)
	return err
}

// countCodes counts how often each value of the alphabet occurs, in its order.
func countCodes(ctx context.Context, m *pack.Matrix, jobs int) ([]int64, error) {
	b := newBlocks(m.Shape, 1)
	perWorker := make([][256]int64, jobs)
	err := parallel(ctx, jobs, b.count(), func(worker, i int) error {
		from, to := b.at(i)
		for _, c := range m.Codes[from*m.K : to*m.K] {
			perWorker[worker][uint8(c)]++
		}
		return nil
	})
	counts := make([]int64, len(m.Alphabet.Values))
	for i, v := range m.Alphabet.Values {
		for worker := range perWorker {
			counts[i] += perWorker[worker][uint8(v)]
		}
	}
	return counts, err
}
