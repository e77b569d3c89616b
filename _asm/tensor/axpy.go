package main

import "fmt"

// newAxpy adds weighted sums of rows to n outputs: a block of columns of the outputs stays in registers for all rows,
// and a row is widened once for all outputs.
func newAxpy(typ string, n int) *rowOp {
	return newRowOp("axpy", typ, n, func(f *function) {
		a := &axpy{function: f, typ: typ}
		for _, p := range []*ptr{&a.y, &a.w, &a.row, &a.next, &a.ldw, &a.cols, &a.k, &a.tmp} {
			*p = f.pointer()
		}
		for range n {
			a.x = append(a.x, f.pointer())
		}
		a.write()
	})
}

type axpy struct {
	*function
	typ                string
	y, w, ldw, cols, k ptr
	row                ptr   // current row, at the current columns
	next               ptr   // row to prefetch
	x                  []ptr // the weights of each output
	tmp                ptr
}

func (a *axpy) write() {
	a.arg(a.y, a.op.param("y"))
	a.arg(a.w, a.op.param("w"))
	a.arg(a.next, a.op.param("ahead"))
	a.add(a.next, a.w)
	a.arg(a.ldw, a.op.param("ldw"))
	a.arg(a.cols, a.op.param("cols"))
	a.shift(a.cols, 4)
	a.arg(a.k, a.op.param("rows"))
	a.jumpLess(a.k, 1, "done")
	for _, blocks := range a.tiles() {
		a.through(blocks)
	}
	a.label("done")
}

// tiles are the numbers of column blocks processed at once, largest first: chosen to leave half of the registers free.
func (a *axpy) tiles() (list []int) {
	for _, n := range []int{8, 4, 2} {
		if n*len(a.x)*subs(a) <= (a.registers()+1)/2 {
			list = append(list, n)
		}
	}
	return append(list, 1)
}

// through processes all rows for the given number of column blocks, repeatedly until fewer are left.
func (a *axpy) through(blocks int) {
	tile, next := fmt.Sprint("tile", blocks), fmt.Sprint("next", blocks)
	a.top = 0
	acc := make([][]reg, len(a.x))
	for i := range acc {
		acc[i] = a.take(blocks * subs(a))
	}
	a.label(tile)
	a.jumpLess(a.cols, blocks, next)
	a.outputs(acc, a.load)
	a.arg(a.tmp, a.op.param("ldx"))
	a.shift(a.tmp, -2)
	a.arg(a.x[0], a.op.param("x"))
	for i := 1; i < len(a.x); i++ {
		a.copy(a.x[i], a.x[i-1])
		a.add(a.x[i], a.tmp)
	}
	a.arg(a.k, a.op.param("rows"))
	a.copy(a.row, a.w)
	a.turns(a.k, 4, fmt.Sprint("rows", blocks), func(n int) { a.rows(acc, n) })
	a.outputs(acc, a.store)
	a.addImm(a.y, 64*blocks)
	a.addImm(a.w, 16*bytesOf(a.typ)*blocks)
	a.addImm(a.cols, -blocks)
	a.jump(tile)
	a.label(next)
}

// rows adds the next n rows, weighted.
func (a *axpy) rows(acc [][]reg, n int) {
	weight, row, size := func(i int) reg { return reg(i) }, reg(len(a.x)), a.width()*bytesOf(a.typ)
	for j := range n {
		for i, p := range a.x {
			a.splatAt(weight(i), p, 4*j)
		}
		for b := range acc[0] {
			a.prefetch(a.next, (j*len(acc[0])+b)*size, size)
			a.loadWide(row, a.typ, a.row, size*b)
			for i := range acc {
				a.multiplyAdd(acc[i][b], weight(i), row)
			}
		}
		a.add(a.row, a.ldw)
	}
	a.addImm(a.next, n*len(acc[0])*size)
	for _, p := range a.x {
		a.addImm(p, 4*n)
	}
}

// outputs loads or stores the accumulators of the columns at o.
func (a *axpy) outputs(acc [][]reg, move func(r reg, p ptr, off int)) {
	a.arg(a.tmp, a.op.param("ldy"))
	a.shift(a.tmp, -2)
	a.copy(a.k, a.y)
	for i := range acc {
		for b, r := range acc[i] {
			move(r, a.k, 4*a.width()*b)
		}
		if i < len(acc)-1 {
			a.add(a.k, a.tmp)
		}
	}
}
