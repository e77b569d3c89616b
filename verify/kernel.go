package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/verify/reference"
)

// checkKernels is level kernel: every kernel that this CPU can run multiplies every packed tensor by the recorded
// activations.
func (s *session) checkKernels() error {
	if err := kernel.Check(); err != nil {
		return err
	}
	record, err := s.products()
	if err != nil {
		return s.finding(Kernel, "kernels", "reference", err)
	}
	k := &kernels{session: s, record: record, groups: map[string][]Check{}, pool: kernel.NewPool(s.Threads)}
	defer k.pool.Close()
	m := s.file.Manifest()
	byTensor := map[string][]golden.Product{}
	for _, p := range record.Products {
		byTensor[p.Tensor] = append(byTensor[p.Tensor], p)
	}
	total, done := int64(0), int64(0)
	for i := range m.Packed {
		total += int64(m.Packed[i].Bytes)
	}
	for i := range m.Packed {
		e := &m.Packed[i]
		if err := k.tensor(e, byTensor[e.Name]); err != nil {
			return err
		}
		s.report.Coverage.Rows += golden.Rows(e, byTensor[e.Name])
		s.advance(string(Kernel), &done, int64(e.Bytes), total)
	}
	for _, name := range k.order {
		s.report.add(k.groups[name]...)
	}
	if s.report.Failed() > 0 {
		return nil
	}
	return s.judgeProducts()
}

// products returns the golden products of the file. If it was converted without any, the reference computes them now.
func (s *session) products() (*golden.Record, error) {
	if s.golden != nil || len(s.file.Manifest().Packed) == 0 {
		return cmp.Or(s.golden, &golden.Record{}), nil
	}
	s.report.note("the file has no golden products: kernels were compared with the reference, here and now; " +
		"convert --golden full records them")
	return s.recordNow(packed.GoldenKernel)
}

// kernels runs the kernels; checks are grouped by kernel.
type kernels struct {
	*session
	record *golden.Record
	pool   *kernel.Pool
	order  []string
	groups map[string][]Check
}

// tensor checks all kernels on one tensor.
func (k *kernels) tensor(e *packed.Entry, products []golden.Product) error {
	l, err := pack.Open(e.Layout)
	if err != nil {
		return err
	}
	all, err := k.matrices(e, products)
	if err != nil {
		return err
	}
	for _, kern := range kernel.For(l.Spec()) {
		if err := context.Cause(k.ctx); err != nil {
			return err
		}
		c := Check{Level: Kernel, Group: kern.String(), Name: e.Name}
		err := k.compareAll(kern, l, e, all)
		if errors.Is(err, pack.ErrUnsupported) && kern.ISA != kernel.Generic {
			c.Verdict, c.Reason = Skip, err.Error()
			k.add(c)
			continue
		}
		if err := c.judge("", err); err != nil {
			return fmt.Errorf("kernel %v, tensor %q: %w", kern, e.Name, err)
		}
		k.add(c)
	}
	return nil
}

// stored is a matrix as it is stored, and its products.
type stored struct {
	bytes    []byte
	zeros    []int8
	products []golden.Product
}

// matrices returns the matrices of the experts whose products are recorded.
func (k *kernels) matrices(e *packed.Entry, products []golden.Product) (all []stored, err error) {
	for same := range golden.ByExpert(products) {
		x, s := int(same[0].Expert), stored{products: same}
		if s.bytes, err = packed.PackedBytes(k.file, e, x); err != nil {
			return nil, err
		}
		if s.zeros, err = packed.ZerosOf(k.file, e, x); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// compareAll runs one kernel on the matrices of a tensor.
func (k *kernels) compareAll(kern *kernel.Kernel, l pack.Layout, e *packed.Entry, all []stored) error {
	for _, own := range all {
		w, err := kernel.BindWith(kern, l, e.MatrixShape(), own.bytes, k.file.Manifest().Block(e))
		if err != nil {
			return err
		}
		if err = w.Scale(kernel.Scales{Zeros: own.zeros, Group: e.Scale.Group}, kernel.Arithmetic{}); err == nil {
			err = k.compare(w, e, own.products)
		}
		w.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (k *kernels) add(c Check) {
	if k.groups[c.Group] == nil {
		k.order = append(k.order, c.Group)
	}
	k.groups[c.Group] = append(k.groups[c.Group], c)
}

// compare runs one kernel on one matrix.
func (k *kernels) compare(w *kernel.Weights, e *packed.Entry, products []golden.Product) error {
	for i := range products {
		p := &products[i]
		got := k.multiply(w, p)
		listed := p.Listed(got, w.Shape.M)
		for j, v := range p.Values {
			if listed[j] != v {
				n := len(p.Rows)
				row, g, t := p.Rows[j%n], j/n%w.Groups(), j/n/w.Groups()
				return k.explain(e, p, got, fmt.Sprintf("row %d, group %d, vector %d of %d: %d instead of %d", row, g,
					t, p.Vectors,
					listed[j], v))
			}
		}
		if p.Digest != "" && golden.DigestProducts(got) != p.Digest {
			return k.explain(e, p, got, fmt.Sprintf("%d vectors: the digest of all products differs", p.Vectors))
		}
	}
	return nil
}

// multiply computes all rows, acc[t][g][m].
func (k *kernels) multiply(w *kernel.Weights, p *golden.Product) []int32 {
	x := kernel.NewActivations(p.Vectors, w.Shape.K)
	for t, q := range golden.Vectors(p.Seed, p.Vectors, w.Shape.K) {
		copy(x.Row(t), q)
	}
	x.Finish()
	acc := make([]int32, p.Vectors*w.Groups()*w.Shape.M)
	k.pool.Run(w.Panels(), 1, &mulTask{w, x, acc})
	return acc
}

type mulTask struct {
	w *kernel.Weights
	x *kernel.Activations
	y []int32
}

func (m *mulTask) Do(from, to int) { m.w.Mul(m.y, m.w.Shape.M, m.x, from, to) }

// explain asks the reference which side is wrong, and in which row.
func (k *kernels) explain(e *packed.Entry, p *golden.Product, got []int32, what string) error {
	want, err := reference.Products(k.ctx, k.file, e.Name, int(p.Expert),
		golden.Vectors(p.Seed, p.Vectors, e.MatrixShape().K))
	if err != nil {
		return err
	}
	for i, v := range got {
		if v != want[i] {
			m := e.MatrixShape().M
			return broken("",
				"%s; the reference finds row %d, product %d of the row to be %d, the kernel %d: the kernel is wrong",
				what, i%m, i/m, want[i], v)
		}
	}
	return broken("F8", "%s; the reference agrees with the kernel: the golden outputs do not belong to these weights",
		what)
}
