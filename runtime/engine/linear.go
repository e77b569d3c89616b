package engine

import (
	"slices"
	"unsafe"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/tensor"
)

// matrix is a stored matrix: packed codes with scales, or floats.
type matrix struct {
	rows int
	bias []float32 // nil = none
	// of the outputs, bias included: one for all, or one for each; nil = none
	factors []float32

	codes  *kernel.Weights // nil for floats
	data   []byte          // of the codes, as stored; nil without a device
	side   *units          // what is stored beside the codes; nil without a device
	scales []float32       // 1 or rows; nil for group-wise scales
	minima *tensor.Matrix  // [rows][groups]; nil = none
	group  int             // columns per minimum
	order  []int32         // of the columns; nil = as stored
	floats *tensor.Matrix

	input int  // index of its column order in projection.orders
	sums  sums // sums that the minima multiply

	at    int // column of the first output in the rows of the projection
	first int // number of its first unit in the projection
	units int
	unit  int // rows of a unit
}

// projection is one or several matrices that read the same vectors and whose outputs are adjacent: query, key and
// value; gate and up. Its work is divided into units, each of them some rows of one matrix, that can be computed in any
// order.
type projection struct {
	in, out  int
	matrices []matrix
	units    int
	orders   [][]int32 // column orders in which matrices of codes read quantized vectors; empty = no codes
	floats   bool      // some matrix has floats and reads the vectors themselves
	sums     []sums    // of quantized vectors, multiplied by minima; empty = none
	width    int       // total number of these sums

	alternate bool // outputs of gate and up alternate
	scattered []scattered
	names     []string // of the matrices
}

// Sizes of the units of work. A chunk must be long compared with an access to the shared counter, and short compared
// with the whole, so that the workers finish together.
const (
	unitBytes = 32 << 10 // of a matrix of floats
	// Chunks of floats. Chunks of large matrices, such as the head, grow: long runs are read faster (_asm/tensor,
	// dotPairs).
	chunkBytes     = 128 << 10
	mostChunkBytes = 512 << 10
	fewestChunks   = 256 // before they grow
)

// add appends a matrix.
func (f *projection) add(m matrix) {
	m.at, m.first = f.out, f.units
	if m.codes != nil {
		m.unit = m.codes.PanelRows()
		m.input = f.inputFor(m.order)
		if m.minima != nil {
			m.sums = f.sumsFor(m.input, m.codes.Shape.K, m.group)
		}
	} else {
		f.floats = true
		m.unit = max(4, unitBytes/(m.floats.Cols*m.floats.Type.Size())&^3)
	}
	m.units = (m.rows + m.unit - 1) / m.unit
	f.out += m.rows
	f.units += m.units
	f.matrices = append(f.matrices, m)
}

// inputFor returns the index of a column order in projection.orders.
func (f *projection) inputFor(order []int32) int {
	i := slices.IndexFunc(f.orders,
		func(o []int32) bool { return (o == nil) == (order == nil) && slices.Equal(o, order) })
	if i < 0 {
		i = len(f.orders)
		f.orders = append(f.orders, order)
	}
	return i
}

// chunk is the number of units that a worker takes at once for a product with n int8 vectors: what suits the largest
// matrix.
func (f *projection) chunk(n, threads int) int {
	m := &f.matrices[0]
	for i := range f.matrices {
		if f.matrices[i].bytes() > m.bytes() {
			m = &f.matrices[i]
		}
	}
	if m.codes != nil {
		return m.codes.Chunk(n, threads)
	}
	return max(1, min(max(chunkBytes, m.bytes()/fewestChunks), mostChunkBytes)*m.units/m.bytes())
}

// bytes of weights in the projection.
func (f *projection) bytes() (n int) {
	for i := range f.matrices {
		n += f.matrices[i].bytes()
	}
	return n
}

func (m *matrix) bytes() int {
	if m.codes == nil {
		return m.floats.Cols * m.floats.Rows * m.floats.Type.Size()
	}
	n := m.codes.Bytes() + m.codes.ScaleBytes()
	if m.minima != nil {
		n += m.minima.Cols * m.rows * m.minima.Type.Size()
	}
	return n
}

// multiply stores the outputs of a projection in y, and adds them to add if it is not nil.
func (e *Engine) multiply(f *projection, n int, y, add []float32) {
	e.multiplyInto(f, n, y, f.out, add)
}

// multiplyInto is multiply with rows of y that are ldy elements apart.
func (e *Engine) multiplyInto(f *projection, n int, y []float32, ldy int, add []float32) {
	p := &e.pass
	f, p.others = f.with(p.others), nil
	e.multiplyFrom(f, n, p.x, y, ldy, add)
}

// multiplyFrom is multiplyInto with vectors of x, and the weights that f has.
func (e *Engine) multiplyFrom(f *projection, n int, x, y []float32, ldy int, add []float32) {
	p := &e.pass
	p.product = product{projection: f, n: n, x: x, q: p.quant[f.in], planes: e.planes(), wide: p.wide, sums: p.sums,
		y: y, ldy: ldy, add: add}
	e.pool.Run(f.units, f.chunk(n*int(e.planes()), e.opt.Threads), &p.product)
}

// with returns a projection with other floats for some of its matrices; nil = for none.
func (f *projection) with(others [][]float32) *projection {
	if others == nil {
		return f
	}
	g := *f
	g.matrices = slices.Clone(f.matrices)
	for i, w := range others {
		if m := &g.matrices[i]; w != nil {
			m.floats = tensor.Floats(m.floats.Rows, m.floats.Cols, w)
		}
	}
	return &g
}

// product is the task of multiplying a projection by the vectors of a pass: y[t·ldy + i], plus the residual if there is
// one.
type product struct {
	projection *projection
	n          int                   // vectors
	x          []float32             // [n][projection.in]
	q          []*kernel.Activations // x quantized, per column order
	planes
	wide []float32 // [2n][projection.out]: outputs of both planes
	sums []float32 // [n][projection.width]
	y    []float32
	ldy  int
	add  []float32 // [n][projection.out]: y is added here as well; nil = not added
}

// Do computes units [from, to).
func (p *product) Do(from, to int) {
	for i := range p.projection.matrices {
		m := &p.projection.matrices[i]
		u0, u1 := max(from-m.first, 0), min(to-m.first, m.units)
		if u0 < u1 {
			p.multiply(m, u0, u1)
		}
	}
}

// multiply computes units [u0, u1) of a matrix.
func (p *product) multiply(m *matrix, u0, u1 int) {
	r0, r1 := u0*m.unit, min(u1*m.unit, m.rows)
	switch {
	case m.codes == nil:
		y, x := tensor.Vectors{Data: p.y[m.at+r0:], Stride: p.ldy}, tensor.Vectors{Data: p.x, Stride: p.projection.in}
		m.floats.Mul(y, x, p.n, tensor.Range{From: r0, To: r1})
	case p.planes == 1:
		p.multiplyCodes(m, u0, u1, r0, r1)
	default:
		p.multiplyPlanes(m, u0, u1, r0, r1)
	}
	if m.minima != nil {
		p.addMinima(m, r0, r1)
	}
	for t := range p.n {
		y := p.y[t*p.ldy+m.at:][r0:r1]
		if m.bias != nil {
			tensor.Add(y, m.bias[r0:r1])
		}
		switch len(m.factors) {
		case 0:
		case 1:
			tensor.Times(y, m.factors[0])
		default:
			tensor.Multiply(y, m.factors[r0:r1])
		}
		if p.add != nil {
			tensor.Add(p.add[t*p.projection.out+m.at:][r0:r1], y)
		}
	}
}

// multiplyCodes multiplies a matrix of codes with int8 vectors.
func (p *product) multiplyCodes(m *matrix, u0, u1, r0, r1 int) {
	if m.scales != nil && p.q[m.input].Group == 0 {
		p.multiplyWhole(m, u0, u1, r0, r1)
	} else {
		p.multiplyGrouped(m, u0, u1, r0, r1)
	}
}

// multiplyWhole multiplies with one weight scale per tensor or row, and one activation scale per token.
func (p *product) multiplyWhole(m *matrix, u0, u1, r0, r1 int) {
	// The accumulators share the memory of the results: both are four bytes wide.
	acc, q := asInt32(p.y[m.at:]), p.q[m.input]
	m.codes.Mul(acc, p.ldy, q, u0, u1)
	for t := range p.n {
		row, d := t*p.ldy, q.Scales(t)[0]
		y := p.y[m.at+row:][r0:r1]
		if len(m.scales) == 1 {
			tensor.ScaleAll(y, acc[row:][r0:r1], m.scales[0], d)
		} else {
			tensor.ScaleRows(y, acc[row:][r0:r1], m.scales[r0:r1], d)
		}
	}
}

// multiplyGrouped multiplies with group-wise scales of weights, activations or both. A scale that is not group-wise is
// applied at the end.
func (p *product) multiplyGrouped(m *matrix, u0, u1, r0, r1 int) {
	q := p.q[m.input]
	m.codes.MulScaled(p.y[m.at:], p.ldy, q, u0, u1)
	for t := range p.n {
		y := p.y[t*p.ldy+m.at:][r0:r1]
		switch {
		case q.Group == 0:
			tensor.Times(y, q.Scales(t)[0])
		case len(m.scales) == 1:
			tensor.Times(y, m.scales[0])
		case m.scales != nil:
			tensor.Multiply(y, m.scales[r0:r1])
		}
	}
}

func asBytes(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

func asInt32(x []float32) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}
