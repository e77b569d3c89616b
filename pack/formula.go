package pack

import (
	"fmt"
	"math"
)

// place is where one digit goes: times Unit it is part of the number that starts at bit Bit of byte At. A digit that
// has its own bits has unit 1; digits of base 3 share a number and have powers of three.
type place struct{ At, Bit, Unit int }

// paneled is a formula whose bytes are a sequence of row panels.
type paneled struct {
	formula
	rows int
}

// PanelRows implements Paneled.
func (p *paneled) PanelRows() int { return p.rows }

// formula is the definition of a layout as an address formula: where each digit of each weight goes. It is also a plain
// implementation of Layout, one weight at a time: layouts that models run with add faster methods, which tests compare
// with these.
type formula struct {
	spec  Spec
	code  code
	radix int // a digit is 0..radix−1
	cell  int // bits of a number: as many as a digit has, or 4 or 8 where several digits share one

	// padded is the shape that the bytes really hold, native to the layout.
	padded func(Shape) (Shape, error)
	// size is the number of bytes of a native shape.
	size func(Shape) int
	// at places weight (m, k) of a matrix of native shape s.
	at func(s Shape, m, k int) place
	// plane replaces at where parts of a digit are stored apart: it places part i, which has planes[i] of its bits. The
	// first part has the lowest.
	plane  func(s Shape, m, k, i int) place
	planes []int
	// seal gives the stored byte of a sum of digits; nil when the sum itself is stored.
	seal *[256]uint8
	// fast does the same many weights at a time, for layouts that models run with. Tests compare the two.
	fast *strips
}

func (f *formula) Spec() Spec { return cloneSpec(f.spec) }

// Padded is the shape that the packed bytes hold: s with the rows and columns of padding.
func (f *formula) Padded(s Shape) (Shape, error) {
	if err := s.Check(); err != nil {
		return Shape{}, err
	}
	p, err := f.padded(s)
	if err != nil {
		return Shape{}, err
	}
	if uint64(p.M)*uint64(p.K) > math.MaxInt/8 {
		return Shape{}, fmt.Errorf("%w: layout %s: a matrix %v is too large for this machine", ErrLimit, f.spec.Name, s)
	}
	return p, nil
}

func (f *formula) PackedSize(s Shape) (int, error) {
	p, err := f.Padded(s)
	if err != nil {
		return 0, err
	}
	return f.size(p), nil
}

func (f *formula) Pack(dst []byte, m *Matrix) error {
	s, err := f.checkPack(dst, m)
	if err != nil {
		return err
	}
	if f.fast != nil && f.packFast(dst, m, s) {
		return nil
	}
	if err := f.checkCodes(m); err != nil {
		return err
	}
	f.write(dst, m, s)
	return nil
}

func (f *formula) Unpack(m *Matrix, src []byte) error {
	s, err := f.checkUnpack(m, src)
	if err != nil {
		return err
	}
	if f.fast != nil && f.unpackFast(m, s, src) {
		return nil
	}
	if err := f.read(m, s, src); err != nil { // also says what it is that the fast way did not like
		return err
	}
	return f.checkSame(m, s, src, f.write)
}

// read fills m.Codes, but looks at no padding.
func (f *formula) read(m *Matrix, s Shape, src []byte) error {
	open := f.opened()
	for row := range m.M {
		for col := range m.K {
			v, ok := f.code.value(f.get(src, open, s, row, col))
			if !ok {
				return f.corrupt("the digit of row %d, column %d stands for no weight", row, col)
			}
			m.Codes[row*m.K+col] = v
		}
	}
	return nil
}

// write packs a checked matrix into dst, padding included.
func (f *formula) write(dst []byte, m *Matrix, s Shape) {
	clear(dst)
	for row := range s.M {
		for col := range s.K {
			digit := f.code.pad
			if row < m.M && col < m.K {
				digit = f.code.digits[uint8(m.Codes[row*m.K+col])]
			}
			f.put(dst, s, row, col, int(digit))
		}
	}
	if f.seal != nil {
		for i, b := range dst {
			dst[i] = f.seal[b]
		}
	}
}

// put adds the digit of weight (m, k) to dst.
func (f *formula) put(dst []byte, s Shape, m, k, digit int) {
	if f.plane == nil {
		p := f.at(s, m, k)
		dst[p.At] += uint8(digit * p.Unit << p.Bit)
		return
	}
	for i, bits := range f.planes {
		p := f.plane(s, m, k, i)
		dst[p.At] += uint8(digit & (1<<bits - 1) << p.Bit)
		digit >>= bits
	}
}

// get reads the digit of weight (m, k) from src, whose bytes open turns into sums of digits.
func (f *formula) get(src []byte, open *[256]uint8, s Shape, m, k int) int {
	if f.plane == nil {
		p := f.at(s, m, k)
		number := int(open[src[p.At]]) >> p.Bit & (1<<f.cell - 1)
		return number / p.Unit % f.radix
	}
	digit, shift := 0, 0
	for i, bits := range f.planes {
		p := f.plane(s, m, k, i)
		digit |= int(src[p.At]) >> p.Bit & (1<<bits - 1) << shift
		shift += bits
	}
	return digit
}

// opened inverts seal. Bytes that seal never gives come out as some number; checkSame refuses them.
func (f *formula) opened() *[256]uint8 {
	var open [256]uint8
	for i := 255; i >= 0; i-- { // downwards: sums beyond the last legal one share the byte of sum 0
		if f.seal == nil {
			open[i] = uint8(i)
		} else {
			open[f.seal[i]] = uint8(i)
		}
	}
	return &open
}

// checkSame refuses bytes that Pack does not write for the codes found in them: dirty padding and sums of digits that
// no digits give.
func (f *formula) checkSame(m *Matrix, s Shape, src []byte, write func([]byte, *Matrix, Shape)) error {
	again := make([]byte, len(src))
	write(again, m, s)
	for i, b := range src {
		if b != again[i] {
			return f.corrupt("byte %d is %#02x where the codes and the padding that it holds pack to %#02x", i,
				b, again[i])
		}
	}
	return nil
}

// checkPack checks all arguments of Pack but the codes, and returns the native shape.
func (f *formula) checkPack(dst []byte, m *Matrix) (Shape, error) {
	s, err := f.checkSize(m, len(dst))
	if err != nil {
		return Shape{}, err
	}
	if want, err := FindAlphabet(f.spec.Alphabet); err != nil || !m.Alphabet.Subset(want) {
		return Shape{}, fmt.Errorf("%w: layout %s is open for %s codes and cannot hold those of alphabet %s",
			ErrUnsupported,
			f.spec.Name, f.spec.Alphabet, m.Alphabet.Name)
	}
	return s, nil
}

// checkUnpack checks the arguments of Unpack, and returns the native shape.
func (f *formula) checkUnpack(m *Matrix, src []byte) (Shape, error) {
	s, err := f.checkSize(m, len(src))
	if err != nil {
		return Shape{}, err
	}
	if m.Alphabet.Name != f.spec.Alphabet {
		return Shape{}, fmt.Errorf("%w: layout %s gives %s codes, the matrix is for %s", ErrUnsupported, f.spec.Name,
			f.spec.Alphabet, m.Alphabet.Name)
	}
	return s, nil
}

func (f *formula) checkSize(m *Matrix, have int) (Shape, error) {
	s, err := f.Padded(m.Shape)
	if err != nil {
		return Shape{}, err
	}
	if len(m.Codes) != m.M*m.K {
		return Shape{}, fmt.Errorf("%w: matrix %v has %d codes", ErrCorrupt, m.Shape, len(m.Codes))
	}
	if want := f.size(s); have != want {
		return Shape{}, fmt.Errorf("%w: layout %s: a matrix %v takes %d bytes, there are %d",
			ErrCorrupt, f.spec.Name, m.Shape, want, have)
	}
	return s, nil
}

// checkCodes names the first code that the layout cannot hold.
func (f *formula) checkCodes(m *Matrix) error {
	for i, c := range m.Codes {
		if !f.code.legal[uint8(c)] {
			return fmt.Errorf("%w: code %d at row %d, column %d: layout %s is open for %s codes", ErrCorrupt, c,
				i/m.K, i%m.K,
				f.spec.Name, f.spec.Alphabet)
		}
	}
	return nil
}

func (f *formula) corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: layout %s: %s", ErrCorrupt, f.spec.Name, fmt.Sprintf(format, args...))
}

// field places digit number e of a sequence of fields of the given width, filled from bit 0 upwards.
func field(e, bits int) place {
	perByte := 8 / bits
	return place{At: e / perByte, Bit: bits * (e % perByte), Unit: 1}
}

func up(n, multiple int) int { return (n + multiple - 1) / multiple * multiple }

// roundUp pads rows to a multiple of m and columns to a multiple of k.
func roundUp(m, k int) func(Shape) (Shape, error) {
	return func(s Shape) (Shape, error) { return Shape{M: up(s.M, m), K: up(s.K, k)}, nil }
}

// dense is the size of a layout that spends the same number of bits on each weight of its native shape.
func dense(bits int) func(Shape) int {
	return func(s Shape) int { return s.M * s.K * bits / 8 }
}
