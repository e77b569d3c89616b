package engine

import "github.com/lowpack/lowpack/formats/packed"

// units holds the side data of a quantized matrix: scales, zero points, minima and the column order.
type units struct {
	group  int // columns of a unit
	perRow int // units of a row; 0 = all rows share one
	scales []float32
	zeros  []int8    // nil = none
	minima []float32 // nil = none
	order  []int32   // nil = as stored
}

// openUnits opens the units of one matrix, without scales and zero points.
func openUnits(v packed.View, e *packed.Entry, expert int) (u *units, err error) {
	u = &units{group: e.MatrixShape().K, perRow: e.Groups()}
	switch e.Scale.Kind {
	case packed.ScaleGroup:
		u.group = e.Scale.Group
	case packed.ScaleTensor:
		u.perRow = 0
	}
	if u.minima, err = packed.MinimaOf(v, e, expert); err != nil {
		return nil, err
	}
	u.order, err = packed.Order(v, e, expert)
	return u, err
}

// openScales opens the scales and zero points.
func (u *units) openScales(v packed.View, e *packed.Entry, expert int) (err error) {
	if u.scales, err = packed.ScalesOf(v, e, expert); err != nil {
		return err
	}
	u.zeros, err = packed.ZerosOf(v, e, expert)
	return err
}

// row sets dst to the dequantized weights of a row (N39), in the column order of the vectors that they multiply.
func (u *units) row(dst []float32, row int, codes []int8) {
	for k, c := range codes {
		unit, at, code := row*u.perRow+k/u.group, k, int(c)
		if u.zeros != nil {
			code -= int(u.zeros[unit])
		}
		if u.order != nil {
			at = int(u.order[k])
		}
		if dst[at] = float32(float32(code) * u.scales[unit]); u.minima != nil {
			dst[at] += u.minima[unit]
		}
	}
}
