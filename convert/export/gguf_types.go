package export

import (
	"context"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/pack"
)

// form is the storage format of a quantized matrix.
type form struct {
	kind  gguf.Type
	apart bool // the scale is in a separate tensor
}

// unit holds what some weights share: a weight is (code − zero point) × scale, plus the minimum if there is one
// (NUMERICS N39).
type unit struct {
	scale, minimum float32
	zero           int8
}

func (u unit) weight(code int8) float32 {
	return float32(float32(int(code)-int(u.zero))*u.scale) + u.minimum
}

// units holds the scales, zero points and minima of a matrix.
type units struct {
	scales []float32
	zeros  []int8    // of each scale; nil = none
	minima []float32 // the same
	perRow int       // 0: one for all
	group  int       // columns; 0: all of a row
	factors
}

// unitsOf returns the units of all matrices of an entry.
func unitsOf(f *packed.File, e *packed.Entry) (u units, err error) {
	u = sharing(e)
	if u.scales, err = packed.Scales(f, e); err != nil {
		return u, err
	}
	if u.zeros, err = packed.Zeros(f, e); err != nil {
		return u, err
	}
	if u.minima, err = packed.Minima(f, e); err != nil {
		return u, err
	}
	u.factors, err = factorsOf(f, e)
	return u, err
}

// sharing returns units with the granularity only.
func sharing(e *packed.Entry) units {
	u := units{group: e.Scale.Group}
	if e.Scale.Kind != packed.ScaleTensor {
		u.perRow = e.Groups()
	}
	return u
}

// of returns the units of rows from first on.
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
	u.factors = u.changed(func(b []byte) []byte { return b[first*u.width:][:rows*u.width] })
	return u
}

// permuted returns the units with rows in storage order.
func (u units) permuted(rows, heads int) units {
	if u.perRow > 0 {
		u.scales = permuted(u.scales, rows, heads)
		if u.zeros != nil {
			u.zeros = permuted(u.zeros, rows, heads)
		}
		if u.minima != nil {
			u.minima = permuted(u.minima, rows, heads)
		}
		u.factors = u.changed(func(b []byte) []byte { return permuted(b, rows, heads) })
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

// all reports whether holds is true for all units.
func (u units) all(holds func(unit) bool) bool {
	return parallel.Do(context.Background(), 0, len(u.scales), 1<<14, func(from, to int) error {
		for i := from; i < to; i++ {
			if !holds(u.number(i)) {
				return errors.ErrUnsupported // whichever: it ends the loop
			}
		}
		return nil
	}) == nil
}

// zeroPoints returns the distinct zero points.
func (u units) zeroPoints() (list []int8) {
	if u.zeros == nil {
		return []int8{0}
	}
	var seen [256]bool
	for _, z := range u.zeros {
		seen[uint8(z)] = true
	}
	for z, there := range seen {
		if there {
			list = append(list, int8(z))
		}
	}
	return list
}

// choose returns the first form that holds the weights exactly: blocks with a separate scale tensor, blocks with their
// own scales, F16, F32. Only a per-tensor scale is stored separately, and only if the architecture applies it.
func (w *ggufWriter) choose(ctx context.Context, e *packed.Entry, u units) (form, error) {
	a, err := pack.FindAlphabet(e.Layout.Alphabet)
	if err != nil {
		return form{}, err
	}
	apart := len(e.Shape) == 2 && u.perRow == 0 && u.zeros == nil && w.dialect.apart && w.arch.Scales &&
		strings.HasPrefix(e.Name, "model.layers.")
	for _, kind := range w.dialect.types {
		b := blockTypes[kind]
		k := e.MatrixShape().K
		_, err := kind.Size([]int64{int64(k)})
		if err != nil || k%b.size != 0 || k < b.least || u.group%b.size != 0 || !b.holds(a, u, apart) {
			continue
		}
		if err := w.onGrid(ctx, e, kind, u); !errors.Is(err, errOffGrid) {
			return form{kind, apart}, err
		}
	}
	f, bytes := form{gguf.F32, false}, int64(4)
	if apart || halves(a, u) {
		f, bytes = form{gguf.F16, apart}, 2
	}
	if len(a.Values) > 16 {
		w.codes, w.floats = w.codes+e.AllBytes(), w.floats+bytes*e.Weights()
	}
	return f, nil
}

// halves reports whether all possible weights of the codes are float16 numbers.
func halves(a pack.Alphabet, u units) bool {
	return u.all(func(own unit) bool {
		return !slices.ContainsFunc(a.Values, func(c int8) bool { return !isHalf(own.weight(c)) })
	})
}

// isHalf reports whether x is a float16. Nearly all scales are normal ones, whose bits tell.
func isHalf(x float32) bool {
	b := math.Float32bits(x)
	return b<<19 == 0 && b<<1 >= (127-14)<<24 && b<<1 < (127+16)<<24 || float16.Widen(float16.Narrow(x)) == x
}

// encode writes a matrix, some rows at a time on each core.
func (f form) encode(ctx context.Context, m *pack.Matrix, u units, to io.Writer) error {
	rows, n := pieces(m.Shape, 1)
	err := parallel.Write(ctx, to, n, func(b []byte, i int) ([]byte, error) {
		first := i * rows
		part := &pack.Matrix{Shape: pack.Shape{M: min(rows, m.M-first), K: m.K}, Alphabet: m.Alphabet}
		part.Codes = m.Codes[first*m.K:][:part.M*m.K]
		b = grown(b, part.M*int(f.kind.RowSize(int64(m.K))))
		return b, f.rows(b, part, f.own(u).of(first, part.M))
	})
	if err != nil {
		return err
	}
	return f.end(u, to)
}

// own returns the units that the blocks have inside.
func (f form) own(u units) units {
	if f.apart {
		return units{scales: []float32{1}}
	}
	return u
}

// end writes what follows the blocks.
func (f form) end(u units, to io.Writer) error {
	if f.kind != gguf.I2_S {
		return nil
	}
	tail := pack.I2STail(f.own(u).scales[0])
	_, err := to.Write(tail[:])
	return err
}

// transcode is encode for a tensor without experts, straight from the packed bytes, with rows permuted in heads: what a
// core works on stays in its cache. u is permuted already.
func (f form) transcode(
	ctx context.Context, file *packed.File, e *packed.Entry, u units, heads int, to io.Writer,
) error {
	r, err := openRows(file, e, 0, nil)
	if err != nil {
		return err
	}
	shape, multiple := e.MatrixShape(), r.panel
	for heads > 0 && multiple%(shape.M/heads) != 0 { // whole heads
		multiple += r.panel
	}
	numbers := packed.NewNumbers(r.matrix.Alphabet, shape.K)
	both := &twoWriters{hash: codesHash(e), to: to, row: numbers.Row(), size: int(f.kind.RowSize(int64(shape.K)))}
	rows, n := pieces(shape, multiple)
	err = parallel.Write(ctx, both, n, func(b []byte, i int) ([]byte, error) {
		first := i * rows
		own := min(rows, shape.M-first)
		b = grown(b, own*(both.row+both.size+shape.K))
		codes := packed.BytesAsCodes(b[own*(both.row+both.size):])
		b = b[:own*(both.row+both.size)]
		part, err := r.read(codes, first, own)
		if err != nil {
			return nil, err
		}
		numbers.Write(b, part.Codes)
		part.Codes = permuted(part.Codes, own, heads*own/shape.M)
		return b, f.rows(b[own*both.row:], part, f.own(u).of(first, own))
	})
	if err == nil {
		err = checkCodes(e, both.hash)
	}
	if err != nil {
		return err
	}
	return f.end(u, to)
}

// twoWriters takes rows in two forms, all of the first before all of the second: numbers for the digest, and blocks.
type twoWriters struct {
	hash      hash.Hash
	to        io.Writer
	row, size int // bytes of a row in each form
}

func (w *twoWriters) Write(b []byte) (int, error) {
	cut := len(b) / (w.row + w.size) * w.row
	w.hash.Write(b[:cut])
	if _, err := w.to.Write(b[cut:]); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (f form) rows(dst []byte, m *pack.Matrix, u units) error {
	if b, ok := blockTypes[f.kind]; ok {
		return b.encode(dst, m, u)
	}
	if f.kind == gguf.F16 {
		return encodeFloats(dst, m, u, 2,
			func(b []byte, x float32) { binary.LittleEndian.PutUint16(b, float16.Narrow(x)) })
	}
	return encodeFloats(dst, m, u, 4,
		func(b []byte, x float32) { binary.LittleEndian.PutUint32(b, math.Float32bits(x)) })
}

// encodeFloats writes weights of size bytes each. If more weights share a unit than there are codes, each code is
// encoded once and then copied.
func encodeFloats(dst []byte, m *pack.Matrix, u units, size int, put func([]byte, float32)) error {
	run := m.K
	if u.group > 0 {
		run = min(u.group, m.K)
	}
	var table [256][4]byte
	var filled unit
	for i := 0; i < len(m.Codes); i += min(run, m.K-i%m.K) {
		codes, out, own := m.Codes[i:][:min(run, m.K-i%m.K)], dst[i*size:], u.at(i/m.K, i%m.K)
		if len(codes) < len(m.Alphabet.Values) {
			for k, c := range codes {
				put(out[k*size:], own.weight(c))
			}
			continue
		}
		if i == 0 || own != filled {
			for _, c := range m.Alphabet.Values {
				put(table[uint8(c)][:], own.weight(c))
			}
			filled = own
		}
		for k, c := range codes {
			copy(out[k*size:][:size], table[uint8(c)][:])
		}
	}
	return nil
}
