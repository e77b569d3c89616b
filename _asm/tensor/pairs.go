package main

import "fmt"

// pairs is a machine on which rows of BF16 are split (deinterleaved) into even and odd columns, two to a 32-bit lane: a
// shift and a mask widen 16 columns, where widening in order takes four instructions. The sums of even and of odd
// columns are the even and odd lanes of N5.
type pairs interface {
	machine
	loadMask(d reg) // the upper half of every lane
	// splitX sets even and odd to the even and odd columns of the 16 floats at x; both are registers of 8 lanes.
	splitX(even, odd reg, x ptr, off int)
	// addPairs adds the products of the 16 columns at w to the accumulators.
	addPairs(acc []reg, w ptr, off int, x [2]reg, mask reg, tmp []reg) // x: even and odd columns
	// sumPairs reduces the lanes of rows and stores the sums, step bytes apart, from p on. It moves p.
	sumPairs(acc [][]reg, p, step ptr, tmp []reg)
	multiply(d, s ptr)
	maskLow(d ptr, mask int)
}

// dotPairs is the product of rows of BF16 with one vector. It reads several runs of rows concurrently, enough to hide
// the latency of additions: long runs, since the hardware prefetcher fetches what follows the current reads.
type dotPairs struct {
	pairs
	op                             *op
	f                              *function
	x, k, gap, y, step, rows, cols ptr
	w                              []ptr
}

const (
	runs  = 4
	ahead = 512 // prefetch distance in bytes, into the L2 cache
)

func newDotPairs(f *function, m pairs) *dotPairs {
	d := &dotPairs{pairs: m, op: f.op, f: f}
	for _, p := range []*ptr{&d.x, &d.k, &d.gap, &d.y, &d.step, &d.rows, &d.cols} {
		*p = f.pointer()
	}
	for range runs {
		d.w = append(d.w, f.pointer())
	}
	return d
}

func (d *dotPairs) write() {
	m := d.pairs
	m.arg(d.y, d.op.param("y"))
	m.arg(d.x, d.op.param("x"))
	m.arg(d.w[0], d.op.param("w"))
	m.arg(d.rows, d.op.param("rows"))
	m.arg(d.cols, d.op.param("cols"))
	m.shift(d.cols, 4)
	m.copy(d.step, d.rows)
	m.shift(d.step, log2(runs))
	m.arg(d.gap, d.op.param("ldw"))
	m.copy(d.k, d.gap)
	m.multiply(d.k, d.step) // bytes per run
	for i := 1; i < runs; i++ {
		m.copy(d.w[i], d.w[i-1])
		m.add(d.w[i], d.k)
	}
	m.copy(d.rows, d.step)
	m.shift(d.step, -2)
	m.copy(d.k, d.cols)
	m.shift(d.k, -5)
	m.sub(d.gap, d.k) // bytes between rows
	m.jumpLess(d.rows, 1, "rest")
	m.label("rows")
	d.rowsAtOnce(runs)
	m.countDown(d.rows, "rows")
	m.copy(d.w[0], d.w[runs-1])
	for range runs - 1 {
		m.add(d.y, d.step)
	}
	m.label("rest")
	m.arg(d.rows, d.op.param("rows"))
	m.maskLow(d.rows, runs-1)
	d.f.tiles(d.rows, 1, d.rowsAtOnce)
}

// rowsAtOnce multiplies the next row of r runs.
func (d *dotPairs) rowsAtOnce(r int) {
	m := d.pairs
	d.f.top = 16 // registers of 8 lanes, by their short names
	mask := d.f.take(1)[0]
	m.loadMask(mask)
	acc := make([][]reg, r)
	for i := range acc {
		acc[i] = d.f.take(2)
		m.zero(acc[i][0])
		m.zero(acc[i][1])
	}
	blocks := func(n int) {
		const even, odd = reg(0), reg(1)
		for b := range n {
			m.splitX(even, odd, d.x, 64*b)
			for i := range acc {
				m.addPairs(acc[i], d.w[i], 32*b, [2]reg{even, odd}, mask, []reg{2, 3})
			}
		}
		for _, p := range d.w[:r] {
			if n > 1 {
				m.prefetchAt(p, ahead)
			}
			m.addImm(p, 32*n)
		}
		m.addImm(d.x, 64*n)
	}
	m.copy(d.k, d.cols)
	d.f.turns(d.k, 2, fmt.Sprint("blocks", r), blocks)
	for _, p := range d.w[:r] {
		m.add(p, d.gap)
	}
	m.copy(d.k, d.cols)
	m.shift(d.k, -6)
	m.sub(d.x, d.k)
	m.copy(d.k, d.y)
	m.sumPairs(acc, d.k, d.step, []reg{0, 1, 2, 3})
	m.addImm(d.y, 4)
}
