// Package pack turns codes into the bytes of a weight layout and back.
//
// A Matrix holds one small integer per weight; it is what every quantizer produces and what every layout must give
// back. A Layout is a pure function between a Matrix and bytes. Scales are not part of it: they live beside the codes.
//
// The package is the bottom of the import graph: of this module it imports the conversion of float16 scales, nothing
// else.
package pack

import (
	"errors"
	"fmt"
)

// Errors of this module wrap one of these three, so that callers can tell why an input was refused.
var (
	// ErrCorrupt: the bytes contradict their own format or their digest.
	ErrCorrupt = errors.New("corrupt")
	// ErrUnsupported: well formed, but not something that this program handles.
	ErrUnsupported = errors.New("unsupported")
	// ErrLimit: larger than a stated limit.
	ErrLimit = errors.New("limit exceeded")
)

// Shape of a weight matrix: M output features (rows) by K input features (columns), row-major.
type Shape struct{ M, K int }

func (s Shape) String() string { return fmt.Sprintf("[%d, %d]", s.M, s.K) }

// MaxDim bounds M and K, so that no product of two dimensions overflows an int64, and int32 sums of products of a code
// (at most 128 in magnitude) and an activation (at most 127) stay exact for ternary codes.
const MaxDim = 1 << 24

// Check refuses empty, negative and absurdly large shapes.
func (s Shape) Check() error {
	if s.M < 1 || s.K < 1 || s.M > MaxDim || s.K > MaxDim {
		return fmt.Errorf("%w: shape %v: each dimension must lie in 1..%d", ErrLimit, s, MaxDim)
	}
	return nil
}

// Matrix is one code per weight, Codes[m*K+k]. A code is the integer that a kernel multiplies by (−1, 0 or 1 for
// ternary), not an index into a table; the weight is code × scale.
type Matrix struct {
	Shape
	Alphabet
	Codes []int8
}

// NewMatrix returns a matrix of the given shape whose codes are all zero.
func NewMatrix(s Shape, a Alphabet) *Matrix {
	return &Matrix{Shape: s, Alphabet: a, Codes: make([]int8, s.M*s.K)}
}

// Check reports the first code that is outside the alphabet, with its row and column.
func (m *Matrix) Check() error {
	if err := m.Shape.Check(); err != nil {
		return err
	}
	if len(m.Codes) != m.M*m.K {
		return fmt.Errorf("%w: matrix %v has %d codes", ErrCorrupt, m.Shape, len(m.Codes))
	}
	legal := m.legal()
	for i, c := range m.Codes {
		if !legal[uint8(c)] {
			return fmt.Errorf("%w: code %d at row %d, column %d is not in alphabet %s",
				ErrCorrupt, c, i/m.K, i%m.K, m.Alphabet.Name)
		}
	}
	return nil
}

// Spec is what a packed file records of a layout: enough to decode the bytes for ever.
type Spec struct {
	Name     string         `json:"name"`             // as in `--layout`
	Version  int            `json:"version"`          // raised when the bytes of an existing layout change
	Alphabet string         `json:"alphabet"`         // name of the Alphabet
	Params   map[string]int `json:"params,omitempty"` // block factors that the user may choose; nil when there are none
}

// Layout is one way to write the codes of a matrix as bytes. Implementations are values without state: safe for
// concurrent use, and equal Specs give equal bytes.
type Layout interface {
	// Spec identifies the layout in a packed file. Open(Spec()) gives the same layout back.
	Spec() Spec
	// PackedSize is the exact number of bytes of a matrix of this shape, padding included. It refuses shapes that the
	// layout cannot hold and says why.
	PackedSize(Shape) (int, error)
	// Pack writes every byte of dst, whose length is PackedSize. Codes outside the alphabet are refused.
	Pack(dst []byte, m *Matrix) error
	// Unpack fills m.Codes (Shape, Alphabet and len(Codes) are set by the caller) from src. It refuses codes outside
	// the alphabet and padding that is not as Pack writes it.
	Unpack(m *Matrix, src []byte) error
}

// Paneled is implemented by layouts whose bytes are a sequence of row panels, each a function of its own rows alone.
// Such a matrix can be packed, unpacked and multiplied panel by panel, in any order and in parallel.
type Paneled interface {
	Layout
	// PanelRows is the number of rows of one panel (bm); the last panel may cover fewer rows of the matrix.
	PanelRows() int
}

// PanelSize is the number of bytes of one panel of a matrix with k columns.
func PanelSize(l Paneled, k int) (int, error) { return l.PackedSize(Shape{M: l.PanelRows(), K: k}) }
