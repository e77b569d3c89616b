package main

import "fmt"

// newStream is the product of rows with n vectors, for rows that are read from memory once: sequentially, so that the
// hardware prefetcher follows a single stream; or F16 two rows at a time, where loading the vectors for each row would
// take longer than the products. If rows are in a cache, newDot is faster: it loads the vectors once for four rows.
func newStream(typ string, n int) *rowOp {
	return newRowOp("stream", typ, n, func(f *function) {
		s := &stream{function: f, typ: typ, elems: 16, xBytes: 4}
		if typ == "I8" {
			s.elems, s.xBytes = 32, 1
		}
		for _, p := range []*ptr{&s.y, &s.rows, &s.k, &s.tmp, &s.gap, &s.next} {
			*p = f.pointer()
		}
		s.w = []ptr{f.pointer()}
		if typ == "F16" && f.together(n) == 2 { // F32 gains nothing, and is better as one stream
			s.w = append(s.w, f.pointer())
		}
		for range n {
			s.x = append(s.x, f.pointer())
		}
		s.write()
	})
}

type stream struct {
	*function
	typ           string
	elems, xBytes int // columns per step; bytes per element of the vectors
	y, rows       ptr
	k, tmp, gap   ptr
	next          ptr   // row to prefetch
	w, x          []ptr // rows multiplied together; w[0] is the next row
	start         []reg // initial accumulators of int8, where they are not zero
}

func (s *stream) write() {
	s.prepareSums()
	s.arg(s.y, s.op.param("y"))
	s.arg(s.rows, s.op.param("rows"))
	s.arg(s.w[0], s.op.param("w"))
	s.arg(s.next, s.op.param("ahead"))
	s.add(s.next, s.w[0])
	s.arg(s.x[0], s.op.param("x"))
	s.arg(s.tmp, s.op.param("ldx"))
	s.shift(s.tmp, -log2(s.xBytes))
	for t := 1; t < len(s.x); t++ {
		s.copy(s.x[t], s.x[t-1])
		s.add(s.x[t], s.tmp)
	}
	s.arg(s.gap, s.op.param("ldw"))
	s.arg(s.tmp, s.op.param("cols"))
	s.shift(s.tmp, -log2(bytesOf(s.typ)))
	s.sub(s.gap, s.tmp) // bytes between rows
	if s.typ == "I8" {
		s.begin8()
	}
	s.tiles(s.rows, s.sumsAtOnce(len(s.x)), s.through)
}

// begin8 computes the initial accumulators of int8.
func (s *stream) begin8() {
	start := s.take(len(s.x))
	for _, a := range start {
		s.zero(a)
	}
	if !s.startI8(start, nil, 0) {
		s.top = 0
		return
	}
	s.start = start
	s.arg(s.k, s.op.param("cols"))
	s.shift(s.k, log2(s.elems))
	s.turns(s.k, 4, "start", func(n int) {
		s.startI8(start, s.x, n)
		s.onward(n)
	})
	s.back()
}

// onward advances the vectors by n steps; back moves them back to their start.
func (s *stream) onward(n int) {
	for _, p := range s.x {
		s.addImm(p, n*s.elems*s.xBytes)
	}
}

func (s *stream) back() {
	s.arg(s.tmp, s.op.param("cols"))
	s.shift(s.tmp, -log2(s.xBytes))
	for _, p := range s.x {
		s.sub(p, s.tmp)
	}
}

// through multiplies the next r rows, as many together as possible, and reduces the lanes of all accumulators.
func (s *stream) through(r int) {
	top := s.top
	acc := make([][][]reg, len(s.x)) // [vector][row][register of the block]
	for t := range acc {
		for range r {
			acc[t] = append(acc[t], s.take(subs(s)))
		}
	}
	together := min(r, len(s.w))
	for from := 0; from < r; from += together {
		some := make([][][]reg, len(acc))
		for t := range acc {
			some[t] = acc[t][from : from+together]
		}
		s.some(some, fmt.Sprintf("columns%dof%d", from, r))
	}
	s.arg(s.tmp, s.op.param("ldy"))
	s.shift(s.tmp, -2)
	s.copy(s.k, s.y)
	s.sums(acc, s.typ == "I8", s.k, s.tmp, []reg{0, 1, 2, 3})
	s.addImm(s.y, 4*r)
	s.top = top
}

// some multiplies the next rows together.
func (s *stream) some(acc [][][]reg, name string) {
	w := s.w[:len(acc[0])]
	for t, rows := range acc {
		for _, row := range rows {
			for _, a := range row {
				if s.start != nil {
					s.move(a, s.start[t])
				} else {
					s.zero(a)
				}
			}
		}
	}
	if len(w) > 1 {
		s.arg(s.tmp, s.op.param("ldw"))
	}
	for i := range w[1:] {
		s.copy(w[i+1], w[i])
		s.add(w[i+1], s.tmp)
	}
	s.arg(s.k, s.op.param("cols"))
	s.shift(s.k, log2(s.elems))
	s.turns(s.k, 4, name, func(n int) {
		bytes := n * s.elems * bytesOf(s.typ)
		if s.typ == "I8" {
			s.prefetch(s.next, 0, len(w)*bytes)
			s.dotI8(rowOf(acc), w[0], s.x, n)
		} else {
			s.multiply(acc, w, n)
		}
		s.addImm(s.next, len(w)*bytes)
		s.onward(n)
		for _, p := range w {
			s.addImm(p, bytes)
		}
	})
	if last := len(w) - 1; last > 0 {
		s.copy(w[0], w[last])
	}
	s.add(w[0], s.gap)
	s.back()
}

// rowOf returns the registers of one row, by vector.
func rowOf(acc [][][]reg) (list [][]reg) {
	for _, rows := range acc {
		list = append(list, rows[0])
	}
	return list
}

// multiply adds the products of n steps of rows.
func (s *stream) multiply(acc [][][]reg, w []ptr, n int) {
	const row, x0 = reg(0), reg(1)
	size := s.width() * bytesOf(s.typ)
	for b := range n * subs(s) {
		if len(w) > 1 {
			for t, p := range s.x {
				s.load(x0+reg(t), p, 4*s.width()*b)
			}
		}
		for i := range w {
			s.prefetch(s.next, (b*len(w)+i)*size, size)
			s.loadWide(row, s.typ, w[i], size*b)
			for t, p := range s.x {
				if a := acc[t][i][b%subs(s)]; len(w) > 1 {
					s.multiplyAdd(a, row, x0+reg(t))
				} else {
					s.multiplyAddAt(a, row, p, 4*s.width()*b)
				}
			}
		}
	}
}
