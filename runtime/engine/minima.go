package engine

import (
	"sync"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/tensor"
)

// sums describes the sums that minima multiply (NUMERICS N39): one per group of columns of a vector, in one of the
// column orders of a projection.
type sums struct {
	input int // index of the column order
	group int // columns
	at, n int // their position among all sums of a vector
}

// sumsFor adds group sums to the sums of a projection, unless they are already there.
func (f *projection) sumsFor(input, columns, group int) sums {
	for _, s := range f.sums {
		if s.input == input && s.group == group {
			return s
		}
	}
	s := sums{input, group, f.width, tensor.Padded((columns + group - 1) / group)}
	f.sums, f.width = append(f.sums, s), f.width+s.n
	return s
}

// alignedMinima returns minima of whole blocks of columns. The padding is −0 and multiplies +0, which changes no sum,
// not even its sign.
func alignedMinima(typ tensor.Type, rows, groups int, data []byte) (*tensor.Matrix, error) {
	width, size := tensor.Padded(groups), typ.Size()
	if width == groups {
		return tensor.NewMatrix(typ, rows, groups, data)
	}
	wide := make([]byte, rows*width*size)
	for i := size - 1; i < len(wide); i += size {
		wide[i] = 0x80
	}
	for r := range rows {
		copy(wide[r*width*size:], data[r*groups*size:][:groups*size])
	}
	return tensor.NewMatrix(typ, rows, width, wide)
}

// of stores the sums of vector t in dst: of one plane, or of both (N83).
func (s sums) of(dst []float32, q *kernel.Activations, t int, p planes) {
	step := s.group
	if q.Group > 0 {
		step = min(step, q.Group)
	}
	clear(dst)
	first, last := t*int(p), (t+1)*int(p)-1
	scales := [...][]float32{q.Scales(first), q.Scales(last)}
	for lo := 0; lo < q.K; lo += step {
		for row := first; row <= last; row++ {
			d := scales[row-first][0]
			if q.Group > 0 {
				d = scales[row-first][lo/q.Group]
			}
			dst[lo/s.group] += float32(float32(q.Sum(row, lo, min(lo+step, q.K))) * d)
		}
	}
}

// termRoom caches buffers for the products of minima between calls.
var termRoom = sync.Pool{New: func() any { return new([]float32) }}

// addMinima adds the products of minima and vector sums to the outputs of rows [r0, r1).
func (p *product) addMinima(m *matrix, r0, r1 int) {
	room, rows, width := termRoom.Get().(*[]float32), r1-r0, p.projection.width
	if len(*room) < p.n*rows {
		*room = make([]float32, p.n*rows)
	}
	terms, sums := tensor.Vectors{Data: *room, Stride: rows}, tensor.Vectors{Data: p.sums[m.sums.at:], Stride: width}
	m.minima.Mul(terms, sums, p.n, tensor.Range{From: r0, To: r1})
	for t := range p.n {
		tensor.Add(p.y[t*p.ldy+m.at:][r0:r1], (*room)[t*rows:][:rows])
	}
	termRoom.Put(room)
}
