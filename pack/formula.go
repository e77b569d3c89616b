package pack

import "fmt"

// place is where one digit goes: it is added to byte At after multiplication by Unit. A 2-bit field at bit n has unit
// 2ⁿ, a base-3 digit a power of three.
type place struct{ At, Unit int }

// formula is the definition of a layout as an address formula: where each digit of each weight goes. It is also a plain
// implementation of Layout, one weight at a time: layouts that models run with add faster methods, which tests compare
// with these.
type formula struct {
	spec  Spec
	code  code
	radix int // a digit is 0..radix−1

	// padded is the shape that the bytes really hold, native to the layout.
	padded func(Shape) (Shape, error)
	// size is the number of bytes of a native shape.
	size func(Shape) int
	// at places weight (m, k) of a matrix of native shape s.
	at func(s Shape, m, k int) place

	planes int             // places per weight, more than one where bits are stored apart: digit i of the digit, in radix
	plane  func(i int) int // what plane i adds to At of plane 0
	seal   *[256]uint8     // stored byte of a sum of digits; nil when it is the sum itself
}

func (f *formula) Spec() Spec { return cloneSpec(f.spec) }

// Padded is the shape that the packed bytes hold: s with the rows and columns of padding.
func (f *formula) Padded(s Shape) (Shape, error) {
	if err := s.Check(); err != nil {
		return Shape{}, err
	}
	return f.padded(s)
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
	open := f.opened()
	for row := range m.M {
		for col := range m.K {
			v, ok := f.code.value(f.digit(src, open, f.at(s, row, col)))
			if !ok {
				return f.corrupt("the digit of row %d, column %d stands for no weight", row, col)
			}
			m.Codes[row*m.K+col] = v
		}
	}
	return f.checkSame(m, s, src)
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
			f.put(dst, f.at(s, row, col), int(digit))
		}
	}
	if f.seal != nil {
		for i, b := range dst {
			dst[i] = f.seal[b]
		}
	}
}

func (f *formula) put(dst []byte, p place, digit int) {
	if f.planes <= 1 {
		dst[p.At] += uint8(digit * p.Unit)
		return
	}
	for i := range f.planes {
		dst[p.At+f.plane(i)] += uint8(digit % f.radix * p.Unit)
		digit /= f.radix
	}
}

func (f *formula) digit(src []byte, open *[256]uint8, p place) int {
	if f.planes <= 1 {
		return int(open[src[p.At]]) / p.Unit % f.radix
	}
	digit := 0
	for i := f.planes - 1; i >= 0; i-- {
		digit = digit*f.radix + int(open[src[p.At+f.plane(i)]])/p.Unit%f.radix
	}
	return digit
}

// opened inverts seal. Bytes that seal never gives come out as some number; checkSame refuses them.
func (f *formula) opened() *[256]uint8 {
	var open [256]uint8
	for i := range 256 {
		if f.seal == nil {
			open[i] = uint8(i)
		} else {
			open[f.seal[i]] = uint8(i)
		}
	}
	return &open
}

// checkSame refuses bytes that are not what Pack writes for the codes found in them: dirty padding and sums of digits
// that no digits give.
func (f *formula) checkSame(m *Matrix, s Shape, src []byte) error {
	again := make([]byte, len(src))
	f.write(again, m, s)
	for i, b := range src {
		if b != again[i] {
			return f.corrupt("byte %d is %#02x where the codes and the padding that it holds pack to %#02x", i, b, again[i])
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
		return Shape{}, fmt.Errorf("%w: layout %s is open for %s codes and cannot hold those of alphabet %s", ErrUnsupported, f.spec.Name, f.spec.Alphabet, m.Alphabet.Name)
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
		return Shape{}, fmt.Errorf("%w: layout %s gives %s codes, the matrix is for %s", ErrUnsupported, f.spec.Name, f.spec.Alphabet, m.Alphabet.Name)
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
		return Shape{}, fmt.Errorf("%w: layout %s: a matrix %v takes %d bytes, there are %d", ErrCorrupt, f.spec.Name, m.Shape, want, have)
	}
	return s, nil
}

// checkCodes names the first code that the layout cannot hold.
func (f *formula) checkCodes(m *Matrix) error {
	for i, c := range m.Codes {
		if !f.code.legal[uint8(c)] {
			return fmt.Errorf("%w: code %d at row %d, column %d: layout %s is open for %s codes", ErrCorrupt, c, i/m.K, i%m.K, f.spec.Name, f.spec.Alphabet)
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
	return place{At: e / perByte, Unit: 1 << (bits * (e % perByte))}
}

func up(n, multiple int) int { return (n + multiple - 1) / multiple * multiple }

// roundUp pads rows to a multiple of m and columns to a multiple of k.
func roundUp(m, k int) func(Shape) (Shape, error) {
	return func(s Shape) (Shape, error) { return Shape{M: up(s.M, m), K: up(s.K, k)}, nil }
}

// dense is the size of a layout that spends the same number of bits on each weight of its native shape.
func dense(bits int) func(Shape) int {
	return func(s Shape) int { return s.M * s.K / 8 * bits }
}
