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

// unit is what some weights share: a weight is (code − zero point) × scale, plus the minimum where there is one (NUMERICS N39).
type unit struct {
	scale, minimum float32
	zero           int8
}

func (u unit) weight(code int8) float32 {
	return float32(float32(int(code)-int(u.zero))*u.scale) + u.minimum
}

// units are those of a matrix.
type units struct {
	scales []float32
	zeros  []int8    // of each scale; nil = none
	minima []float32 // the same
	perRow int       // 0: one for all
	group  int       // columns; 0: all of a row
}

// unitsOf are those of all matrices of an entry.
func unitsOf(f *packed.File, e *packed.Entry) (u units, err error) {
	u = sharing(e)
	if u.scales, err = packed.Scales(f, e); err != nil {
		return u, err
	}
	if u.zeros, err = packed.Zeros(f, e); err != nil {
		return u, err
	}
	u.minima, err = packed.Minima(f, e)
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
	if u.minima != nil {
		u.minima = u.minima[from:to]
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
		if u.minima != nil {
			u.minima = permuted(u.minima, rows, heads)
		}
	}
	return u
}

func (u units) at(row, column int) unit {
	i := 0
	switch {
	case u.perRow > 0 && u.group > 0:
		i = row*u.perRow + column/u.group
	case u.perRow > 0:
		i = row
	}
	return u.number(i)
}

func (u units) number(i int) unit {
	own := unit{scale: u.scales[i]}
	if u.zeros != nil {
		own.zero = u.zeros[i]
	}
	if u.minima != nil {
		own.minimum = u.minima[i]
	}
	return own
}

// all reports whether something holds for all units.
func (u units) all(holds func(unit) bool) bool {
	for i := range u.scales {
		if !holds(u.number(i)) {
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
	return u.all(func(own unit) bool {
		return !slices.ContainsFunc(a.Values, func(c int8) bool { return !isHalf(own.weight(c)) })
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
		x := u.at(i/m.K, i%m.K).weight(c)
		if f.kind == gguf.F16 {
			out = binary.LittleEndian.AppendUint16(out, float16.Narrow(x))
		} else {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
		}
	}
	return out, nil
}
