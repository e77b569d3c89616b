package quantized

import (
	"fmt"
	"math"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/float8"
	"github.com/lowpack/lowpack/pack"
)

// Types of 8 bits. E8M0 is a power of two, as the bytes of MX scales are.
const (
	e4m3 safetensors.DType = "F8_E4M3"
	e8m0 safetensors.DType = "F8_E8M0"
)

// eightTypes are the types of the scales of 8-bit floats.
var eightTypes = append([]safetensors.DType{e8m0, safetensors.U8}, floatTypes...)

// eights is a matrix of 8-bit floats, or those of all experts, with a scale per block of rows and columns.
type eights struct {
	elements, scales Tensor
	rows, columns    int               // of a matrix
	grid             [2]int            // scales of a matrix: down and across
	block            [2]int            // rows and columns of a block; the last one may be smaller
	in               safetensors.DType // scales are rounded to it; "" = they stay as they are
}

// eight takes the elements and the scales of a weight of 8-bit floats. block is what config.json declares of a block: 0
// = all rows, or columns. A single scale, of any number of dimensions, is that of a tensor.
func (p *parts) eight(weight, scale string, block [2]int) *eights {
	return p.eightIn(nil, weight, scale, block, gridScales)
}

// gridScales is the shape of scales with one dimension for the blocks of rows and one for those of columns.
func gridScales(grid [2]int) []int { return grid[:] }

// eightIn takes scales whose shape follows from their number down and across. Tensors of all experts have the dimension
// experts before others.
func (p *parts) eightIn(experts []int, weight, scale string, block [2]int, shape func(grid [2]int) []int) *eights {
	w := p.need(weight, 2+len(experts), e4m3)
	e := &eights{elements: w, rows: w.Shape[len(experts)], columns: w.Shape[len(experts)+1], block: block}
	for i, n := range []int{e.rows, e.columns} {
		if e.block[i] <= 0 {
			e.block[i] = max(n, 1)
		}
		e.grid[i] = ceil(n, e.block[i])
	}
	s, _ := p.look(p.module + scale)
	if one := s.count() == 1 && len(s.Shape) < 2; one && len(experts) == 0 && e.grid == [2]int{1, 1} {
		e.scales = p.need(scale, len(s.Shape), eightTypes...)
		return e
	}
	want := append(experts, shape(e.grid)...)
	e.scales = p.need(scale, len(want), eightTypes...)
	p.shape(e.scales, want...)
	return e
}

// eightOfExperts takes the elements of all experts in one tensor, with a scale for each of them, or one for all.
func (p *parts) eightOfExperts(weight, scale string, each bool) *eights {
	if each {
		return p.eightIn(p.experts(weight), weight, scale, [2]int{}, func([2]int) []int { return nil })
	}
	w := p.need(weight, 3, e4m3)
	rows := w.Shape[0] * w.Shape[1]
	return &eights{elements: w, scales: p.need(scale, 0, floatTypes...), rows: max(rows, 1), columns: w.Shape[2],
		block: [2]int{max(rows, 1), max(w.Shape[2], 1)}, grid: [2]int{1, 1}}
}

// values describes the matrix; of is the type of the weights.
func (e *eights) values(p *parts, name string, of safetensors.DType) (*Values, error) {
	return p.values(Values{Name: name, Elements: e.elements.Name, Shape: e.elements.Shape, DType: of,
		Kind: string(e4m3), products: e.products})
}

// products computes rows of weights, from row on.
func (e *eights) products(dst []float32, row int, read Read) error {
	columns := e.columns
	rows, first := len(dst)/columns, e.blockOf(row)
	scales, err := e.scalesOf(first, e.blockOf(row+rows-1), read)
	if err != nil {
		return err
	}
	stored := make([]byte, len(dst))
	if err := read(e.elements.Name, stored, int64(row)*int64(columns)); err != nil {
		return err
	}
	for i, b := range stored {
		if b&0x7f == 0x7f {
			return fmt.Errorf("%w: tensor %q: row %d, column %d is NaN; the checkpoint is damaged: download it again",
				pack.ErrCorrupt, e.elements.Name, row+i/columns, i%columns)
		}
	}
	for i := range rows {
		own := scales[(e.blockOf(row+i)-first)*e.grid[1]:][:e.grid[1]]
		from, to := stored[i*columns:][:columns], dst[i*columns:][:columns]
		for j, s := range own {
			end := min((j+1)*e.block[1], columns)
			for k := j * e.block[1]; k < end; k++ {
				to[k] = float8.E4M3[from[k]] * s
			}
		}
	}
	return nil
}

// blockOf returns the number of the block of a row, across all matrices.
func (e *eights) blockOf(row int) int { return row/e.rows*e.grid[0] + row%e.rows/e.block[0] }

// rowOf returns the first row of a block, across all matrices.
func (e *eights) rowOf(block int) int { return block/e.grid[0]*e.rows + block%e.grid[0]*e.block[0] }

// scalesOf reads the scales of rows of blocks, first to last.
func (e *eights) scalesOf(first, last int, read Read) ([]float32, error) {
	t, n := e.scales.DType, (last-first+1)*e.grid[1]
	stored, scales := make([]byte, int64(n)*t.Size()), make([]float32, n)
	if err := read(e.scales.Name, stored, int64(first*e.grid[1])*t.Size()); err != nil {
		return nil, err
	}
	for i := range scales {
		s := e.rounded(eightScale(t, stored, i))
		if s-s != 0 {
			return nil, fmt.Errorf("%w: tensor %q: scale %v of the blocks from row %d on is %v; the checkpoint is "+
				"damaged: download it again", pack.ErrCorrupt, e.scales.Name, i%e.grid[1],
				e.rowOf(first+i/e.grid[1]), s)
		}
		scales[i] = s
	}
	return scales, nil
}

// rounded rounds a finite scale, ties to even.
func (e *eights) rounded(s float32) float32 {
	if e.in == "" || s-s != 0 {
		return s
	}
	var b [4]byte
	narrow(b[:e.in.Size()], e.in, []float32{s})
	return value(e.in, b[:], 0)
}

// eightScale returns element i of a tensor of scales, exactly.
func eightScale(t safetensors.DType, b []byte, i int) float32 {
	switch t {
	case e8m0, safetensors.U8:
		if b[i] == 255 {
			return float32(math.NaN())
		}
		return float32(math.Ldexp(1, int(b[i])-127))
	}
	return value(t, b, i)
}
