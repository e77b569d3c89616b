package kernel

import (
	"fmt"
	"sync"
)

// ScaleAdd adds acc[i]·w[i] to y[i], all of one length: what becomes of the sums of a group of columns (N15).
type ScaleAdd func(y []float32, acc []int32, w []float32)

// scaler is a product that can scale the sums of groups and add them to results itself: those of whole panels, with the
// tokens of a call. It then reads weights once, in the order of memory, with the scales beside them.
type scaler interface{ scales(c call) bool }

// scaling is the scales of a matrix.
type scaling struct {
	scales []float32 // [panel][group][rows of a panel]
	add    ScaleAdd
}

// Scale gives w a scale for each group of columns of each row, [M][G], for MulScaled. They are copied into the order in which
// they will be read. add is taken where the kernel does not scale sums itself.
func (w *Weights) Scale(scales []float32, add ScaleAdd) error {
	groups := w.Groups()
	if len(scales) != w.Shape.M*groups {
		panic(fmt.Sprintf("kernel: %d scales for shape %v and groups of %d", len(scales), w.Shape, w.Group))
	}
	var err error
	if w.ownScales, err = ownMemory.New(4 * w.Panels() * groups * w.rows); err != nil {
		return err
	}
	*w.scaling = scaling{asFloat32(w.ownScales.Bytes), add}
	for m := range w.Shape.M {
		panel := w.scalesOf(m / w.rows)
		for g := range groups {
			panel[g*w.rows+m%w.rows] = scales[m*groups+g]
		}
	}
	return nil
}

// scalesOf are the scales of the panels from p on.
func (w *Weights) scalesOf(p int) []float32 { return w.scaling.scales[p*w.Groups()*w.rows:] }

// MulScaled computes the products of the rows of panels [p0, p1) with every token of x, each group of columns scaled:
//
//	y[t*ldy+m] = +0, plus float(Σ code[m][k] · x.Row(t)[k]) · scale[m][g] for g ascending
//
// with each operation rounded to float32 (N15). Elements of y that belong to no row are left as they are.
func (w *Weights) MulScaled(y []float32, ldy int, x *Activations, p0, p1 int) {
	if w.scaling.scales == nil || p0 < 0 || p1 > w.Panels() || x.K != w.Shape.K || ldy < w.Shape.M || len(y) < (x.N-1)*ldy+w.Shape.M {
		panic(fmt.Sprintf("kernel: MulScaled of panels [%d, %d) of %d, shape %v, by %d tokens of %d into %d, stride %d",
			p0, p1, w.Panels(), w.Shape, x.N, x.K, len(y), ldy))
	}
	if p0 >= p1 || x.N == 0 {
		return
	}
	for t := range x.N {
		clear(y[t*ldy:][p0*w.rows : min(p1*w.rows, w.Shape.M)])
	}
	c := call{y: asInt32(y), ldy: ldy, x: x, p0: p0, p1: p1, t1: x.N, scaled: true}
	if s, ok := w.product.(scaler); ok && s.scales(c) {
		c.p1 = min(p1, w.Shape.M/w.rows)
		if p0 < c.p1 {
			w.product.mul(c)
		}
		c.p0, c.p1 = max(p0, c.p1), p1
	}
	for from := c.p0; from < c.p1; {
		from = w.scaleSums(y, c, from)
	}
}

// sumBytes of groups are computed at a time before they are scaled, but no fewer than those of sumRows rows, which is what
// tables of Vec-LUT need.
const (
	sumBytes = 1 << 20
	sumRows  = 256
)

// sumRoom keeps room for sums between calls.
var sumRoom = sync.Pool{New: func() any { return new([]int32) }}

// scaleSums computes the sums of some panels from p on, with all tokens, and scales them. It returns the panel after them.
func (w *Weights) scaleSums(y []float32, c call, p int) (next int) {
	groups, tokens := w.Groups(), min(c.x.N, columnTokens)
	panels := max(sumBytes/(4*groups*tokens), sumRows) / w.rows
	next = min(p+max(panels, 1), c.p1)
	first, rows := p*w.rows, min(next*w.rows, w.Shape.M)-p*w.rows
	room := sumRoom.Get().(*[]int32)
	if n := tokens * groups * rows; len(*room) < n {
		*room = make([]int32, n)
	}
	for t0 := 0; t0 < c.x.N; t0 += tokens {
		part := call{y: *room, ldy: rows, x: c.x, p0: p, p1: next, t0: t0, t1: min(t0+tokens, c.x.N), token: t0, row: first}
		w.product.mul(part)
		for t := t0; t < part.t1; t++ {
			for q := p; q < next; q++ {
				w.scalePanel(y[t*c.ldy:][:w.Shape.M], part, t, q)
			}
		}
	}
	sumRoom.Put(room)
	return next
}

// scalePanel adds the scaled sums of a panel and a token to the results of the token.
func (w *Weights) scalePanel(y []float32, c call, t, panel int) {
	groups, first, scales := w.Groups(), panel*w.rows, w.scalesOf(panel)
	n := min(w.rows, w.Shape.M-first)
	for g := range groups {
		w.scaling.add(y[first:][:n], c.y[c.at(t, g, groups, first):][:n], scales[g*w.rows:][:n])
	}
}
