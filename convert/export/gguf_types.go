package export

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/pack"
)

// form is how a quantized matrix is stored.
type form struct {
	kind  gguf.Type
	apart bool // its scale stands in a tensor of its own
}

// units are what the weights of a matrix share: a weight is (code − zero point) × scale.
type units struct {
	scales []float32
	zeros  []int8 // of each scale; nil = none
	perRow int    // 0: one for all
	group  int    // columns; 0: all of a row
}

// unitsOf are those of all matrices of an entry.
func unitsOf(f *packed.File, e *packed.Entry) (u units, err error) {
	u = sharing(e)
	if u.scales, err = packed.Scales(f, e); err != nil {
		return u, err
	}
	u.zeros, err = packed.Zeros(f, e)
	return u, err
}

// sharing says how many weights have a unit in common.
func sharing(e *packed.Entry) units {
	u := units{group: e.Scale.Group}
	if e.Scale.Kind != packed.ScaleTensor {
		u.perRow = e.Groups()
	}
	return u
}

// of are those of rows from first on.
func (u units) of(first, rows int) units {
	if u.perRow == 0 {
		return u
	}
	from, to := first*u.perRow, (first+rows)*u.perRow
	u.scales = u.scales[from:to]
	if u.zeros != nil {
		u.zeros = u.zeros[from:to]
	}
	return u
}

// permuted has the rows in the order in which they are stored.
func (u units) permuted(rows, heads int) units {
	if u.perRow > 0 {
		u.scales = permuted(u.scales, rows, heads)
		if u.zeros != nil {
			u.zeros = permuted(u.zeros, rows, heads)
		}
	}
	return u
}

func (u units) at(row, column int) (scale float32, zero int8) {
	i := 0
	switch {
	case u.perRow > 0 && u.group > 0:
		i = row*u.perRow + column/u.group
	case u.perRow > 0:
		i = row
	}
	if u.zeros != nil {
		zero = u.zeros[i]
	}
	return u.scales[i], zero
}

// all reports whether something holds for all units.
func (u units) all(holds func(scale float32, zero int8) bool) bool {
	for i, s := range u.scales {
		zero := int8(0)
		if u.zeros != nil {
			zero = u.zeros[i]
		}
		if !holds(s, zero) {
			return false
		}
	}
	return true
}

// choose takes the first form that holds the weights exactly: blocks with the scale in a tensor of its own, blocks with their
// scale, F16, F32. Only a scale per tensor stands apart, and only where the architecture applies it.
func (w *ggufWriter) choose(e *packed.Entry, u units) (form, error) {
	a, err := pack.FindAlphabet(e.Layout.Alphabet)
	if err != nil {
		return form{}, err
	}
	apart := len(e.Shape) == 2 && u.perRow == 0 && u.zeros == nil && w.dialect.apart && w.arch.Scales && strings.HasPrefix(e.Name, "model.layers.")
	for _, kind := range w.dialect.types {
		b := blockTypes[kind]
		if k := e.MatrixShape().K; k%b.size == 0 && k >= b.least && u.group%b.size == 0 && b.holds(a, u, apart) {
			return form{kind, apart}, nil
		}
	}
	if apart || halves(a, u) {
		return form{gguf.F16, apart}, nil
	}
	return form{gguf.F32, false}, nil
}

// halves reports whether all weights that the codes may be are float16 numbers.
func halves(a pack.Alphabet, u units) bool {
	return u.all(func(scale float32, zero int8) bool {
		return !slices.ContainsFunc(a.Values, func(c int8) bool { return !isHalf(float32(int(c)-int(zero)) * scale) })
	})
}

func isHalf(x float32) bool { return float16.Widen(float16.Narrow(x)) == x }

// encode writes a matrix, panel of rows after panel.
func (f form) encode(m *pack.Matrix, u units, write func([]byte) error) error {
	const rows = 64
	if f.apart {
		u = units{scales: []float32{1}}
	}
	for first := 0; first < m.M; first += rows {
		n := min(rows, m.M-first)
		part := &pack.Matrix{Shape: pack.Shape{M: n, K: m.K}, Alphabet: m.Alphabet, Codes: m.Codes[first*m.K:][:n*m.K]}
		data, err := f.panel(part, u.of(first, n))
		if err != nil {
			return err
		}
		if err := write(data); err != nil {
			return err
		}
	}
	if f.kind != gguf.I2_S {
		return nil
	}
	tail := pack.I2STail(u.scales[0])
	return write(tail[:])
}

func (f form) panel(m *pack.Matrix, u units) ([]byte, error) {
	if b, ok := blockTypes[f.kind]; ok {
		return b.encode(m, u)
	}
	var out []byte
	for i, c := range m.Codes {
		scale, zero := u.at(i/m.K, i%m.K)
		x := float32(int(c)-int(zero)) * scale
		if f.kind == gguf.F16 {
			out = binary.LittleEndian.AppendUint16(out, float16.Narrow(x))
		} else {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
		}
	}
	return out, nil
}
