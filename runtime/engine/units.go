package engine

import (
	"github.com/lowpack/lowpack/formats/packed"
)

// units are what weights of a matrix share: scales, zero points and the order of columns.
type units struct {
	kind   string
	group  int // columns of a unit
	perRow int
	scales []float32
	zeros  []int8  // nil = none
	order  []int32 // nil = as they are
}

func openUnits(v packed.View, e *packed.Entry) (u *units, err error) {
	u = &units{kind: e.Scale.Kind, group: e.MatrixShape().K, perRow: e.Groups()}
	if u.kind == packed.ScaleGroup {
		u.group = e.Scale.Group
	}
	if u.scales, err = packed.Scales(v, e); err != nil {
		return nil, err
	}
	if u.zeros, err = packed.Zeros(v, e); err != nil {
		return nil, err
	}
	u.order, err = packed.Order(v, e, 0)
	return u, err
}

// row sets dst to the weights of a row, each rounded once, in the order of the vectors that they multiply.
func (u *units) row(dst []float32, row int, codes []int8) {
	first := row * u.perRow
	if u.kind == packed.ScaleTensor {
		first = 0
	}
	for k, c := range codes {
		unit, at, code := first+k/u.group, k, int(c)
		if u.zeros != nil {
			code -= int(u.zeros[unit])
		}
		if u.order != nil {
			at = int(u.order[k])
		}
		dst[at] = float32(code) * u.scales[unit]
	}
}
