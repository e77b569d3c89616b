package verify

import (
	"io"
	"math"
	"slices"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// Bounds of F21.
const (
	screenError = 0.501   // of the scale: how far a weight lies from its code
	screenTiny  = 1.5e-36 // below this are all weights of a row whose scale is below tiny
)

// screen compares the codes of F21 with the output head stored next to them. The candidate filter of the engine relies
// on the bound: a code that breaks it may hide the most likely token.
type screen struct {
	scales []float32
	head   *io.SectionReader
	dtype  string
	k      int
	bytes  []byte
	w      []float32
}

// newScreen finds the head of an entry that is a screen; nil for all other entries.
func (s *session) newScreen(e *packed.Entry, scales []float32) (*screen, error) {
	if e.Name != packed.ScreenName {
		return nil, nil
	}
	if e.Layout.Alphabet != pack.Int8.Name ||
		e.Scale != (packed.Scale{Kind: packed.ScaleRow, DType: packed.ScaleF32}) ||
		e.Zero || e.Order || len(e.Shape) != 2 {
		return nil,
			broken("F21",
				"%s codes with a scale per %s; a screen has int8 codes and an F32 scale per row, no zero points and "+
					"no order", e.Layout.Alphabet, e.Scale.Kind)
	}
	m, d := s.file.Manifest(), s.described
	if d == nil {
		return nil, broken("F21", "a screen in a file without a model")
	}
	i := slices.IndexFunc(m.Plain, func(p packed.Plain) bool { return p.Name == d.Head })
	if i < 0 {
		return nil, broken("F21", "a screen beside the output head %q, which is not stored as floats", d.Head)
	}
	p := &m.Plain[i]
	size := sizeOf(string(p.DType))
	if size == 0 || !slices.Equal(p.Shape, e.Shape[:]) {
		return nil, broken("F21", "a screen of shape %v beside the output head %q, %s %v", e.Shape, d.Head,
			p.DType, p.Shape)
	}
	head, err := s.file.Section(d.Head)
	return &screen{scales: scales, head: head, dtype: string(p.DType), k: e.MatrixShape().K}, err
}

// check looks at the codes of whole rows.
func (c *screen) check(row int, codes []int8) error {
	size := sizeOf(c.dtype)
	c.bytes = slices.Grow(c.bytes[:0], len(codes)*size)[:len(codes)*size]
	c.w = slices.Grow(c.w[:0], len(codes))[:len(codes)]
	if _, err := c.head.ReadAt(c.bytes, int64(row)*int64(c.k)*int64(size)); err != nil {
		return err
	}
	widen(c.w, c.dtype, c.bytes)
	for w := c.w; len(codes) > 0; row, codes, w = row+1, codes[c.k:], w[c.k:] {
		if k := misses(w[:c.k], codes, c.scales[row]); k < c.k {
			return broken("F21",
				"row %d, column %d: code %d with scale %v stands for the weight %v of the output head: further than "+
					"%v of the scale", row, k, codes[k], c.scales[row], w[k], screenError)
		}
	}
	return nil
}

// misses returns the index of the first weight that is too far from its code, or len(w). A float64 holds the product of
// scale and code exactly.
func misses(w []float32, codes []int8, scale float32) int {
	s := float64(scale)
	for k, v := range w {
		near := math.Abs(float64(v)-s*float64(codes[k])) <= screenError*s
		if scale < tiny {
			near = codes[k] == 0 && math.Abs(float64(v)) < screenTiny
		}
		if !near {
			return k
		}
	}
	return len(w)
}
