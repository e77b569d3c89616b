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

// checkCodes is level codes: every packed tensor decodes (F15), to codes of the digest in the manifest (F12) and under
// scales that fit them (F9), and a screen lies close to its head (F21). Level digest has found that out, in the same sweep over the bytes.
func (s *session) checkCodes() error {
	m := s.file.Manifest()
	items, scales, screens := make([]item, len(m.Packed)), make([]item, len(m.Packed)), []item(nil)
	for i := range m.Packed {
		e, d := &m.Packed[i], &s.decoded[i]
		items[i] = item{group: "codes", name: e.Name + packed.PackedSuffix, rule: "F15", size: 1, check: func() error { return d.codes }}
		scales[i] = item{group: "scales", name: e.Name + packed.ScaleSuffix, rule: "F9", size: 1, check: func() error { return d.scales }}
		if e.Name == packed.ScreenName {
			screens = append(screens, item{group: "screen of the output head", name: e.Name, rule: "F21", size: 1, check: func() error { return d.screen }})
		}
	}
	return s.each(Codes, "codes", slices.Concat(items, scales, screens))
}

// decoded is what is wrong with the codes and the scales of a tensor, and with them as a screen if they are one.
type decoded struct{ codes, scales, screen error }

// decode sweeps over a tensor. Its bytes are hashed as far as it comes.
func (s *session) decode(e *packed.Entry, bytes *digest) (d decoded) {
	scales, err := packed.Scales(s.view, e)
	d.scales = err
	unused, err := newZeroScales(e, scales)
	if err != nil {
		return decoded{codes: err}
	}
	numbers, err := newNumbered(e)
	if err != nil {
		return decoded{codes: err}
	}
	near, err := s.newScreen(e, scales)
	d.screen = err
	d.codes = s.sweep(e, func(row int, codes []int8, src []byte) error {
		numbers.rows(codes, bytes.Hash, src)
		bytes.off += int64(len(src))
		if d.scales == nil {
			d.scales = unused.check(row, codes)
		}
		if near != nil && d.scales == nil && d.screen == nil {
			d.screen = near.check(row, codes)
		}
		return nil
	})
	if d.codes != nil {
		return d
	}
	if got := hex.EncodeToString(numbers.Sum(nil)); got != e.CodesSHA {
		d.codes = broken("F12", "SHA-256 of the codes is %s, the manifest says %s", got, e.CodesSHA)
	}
	return d
}

// sweep decodes a packed tensor in ascending order of its rows and bytes: codes are those of whole rows from row on, and
// are all that src holds. Layouts in row panels are read panel by panel, others as a whole, one tensor at a time.
func (s *session) sweep(e *packed.Entry, do func(row int, codes []int8, src []byte) error) error {
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
		if err := do(row, m.Codes, src); err != nil {
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
