package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/pack"
)

// RecommendSchema names the form of a Recommendation in JSON.
const RecommendSchema = "lowpack.bench.recommend/1"

// HeadForm is an output head as a product: in codes, or, without an alphabet, in floats of a type.
type HeadForm struct {
	Name    string
	Layout  string // of codes
	Vectors int    // vectors of codes per token: a candidate filter takes two
	DType   tensor.Type
	convert.Matrices
}

// RecommendOptions describe the matrices of a model.
type RecommendOptions struct {
	Meter
	Body    []convert.Matrices
	Heads   []HeadForm
	Tokens  []int // of a pass: one is decode, many are prefill
	Threads int   // 0 = all
}

// Recommendation holds the cost of a model's possible layouts and heads on this machine.
type Recommendation struct {
	Schema  string         `json:"schema"`
	Host    Host           `json:"host"`
	Threads int            `json:"threads"`
	Tokens  []int          `json:"tokens"`
	Layouts []RecommendRow `json:"layouts"` // of the body
	Heads   []RecommendRow `json:"heads"`
}

// RecommendRow is one choice.
type RecommendRow struct {
	Name    string   `json:"name"`
	Kernels []string `json:"kernels,omitempty"`
	Bytes   int64    `json:"bytes"` // of weights, and of scales per group as kernels read them, in a pass
	// Seconds of a pass through all the matrices, by number of tokens.
	Seconds []Quantity `json:"seconds,omitempty"`
	Refused string     `json:"refused,omitempty"` // why it is not possible; then there are no figures
}

// Fastest returns the row that takes least time for the pass i. Among rows within the spread that counts as noise, it
// is the smallest; among equal ones the first.
func Fastest(rows []RecommendRow, i int, spread float64) *RecommendRow {
	var best *RecommendRow
	for j := range rows {
		if r := &rows[j]; r.Refused == "" && (best == nil || r.Seconds[i].Median < best.Seconds[i].Median) {
			best = r
		}
	}
	if best == nil {
		return nil
	}
	limit := best.Seconds[i].Median * (1 + spread)
	for j := range rows {
		if r := &rows[j]; r.Refused == "" && r.Seconds[i].Median <= limit && r.Bytes < best.Bytes {
			best = r
		}
	}
	return best
}

// Recommend measures the linear layers of a model in every layout that holds them, and its head in every form, with
// random codes that come from memory and the kernels that the runtime chooses. Operations between the matrices are not
// included. Its error is ErrNoise if some figures are noise; it returns a recommendation then, too.
func Recommend(ctx context.Context, o RecommendOptions) (*Recommendation, error) {
	if err := o.Meter.Check(); err != nil {
		return nil, err
	}
	if len(o.Body)+len(o.Heads) == 0 {
		return nil, fmt.Errorf("%w: there are no packed matrices and no output head for which something could be "+
			"chosen; is a quantizer missing (--quant)?", pack.ErrUnsupported)
	}
	run := &recommendRun{kernelRun: newKernelRun(&KernelOptions{Meter: o.Meter, Threads: []int{o.Threads}},
		bindKernel), o: &o}
	defer run.close()
	if err := run.layouts(ctx); err != nil {
		return nil, err
	}
	if err := run.heads(ctx); err != nil {
		return nil, err
	}
	noisy, figures := 0, 0
	for _, row := range slices.Concat(run.Layouts, run.Heads) {
		for _, s := range row.Seconds {
			figures++
			if s.Spread > o.MaxSpread {
				noisy++
			}
		}
	}
	run.Schema, run.Host, run.Threads, run.Tokens = RecommendSchema, host(), run.limits[0].pool.Threads(), o.Tokens
	return &run.Recommendation, o.noise(noisy, figures)
}

type recommendRun struct {
	*kernelRun
	Recommendation
	o *RecommendOptions
}

// layouts measures the body in each layout of packed files.
func (r *recommendRun) layouts(ctx context.Context) error {
	if len(r.o.Body) == 0 {
		return nil
	}
	for _, name := range packedLayouts() {
		r.say(name)
		row, err := r.row(ctx, name, r.o.Body, func(l convert.Matrices) (pass, error) { return r.codes(name, l, 1) })
		if err != nil {
			return err
		}
		r.Layouts = append(r.Layouts, row)
	}
	return nil
}

func (r *recommendRun) heads(ctx context.Context) error {
	for _, h := range r.o.Heads {
		r.say("head " + h.Name)
		row, err := r.row(ctx, h.Name, []convert.Matrices{h.Matrices}, func(l convert.Matrices) (pass, error) {
			if l.Alphabet == "" {
				return r.floats(h)
			}
			return r.codes(h.Layout, l, h.Vectors)
		})
		if err != nil {
			return err
		}
		r.Heads = append(r.Heads, row)
	}
	return nil
}

func (r *recommendRun) say(what string) {
	r.progress(len(r.Layouts)+len(r.Heads), len(packedLayouts())+len(r.o.Heads), what)
}

// mostRows bounds the measured rows of a matrix: further rows take the same time each.
const mostRows = 8192

// pass multiplies by one matrix, or its first rows, with weights from memory.
type pass struct {
	kernel string
	bytes  float64 // of all rows
	scale  float64 // all rows / rows that do multiplies
	do     func(tokens int)
	close  func()
}

// row adds up the passes of all matrices.
func (r *recommendRun) row(ctx context.Context, name string, list []convert.Matrices, open func(convert.Matrices) (pass,
	error)) (RecommendRow, error) {
	row, bytes := RecommendRow{Name: name, Seconds: make([]Quantity, len(r.o.Tokens))}, 0.0
	for _, l := range list {
		p, err := open(l)
		if errors.Is(err, pack.ErrUnsupported) {
			return RecommendRow{Name: name, Refused: err.Error()}, nil
		}
		if err != nil {
			return row, err
		}
		if !slices.Contains(row.Kernels, p.kernel) {
			row.Kernels = append(row.Kernels, p.kernel)
		}
		bytes += p.bytes * float64(l.Count)
		for i, tokens := range r.o.Tokens {
			q, err := r.time(ctx, func() { p.do(tokens) })
			if err != nil {
				p.close()
				return row, err
			}
			row.Seconds[i].add(q, p.scale*float64(l.Count))
		}
		p.close()
	}
	row.Bytes = int64(bytes)
	return row, nil
}

func (r *recommendRun) time(ctx context.Context, do func()) (Quantity, error) {
	return steady(&r.Meter, func() (Quantity, error) {
		t, err := r.sample(ctx, do)
		if err != nil {
			return Quantity{}, err
		}
		return seconds(t[0]), nil
	}, func(q Quantity) float64 { return q.Spread })
}

// add adds a quantity n times. Spreads are assumed to be fully correlated, which is an upper bound.
func (q *Quantity) add(other Quantity, n float64) {
	sum := q.Median + n*other.Median
	q.Spread = (q.Spread*q.Median + n*other.Spread*other.Median) / sum
	q.Median = sum
}

// codes is a pass through a matrix of codes, with several vectors for each token.
func (r *recommendRun) codes(layout string, l convert.Matrices, vectors int) (pass, error) {
	shape := pack.Shape{M: min(l.Shape.M, mostRows), K: l.Shape.K}
	m, err := packRandom(pack.Spec{Name: layout, Alphabet: l.Alphabet}, shape, l.Group)
	if err != nil {
		return pass{}, err
	}
	k := chosen(m)
	if k == nil || k.Layout != layout {
		return pass{}, fmt.Errorf("%w: layout %s has no kernel of its own for %s that the runtime would choose on "+
			"this CPU, and would be repacked (lowpack bench kernels --layout %s compares kernels)",
			pack.ErrUnsupported, layout,
			l.Alphabet, layout)
	}
	c, err := r.copies(k, m)
	if err != nil {
		return pass{}, err
	}
	most := slices.Max(r.o.Tokens) * vectors
	pool, x := r.limits[0].pool, randomActivations(most, shape.K)
	task := &multiplication{y: make([]int32, most*shape.M), ldy: shape.M, x: x}
	selected := 0
	scale := float64(l.Shape.M) / float64(shape.M)
	return pass{k.String(), scale * float64(c.list[0].Bytes()), scale, func(tokens int) {
		if selected != tokens {
			selected = tokens
			x.Reset(tokens * vectors)
			x.Finish()
		}
		c.at = (c.at + 1) % len(c.list)
		task.product = c.list[c.at]
		pool.Run(task.Panels(), task.Chunk(x.N, pool.Threads()), task)
	}, c.close}, nil
}

// floats is a pass through an output head in floats.
func (r *recommendRun) floats(h HeadForm) (pass, error) {
	row := h.Shape.K * h.DType.Size()
	rows := min(h.Shape.M, r.limits[0].buffer.Bytes()/row+1)
	data := make([]byte, rows*row) // zeros: finite in every type
	touch(data)
	m, err := tensor.NewMatrix(h.DType, rows, h.Shape.K, data)
	if err != nil {
		return pass{}, err
	}
	most := slices.Max(r.o.Tokens)
	pool, task := r.limits[0].pool, &floatTask{m: m, x: make([]float32, most*h.Shape.K), y: make([]float32, most*rows)}
	scale := float64(h.Shape.M) / float64(rows)
	return pass{h.DType.String(), scale * float64(len(data)), scale, func(tokens int) {
		task.n = tokens
		pool.Run((rows+floatRows-1)/floatRows, 1, task)
	}, func() {}}, nil
}

// floatTask multiplies rows of floats, some at a time.
type floatTask struct {
	m    *tensor.Matrix
	x, y []float32
	n    int
}

const floatRows = 64

func (f *floatTask) Do(from, to int) {
	rows := tensor.Range{From: from * floatRows, To: min(to*floatRows, f.m.Rows)}
	y, x := tensor.Vectors{Data: f.y[rows.From:], Stride: f.m.Rows}, tensor.Vectors{Data: f.x, Stride: f.m.Cols}
	f.m.Mul(y, x, f.n, rows)
}
