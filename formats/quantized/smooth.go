package quantized

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// smoothed is a matrix of codes whose columns are multiplied by numbers of a tensor, because the packer multiplies the
// inputs of the linear layer by them: x·s times W is x times W·s. Its weights are code · scale, rounded to the type of
// the weights, · number, rounded again.
type smoothed struct {
	layer   *Layer
	by      Tensor            // one number per column
	of      safetensors.DType // of the weights
	rounded bool              // scales are rounded to it before they multiply
}

// smoothTensor is the suffix of the numbers that inputs are multiplied by.
const smoothTensor = ".pre_quant_scale"

// smoothed returns the values of a module of codes.
func (p *parts) smoothed(l *Layer, of safetensors.DType, rounded bool) (*Values, error) {
	if l.Experts > 0 {
		p.fail(pack.ErrUnsupported, "tensor %q goes with experts in one tensor, which is not supported; convert the "+
			"original checkpoint", p.module+smoothTensor)
	}
	s := &smoothed{l, p.need(smoothTensor, 1, floatTypes...), of, rounded}
	p.shape(s.by, l.Columns)
	p.taken = append(p.taken, l.original...)
	return p.values(Values{Name: p.module + ".weight", Elements: l.Words, Shape: l.Shape(), DType: of,
		Kind: fmt.Sprintf("%d bits times a scale per column", l.Bits), products: s.products})
}

// products computes rows of weights, from row on.
func (s *smoothed) products(dst []float32, row int, read Read) error {
	by, err := s.factors(read)
	if err != nil {
		return err
	}
	k, whole := s.layer.Columns, s.layer.Panel.Rows
	skip := row % whole
	l, own := s.layer.window(row-skip, ceil(skip+len(dst)/k, whole)*whole, read)
	m, err := l.Open(own)
	if err != nil {
		return err
	}
	codes, scales := make([]int8, l.Rows*k), m.ScaleValues()
	if err := m.Read(codes, 0, tensorReader{own, l.Words}); err != nil {
		return err
	}
	if s.rounded {
		s.round(scales)
	}
	groups := l.Groups()
	for i := range dst {
		at := skip*k + i
		dst[i] = float32(codes[at]) * scales[at/k*groups+at%k/l.Group]
	}
	s.round(dst)
	for i := range dst {
		dst[i] *= by[i%k]
	}
	return nil
}

// factors reads the numbers of the columns, which must be finite.
func (s *smoothed) factors(read Read) ([]float32, error) {
	b := make([]byte, s.by.bytes())
	if err := read(s.by.Name, b, 0); err != nil {
		return nil, err
	}
	out := make([]float32, s.layer.Columns)
	for i := range out {
		if out[i] = value(s.by.DType, b, i); out[i]-out[i] != 0 {
			return nil, fmt.Errorf("%w: tensor %q: element %d is %v; the checkpoint is damaged: download it again",
				pack.ErrCorrupt, s.by.Name, i, out[i])
		}
	}
	return out, nil
}

// round rounds numbers to the type of the weights.
func (s *smoothed) round(list []float32) {
	b := make([]byte, len(list)*int(s.of.Size()))
	narrow(b, s.of, list)
	for i := range list {
		list[i] = value(s.of, b, i)
	}
}

// window returns the layer of n rows, from row first on, and what reads its tensors: whole panels. Tensors whose first
// dimension is that of rows, or of panels, are cut.
func (l *Layer) window(first, n int, read Read) (*Layer, Read) {
	w, starts := *l, map[string]int64{}
	w.Rows, w.from, w.original = n, l.from+first, nil
	for _, t := range l.original {
		d := 0
		if len(t.Shape) > 0 {
			d = t.Shape[0]
		}
		if d == l.Rows || d*l.Panel.Rows == l.Rows {
			starts[t.Name] = t.bytes() / int64(l.Rows) * int64(first)
			t.Shape = append([]int{d * n / l.Rows}, t.Shape[1:]...)
		}
		w.original = append(w.original, t)
	}
	return &w, func(name string, b []byte, off int64) error { return read(name, b, starts[name]+off) }
}

// tensorReader reads a tensor as an io.ReaderAt.
type tensorReader struct {
	read Read
	name string
}

func (r tensorReader) ReadAt(b []byte, off int64) (int, error) {
	if err := r.read(r.name, b, off); err != nil {
		return 0, err
	}
	return len(b), nil
}
