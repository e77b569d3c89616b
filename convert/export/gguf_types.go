package export

import (
	"encoding/binary"
	"math"
	"strings"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/pack"
)

// form is how a quantized matrix is stored.
type form struct {
	kind   gguf.Type
	apart  bool        // its scale stands in a tensor of its own
	blocks pack.Blocks // nil: floats
}

// blockTypes from small to large, by their names in package pack.
var blockTypes = []struct {
	kind gguf.Type
	name string
}{
	{gguf.Q1_0, "q1_0"}, {gguf.TQ2_0, "tq2_0"}, {gguf.Q2_0, "q2_0"}, {gguf.MXFP4, "mxfp4"}, {gguf.Q4_0, "q4_0"}, {gguf.Q8_0, "q8_0"},
}

// choose takes the first form that holds the weights exactly: blocks with the scale in a tensor of its own, blocks with their
// scale, F16, F32. Only a scale per tensor stands apart, and only where the architecture applies it.
func (w *ggufWriter) choose(e *packed.Entry, scales []float32) form {
	shape := e.MatrixShape()
	apart := e.Scale.Kind == packed.ScaleTensor && w.arch.Scales && strings.HasPrefix(e.Name, "model.layers.")
	for _, t := range blockTypes {
		b, err := pack.OpenBlocks(t.name)
		if err != nil || shape.K%b.BlockSize() != 0 || !holds(b, e.Layout.Alphabet) {
			continue
		}
		if apart || e.Scale.Group%b.BlockSize() == 0 && stores(b, scales) {
			return form{t.kind, apart, b}
		}
	}
	a, err := pack.FindAlphabet(e.Layout.Alphabet)
	if err == nil && (apart || halves(a, scales)) {
		return form{gguf.F16, apart, nil}
	}
	return form{gguf.F32, false, nil}
}

// holds reports whether a format has all codes of an alphabet.
func holds(b pack.Blocks, alphabet string) bool {
	a, err1 := pack.FindAlphabet(alphabet)
	own, err2 := pack.FindAlphabet(b.Spec().Alphabet)
	return err1 == nil && err2 == nil && a.Subset(own)
}

// stores reports whether a format keeps all scales as they are.
func stores(b pack.Blocks, scales []float32) bool {
	for _, s := range scales {
		if stored, err := b.StoredScale(s); err != nil || stored != s {
			return false
		}
	}
	return true
}

// halves reports whether all weights that the codes may be are float16 numbers.
func halves(a pack.Alphabet, scales []float32) bool {
	for _, s := range scales {
		for _, c := range a.Values {
			if x := float32(c) * s; float16.Widen(float16.Narrow(x)) != x {
				return false
			}
		}
	}
	return true
}

// encode writes a matrix, panel of rows after panel.
func (f form) encode(m *pack.Matrix, scales []float32, group int, write func([]byte) error) error {
	const rows = 64
	perRow := len(scales) / m.M // 0: one for all
	for first := 0; first < m.M; first += rows {
		n := min(rows, m.M-first)
		part := &pack.Matrix{Shape: pack.Shape{M: n, K: m.K}, Alphabet: m.Alphabet, Codes: m.Codes[first*m.K:][:n*m.K]}
		own := scales
		if perRow > 0 && len(scales) > 1 {
			own = scales[first*perRow:][:n*perRow]
		}
		data, err := f.panel(part, scaleOf{own, perRow, group, f.apart})
		if err != nil {
			return err
		}
		if err := write(data); err != nil {
			return err
		}
	}
	return nil
}

// scaleOf finds the scale of a weight.
type scaleOf struct {
	scales []float32
	perRow int // 0: one for all
	group  int // columns; 0: all of a row
	apart  bool
}

func (s scaleOf) at(row, column int) float32 {
	switch {
	case s.apart:
		return 1
	case len(s.scales) == 1:
		return s.scales[0]
	case s.group == 0:
		return s.scales[row]
	}
	return s.scales[row*s.perRow+column/s.group]
}

func (f form) panel(m *pack.Matrix, s scaleOf) ([]byte, error) {
	if f.blocks == nil {
		return f.floats(m, s), nil
	}
	a, err := pack.FindAlphabet(f.blocks.Spec().Alphabet)
	if err != nil {
		return nil, err
	}
	m.Alphabet = a // which has all codes of the other
	size, err := f.blocks.PackedSize(m.Shape)
	if err != nil {
		return nil, err
	}
	n := f.blocks.BlockSize()
	scales := make([]float32, len(m.Codes)/n)
	for i := range scales {
		scales[i] = s.at(i*n/m.K, i*n%m.K)
	}
	out := make([]byte, size)
	return out, f.blocks.PackBlocks(out, m, scales)
}

func (f form) floats(m *pack.Matrix, s scaleOf) []byte {
	var out []byte
	for i, c := range m.Codes {
		x := float32(c) * s.at(i/m.K, i%m.K)
		if f.kind == gguf.F16 {
			out = binary.LittleEndian.AppendUint16(out, float16.Narrow(x))
		} else {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
		}
	}
	return out
}
