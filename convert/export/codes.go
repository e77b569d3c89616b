package export

import (
	"context"
	"encoding/hex"
	"fmt"
	"hash"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/pack"
)

// pieceWeights is about how many weights a core works on at a time: they stay in its cache.
const pieceWeights = 128 << 10

// pieces cuts rows into pieces of about pieceWeights, in whole multiples of a number of rows.
func pieces(s pack.Shape, multiple int) (rows, n int) {
	rows = max(1, pieceWeights/(s.K*multiple)) * multiple
	return rows, (s.M + rows - 1) / rows
}

// Codes unpacks a tensor without experts, on all cores. Codes that do not match their digest are pack.ErrCorrupt.
func Codes(ctx context.Context, f *packed.File, e *packed.Entry) (m *pack.Matrix, err error) {
	err = eachCodes(ctx, f, e, func(_ int, one *pack.Matrix) error {
		m = one
		return nil
	})
	return m, err
}

// eachCodes unpacks one matrix of a tensor after another, and checks the codes of all against their digest.
func eachCodes(ctx context.Context, f *packed.File, e *packed.Entry, do func(expert int, m *pack.Matrix) error) error {
	a, err := pack.FindAlphabet(e.Layout.Alphabet)
	if err != nil {
		return fmt.Errorf("%q: %w", e.Name, err)
	}
	shape := e.MatrixShape()
	digest := packed.NewCodesHash(a.Name, pack.Shape{M: e.Rows(), K: shape.K})
	for expert := range e.Experts() {
		m := pack.NewMatrix(shape, a)
		if err := unpack(ctx, m, f, e, expert, digest); err != nil {
			return err
		}
		if err := do(expert, m); err != nil {
			return err
		}
	}
	if hex.EncodeToString(digest.Sum(nil)) != e.CodesSHA {
		return damaged(e)
	}
	return nil
}

// unpack unpacks one matrix piece by piece, if its layout has row panels, and adds its codes to a digest.
func unpack(ctx context.Context, m *pack.Matrix, f *packed.File, e *packed.Entry, expert int, digest hash.Hash) error {
	src, err := packed.PackedBytes(f, e, expert)
	if err != nil {
		return err
	}
	l, err := pack.Open(e.Layout)
	if err != nil {
		return fmt.Errorf("%q: %w", e.Name, err)
	}
	panel, size := 1, 0
	if p, ok := l.(pack.Paneled); ok {
		if size, err = pack.PanelSize(p, m.K); err != nil {
			return err
		}
		panel = p.PanelRows()
	} else if err := l.Unpack(m, src); err != nil {
		return fmt.Errorf("%q: %w", e.Name, err)
	}
	numbers := packed.NewNumbers(m.Alphabet, m.K)
	rows, n := pieces(m.Shape, panel)
	return parallel.Write(ctx, digest, n, func(b []byte, i int) ([]byte, error) {
		first := i * rows
		part := &pack.Matrix{Shape: pack.Shape{M: min(rows, m.M-first), K: m.K}, Alphabet: m.Alphabet}
		part.Codes = m.Codes[first*m.K:][:part.M*m.K]
		if size > 0 {
			from := first / panel * size
			if err := l.Unpack(part, src[from:min(from+rows/panel*size, len(src))]); err != nil {
				return nil, fmt.Errorf("%q: rows from %d on: %w", e.Name, first, err)
			}
		}
		return numbers.Write(grown(b, part.M*numbers.Row()), part.Codes), nil
	})
}

// grown returns a buffer of the given size, reusing b if it is large enough.
func grown(b []byte, size int) []byte {
	if cap(b) < size {
		return make([]byte, size)
	}
	return b[:size]
}

func damaged(e *packed.Entry) error {
	return fmt.Errorf("%w: tensor %q: its codes do not match codes_sha256: the file is damaged (F12)",
		pack.ErrCorrupt, e.Name)
}
