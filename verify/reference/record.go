package reference

import (
	"context"
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// Record computes the golden outputs that a plan asks for and returns them encoded, in as many bytes as the plan has. d
// describes the model in v; it may be nil when the plan has no logits. progress, when not nil, is called with the work
// done, in weights, from one goroutine at a time.
func Record(ctx context.Context, v packed.View, d *model.Description, plan *golden.Record,
	progress func(done, total int64)) ([]byte, error) {
	m := &machine{view: v, description: d}
	r := newRecorder(ctx, m, v, d, plan, progress)
	m.after = func() { r.advance(layerWork(d)) }
	return r.run(d)
}

// Machine computes what golden outputs record.
type Machine interface {
	// Products multiplies a matrix of a quantized tensor by vectors, as Products of this package does. Only the rows in
	// spans are used.
	Products(ctx context.Context, e *packed.Entry, expert int, q [][]int8, spans [][2]int) (acc []int32, err error)
	// Forward appends tokens to sequences, which are empty at first: tokens[i] to sequence i. It returns the logits
	// after each token, sequence by sequence, [token][Vocab].
	Forward(ctx context.Context, tokens [][]int) ([][]float32, error)
}

// RecordBy is Record with another machine than the reference, which then judges the results (package verify).
func RecordBy(ctx context.Context, m Machine, v packed.View, d *model.Description, plan *golden.Record,
	progress func(done, total int64)) ([]byte, error) {
	return newRecorder(ctx, m, v, d, plan, progress).run(d)
}

// machine is the reference.
type machine struct {
	view        packed.View
	description *model.Description
	after       func() // is called when a layer is done

	model     *Model
	sequences []*Sequence
}

func (p *machine) Products(ctx context.Context, e *packed.Entry, expert int, q [][]int8,
	spans [][2]int) ([]int32, error) {
	m, err := openMatrix(p.view, e.Name, expert)
	if err != nil {
		return nil, err
	}
	return m.multiply(ctx, q, spans)
}

func (p *machine) Forward(ctx context.Context, tokens [][]int) (logits [][]float32, err error) {
	if p.model == nil {
		if p.model, err = New(p.view, p.description); err != nil {
			return nil, err
		}
		p.model.after = func(int, [][]float32) { p.after() }
	}
	var chunks []Chunk
	for i, t := range tokens {
		if i == len(p.sequences) {
			p.sequences = append(p.sequences, p.model.NewSequence())
		}
		if len(t) > 0 {
			chunks = append(chunks, Chunk{Seq: p.sequences[i], Tokens: t})
		}
	}
	return p.model.Forward(ctx, chunks...)
}

type recorder struct {
	ctx         context.Context
	machine     Machine
	view        packed.View
	record      golden.Record
	progress    func(done, total int64)
	done, total int64 // weights
}

func newRecorder(ctx context.Context, m Machine, v packed.View, d *model.Description, plan *golden.Record,
	progress func(done, total int64)) *recorder {
	r := &recorder{ctx: ctx, machine: m, view: v,
		record: golden.Record{Products: slices.Clone(plan.Products), Logits: slices.Clone(plan.Logits),
			Texts: plan.Texts},
		progress: progress}
	r.total = r.productWork() + r.logitsWork(d)
	return r
}

// run computes everything and encodes it.
func (r *recorder) run(d *model.Description) ([]byte, error) {
	if err := r.products(); err != nil {
		return nil, fmt.Errorf("golden products: %w", err)
	}
	if len(r.record.Logits) > 0 {
		if err := r.logits(d); err != nil {
			return nil, fmt.Errorf("golden logits: %w", err)
		}
	}
	return r.record.Encode()
}

func (r *recorder) advance(weights int64) {
	r.done += weights
	if r.progress != nil {
		r.progress(r.done, r.total)
	}
}

// tensors calls do for the products of each tensor, which stand together.
func (r *recorder) tensors(do func(e *packed.Entry, products []golden.Product) error) error {
	for p := r.record.Products; len(p) > 0; {
		n := 1
		for n < len(p) && p[n].Tensor == p[0].Tensor {
			n++
		}
		e, ok := r.view.Manifest().Entry(p[0].Tensor)
		if !ok {
			return fmt.Errorf("%w: no quantized tensor %q", pack.ErrCorrupt, p[0].Tensor)
		}
		if err := do(e, p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

func (r *recorder) productWork() (weights int64) {
	r.tensors(func(e *packed.Entry, _ []golden.Product) error {
		weights += e.Weights()
		return nil
	})
	return weights
}

// products computes the products of every tensor in one sweep over its weights.
func (r *recorder) products() error {
	return r.tensors(func(e *packed.Entry, products []golden.Product) error {
		for same := range golden.ByExpert(products) {
			if err := r.product(e, same); err != nil {
				return err
			}
		}
		r.advance(e.Weights())
		return nil
	})
}

// product fills in the products of one matrix.
func (r *recorder) product(e *packed.Entry, products []golden.Product) error {
	shape := e.MatrixShape()
	var q [][]int8
	for i := range products {
		q = append(q, golden.Vectors(products[i].Seed, products[i].Vectors, shape.K)...)
	}
	l, err := pack.Open(e.Layout)
	if err != nil {
		return fmt.Errorf("tensor %q: %w", e.Name, err)
	}
	acc, err := r.machine.Products(r.ctx, e, int(products[0].Expert), q, spans(l, shape.M, products))
	if err != nil {
		return err
	}
	blocks := len(acc) / (len(q) * shape.M)
	for i := range products {
		p := &products[i]
		n := p.Vectors * blocks * shape.M
		p.Values = p.Listed(acc[:n], shape.M)
		if p.Digest != "" {
			p.Digest = golden.DigestProducts(acc[:n])
		}
		acc = acc[n:]
	}
	return nil
}

// multiply returns acc[(t·B + b)·M + m], the products of the rows in some spans with vectors q[t], by block of columns.
// Rows outside the spans stay zero.
func (m *matrix) multiply(ctx context.Context, q [][]int8, spans [][2]int) ([]int32, error) {
	blocks := m.blocks()
	acc := make([]int32, len(q)*blocks*m.M)
	for _, s := range spans {
		err := m.products(ctx, q, s[0], s[1], func(row int, sums []int32) {
			for b := range blocks {
				for t := range q {
					acc[(t*blocks+b)*m.M+row] = sums[b*len(q)+t]
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return acc, nil
}

// Products multiplies a matrix of a quantized tensor of v by vectors of K values in −127 … 127: acc[(t·B + b)·M + m] is
// the sum over the columns of block b of (code[m][k] − zero point)·q[t][k]; B is Manifest.Blocks.
func Products(ctx context.Context, v packed.View, tensor string, expert int, q [][]int8) (acc []int32, err error) {
	m, err := openMatrix(v, tensor, expert)
	if err != nil {
		return nil, err
	}
	return m.multiply(ctx, q, [][2]int{{0, m.M}})
}

// spans returns the ranges of rows to compute: all rows if a digest is asked for, or if the layout can only be unpacked
// as a whole; else the rows that are written out.
func spans(l pack.Layout, m int, products []golden.Product) (spans [][2]int) {
	_, paneled := l.(pack.Paneled)
	for _, p := range products {
		if p.Digest != "" || !paneled {
			return [][2]int{{0, m}}
		}
		for _, row := range p.Rows {
			spans = append(spans, [2]int{int(row), int(row) + 1})
		}
	}
	slices.SortFunc(spans, func(a, b [2]int) int { return a[0] - b[0] })
	return slices.Compact(spans)
}

// logits evaluates all sequences together: first the given tokens, then one more of each at a time.
func (r *recorder) logits(d *model.Description) error {
	sequences := r.sequences()
	for {
		var tokens [][]int
		var rows []*golden.Logits
		for _, s := range sequences {
			c := s.next()
			tokens, rows = append(tokens, tokensOf(c)), append(rows, c...)
		}
		if len(rows) == 0 {
			return nil
		}
		done := r.done + int64(len(d.Blocks))*layerWork(d)
		z, err := r.machine.Forward(r.ctx, tokens)
		if err != nil {
			return err
		}
		r.advance(done - r.done)
		for i, l := range rows {
			fill(l, z[i])
		}
	}
}

// sequence is one of the recorded sequences while it is evaluated.
type sequence struct {
	rows []*golden.Logits
	done int
}

func (r *recorder) sequences() (list []*sequence) {
	for i := range r.record.Logits {
		l := &r.record.Logits[i]
		if l.Position == 0 {
			list = append(list, &sequence{})
		}
		s := list[len(list)-1]
		s.rows = append(s.rows, l)
	}
	return list
}

// next takes the rows to evaluate next: all given tokens, then one greedy token after the other.
func (s *sequence) next() []*golden.Logits {
	rest := s.rows[s.done:]
	n := 0
	for n < len(rest) && rest[n].Given {
		n++
	}
	if n == 0 && len(rest) > 0 {
		rest[0].Token = s.rows[s.done-1].TopTokens[0]
		n = 1
	}
	s.done += n
	return rest[:n]
}

func tokensOf(rows []*golden.Logits) []int {
	tokens := make([]int, len(rows))
	for i, l := range rows {
		tokens[i] = int(l.Token)
	}
	return tokens
}

func fill(l *golden.Logits, z []float32) {
	n := len(l.TopTokens)
	l.Digest, l.TopTokens, l.TopLogits = golden.DigestLogits(z), make([]int32, n), make([]float32, n)
	for i, id := range Top(z, n) {
		l.TopTokens[i], l.TopLogits[i] = int32(id), z[id]
	}
}

// logitsWork is the number of weights that all passes of the plan read.
func (r *recorder) logitsWork(d *model.Description) int64 {
	if len(r.record.Logits) == 0 || len(d.Blocks) == 0 {
		return 0
	}
	passes := 1
	for i := range r.record.Logits {
		if l := &r.record.Logits[i]; l.Sequence == 0 && !l.Given {
			passes++
		}
	}
	return int64(passes) * int64(len(d.Blocks)) * layerWork(d)
}

// layerWork is the number of weights of a layer, with its share of the output head.
func layerWork(d *model.Description) int64 {
	n := int64(d.Vocab) * int64(d.Hidden) / int64(len(d.Blocks))
	for _, l := range d.Blocks[0].Linears() {
		n += int64(l.In) * int64(l.Out) * int64(max(l.Experts, 1))
	}
	return n
}
