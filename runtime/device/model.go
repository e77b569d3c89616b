package device

import (
	"slices"

	"github.com/lowpack/lowpack/pack"
)

// Model describes what a pass computes (NUMERICS 5), with the weights in the memory of the host.
type Model struct {
	Hidden, Heads, KVHeads, HeadDim, Vocab int

	Rot         int // elements of a head that rotate
	Pairs       bool
	RotateFirst bool
	OwnHeadNorm bool // each head has its own weights of QNorm and KNorm
	WholeNorm   bool // QNorm and KNorm are over all heads at once
	Clip        float32
	ActGroup    int // columns per activation scale; 0 = one scale
	Cache       CacheType

	AttnScale, AttnCap float32
	Parallel           bool
	ResidualScale      float32
	First              int // number of the first block: those before it are the host's
	Blocks             []Block
	Norm               NormWeights
	Head               Linear

	LogitDivisor, LogitScale, LogitCap float32
}

// Last is the last n layers of a model with its head, up to all of them: what they read is the residual stream behind
// the others.
func (m *Model) Last(n int) *Model {
	last := *m
	others := len(m.Blocks) - n
	last.First, last.Blocks = m.First+others, m.Blocks[others:]
	return &last
}

// Block is one layer.
type Block struct {
	AttnNorm, AttnSubNorm, AttnPostNorm NormWeights
	QNorm, KNorm                        NormWeights
	FFNNorm, FFNSubNorm, FFNPostNorm    NormWeights
	QKV, O, GateUp, Down                Linear

	Gate       Gate
	GateParams [4]float32
	Local      bool
	Rotated    bool
	Sinks      []float32
}

// NormWeights is a norm; Kind NormNone skips it.
type NormWeights struct {
	Kind          Norm
	Weights, Bias []float32
	Eps           float32
}

// Linear is one or several matrices that read the same vectors, and whose outputs are adjacent.
type Linear struct {
	In, Out  int
	Matrices []Matrix
}

// Matrix is a matrix of codes or of floats.
type Matrix struct {
	Name string // of the tensor
	Rows int
	Bias []float32 // nil = none

	Codes *CodeMatrix // nil for floats
	Type  FloatType
	Data  []byte // of floats, row-major
}

// CodeMatrix is a matrix of codes as its layout stores them.
type CodeMatrix struct {
	Layout pack.Layout
	Shape  pack.Shape
	Data   []byte

	Scales  []float32
	Grouped bool
	PerRow  int // scales of a row; 0 = all rows share one
	Group   int // columns of a scale

	Zeros  []int8   // zero point of each scale; nil = none
	Minima *Minima  // nil = none
	Order  []uint32 // of the columns; nil = that of the vectors
}

// Minima are those of groups of columns (N39): rows of Width floats, of which those beyond the groups are −0.
type Minima struct {
	Type  FloatType
	Width int
	Data  []byte
}

// offset reports whether codes have zero points other than 0.
func (c *CodeMatrix) offset() bool { return c.Zeros != nil || c.Minima != nil }

// zero is the zero point of all codes: with minima they count from the lowest one.
func (c *CodeMatrix) zero() (int32, error) {
	if c.Minima == nil {
		return 0, nil
	}
	a, err := pack.FindAlphabet(c.Layout.Spec().Alphabet)
	if err != nil {
		return 0, err
	}
	return int32(slices.Min(a.Values)), nil
}

// Shape is the size of the memory of a pass.
type Shape struct {
	Tokens   int // at once
	Rows     int // logits at once
	Context  int // positions of a sequence
	Pages    int // of the KV cache
	PageRows int
}

// digits says how the digits of an alphabet become codes.
type digits struct {
	bits, mul, add int
	ternary        bool
}

// digitsOf has the alphabets whose digits kernels read as layouts store them. The codes of others are bytes: kernels
// know no planes and no tables.
var digitsOf = map[string]digits{
	"ternary": {bits: 2, mul: 1, ternary: true},
	"int2":    {bits: 2, mul: 1, add: -2},
	"int2odd": {bits: 2, mul: 2, add: -3},
	"int2q":   {bits: 2, mul: 1, add: -1},
	"int1":    {bits: 1, mul: -2, add: 1},
	"int4":    {bits: 4, mul: 1, add: -8},
}

// nativeRows has the panel rows of the layouts that kernels read as they are stored, by name and number of bits.
func nativeRows(name string, bits int) int {
	switch {
	case name == "vnni4i" && bits < 8, name == "vnni4" && bits == 8:
		return 32
	case name == "vnni4i-64" && bits < 8, name == "vnni4-64" && bits == 8:
		return 64
	}
	return 0
}

// form is how the codes of a matrix lie in the memory of a device.
type form struct {
	digits
	rows  int // of a panel
	bytes int // of a panel
	size  int
}

func (f *form) lanes() int { return f.rows * f.bits / 8 }

// formOf returns the form of a matrix, and whether that is how it is stored.
func (c *CodeMatrix) formOf() (f form, native bool) {
	spec, known := c.Layout.Spec(), false
	if f.digits, known = digitsOf[spec.Alphabet]; !known {
		f.digits = digits{bits: 8, mul: 1}
	}
	if f.rows = nativeRows(spec.Name, f.bits); f.rows != 0 {
		native = true
	} else {
		f.rows = 64
	}
	f.bytes = (c.Shape.K + 3) / 4 * f.lanes() * 4
	f.size = (c.Shape.M + f.rows - 1) / f.rows * f.bytes
	return f, native
}

// stored returns the bytes of a matrix in its form: those of the file, or a copy in another layout.
func (c *CodeMatrix) stored() ([]byte, error) {
	f, native := c.formOf()
	if native {
		return c.Data[:f.size], nil
	}
	alphabet, err := pack.FindAlphabet(c.Layout.Spec().Alphabet)
	if err != nil {
		return nil, err
	}
	m := pack.NewMatrix(c.Shape, alphabet)
	if err := c.Layout.Unpack(m, c.Data); err != nil {
		return nil, err
	}
	spec := pack.Spec{Name: "vnni4i-64", Alphabet: alphabet.Name}
	if f.bits == 8 {
		spec = pack.Spec{Name: "vnni4-64", Alphabet: pack.Int8.Name}
	}
	l, err := pack.Open(spec)
	if err != nil {
		return nil, err
	}
	out := make([]byte, f.size)
	return out, l.Pack(out, m)
}
