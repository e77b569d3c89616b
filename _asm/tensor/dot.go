package main

import (
	"fmt"
	mathbits "math/bits"
)

// newDot is the product of rows of a matrix with n vectors. Rows are processed in tiles, as many as there are
// accumulator registers for, to hide the latency of additions; then one by one.
func newDot(typ string, n int) *rowOp {
	return newRowOp("dot", typ, n, func(f *function) {
		if m, ok := f.machine.(pairs); ok && typ == "BF16" && n == 1 {
			newDotPairs(f, m).write()
			return
		}
		newDotOf(f, typ, n, 16, 4).write()
	})
}

type dot struct {
	*function
	typ     string
	n       int
	elems   int // columns per step
	xBytes  int // per element of the vectors
	y, rows ptr
	k, tmp  ptr
	next    ptr   // row to prefetch
	x, w    []ptr // w[0] is the next row
}

func newDotOf(f *function, typ string, n, elems, xBytes int) *dot {
	d := &dot{function: f, typ: typ, n: n, elems: elems, xBytes: xBytes}
	d.y, d.rows, d.k, d.tmp, d.next = f.pointer(), f.pointer(), f.pointer(), f.pointer(), f.pointer()
	for range n {
		d.x = append(d.x, f.pointer())
	}
	for range f.tile(n) {
		d.w = append(d.w, f.pointer())
	}
	return d
}

// log2 of a power of two.
func log2(n int) int { return mathbits.Len(uint(n)) - 1 }

func (d *dot) write() {
	d.prepareSums()
	d.prepareWide(d.typ)
	d.arg(d.y, d.op.param("y"))
	d.arg(d.rows, d.op.param("rows"))
	d.arg(d.w[0], d.op.param("w"))
	d.arg(d.next, d.op.param("ahead"))
	d.add(d.next, d.w[0])
	d.arg(d.x[0], d.op.param("x"))
	d.arg(d.tmp, d.op.param("ldx"))
	d.shift(d.tmp, -log2(d.xBytes))
	for t := 1; t < d.n; t++ {
		d.copy(d.x[t], d.x[t-1])
		d.add(d.x[t], d.tmp)
	}
	d.tiles(d.rows, len(d.w), d.rowsAtOnce)
}

// rowsAtOnce multiplies the next r rows by all vectors.
func (d *dot) rowsAtOnce(r int) {
	d.top = 0
	acc := make([][][]reg, d.n) // [vector][row][register of the block]
	for t := range acc {
		for range r {
			acc[t] = append(acc[t], d.take(subs(d)))
		}
	}
	for _, rows := range acc {
		for _, block := range rows {
			for _, a := range block {
				d.zero(a)
			}
		}
	}
	d.arg(d.tmp, d.op.param("ldw"))
	for i := 1; i < r; i++ {
		d.copy(d.w[i], d.w[i-1])
		d.add(d.w[i], d.tmp)
	}
	d.arg(d.k, d.op.param("cols"))
	d.shift(d.k, log2(d.elems))
	d.turns(d.k, 2, fmt.Sprint("columns", r), func(n int) {
		for step := range n {
			for s := range subs(d) {
				d.multiply(acc, r, step, s)
			}
		}
		d.prefetch(d.next, 0, r*n*d.elems*bytesOf(d.typ))
		d.addImm(d.next, r*n*d.elems*bytesOf(d.typ))
		for _, p := range d.x {
			d.addImm(p, n*d.elems*d.xBytes)
		}
		for _, p := range d.w[:r] {
			d.addImm(p, n*d.elems*bytesOf(d.typ))
		}
	})
	d.finish(acc, r)
}

// multiply adds the products of register s of the columns of a step.
func (d *dot) multiply(acc [][][]reg, r, step, s int) {
	// Registers below the accumulators: the row, and the vectors if there are several rows to multiply them by.
	const w, x0 = reg(0), reg(1)
	s += step * subs(d)
	off := 4 * d.width() * s
	if r > 1 {
		for t, p := range d.x {
			d.load(x0+reg(t), p, off)
		}
	}
	for i := range r {
		d.loadWide(w, d.typ, d.w[i], d.width()*s*bytesOf(d.typ))
		for t, p := range d.x {
			a := acc[t][i][s%subs(d)]
			if r > 1 {
				d.multiplyAdd(a, w, x0+reg(t))
			} else {
				d.multiplyAddAt(a, w, p, off)
			}
		}
	}
}

// finish stores the sums, and moves the pointers to the next rows and back to the start of the vectors.
func (d *dot) finish(acc [][][]reg, r int) {
	d.arg(d.tmp, d.op.param("ldy"))
	d.shift(d.tmp, -2)
	d.copy(d.k, d.y)
	d.sums(acc, false, d.k, d.tmp, []reg{0, 1, 2, 3})
	d.addImm(d.y, 4*r)
	d.arg(d.tmp, d.op.param("cols"))
	d.shift(d.tmp, -log2(d.xBytes))
	for _, p := range d.x {
		d.sub(p, d.tmp)
	}
	d.shift(d.tmp, log2(d.xBytes)-log2(bytesOf(d.typ)))
	last := d.w[r-1]
	d.sub(last, d.tmp)
	d.arg(d.tmp, d.op.param("ldw"))
	d.add(last, d.tmp)
	if r > 1 {
		d.copy(d.w[0], last)
	}
}

func bytesOf(typ string) int {
	return map[string]int{"F32": 4, "F16": 2, "BF16": 2, "I8": 1}[typ]
}
