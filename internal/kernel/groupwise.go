package kernel

import (
	"fmt"
	"slices"
	"sync"

	"github.com/lowpack/lowpack/internal/float16"
)

// Arithmetic scales the sums of a block of columns and adds them to y (N15): functions of slices of equal length. A
// product is fused with the addition to y.
type Arithmetic struct {
	Weights     func(y []float32, acc []int32, w []float32)            // y += acc·w
	Activations func(y []float32, acc []int32, d float32)              // y += acc·d
	Both        func(y []float32, acc []int32, w []float32, d float32) // y += (acc·d)·w, acc·d rounded
}

// Scales holds the scales and zero points of a matrix, one for each unit of Group columns of a row.
type Scales struct {
	Weights []float32 // [M][K/Group]; nil where the caller scales rows itself
	Halves  []byte    // the same as binary16, little-endian, in place of Weights
	Group   int       // columns of a unit; 0 = all of a row
	Zeros   []int8    // zero points, [M][K/Group], or one for all; nil = none
}

// scaler is a product that may apply zero points, and may scale the sums of groups in whole panels and add them to
// results itself. It then reads weights once, in memory order, along with their scales and zero points.
type scaler interface{ scales() bool }

// scales reports whether a product scales sums itself.
func scales(p product) bool {
	s, ok := p.(scaler)
	return ok && s.scales()
}

// scaling holds the scales and zero points of a matrix, [panel][unit of a row][rows of a panel].
type scaling struct {
	scales []float32
	halves []uint16 // binary16, in place of scales
	zeros  []int8
	most   int // largest magnitude of a zero point
	group  int // columns of a unit
	units  int // of a row
	do     Arithmetic
}

// Scale sets the scales of w for MulScaled, and its zero points for Mul as well. They are copied into the order in
// which they will be read. do is used if the kernel does not scale sums itself.
func (w *Weights) Scale(s Scales, do Arithmetic) error {
	if s.Group < 1 || s.Group > w.Shape.K {
		s.Group = w.Shape.K
	}
	if s.Halves != nil && !takesHalves(w.product) {
		s.Weights = make([]float32, len(s.Halves)/2)
		float16.Halves(s.Weights, s.Halves)
		s.Halves = nil
	}
	units := ceilDiv(w.Shape.K, s.Group)
	if n := w.Shape.M * units; len(s.Weights) != n && s.Weights != nil ||
		len(s.Halves) != 2*n && s.Halves != nil || len(s.Zeros) > 1 && len(s.Zeros) != n ||
		s.Group < w.Shape.K && s.Group%w.Group != 0 {
		panic(fmt.Sprintf("kernel: %d scales and %d zero points for shape %v, groups of %d in blocks of %d",
			max(len(s.Weights), len(s.Halves)/2),
			len(s.Zeros), w.Shape, s.Group, w.Group))
	}
	if err := checkZeros(w.Layout.Spec(), w.Group, s.Zeros); err != nil {
		return err
	}
	n := w.Panels() * units * w.rows
	*w.scaling = scaling{group: s.Group, units: units, do: do}
	if err := w.newScales(n, &s); err != nil {
		return err
	}
	if s.Zeros != nil {
		w.scaling.zeros = make([]int8, n)
	}
	zeros := s.Zeros
	if len(zeros) == 1 {
		zeros = slices.Repeat(zeros, w.Shape.M*units)
	}
	var panel []uint16 // rows of stored halves
	if s.Halves != nil {
		panel = make([]uint16, w.rows*units)
	}
	for p := range w.Panels() {
		at, rows := p*w.rows*units, min(w.rows, w.Shape.M-p*w.rows)
		switch {
		case s.Halves != nil:
			readHalves(panel[:rows*units], s.Halves[2*at:])
			byUnit(w.scaling.halves[at:], panel, rows, units, w.rows)
		case s.Weights != nil:
			byUnit(w.scaling.scales[at:], s.Weights[at:], rows, units, w.rows)
		}
		if zeros != nil {
			byUnit(w.scaling.zeros[at:], zeros[at:], rows, units, w.rows)
		}
	}
	for _, z := range s.Zeros {
		w.scaling.most = max(w.scaling.most, int(z), -int(z))
	}
	return nil
}

// newScales makes room for n scales of 16 or of 32 bits, if there are any.
func (w *Weights) newScales(n int, s *Scales) (err error) {
	switch {
	case s.Halves != nil:
		if w.ownScales, err = ownMemory.New(2 * n); err == nil {
			w.scaling.halves = asUint16(w.ownScales.Bytes)
		}
	case s.Weights != nil:
		if w.ownScales, err = ownMemory.New(4 * n); err == nil {
			w.scaling.scales = asFloat32(w.ownScales.Bytes)
		}
	}
	return err
}

// unitRun is how many units of a row are taken at a time: float32 of a cache line, or less of narrower ones.
const unitRun = 16

// byUnit stores the units of some rows one unit after another, each in stride elements: dst[u·stride+r] =
// src[r·units+u]. It takes at most a cache line of each row at a time, so that both the lines that it reads and those
// that it writes stay in the nearest cache.
func byUnit[T int8 | uint16 | float32](dst, src []T, rows, units, stride int) {
	for from := 0; from < units; from += unitRun {
		for r := range rows {
			for u, x := range src[r*units+from:][:min(unitRun, units-from)] {
				dst[(from+u)*stride+r] = x
			}
		}
	}
}

// ScaleBytes returns the number of bytes of scales and zero points that one MulScaled over all panels reads in addition
// to the weights.
func (w *Weights) ScaleBytes() int {
	return 4*len(w.scaling.scales) + 2*len(w.scaling.halves) + len(w.scaling.zeros)
}

// unit is the place of the scale and the zero point of the first row of a panel, in the unit of column k.
func (w *Weights) unit(panel, k int) int {
	return (panel*w.scaling.units + k/w.scaling.group) * w.rows
}

// sums computes the sums of a call.
func (w *Weights) sums(c call) {
	w.product.mul(c)
	if w.scaling.zeros != nil && !scales(w.product) {
		w.correct(c)
	}
}

// correct applies the zero-point correction to sums: it subtracts zero·Σx over a block. All operations are modulo 2³²,
// so the result is exact (checkZeros).
func (w *Weights) correct(c call) {
	s, groups := w.scaling, w.Groups()
	for p := c.p0; p < c.p1; p++ {
		first := p * w.rows
		n := min(w.rows, w.Shape.M-first)
		for g := range groups {
			lo, hi := g*w.Group, min((g+1)*w.Group, w.Shape.K)
			zeros := s.zeros[w.unit(p, lo):][:n]
			for t := c.t0; t < c.t1; t++ {
				sum, y := c.x.Sum(t, lo, hi), c.y[c.at(t, g, groups, first):][:n]
				for i, z := range zeros {
					y[i] -= int32(z) * sum
				}
			}
		}
	}
}

// MulScaled computes the products of the rows of panels [p0, p1) with every token of x, each block of columns scaled:
//
//	y[t*ldy+m] = +0, plus float(Σ (code[m][k] − zero) · x.Row(t)[k]) · scales for blocks g ascending
//
// where scales are the weight scales, if Scale set any, and the activation scales, if x has one per group (N15, t).
// Elements of y that belong to no row are left unchanged.
func (w *Weights) MulScaled(y []float32, ldy int, x *Activations, p0, p1 int) {
	if w.scaling.scales == nil && w.scaling.halves == nil && x.Group == 0 || p0 < 0 || p1 > w.Panels() ||
		x.K != w.Shape.K || ldy < w.Shape.M || len(y) < (x.N-1)*ldy+w.Shape.M {
		panic(fmt.Sprintf("kernel: MulScaled of panels [%d, %d) of %d, shape %v, by %d tokens of %d into %d, stride %d",
			p0, p1, w.Panels(), w.Shape, x.N, x.K, len(y), ldy))
	}
	if p0 >= p1 || x.N == 0 {
		return
	}
	c := call{y: asInt32(y), ldy: ldy, x: x, p0: p0, p1: p1, t1: x.N, scaled: true}
	if scales(w.product) {
		c.p1 = min(p1, w.Shape.M/w.rows)
		if p0 < c.p1 {
			w.product.mul(c)
		}
		c.p0, c.p1 = max(p0, c.p1), p1
	}
	w.clear(c)
	for from := c.p0; from < c.p1; {
		from = w.scaleSums(y, c, from)
	}
}

// clear sets the results of a scaled call to zero.
func (w *Weights) clear(c call) {
	for t := c.t0; t < c.t1; t++ {
		clear(c.y[t*c.ldy:][c.p0*w.rows : min(c.p1*w.rows, w.Shape.M)])
	}
}

// sumBytes of sums are computed at a time before they are scaled, but at least the sums of sumRows rows, which Vec-LUT
// tables need.
const (
	sumBytes = 1 << 20
	sumRows  = 256
)

// sumRoom is room for sums and for the scales of a panel, kept between calls.
type sumRoom struct {
	sums   []int32
	scales []float32
}

var sumRooms = sync.Pool{New: func() any { return new(sumRoom) }}

// scaleSums computes the sums of some panels from p on, with all tokens, and scales them. It returns the panel after
// them.
func (w *Weights) scaleSums(y []float32, c call, p int) (next int) {
	groups, tokens := w.Groups(), min(c.x.N, columnTokens)
	panels := max(sumBytes/(4*groups*tokens), sumRows) / w.rows
	next = min(p+max(panels, 1), c.p1)
	first, rows := p*w.rows, min(next*w.rows, w.Shape.M)-p*w.rows
	room := sumRooms.Get().(*sumRoom)
	if n := tokens * groups * rows; len(room.sums) < n {
		room.sums = make([]int32, n)
	}
	for t0 := 0; t0 < c.x.N; t0 += tokens {
		part := call{y: room.sums, ldy: rows, x: c.x, p0: p, p1: next, t0: t0, t1: min(t0+tokens, c.x.N), token: t0,
			row: first}
		w.sums(part)
		for q := p; q < next; q++ {
			own := w.panelScales(q, room)
			for t := t0; t < part.t1; t++ {
				w.scalePanel(y[t*c.ldy:][:w.Shape.M], part, t, q, own)
			}
		}
	}
	sumRooms.Put(room)
	return next
}

// panelScales returns the weight scales of a panel as floats, widened into the room if need be; nil = there are none.
func (w *Weights) panelScales(panel int, room *sumRoom) []float32 {
	s, n := w.scaling, w.scaling.units*w.rows
	switch at := w.unit(panel, 0); {
	case s.halves != nil:
		if len(room.scales) < n {
			room.scales = make([]float32, n)
		}
		return widen(room.scales[:n], s.halves[at:])
	case s.scales != nil:
		return s.scales[at:][:n]
	}
	return nil
}

// scalePanel adds the scaled sums of a panel, which has these scales, and a token to the results of the token.
func (w *Weights) scalePanel(y []float32, c call, t, panel int, scales []float32) {
	s, groups, first := w.scaling, w.Groups(), panel*w.rows
	n := min(w.rows, w.Shape.M-first)
	y = y[first:][:n]
	for g := range groups {
		acc := c.y[c.at(t, g, groups, first):][:n]
		var own []float32
		if scales != nil {
			own = scales[w.unit(0, g*w.Group):][:n]
		}
		switch {
		case c.x.Group == 0:
			s.do.Weights(y, acc, own)
		case own == nil:
			s.do.Activations(y, acc, c.x.Scales(t)[g*w.Group/c.x.Group])
		default:
			s.do.Both(y, acc, own, c.x.Scales(t)[g*w.Group/c.x.Group])
		}
	}
}
