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

// has tells whether the module has a tensor of that suffix.
func (p *parts) has(suffix string) bool {
	_, ok := p.look(p.module + suffix)
	return ok
}

// need takes a tensor of one of the types and of so many dimensions, none of them zero.
func (p *parts) need(suffix string, dims int, types ...safetensors.DType) Tensor {
	t, ok := p.look(p.module + suffix)
	switch {
	case !ok:
		p.fail(pack.ErrCorrupt, "tensor %q is missing", p.module+suffix)
	case !slices.Contains(types, t.DType):
		p.fail(pack.ErrUnsupported, "tensor %q has type %s; supported are %v", t.Name, t.DType, types)
	case len(t.Shape) != dims || slices.Contains(t.Shape, 0):
		p.fail(pack.ErrCorrupt,
			"tensor %q has shape %v; it should have %d dimensions, none of them 0", t.Name, t.Shape, dims)
	case slices.Max(append([]int{1}, t.Shape...)) > pack.MaxDim:
		p.fail(pack.ErrLimit, "tensor %q has shape %v; at most %d are supported", t.Name, t.Shape, pack.MaxDim)
	default:
		p.taken = append(p.taken, t)
		return t
	}
	return Tensor{Name: p.module + suffix, Shape: make([]int, dims)}
}

// experts is the first dimension of a tensor that has three: how many matrices it holds, as a shape; empty for any
// other tensor.
func (p *parts) experts(suffix string) []int {
	if t, _ := p.look(p.module + suffix); len(t.Shape) == 3 {
		return t.Shape[:1:1]
	}
	return nil
}

// count is the number that experts gives; 0 for one matrix.
func count(experts []int) int {
	if len(experts) == 0 {
		return 0
	}
	return experts[0]
}

// shape requires a shape.
func (p *parts) shape(t Tensor, want ...int) {
	if !slices.Equal(t.Shape, want) {
		p.fail(pack.ErrCorrupt,
			"tensor %q has shape %v; the other tensors of the module ask for %v", t.Name, t.Shape, want)
	}
}

// ignore names tensors that say nothing about the weights, if they exist.
func (p *parts) ignore(suffixes ...string) {
	for _, s := range suffixes {
		if p.has(s) {
			p.ignored = append(p.ignored, p.module+s)
		}
	}
}

// finish returns the layer. columns and rows count only where no error was met.
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

// group is the number of columns that share a scale, with which the number of groups must agree. declared ≤ 0 means
// that a row is one group.
func (p *parts) group(columns, groups, declared int) int {
	if declared <= 0 || declared > columns {
		declared = columns
	}
	if p.err != nil || columns == 0 || groups == 0 {
		return 1
	}
	if (columns+declared-1)/declared != groups {
		p.fail(pack.ErrCorrupt,
			"%d groups of scales for %d columns, although config.json says that groups have %d",
			groups, columns, declared)
	}
	return declared
}

// order takes the tensor that gives columns an order, which a key of config.json may promise. In rows of one group it
// changes nothing.
func (p *parts) order(suffix, key string, said order, columns, group int) {
	switch {
	case p.has(suffix):
		p.shape(p.need(suffix, 1, "I32"), columns)
	case said == ordered && group < columns:
		p.fail(pack.ErrCorrupt,
			"%s in config.json says that columns have an order, but tensor %q, which gives it, is missing; "+
				"without it these are other weights: download the checkpoint again", key, p.module+suffix)
	}
}

// said refuses codes of which config.json says something else.
func (p *parts) said(d declared, bits int) {
	switch {
	case d.floats:
		p.fail(pack.ErrCorrupt, "its tensors hold codes, but config.json says that it is not quantized")
	case d.bits != 0 && d.bits != bits:
		p.fail(pack.ErrCorrupt, "its tensors hold codes of %d bits, but config.json says %d", bits, d.bits)
	}
}
