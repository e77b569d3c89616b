package main

import (
	"fmt"
	mathbits "math/bits"
)

// newDot is the product of rows of a matrix with n vectors. Rows go through in tiles, as many as the registers hold sums
// for, so that the additions of one row need not wait for each other; then one by one.
func newDot(typ string, n int) *op {
	name := fmt.Sprintf("dot%sx%d", typ, n)
	generic := fmt.Sprintf("dotsGo(%s, %d, y, ldy, w, ldw, x, ldx, cols, rows)", typ, n)
	return newOp(name, "y []float32, ldy int, w []byte, ldw int, x []float32, ldx int, cols, rows, ahead int", generic, func(f *function) {
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
	elems   int // columns of one step
	xBytes  int // of an element of the vectors
	y, rows ptr
	k, tmp  ptr
	next    ptr   // to prefetch
	x, w    []ptr // w[0] is the row to come
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
	if tile := len(d.w); tile > 1 {
		d.label("tiles")
		d.jumpLess(d.rows, tile, "rest")
		d.rowsAtOnce(tile)
		d.addImm(d.rows, -tile)
		d.jump("tiles")
		d.label("rest")
	}
	d.jumpLess(d.rows, 1, "done")
	d.label("single")
	d.rowsAtOnce(1)
	d.countDown(d.rows, "single")
	d.label("done")
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
	// Registers below the sums: the row, and the vectors where there are several rows to multiply them by.
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

// newWeigh adds weighted sums of rows to n outputs: columns of these stay in registers while the rows go by, and a row is
// widened once for all of them.
func newWeigh(typ string, n int) *op {
	generic := fmt.Sprintf("weighGo(%s, %d, o, ldo, e, lde, v, ldv, cols, rows)", typ, n)
	const signature = "o []float32, ldo int, e []float32, lde int, v []byte, ldv int, cols, rows, ahead int"
	return newOp(fmt.Sprintf("weigh%sx%d", typ, n), signature, generic, func(f *function) {
		w := &weigh{function: f, typ: typ, o: f.pointer(), v: f.pointer(), pv: f.pointer(), next: f.pointer(), ldv: f.pointer(), cols: f.pointer(), k: f.pointer(), tmp: f.pointer()}
		for range n {
			w.e = append(w.e, f.pointer())
		}
		w.write()
	})
}

type weigh struct {
	*function
	typ                         string
	o, v, pv, ldv, cols, k, tmp ptr
	next                        ptr   // to prefetch
	e                           []ptr // one per output
}

func (w *weigh) write() {
	w.arg(w.o, w.op.param("o"))
	w.arg(w.v, w.op.param("v"))
	w.arg(w.next, w.op.param("ahead"))
	w.add(w.next, w.v)
	w.arg(w.ldv, w.op.param("ldv"))
	w.arg(w.cols, w.op.param("cols"))
	w.shift(w.cols, 4)
	w.arg(w.k, w.op.param("rows"))
	w.jumpLess(w.k, 1, "done")
	for _, blocks := range w.tiles() {
		w.through(blocks)
	}
	w.label("done")
}

// tiles are the blocks of columns that are taken at once, the most first: as leave half of the registers to the rest.
func (w *weigh) tiles() (list []int) {
	for _, n := range []int{8, 4, 2} {
		if n*len(w.e)*subs(w) <= (w.registers()+1)/2 {
			list = append(list, n)
		}
	}
	return append(list, 1)
}

// through goes through all rows for so many blocks of columns, again and again until there are not as many left.
func (w *weigh) through(blocks int) {
	tile, next := fmt.Sprint("tile", blocks), fmt.Sprint("next", blocks)
	w.top = 0
	acc := make([][]reg, len(w.e))
	for i := range acc {
		acc[i] = w.take(blocks * subs(w))
	}
	w.label(tile)
	w.jumpLess(w.cols, blocks, next)
	w.outputs(acc, w.load)
	w.arg(w.tmp, w.op.param("lde"))
	w.shift(w.tmp, -2)
	w.arg(w.e[0], w.op.param("e"))
	for i := 1; i < len(w.e); i++ {
		w.copy(w.e[i], w.e[i-1])
		w.add(w.e[i], w.tmp)
	}
	w.arg(w.k, w.op.param("rows"))
	w.copy(w.pv, w.v)
	w.turns(w.k, 4, fmt.Sprint("rows", blocks), func(n int) { w.rows(acc, n) })
	w.outputs(acc, w.store)
	w.addImm(w.o, 64*blocks)
	w.addImm(w.v, 16*bytesOf(w.typ)*blocks)
	w.addImm(w.cols, -blocks)
	w.jump(tile)
	w.label(next)
}

// rows adds the next n rows, weighted.
func (w *weigh) rows(acc [][]reg, n int) {
	weight, row, size := func(i int) reg { return reg(i) }, reg(len(w.e)), w.width()*bytesOf(w.typ)
	for j := range n {
		for i, p := range w.e {
			w.splatAt(weight(i), p, 4*j)
		}
		for b := range acc[0] {
			w.prefetch(w.next, (j*len(acc[0])+b)*size, size)
			w.loadWide(row, w.typ, w.pv, size*b)
			for i := range acc {
				w.multiplyAdd(acc[i][b], weight(i), row)
			}
		}
		w.add(w.pv, w.ldv)
	}
	w.addImm(w.next, n*len(acc[0])*size)
	for _, p := range w.e {
		w.addImm(p, 4*n)
	}
}

// outputs loads or stores the sums of the columns at o.
func (w *weigh) outputs(acc [][]reg, move func(r reg, p ptr, off int)) {
	w.arg(w.tmp, w.op.param("ldo"))
	w.shift(w.tmp, -2)
	w.copy(w.k, w.o)
	for i := range acc {
		for b, r := range acc[i] {
			move(r, w.k, 4*w.width()*b)
		}
		if i < len(acc)-1 {
			w.add(w.k, w.tmp)
		}
	}
}
