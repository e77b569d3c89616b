package export

import (
	"context"
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/transpose"
	"github.com/lowpack/lowpack/pack"
)

// stack is a linear layer of all experts of a block. A packed file may store it fused with another layer (gate and up),
// in one tensor per expert, or transposed.
type stack struct {
	file *packed.File
	*model.Linear
	entry *packed.Entry // nil: floats
}

func stackOf(f *packed.File, l *model.Linear) stack {
	e, _ := f.Manifest().Entry(l.Weight)
	return stack{f, l, e}
}

// names of the tensors that hold it.
func (s stack) names() (list []string) {
	if s.Bias != "" {
		list = append(list, s.Bias)
	}
	if _, err := s.file.Tensor(s.Weight); s.entry != nil || s.Each == "" || err == nil {
		return append(list, s.Weight)
	}
	for x := range s.Experts {
		list = append(list, s.Of(x))
	}
	return list
}

// pickRows selects the rows of a layer that shares a tensor (gate and up); rows have width elements.
func pickRows[T any](data []T, r model.Rows, width int) []T {
	if r == (model.Rows{}) {
		return data
	}
	var out []T
	for i := range r.Len() {
		row := r.At(i)
		out = append(out, data[row*width:][:width]...)
	}
	return out
}

// eachMatrix passes the codes and units of one expert after another to do.
func (s stack) eachMatrix(ctx context.Context, do func(m *pack.Matrix, u units) error) error {
	return eachCodes(ctx, s.file, s.entry, func(expert int, m *pack.Matrix) error {
		u, err := s.units(expert)
		if err != nil {
			return err
		}
		return do(s.own(m), u)
	})
}

// own returns the rows of the linear layer.
func (s stack) own(m *pack.Matrix) *pack.Matrix {
	return &pack.Matrix{Shape: pack.Shape{M: s.Out, K: s.In}, Alphabet: m.Alphabet,
		Codes: pickRows(m.Codes, s.Rows, s.In)}
}

// units of an expert.
func (s stack) units(expert int) (u units, err error) {
	u = sharing(s.entry)
	if u.scales, err = packed.ScalesOf(s.file, s.entry, expert); err != nil {
		return u, err
	}
	if u.zeros, err = packed.ZerosOf(s.file, s.entry, expert); err != nil {
		return u, err
	}
	if u.minima, err = packed.MinimaOf(s.file, s.entry, expert); err != nil || u.perRow == 0 {
		return u, err
	}
	u.scales = pickRows(u.scales, s.Rows, u.perRow)
	if u.zeros != nil {
		u.zeros = pickRows(u.zeros, s.Rows, u.perRow)
	}
	if u.minima != nil {
		u.minima = pickRows(u.minima, s.Rows, u.perRow)
	}
	u.factors, err = factorsOf(s.file, s.entry)
	u.factors = u.changed(func(b []byte) []byte {
		n := len(b) / s.entry.Experts()
		return pickRows(b[expert*n:][:n], s.Rows, u.width)
	})
	return u, err
}

// plain returns the stored floats of an expert, and their type.
func (s stack) plain(expert int) ([]byte, quantize.DType, error) {
	t, err := s.file.Tensor(s.Weight)
	data := t.Data
	if err != nil {
		t, err = s.file.Tensor(s.Of(expert))
		data = t.Data
	} else {
		data = data[expert*len(data)/s.Experts:][:len(data)/s.Experts]
	}
	d := quantize.DType(t.DType)
	if err == nil && d.Size() == 0 {
		err = fmt.Errorf("%w: tensor %q of type %s, which is not written to GGUF", pack.ErrUnsupported, t.Name, t.DType)
	}
	if err != nil {
		return nil, d, err
	}
	if s.Turned {
		data = transpose.Bytes(data, s.In, len(data)/s.In/d.Size())
	}
	return pickRows(data, s.Rows, s.In*d.Size()), d, nil
}

// values returns the weights of an expert.
func (s stack) values(expert int) ([]float32, error) {
	if s.entry == nil {
		data, d, err := s.plain(expert)
		if err != nil {
			return nil, err
		}
		values := make([]float32, len(data)/d.Size())
		d.Widen(values, data)
		return values, nil
	}
	all, err := packed.Codes(s.file, s.entry, expert)
	if err != nil {
		return nil, err
	}
	u, err := s.units(expert)
	if err != nil {
		return nil, err
	}
	m := s.own(all)
	values := make([]float32, len(m.Codes))
	for i, c := range m.Codes {
		values[i] = u.at(i/m.K, i%m.K).weight(c)
	}
	return values, nil
}

// biases of all experts.
func (s stack) biases() ([]float32, error) {
	t, err := s.file.Tensor(s.Bias)
	d := quantize.DType(t.DType)
	if err == nil && d.Size() == 0 {
		err = fmt.Errorf("%w: tensor %q of type %s, which is not written to GGUF", pack.ErrUnsupported, t.Name, t.DType)
	}
	if err != nil {
		return nil, err
	}
	all := make([]float32, len(t.Data)/d.Size())
	d.Widen(all, t.Data)
	var list []float32
	for own := range slices.Chunk(all, len(all)/s.Experts) {
		list = append(list, pickRows(own, s.Rows, 1)...)
	}
	return list, nil
}
