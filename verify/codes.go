package verify

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"slices"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// checkCodes is level codes: every packed tensor is decoded. One sweep over a tensor checks its bytes (F15), the digest of
// its codes (F12) and its scales (F9).
func (s *session) checkCodes() error {
	m := s.file.Manifest()
	items, scales := make([]item, len(m.Packed)), make([]item, len(m.Packed))
	scaleErrors := make([]error, len(m.Packed))
	for i := range m.Packed {
		e := &m.Packed[i]
		items[i] = item{"codes", e.Name + packed.PackedSuffix, "F15", int64(e.Shape[0]) * int64(e.Shape[1]), func() (err error) {
			scaleErrors[i], err = s.checkEntry(e)
			return err
		}}
		scales[i] = item{"scales", e.Name + packed.ScaleSuffix, "F9", 1, func() error { return scaleErrors[i] }}
	}
	if err := s.each(Codes, "codes", items); err != nil {
		return err
	}
	return s.each(Codes, "scales", scales)
}

// checkEntry sweeps over a tensor. scaleErr is what is wrong with its scales.
func (s *session) checkEntry(e *packed.Entry) (scaleErr, err error) {
	scales, scaleErr := packed.Scales(s.view, e)
	unused, err := newZeroScales(e, scales)
	if err != nil {
		return nil, err
	}
	numbers, err := newNumbered(e)
	if err != nil {
		return nil, err
	}
	err = s.sweep(e, func(row int, codes []int8) error {
		numbers.rows(codes)
		if scaleErr == nil {
			scaleErr = unused.check(row, codes)
		}
		return nil
	})
	if err != nil {
		return scaleErr, err
	}
	if got := hex.EncodeToString(numbers.Sum(nil)); got != e.CodesSHA {
		return scaleErr, broken("F12", "SHA-256 of the codes is %s, the manifest says %s", got, e.CodesSHA)
	}
	return scaleErr, nil
}

// sweep decodes a packed tensor in ascending order of its rows: codes are those of whole rows from row on. Layouts in row
// panels are read panel by panel, others as a whole, one tensor at a time.
func (s *session) sweep(e *packed.Entry, do func(row int, codes []int8) error) error {
	l, err := pack.Open(e.Layout)
	if err != nil {
		return err
	}
	r, err := s.file.Section(e.Name + packed.PackedSuffix)
	if err != nil {
		return err
	}
	if err := checkPadding(e, r); err != nil {
		return err
	}
	rows, size := e.Shape[0], e.Bytes
	if p, ok := l.(pack.Paneled); ok {
		if size, err = pack.PanelSize(p, e.Shape[1]); err != nil {
			return err
		}
		n := max(1, pieceBytes/size)
		rows, size = n*p.PanelRows(), n*size
	} else {
		s.whole.Lock()
		defer s.whole.Unlock()
	}
	a, err := pack.FindAlphabet(e.Layout.Alphabet)
	if err != nil {
		return err
	}
	src := make([]byte, min(size, e.Bytes))
	m := pack.NewMatrix(pack.Shape{M: min(rows, e.Shape[0]), K: e.Shape[1]}, a)
	for row, off := 0, 0; row < e.Shape[0]; row, off = row+rows, off+size {
		if err := context.Cause(s.ctx); err != nil {
			return err
		}
		src = src[:min(size, e.Bytes-off)]
		m.M = min(rows, e.Shape[0]-row)
		m.Codes = m.Codes[:m.M*m.K]
		if _, err := r.ReadAt(src, int64(off)); err != nil {
			return err
		}
		if err := l.Unpack(m, src); err != nil {
			return fmt.Errorf("rows from %d, bytes from %d on: %w", row, off, err)
		}
		if err := do(row, m.Codes); err != nil {
			return err
		}
	}
	return nil
}

// pieceBytes is about how much of a packed tensor is read at once. At two bits per code a worker then holds a quarter of a
// megabyte of codes and, at level source, nine times as much for their floats.
const pieceBytes = 64 << 10

// checkPadding demands zeros from the end of the layout's bytes to the next multiple of 64 (F15).
func checkPadding(e *packed.Entry, r *io.SectionReader) error {
	b := make([]byte, r.Size()-int64(e.Bytes))
	if _, err := r.ReadAt(b, int64(e.Bytes)); err != nil && err != io.EOF {
		return err
	}
	for i, v := range b {
		if v != 0 {
			return broken("F15", "byte %d is padding and is %#02x", e.Bytes+i, v)
		}
	}
	return nil
}

// zeroScales checks that a scale of zero covers zeros alone (F9). Where the alphabet has no zero, only the source can
// tell: there a row of zeros has codes too.
type zeroScales struct {
	scales []float32
	k      int
	perRow int  // scales per row; 0 = one for all
	group  int  // columns of a scale
	active bool // there is something to check
}

func newZeroScales(e *packed.Entry, scales []float32) (*zeroScales, error) {
	a, err := pack.FindAlphabet(e.Layout.Alphabet)
	if err != nil {
		return nil, err
	}
	shape, err := e.ScaleShape()
	if err != nil {
		return nil, err
	}
	z := &zeroScales{scales: scales, k: e.Shape[1], group: e.Shape[1]}
	z.active = slices.Contains(a.Values, 0) && slices.Contains(scales, 0)
	switch e.Scale.Kind {
	case packed.ScaleRow:
		z.perRow = 1
	case packed.ScaleGroup:
		z.perRow, z.group = shape[1], e.Scale.Group
	}
	return z, nil
}

// check looks at the codes of whole rows.
func (z *zeroScales) check(row int, codes []int8) error {
	if !z.active {
		return nil
	}
	for ; len(codes) > 0; row, codes = row+1, codes[z.k:] {
		for k, c := range codes[:z.k] {
			at := 0
			if z.perRow > 0 {
				at = row*z.perRow + k/z.group
			}
			if c != 0 && z.scales[at] == 0 {
				return broken("F9", "scale %d is zero, but row %d, column %d has code %d", at, row, k, c)
			}
		}
	}
	return nil
}
