package main

import "fmt"

// The scores of attention (N18) for a block of keys that many queries read. The block is transposed first: a register
// then holds one column of several keys, and each lane of N5 has a register of its own. So the tree of N5 is additions
// of whole registers, without a shuffle: 15 additions for the products of 16 columns, where a row-major product takes
// three instructions for each.

const (
	blockKeys   = 32 // tensor.CacheBlock
	blockColumn = 4 * blockKeys
	mostAtOnce  = 4 // queries
)

// newTranspose writes 16 rows of floats as columns of a block.
func newTranspose() *op {
	return newOp("transpose", "y []float32, w []byte, ldw, cols int", "", func(f *function) {
		y, ld, ld3, cols := f.pointer(), f.pointer(), f.pointer(), f.pointer()
		rows := []ptr{f.pointer(), f.pointer(), f.pointer(), f.pointer()} // every fourth
		f.arg(y, f.op.param("y"))
		f.arg(rows[0], f.op.param("w"))
		f.arg(ld, f.op.param("ldw"))
		f.arg(cols, f.op.param("cols"))
		f.copy(ld3, ld)
		f.shift(ld3, -2)
		for i := range rows[1:] {
			f.copy(rows[i+1], rows[i])
			f.add(rows[i+1], ld3)
		}
		f.sub(ld3, ld)
		f.shift(cols, 2)
		f.jumpLess(cols, 1, "done")
		f.label("columns")
		for s, n := 0, f.width()/4; s < subs(f); s++ {
			for r := range 4 {
				f.loadRows(reg(r), rows[s*n:][:n], r, ld, ld3)
			}
			f.transpose4([4]reg{0, 1, 2, 3}, [4]reg{4, 5, 6, 7})
			for c := range 4 {
				f.store(reg(c), y, blockColumn*c+4*f.width()*s)
			}
		}
		f.addImm(y, 4*blockColumn)
		for _, r := range rows {
			f.addImm(r, 16)
		}
		f.countDown(cols, "columns")
		f.label("done")
	})
}

// newScores multiplies four queries by a block of keys.
func newScores() *op {
	const signature = "z []float32, ldz int, k, q []float32, ldq, width int, c float32, partial []float32"
	const definition = "scoresGo(Vectors{z, ldz}, k, Vectors{q, ldq}, width, c)"
	return newOp("scores", signature, definition, func(f *function) {
		s := &scores{function: f, queries: f.queriesAtOnce()}
		for _, p := range []*ptr{&s.z, &s.k, &s.at, &s.steps, &s.tmp, &s.partial, &s.parts} {
			*p = f.pointer()
		}
		for range s.queries {
			s.q = append(s.q, f.pointer())
		}
		s.write()
	})
}

type scores struct {
	*function
	queries       int // at once
	z, k, partial ptr
	at            ptr // of the columns in the block
	steps, tmp    ptr
	parts         ptr // of the keys, still to do
	q             []ptr
}

// keyRegisters is the number of registers of keys that are multiplied at once.
const keyRegisters = 2

func (s *scores) write() {
	s.arg(s.partial, s.op.param("partial"))
	parts := blockKeys / (keyRegisters * s.width())
	for from := 0; from < mostAtOnce; from += s.queries {
		s.arg(s.tmp, s.op.param("ldq"))
		s.shift(s.tmp, -2)
		s.arg(s.q[0], s.op.param("q"))
		for range from {
			s.add(s.q[0], s.tmp)
		}
		for i := 1; i < s.queries; i++ {
			s.copy(s.q[i], s.q[i-1])
			s.add(s.q[i], s.tmp)
		}
		s.arg(s.tmp, s.op.param("ldz"))
		s.shift(s.tmp, -2)
		s.arg(s.z, s.op.param("z"))
		for range from {
			s.add(s.z, s.tmp)
		}
		s.arg(s.k, s.op.param("k"))
		if parts == 1 {
			s.products(from)
			continue
		}
		part := fmt.Sprint("part", from)
		s.addConstant(s.parts, parts)
		s.label(part)
		s.products(from)
		s.addImm(s.k, 4*keyRegisters*s.width())
		s.addImm(s.z, 4*keyRegisters*s.width())
		s.countDown(s.parts, part)
	}
}

// addConstant sets d to n.
func (s *scores) addConstant(d ptr, n int) {
	s.sub(d, d)
	s.addImm(d, n)
}

// products computes the scores of the queries for the keys of keyRegisters. Pairs of lanes j and j + 8 come in the
// order in which the tree of N5 adds their sums; sums that wait for their partner wait in memory.
func (s *scores) products(from int) {
	waiting := 0
	for i, lane := range []int{0, 4, 2, 6, 1, 5, 3, 7} {
		sums := s.pair(lane, fmt.Sprintf("lane%dof%d", lane, from))
		for done := i + 1; done%2 == 0; done /= 2 {
			waiting--
			for j, r := range sums {
				s.addAt(r, s.partial, 4*s.width()*(len(sums)*waiting+j))
			}
		}
		if i == 7 {
			s.finish(sums)
			return
		}
		for j, r := range sums {
			s.store(r, s.partial, 4*s.width()*(len(sums)*waiting+j))
		}
		waiting++
	}
}

// pair returns the registers [query][keys] of the sum of lanes j and j + 8.
func (s *scores) pair(lane int, name string) (sums []reg) {
	s.top = 0
	acc := [2][]reg{s.take(s.queries * keyRegisters), s.take(s.queries * keyRegisters)}
	keys, query := s.take(keyRegisters), s.take(1)[0]
	for _, half := range acc {
		for _, r := range half {
			s.zero(r)
		}
	}
	s.copy(s.at, s.k)
	s.arg(s.steps, s.op.param("width"))
	s.shift(s.steps, 4)
	s.turns(s.steps, 2, name, func(n int) {
		for step := range n {
			for half := range acc {
				column := 16*step + 8*half + lane
				for i, r := range keys {
					s.load(r, s.at, blockColumn*column+4*s.width()*i)
				}
				for t, p := range s.q {
					s.splatAt(query, p, 4*column)
					for i, r := range keys {
						s.multiplyAdd(acc[half][t*keyRegisters+i], query, r)
					}
				}
			}
		}
		s.addImm(s.at, n*16*blockColumn)
		for _, p := range s.q {
			s.addImm(p, n*64)
		}
	})
	s.arg(s.tmp, s.op.param("width"))
	s.shift(s.tmp, -2)
	for _, p := range s.q {
		s.sub(p, s.tmp)
	}
	for i, r := range acc[0] {
		s.do("add", r, r, acc[1][i])
	}
	return acc[0]
}

// finish scales the sums and stores them.
func (s *scores) finish(sums []reg) {
	s.splat(0, s.op.param("c"))
	s.arg(s.tmp, s.op.param("ldz"))
	s.shift(s.tmp, -2)
	s.copy(s.at, s.z)
	for i, r := range sums {
		s.do("mul", r, r, 0)
		s.store(r, s.at, 4*s.width()*(i%keyRegisters))
		if i%keyRegisters == keyRegisters-1 {
			s.add(s.at, s.tmp)
		}
	}
}
