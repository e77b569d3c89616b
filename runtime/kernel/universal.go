package kernel

import (
	"fmt"

	"github.com/lowpack/lowpack/pack"
)

// universal makes the kernel that serves every layout: Bind turns the matrix into int8 panels of layout vnni4-64, which
// the given functions multiply.
func universal(isa ISA, f family, o operands) *Kernel {
	return &Kernel{
		Layout: "*", ISA: isa, step: 4, About: "unpacked once into int8 panels",
		bind: func(w *Weights) (product, error) {
			l, err := pack.Open(pack.Spec{Name: "vnni4-64", Alphabet: pack.Int8.Name})
			if err != nil {
				return nil, err
			}
			wide := l.(pack.Paneled)
			if err := repack(w, wide); err != nil {
				return nil, err
			}
			return newTiled(w, wide, w.own.bytes, f, o)
		},
	}
}

// repack fills w.own with the matrix in layout l for int8. It works on some rows at a time where the layout of w has row
// panels, so that the codes of the whole matrix are not held.
func repack(w *Weights, l pack.Paneled) error {
	alphabet, err := pack.FindAlphabet(w.Layout.Spec().Alphabet)
	if err != nil {
		return err
	}
	size, err := l.PackedSize(w.Shape)
	if err != nil {
		return err
	}
	if err := w.own.alloc(size); err != nil {
		return err
	}
	w.bytes = size
	rows := w.Shape.M
	if from, ok := w.Layout.(pack.Paneled); ok {
		rows = min(rows, lcm(from.PanelRows(), l.PanelRows()))
	}
	var codes memory
	if err := codes.alloc(rows * w.Shape.K); err != nil {
		return err
	}
	defer codes.free()
	in, out := w.packed, w.own.bytes
	for m := 0; m < w.Shape.M; m += rows {
		part := pack.Shape{M: min(rows, w.Shape.M-m), K: w.Shape.K}
		matrix := &pack.Matrix{Shape: part, Alphabet: alphabet, Codes: asInt8(codes.bytes[:part.M*part.K])}
		if in, err = cut(in, w.Layout, part, func(b []byte) error { return w.Layout.Unpack(matrix, b) }); err != nil {
			return fmt.Errorf("rows from %d: %w", m, err)
		}
		if out, err = cut(out, l, part, func(b []byte) error { return l.Pack(b, matrix) }); err != nil {
			return fmt.Errorf("rows from %d: %w", m, err)
		}
	}
	return nil
}

// cut gives f the bytes of a matrix of shape s at the beginning of b and returns the rest.
func cut(b []byte, l pack.Layout, s pack.Shape, f func([]byte) error) ([]byte, error) {
	n, err := l.PackedSize(s)
	if err != nil {
		return nil, err
	}
	return b[n:], f(b[:n])
}

func lcm(a, b int) int {
	g := a
	for r := b; r != 0; {
		g, r = r, g%r
	}
	return a / g * b
}
