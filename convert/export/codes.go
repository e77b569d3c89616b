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
	digest := codesHash(e)
	for expert := range e.Experts() {
		m := pack.NewMatrix(shape, a)
		if err := unpack(ctx, m, f, e, expert, digest); err != nil {
			return err
		}
		if err := do(expert, m); err != nil {
			return err
		}
	}
	return checkCodes(e, digest)
}

// codesHash returns the hash of the codes of a tensor.
func codesHash(e *packed.Entry) hash.Hash {
	return packed.NewCodesHash(e.Layout.Alphabet, pack.Shape{M: e.Rows(), K: e.MatrixShape().K})
}

// checkCodes compares the digest of a tensor's codes.
func checkCodes(e *packed.Entry, digest hash.Hash) error {
	if hex.EncodeToString(digest.Sum(nil)) != e.CodesSHA {
		return damaged(e)
	}
	return nil
}

// unpack unpacks one matrix piece by piece, if its layout has row panels, and adds its codes to a digest.
func unpack(ctx context.Context, m *pack.Matrix, f *packed.File, e *packed.Entry, expert int, digest hash.Hash) error {
	r, err := openRows(f, e, expert, m.Codes)
	if err != nil {
		return err
	}
	numbers := packed.NewNumbers(m.Alphabet, m.K)
	rows, n := pieces(m.Shape, r.panel)
	return parallel.Write(ctx, digest, n, func(b []byte, i int) ([]byte, error) {
		first := i * rows
		part, err := r.read(m.Codes[first*m.K:], first, min(rows, m.M-first))
		if err != nil {
			return nil, err
		}
		return numbers.Write(grown(b, part.M*numbers.Row()), part.Codes), nil
	})
}

// rowReader unpacks rows of one matrix.
type rowReader struct {
	name   string
	matrix pack.Matrix // without codes, or with all if the layout has no row panels
	layout pack.Layout
	data   []byte
	panel  int // rows
	size   int // of a panel in bytes
}

// openRows opens a matrix. A layout without row panels is unpacked into codes at once.
func openRows(f *packed.File, e *packed.Entry, expert int, codes []int8) (r *rowReader, err error) {
	r = &rowReader{name: e.Name, matrix: pack.Matrix{Shape: e.MatrixShape()}, panel: 1}
	if r.matrix.Alphabet, err = pack.FindAlphabet(e.Layout.Alphabet); err != nil {
		return nil, fmt.Errorf("%q: %w", e.Name, err)
	}
	if r.data, err = packed.PackedBytes(f, e, expert); err != nil {
		return nil, err
	}
	if r.layout, err = pack.Open(e.Layout); err != nil {
		return nil, fmt.Errorf("%q: %w", e.Name, err)
	}
	if p, ok := r.layout.(pack.Paneled); ok {
		r.panel = p.PanelRows()
		r.size, err = pack.PanelSize(p, r.matrix.K)
		return r, err
	}
	if codes == nil {
		codes = make([]int8, r.matrix.M*r.matrix.K)
	}
	r.matrix.Codes = codes
	if err := r.layout.Unpack(&r.matrix, r.data); err != nil {
		return nil, fmt.Errorf("%q: %w", e.Name, err)
	}
	return r, nil
}

// read returns rows from first on, which starts a panel. Their codes are written to dst if the layout has row panels.
func (r *rowReader) read(dst []int8, first, rows int) (*pack.Matrix, error) {
	part := &pack.Matrix{Shape: pack.Shape{M: rows, K: r.matrix.K}, Alphabet: r.matrix.Alphabet}
	if r.size == 0 {
		part.Codes = r.matrix.Codes[first*part.K:][:rows*part.K]
		return part, nil
	}
	part.Codes = dst[:rows*part.K]
	from := first / r.panel * r.size
	to := min((first+rows+r.panel-1)/r.panel*r.size, len(r.data))
	if err := r.layout.Unpack(part, r.data[from:to]); err != nil {
		return nil, fmt.Errorf("%q: rows from %d on: %w", r.name, first, err)
	}
	return part, nil
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
