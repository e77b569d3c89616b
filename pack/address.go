package pack

import "fmt"

// Addressed tells where the weights of a matrix lie in its packed bytes. Every layout and every exchange format of this
// package implements it.
type Addressed interface {
	Spec() Spec
	// Padded is the shape that the packed bytes hold: s with the rows and columns of padding.
	Padded(s Shape) (Shape, error)
	// Places are the places of the digits of weight (m, k), which may be padding: one, or one per part where a layout
	// stores bits of a digit apart, the lowest first.
	Places(s Shape, m, k int) ([]Place, error)
	// CodeTable lists the digits and the values that they stand for.
	CodeTable() []Digit
}

// Place is where a digit lies: times Unit it is part of the number in bits Bit … Bit+Bits−1 of byte Byte.
type Place struct{ Byte, Bit, Bits, Unit int }

// Digit is a line of a code table.
type Digit struct {
	Digit int
	Value int8
}

// Rule is a clause of an address formula, in the integer arithmetic of Go but with ^ for powers. It speaks of weight
// (m, k) of a matrix with M rows and K columns, padding included, of the parameters of the layout, of the bits of a
// digit (bits), and of what Let defines. The tests evaluate every rule and compare it with the layout.
type Rule struct {
	Name string   // what it places, where a weight has several places
	When string   // the weights that it is about; "" = all
	Let  []string // name = expression, one after the other
	Byte string
	Bit  string // "" = 0
	Unit string // "" = 1
}

// OpenAddressed opens a layout or an exchange format for its addresses alone.
func OpenAddressed(s Spec) (Addressed, error) {
	d, err := find(s.Name)
	if err != nil {
		return nil, err
	}
	if d.blocks != nil {
		b, err := OpenBlocks(s.Name)
		if err != nil {
			return nil, err
		}
		return b.(Addressed), nil
	}
	l, err := Open(s)
	if err != nil {
		return nil, err
	}
	return l.(Addressed), nil
}

// Places implements Addressed.
func (f *formula) Places(s Shape, m, k int) ([]Place, error) {
	native, err := f.checkPlace(s, m, k)
	if err != nil {
		return nil, err
	}
	if f.plane == nil {
		p := f.at(native, m, k)
		return []Place{{p.At, p.Bit, f.cell, p.Unit}}, nil
	}
	var places []Place
	for i, bits := range f.planes {
		p := f.plane(native, m, k, i)
		places = append(places, Place{p.At, p.Bit, bits, p.Unit})
	}
	return places, nil
}

// checkPlace returns the native shape of s, which weight (m, k) must belong to.
func (f *formula) checkPlace(s Shape, m, k int) (Shape, error) {
	native, err := f.Padded(s)
	if err != nil {
		return Shape{}, err
	}
	if m < 0 || k < 0 || m >= native.M || k >= native.K {
		return Shape{}, fmt.Errorf("%w: layout %s: there is no weight (%d, %d) in a matrix %v, %v with padding",
			ErrLimit,
			f.spec.Name, m, k, s, native)
	}
	return native, nil
}

// CodeTable implements Addressed.
func (f *formula) CodeTable() []Digit {
	var table []Digit
	for digit := range f.code.values {
		if v, ok := f.code.value(digit); ok {
			table = append(table, Digit{digit, v})
		}
	}
	return table
}

// Places implements Addressed: a triple has a magnitude and a sign, a pair is one number.
func (l *tl2) Places(s Shape, m, k int) ([]Place, error) {
	native, err := l.checkPlace(s, m, k)
	if err != nil {
		return nil, err
	}
	t := l.streams(native)
	if k >= t.k3 {
		at, bit := t.pair(m, (k-t.k3)/2)
		return []Place{{at, bit, 4, 3 - (k-t.k3)%2*2}}, nil
	}
	at, bit := t.magnitude(m, k/3)
	sign, signBit := t.sign(m, k/3)
	return []Place{{at, bit, 4, [...]int{9, 3, 1}[k%3]}, {sign, signBit, 1, 1}}, nil
}
