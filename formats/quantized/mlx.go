package quantized

import (
	"cmp"
	"fmt"
	"math"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// mlx is MLX's affine quantization: weight = scale·q + bias, with a stream of unsigned codes q per row, and a scale and
// bias per group. Where, in all groups of a matrix, bias = −zero·scale with an integer zero, or bias = −scale/2 with
// 1-bit codes, there are zero points or none. Otherwise biases are minima (FORMAT F25).
type mlx struct {
	declared  mlxMode
	overrides map[string]mlxMode // by module
	floats    map[string]bool    // modules declared to be floats
}

type mlxMode struct {
	mode        string
	bits, group int
}

func (f *mlx) layer(module string, look Lookup) (*Layer, error) {
	p := &parts{module: module, look: look}
	if !p.has(".scales") {
		return nil, nil
	}
	if f.floats[module] {
		return nil, fmt.Errorf("%w: module %q holds codes, but config.json declares floats",
			pack.ErrCorrupt, module)
	}
	mode, ok := f.overrides[module]
	if !ok {
		mode = f.declared
	}
	switch mode.mode {
	case "affine":
		return mode.affine(p, affine{biases: ".biases"})
	case "mxfp4":
		return mlxMX.layer(p, "")
	case "nvfp4":
		return mlxNV.layer(p, "")
	}
	return nil, fmt.Errorf("%w: module %q: MLX mode %q; supported are affine, mxfp4 and nvfp4", pack.ErrUnsupported,
		module, mode.mode)
}

// affine is how a packer stores and computes scale·q + bias.
type affine struct {
	biases string            // suffix
	in     safetensors.DType // products and sums are rounded to it, weights to the type of the scales; "" = to that
}

func (f mlxMode) affine(p *parts, by affine) (*Layer, error) {
	experts := p.experts(".weight")
	dims := 2 + len(experts)
	w := p.need(".weight", dims, "U32")
	s := p.need(".scales", dims, floatTypes...)
	b := p.need(by.biases, dims, floatTypes...)
	rows, words, groups := w.Shape[dims-2], w.Shape[dims-1], s.Shape[dims-1]
	columns := groups * f.group
	p.shape(s, append(experts, rows, groups)...)
	p.shape(b, append(experts, rows, groups)...)
	if words*32 != columns*f.bits {
		p.fail(pack.ErrCorrupt, "%d words and %d scales per row do not match %d-bit codes in groups of %d, which "+
			"config.json declares", words, groups, f.bits, f.group)
	}
	if s.DType != b.DType {
		p.fail(pack.ErrCorrupt, "scales have type %s, and biases %s", s.DType, b.DType)
	}
	return p.finish(Layer{Experts: count(experts), Rows: rows, Columns: columns, Bits: f.bits, Group: f.group,
		ScaleOf: s.DType, Signed: true, Words: w.Name, Panel: rowMajor(4 * words)}, by.open)
}

// affineGroups converts the groups of an MLX matrix one by one.
type affineGroups struct {
	*Layer
	in             safetensors.DType // of the arithmetic
	scales, biases []byte
	zeros          []int8 // of unsigned codes: 0 to 2^bits
	out            []byte // scales
	flat           []int8 // per group of equal weights: their code; 0 = decode the stored codes
	zero           []bool // per group: all weights are 0
	ternary        bool   // all zero points are 1, and no code is 3
	minima         bool   // some bias is not a multiple of its scale
}

func (f affine) open(l *Layer, read Read) (*Matrix, error) {
	t, err := l.read(read, ".scales", f.biases)
	if err != nil {
		return nil, err
	}
	a := affineGroups{Layer: l, in: cmp.Or(f.in, l.ScaleOf), scales: t[0], biases: t[1], ternary: l.Bits == 2}
	n := l.AllRows() * l.Groups()
	a.zeros, a.flat, a.zero, a.out = make([]int8, n), make([]int8, n), make([]bool, n), make([]byte, len(a.scales))
	if err := a.judgeAll(read); err != nil {
		return nil, err
	}
	if a.minima {
		return a.withMinima(), nil
	}
	return a.matrix(), nil
}

// judgeBytes limits the codes in memory while groups are converted, but to at least one row.
const judgeBytes = 1 << 18

// judgeAll converts all groups, some rows at a time.
func (a *affineGroups) judgeAll(read Read) error {
	size := a.Panel.Bytes
	rows := min(max(1, judgeBytes/size), a.AllRows())
	stored := make([]byte, rows*size)
	for row := 0; row < a.AllRows(); row += rows {
		stored = stored[:min(rows, a.AllRows()-row)*size]
		if err := read(a.Words, stored, int64(row)*int64(size)); err != nil {
			return err
		}
		for i := row * a.Groups(); i < (row+len(stored)/size)*a.Groups(); i++ {
			if err := a.judge(stored, row, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// code returns the code of column k of group i; w starts at the given row.
func (a *affineGroups) code(w words, row, i, k int) int {
	groups := a.Groups()
	perRow := a.Columns * a.Bits / 32
	return int(w.field(i%groups*a.Group+k, a.Bits, (i/groups-row)*perRow, 1))
}

// judge computes scale and zero point of group i, or the value of its weights if all are equal. stored starts at the
// given row.
func (a *affineGroups) judge(stored words, row, i int) error {
	s, b := value(a.ScaleOf, a.scales, i), value(a.ScaleOf, a.biases, i)
	if math.IsNaN(float64(s+b)) || math.IsInf(float64(s), 0) || math.IsInf(float64(b), 0) {
		return a.badScale(i, fmt.Sprintf("is %v with a bias of %v", s, b))
	}
	if a.minima {
		return nil
	}
	least, most := 1<<a.Bits, 0
	for k := range a.Group {
		c := a.code(stored, row, i, k)
		least, most = min(least, c), max(most, c)
	}
	if least == most || s == 0 {
		return a.constant(i, round(a.ScaleOf, round(a.in, round(a.in, float64(s)*float64(least))+float64(b))))
	}
	if a.Bits == 1 {
		if b != -s/2 {
			a.minima = true
			return nil
		}
		put(a.ScaleOf, a.out, i, -b)
		return nil
	}
	z := math.Round(-float64(b) / float64(s))
	if z < 0 || z > float64(int(1)<<a.Bits) || -z*float64(s) != float64(b) {
		a.minima = true
		return nil
	}
	put(a.ScaleOf, a.out, i, s)
	a.zeros[i] = int8(int(z) - 1<<(a.Bits-1))
	a.ternary = a.ternary && z == 1 && most <= 2
	return nil
}

// constant stores a group whose weights all equal v. MLX writes such groups with a tiny scale and a bias near v.
func (a *affineGroups) constant(i int, v float64) error {
	if most := math.MaxFloat32; math.Abs(v) > most || a.ScaleOf == safetensors.F16 && math.Abs(v) > 65504 {
		return a.badScale(i, fmt.Sprintf("and bias give weights of %v, too large for %s", v, a.ScaleOf))
	}
	put(a.ScaleOf, a.out, i, float32(math.Abs(v)))
	a.flat[i] = 1
	if v < 0 {
		a.flat[i] = -1
	}
	a.zero[i] = v == 0
	return nil
}

// withMinima keeps scales and biases as they are; codes count from the lowest one. Weights of a group of scale 0 equal
// its bias, whatever their codes are; theirs are the lowest one (FORMAT F9).
func (a *affineGroups) withMinima() *Matrix {
	m := &Matrix{Alphabet: alphabet(a.Bits), Scales: a.scales, Minima: a.biases}
	groups, first := a.Groups(), m.Alphabet.Values[0]
	m.decode = func(dst []int8, row int, stored []byte) error {
		for i := range dst {
			n, k := row+i/a.Columns, i%a.Columns
			g := n*groups + k/a.Group
			if dst[i] = first; value(a.ScaleOf, a.scales, g) != 0 {
				dst[i] += int8(a.code(stored, row, g, k%a.Group))
			}
		}
		return nil
	}
	return m
}

// matrix makes the codes signed: ±1 for one bit; −1, 0 and 1 for ternary weights; otherwise minus half of the range.
// Scales of 1-bit and ternary weights become positive, so that the result does not depend on the packer.
func (a *affineGroups) matrix() *Matrix {
	m := &Matrix{Alphabet: alphabet(a.Bits), Scales: a.out, Zeros: a.zeros}
	step, first := 1, -(1 << (a.Bits - 1))
	switch {
	case a.Bits == 1:
		m.Alphabet, step, first = pack.Int1, 2, -1
	case a.ternary:
		m.Alphabet, first = pack.Ternary, -1
	}
	turned := make([]bool, len(a.flat))
	for i := range turned {
		if s := value(a.ScaleOf, a.out, i); m.Alphabet.Name == pack.Int1.Name || a.ternary {
			turned[i] = s < 0
			put(a.ScaleOf, a.out, i, max(s, -s))
			a.zeros[i] = 0
		} else if a.flat[i] != 0 {
			a.zeros[i] = 0
		}
	}
	a.scales, a.biases = nil, nil // not needed for decoding
	one := func(w words, row, i, k int) int8 {
		switch c := int8(step*a.code(w, row, i, k) + first); {
		case a.zero[i] && a.Bits > 1:
			return 0
		case a.flat[i] != 0:
			return a.flat[i]
		case turned[i]:
			return -c
		default:
			return c
		}
	}
	m.decode = func(dst []int8, row int, stored []byte) error {
		for i := range dst {
			n, k := row+i/a.Columns, i%a.Columns
			dst[i] = one(stored, row, n*a.Groups()+k/a.Group, k%a.Group)
		}
		return nil
	}
	return m
}
