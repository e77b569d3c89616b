package packed

import (
	"fmt"

	"github.com/lowpack/lowpack/pack"
)

// Codes unpacks one matrix of a quantized tensor (expert 0 if there are no experts), on the heap. It rejects codes
// outside the alphabet and nonzero padding (F15).
func Codes(v View, e *Entry, expert int) (*pack.Matrix, error) {
	src, err := PackedBytes(v, e, expert)
	if err != nil {
		return nil, err
	}
	l, err := pack.Open(e.Layout)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", e.Name, err)
	}
	a, err := pack.FindAlphabet(e.Layout.Alphabet)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", e.Name, err)
	}
	m := pack.NewMatrix(e.MatrixShape(), a)
	if err := l.Unpack(m, src); err != nil {
		return nil, fmt.Errorf("%q: %w", e.Name, err)
	}
	return m, nil
}
