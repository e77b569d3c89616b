package kernel

import (
	"github.com/lowpack/lowpack/pack"
)

// generic is the definition: the codes of the layout, unpacked once, and three nested loops.
var generic = &Kernel{
	Layout: "*", ISA: Generic, About: "codes unpacked once, plain Go: the definition",
	groupStep: 1, bind: bindGeneric,
}

// genericRows is the number of rows of a unit of work; any number gives the same results.
const genericRows = 32

type genericProduct struct {
	w     *Weights
	codes []int8 // [M][K]
}

func bindGeneric(w *Weights) (product, error) {
	codes, err := w.unpack()
	w.rows, w.bytes = genericRows, len(codes)
	return genericProduct{w, codes}, err
}

// unpack returns the codes of the whole matrix, in memory that w owns.
func (w *Weights) unpack() ([]int8, error) {
	alphabet, err := pack.FindAlphabet(w.Layout.Spec().Alphabet)
	if err != nil {
		return nil, err
	}
	if w.own, err = ownMemory.New(w.Shape.M * w.Shape.K); err != nil {
		return nil, err
	}
	m := &pack.Matrix{Shape: w.Shape, Alphabet: alphabet, Codes: asInt8(w.own.Bytes)}
	return m.Codes, w.Layout.Unpack(m, w.packed)
}

func (p genericProduct) mul(c call) {
	s, group, groups := p.w.Shape, p.w.Group, p.w.Groups()
	for m := c.p0 * genericRows; m < min(c.p1*genericRows, s.M); m++ {
		row := p.codes[m*s.K:][:s.K]
		for t := c.t0; t < c.t1; t++ {
			x := c.x.Row(t)
			for g := range groups {
				lo, hi := g*group, min((g+1)*group, s.K)
				c.y[c.at(t, g, groups, m)] = dot(row[lo:hi], x[lo:hi])
			}
		}
	}
}

// dot takes eight products at a time, which halves the loop overhead.
func dot(a, b []int8) (sum int32) {
	for b = b[:len(a)]; len(a) >= 8; a, b = a[8:], b[8:] {
		x, y := (*[8]int8)(a), (*[8]int8)(b)
		sum += int32(x[0])*int32(y[0]) + int32(x[1])*int32(y[1]) + int32(x[2])*int32(y[2]) + int32(x[3])*int32(y[3]) +
			int32(x[4])*int32(y[4]) + int32(x[5])*int32(y[5]) + int32(x[6])*int32(y[6]) + int32(x[7])*int32(y[7])
	}
	for i, v := range a {
		sum += int32(v) * int32(b[i])
	}
	return sum
}
