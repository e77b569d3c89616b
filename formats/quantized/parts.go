package quantized

import (
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// parts collects the tensors of a module and keeps the first error.
type parts struct {
	module  string
	look    Lookup
	taken   []Tensor
	ignored []string
	err     error
}

func (p *parts) fail(class error, format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: module %q: %s", class, p.module, fmt.Sprintf(format, args...))
	}
}

// has reports whether the module has a tensor with this suffix.
func (p *parts) has(suffix string) bool {
	return p.look.has(p.module + suffix)
}

// need takes a tensor of one of the types and with dims dimensions, none of them zero.
func (p *parts) need(suffix string, dims int, types ...safetensors.DType) Tensor {
	t, ok := p.look(p.module + suffix)
	switch {
	case !ok:
		p.fail(pack.ErrCorrupt, "tensor %q is missing", p.module+suffix)
	case !slices.Contains(types, t.DType):
		p.fail(pack.ErrUnsupported, "tensor %q has type %s; supported are %v", t.Name, t.DType, types)
	case len(t.Shape) != dims || slices.Contains(t.Shape, 0):
		p.fail(pack.ErrCorrupt,
			"tensor %q has shape %v; want %d dimensions, none of them 0", t.Name, t.Shape, dims)
	case slices.Max(append([]int{1}, t.Shape...)) > pack.MaxDim:
		p.fail(pack.ErrLimit, "tensor %q has shape %v; at most %d are supported", t.Name, t.Shape, pack.MaxDim)
	default:
		p.taken = append(p.taken, t)
		return t
	}
	return Tensor{Name: p.module + suffix, Shape: make([]int, dims)}
}

// experts returns the first dimension of a three-dimensional tensor, the number of matrices, as a shape; nil for other
// tensors.
func (p *parts) experts(suffix string) []int {
	if t, _ := p.look(p.module + suffix); len(t.Shape) == 3 {
		return t.Shape[:1:1]
	}
	return nil
}

// count returns the number in the result of experts; 0 = a single matrix.
func count(experts []int) int {
	if len(experts) == 0 {
		return 0
	}
	return experts[0]
}

// shape fails unless the tensor has the given shape.
func (p *parts) shape(t Tensor, want ...int) {
	if !slices.Equal(t.Shape, want) {
		p.fail(pack.ErrCorrupt,
			"tensor %q has shape %v; the other tensors of the module require %v", t.Name, t.Shape, want)
	}
}

// ignore records tensors that do not affect the weights, if present.
func (p *parts) ignore(suffixes ...string) {
	for _, s := range suffixes {
		if p.has(s) {
			p.ignored = append(p.ignored, p.module+s)
		}
	}
}

// finish returns the layer, or the first error, in which case the fields of l may be meaningless.
func (p *parts) finish(l Layer, open func(l *Layer, read Read) (*Matrix, error)) (*Layer, error) {
	l.Module, l.open, l.original, l.Ignored = p.module, open, p.taken, p.ignored
	for _, t := range p.taken {
		l.Tensors = append(l.Tensors, t.Name)
	}
	if p.err == nil && (l.AllRows() > pack.MaxDim || l.Columns > pack.MaxDim) {
		p.fail(pack.ErrLimit, "%d rows of %d columns; at most %d are supported", l.AllRows(), l.Columns, pack.MaxDim)
	}
	if p.err != nil {
		return nil, p.err
	}
	return &l, nil
}

// group returns the columns per scale and checks it against the number of groups. declared ≤ 0 means one group per row.
func (p *parts) group(columns, groups, declared int) int {
	if declared <= 0 || declared > columns {
		declared = columns
	}
	if p.err != nil || columns == 0 || groups == 0 {
		return 1
	}
	if (columns+declared-1)/declared != groups {
		p.fail(pack.ErrCorrupt,
			"%d groups of scales for %d columns do not match group size %d of config.json",
			groups, columns, declared)
	}
	return declared
}

// order takes the tensor with the column order, which a key of config.json may announce. With one group per row it has
// no effect.
func (p *parts) order(suffix, key string, said order, columns, group int) {
	switch {
	case p.has(suffix):
		p.shape(p.need(suffix, 1, "I32"), columns)
	case said == ordered && group < columns:
		p.fail(pack.ErrCorrupt,
			"%s in config.json says that columns are reordered, but tensor %q, which holds the order, is missing; "+
				"download the checkpoint again", key, p.module+suffix)
	}
}

// said fails if config.json contradicts the stored codes.
func (p *parts) said(d declared, bits int) {
	switch {
	case d.floats:
		p.fail(pack.ErrCorrupt, "its tensors hold codes, but config.json declares it as not quantized")
	case d.bits != 0 && d.bits != bits:
		p.fail(pack.ErrCorrupt, "its tensors hold %d-bit codes, but config.json says %d bits", bits, d.bits)
	}
}
