package verify

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// checkCodes is level codes: every packed tensor decodes (F15), to codes that match the digest in the manifest (F12)
// and scales that fit them (F9), and a screen is close to its head (F21). Level digest has checked this in the same
// pass over the bytes.
func (s *session) checkCodes() error {
	m := s.file.Manifest()
	items, scales, more := make([]item, len(m.Packed)), make([]item, len(m.Packed)), []item(nil)
	for i := range m.Packed {
		e, d := &m.Packed[i], &s.decoded[i]
		items[i] = item{group: "codes", name: e.Name + packed.PackedSuffix, rule: "F15", size: 1,
			check: func() error { return d.codes }}
		scales[i] = item{group: "scales", name: e.Name + packed.ScaleSuffix, rule: "F9", size: 1,
			check: func() error { return d.scales }}
		if e.Min {
			more = append(more, item{group: besideGroups[packed.MinSuffix], name: e.Name + packed.MinSuffix,
				rule: "F25",
				size: 1, check: func() error { return d.minima }})
		}
		if e.Order {
			more = append(more, item{group: besideGroups[packed.OrderSuffix], name: e.Name + packed.OrderSuffix,
				rule: "F24",
				size: 1, check: func() error { return d.order }})
		}
		if e.Name == packed.ScreenName {
			more = append(more, item{group: "screen of the output head", name: e.Name, rule: "F21", size: 1,
				check: func() error { return d.screen }})
		}
	}
	return s.each(Codes, "codes", slices.Concat(items, scales, more))
}

// decoded holds the errors of the codes, scales, minima and column order of a tensor, and of the screen if it is one.
type decoded struct{ codes, scales, minima, order, screen error }

// decode sweeps over a tensor. Its bytes are hashed as far as it comes.
func (s *session) decode(e *packed.Entry, bytes *digest) (d decoded) {
	scales, err := packed.Scales(s.view, e)
	d.scales = err
	_, d.minima = packed.Minima(s.view, e)
	for i := range e.Experts() {
		if _, err := packed.Order(s.view, e, i); d.order == nil {
			d.order = err
		}
	}
	zeros, err := packed.Zeros(s.view, e)
	if err != nil {
		return decoded{codes: err}
	}
	unused, err := newZeroScales(e, scales, zeros)
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

// sweep decodes a packed tensor in ascending order of its rows and bytes, the matrices of experts one after another:
// codes holds whole rows from row on, which is all that src holds except padding. Layouts in row panels are read panel
// by panel, others as a whole, one tensor at a time.
func (s *session) sweep(e *packed.Entry, do func(row int, codes []int8, src []byte) error) error {
	l, err := pack.Open(e.Layout)
	if err != nil {
		return err
	}
	r, err := s.file.Section(e.Name + packed.PackedSuffix)
	if err != nil {
		return err
	}
	shape := e.MatrixShape()
	rows, size := shape.M, e.Bytes
	if p, ok := l.(pack.Paneled); ok {
		if size, err = pack.PanelSize(p, shape.K); err != nil {
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
	src := make([]byte, min(size, e.Bytes)+packed.Align)
	m := pack.NewMatrix(pack.Shape{M: min(rows, shape.M), K: shape.K}, a)
	for expert := range e.Experts() {
		first, base := expert*shape.M, expert*e.Stride()
		for row, off := 0, 0; row < shape.M; row, off = row+rows, off+size {
			if err := context.Cause(s.ctx); err != nil {
				return err
			}
			n := min(size, e.Bytes-off)
			stored := n
			if row+rows >= shape.M {
				stored = e.Stride() - off
			}
			m.M = min(rows, shape.M-row)
			m.Codes = m.Codes[:m.M*m.K]
			if _, err := r.ReadAt(src[:stored], int64(base+off)); err != nil {
				return err
			}
			if err := l.Unpack(m, src[:n]); err != nil {
				return fmt.Errorf("rows from %d, bytes from %d on: %w", first+row, base+off, err)
			}
			if err := checkPadding(src[n:stored], base+e.Bytes); err != nil {
				return err
			}
			if err := do(first+row, m.Codes, src[:stored]); err != nil {
				return err
			}
		}
	}
	return nil
}

// pieceBytes is about how much of a packed tensor is read at once. At two bits per code a worker then holds a quarter
// of a megabyte of codes and, at level source, nine times as much for their floats.
const pieceBytes = 64 << 10

// checkPadding demands zeros from the end of the layout's bytes, which is at off, to the next multiple of 64 (F15).
func checkPadding(b []byte, off int) error {
	for i, v := range b {
		if v != 0 {
			return broken("F15", "byte %d is padding and is %#02x", off+i, v)
		}
	}
	return nil
}

// zeroScales checks that a scale of zero covers only zeros (F9): codes that are 0, or equal to their zero point. If the
// alphabet has no zero, only the source can tell: there a row of zeros has codes too.
type zeroScales struct {
	scales []float32
	zeros  []int8 // nil = none
	k      int
	rows   int  // of a matrix
	perRow int  // scales per row; 0 = one for a matrix
	group  int  // columns of a scale
	active bool // there is something to check
}

func newZeroScales(e *packed.Entry, scales []float32, zeros []int8) (*zeroScales, error) {
	a, err := pack.FindAlphabet(e.Layout.Alphabet)
	if err != nil {
		return nil, err
	}
	s := e.MatrixShape()
	z := &zeroScales{scales: scales, zeros: zeros, k: s.K, rows: s.M, group: s.K}
	z.active = slices.Contains(a.Values, 0) && slices.Contains(scales, 0)
	switch e.Scale.Kind {
	case packed.ScaleRow:
		z.perRow = 1
	case packed.ScaleGroup:
		z.perRow, z.group = e.Groups(), e.Scale.Group
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
			at := row / z.rows
			if z.perRow > 0 {
				at = row*z.perRow + k/z.group
			}
			if z.scales[at] == 0 && c != z.zero(at) {
				return broken("F9", "scale %d is zero, but row %d, column %d has code %d", at, row, k, c)
			}
		}
	}
	return nil
}

// zero is the code of a weight that is zero.
func (z *zeroScales) zero(at int) int8 {
	if z.zeros == nil {
		return 0
	}
	return z.zeros[at]
}
