package main

import "fmt"

// newStream is the product of rows with n vectors, for rows that come from memory once: they are read one after another,
// as they lie there, so that the processor sees one stream and follows it. Where rows come from a cache, newDot is faster:
// it loads the vectors once for several rows.
func newStream(typ string, n int) *op {
	vectors, sums, generic := "x []float32", "y []float32", fmt.Sprintf("dotsGo(%s, %d, y, ldy, w, ldw, x, ldx, cols, rows)", typ, n)
	if typ == "I8" {
		vectors, sums, generic = "x []int8", "y []int32", fmt.Sprintf("dotsI8Go(%d, y, ldy, w, ldw, x, ldx, cols, rows)", n)
	}
	signature := sums + ", ldy int, w []byte, ldw int, " + vectors + ", ldx int, cols, rows, ahead int"
	return newOp(fmt.Sprintf("stream%sx%d", typ, n), signature, generic, func(f *function) {
		s := &stream{function: f, typ: typ, elems: 16, xBytes: 4}
		if typ == "I8" {
			s.elems, s.xBytes = 32, 1
		}
		for _, p := range []*ptr{&s.y, &s.rows, &s.k, &s.tmp, &s.gap, &s.w, &s.next} {
			*p = f.pointer()
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
	elems, xBytes int // columns of one step; of an element of the vectors
	y, rows       ptr
	k, tmp, gap   ptr
	w, next       ptr // the row to come; what to prefetch
	x             []ptr
	start         []reg // of sums of int8, where the machine makes something else than zero of them
}

func (s *stream) write() {
	s.prepareSums()
	s.arg(s.y, s.op.param("y"))
	s.arg(s.rows, s.op.param("rows"))
	s.arg(s.w, s.op.param("w"))
	s.arg(s.next, s.op.param("ahead"))
	s.add(s.next, s.w)
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
	tile := s.sumsAtOnce(len(s.x))
	if tile > 1 {
		s.label("tiles")
		s.jumpLess(s.rows, tile, "rest")
		s.through(tile)
		s.addImm(s.rows, -tile)
		s.jump("tiles")
		s.label("rest")
	}
	s.jumpLess(s.rows, 1, "done")
	s.label("single")
	s.through(1)
	s.countDown(s.rows, "single")
	s.label("done")
}

// begin8 finds what the sums of int8 begin with.
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

// onward moves the vectors by n steps, back to their begin.
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

// through multiplies the next r rows, one by one, and adds the lanes of all sums.
func (s *stream) through(r int) {
	top := s.top
	acc := make([][][]reg, len(s.x)) // [vector][row][register of the block]
	for t := range acc {
		for range r {
			acc[t] = append(acc[t], s.take(subs(s)))
		}
	}
	for i := range r {
		for t := range acc {
			for _, a := range acc[t][i] {
				if s.start != nil {
					s.move(a, s.start[t])
				} else {
					s.zero(a)
				}
			}
		}
		s.arg(s.k, s.op.param("cols"))
		s.shift(s.k, log2(s.elems))
		s.turns(s.k, 4, fmt.Sprintf("columns%dof%d", i, r), func(n int) {
			s.multiply(acc, i, n)
			s.addImm(s.next, n*s.elems*bytesOf(s.typ))
			s.onward(n)
			s.addImm(s.w, n*s.elems*bytesOf(s.typ))
		})
		s.add(s.w, s.gap)
		s.back()
	}
	s.arg(s.tmp, s.op.param("ldy"))
	s.shift(s.tmp, -2)
	s.copy(s.k, s.y)
	s.sums(acc, s.typ == "I8", s.k, s.tmp, []reg{0, 1, 2, 3})
	s.addImm(s.y, 4*r)
	s.top = top
}

// multiply adds the products of n steps of a row, number i of those whose sums are in registers.
func (s *stream) multiply(acc [][][]reg, i, n int) {
	const row = reg(0)
	size := s.width() * bytesOf(s.typ)
	if s.typ == "I8" {
		s.prefetch(s.next, 0, n*s.elems)
		list := make([][]reg, len(acc))
		for t := range acc {
			list[t] = acc[t][i]
		}
		s.dotI8(list, s.w, s.x, n)
		return
	}
	for b := range n * subs(s) {
		s.prefetch(s.next, size*b, size)
		s.loadWide(row, s.typ, s.w, size*b)
		for t, p := range s.x {
			s.multiplyAddAt(acc[t][i][b%subs(s)], row, p, 4*s.width()*b)
		}
	}
}
