package kernel

import (
	"fmt"

	"github.com/lowpack/lowpack/internal/offheap"
	"github.com/lowpack/lowpack/pack"
)

// repacked is the method that serves every layout: Bind repacks the matrix at load time into panels of 32 rows, of the
// narrowest layout that the instruction set has a kernel for, and leaves multiplying to that.
func repacked(isa ISA) method {
	return method{
		groupStep: 4, copies: true, about: "repacked at load time into panels of 32 rows",
		bind: func(w *Weights) (product, error) {
			k, l, err := panelsFor(isa, w)
			if err != nil {
				return nil, err
			}
			if err := repack(w, l); err != nil {
				return nil, err
			}
			inner := &Weights{Kernel: k, Layout: l, Shape: w.Shape, Group: w.Group, packed: w.own.Bytes,
				scaling: w.scaling, forced: w.forced}
			p, err := k.bind(inner)
			w.rows, w.bytes = inner.rows, len(w.own.Bytes)
			return p, err
		},
	}
}

// panelsFor finds the layout for the codes of w and its kernel. Int8 holds whatever no narrower layout does.
func panelsFor(isa ISA, w *Weights) (*Kernel, pack.Paneled, error) {
	for _, spec := range []pack.Spec{
		{Name: "vnni4i", Alphabet: w.Layout.Spec().Alphabet},
		{Name: "vnni4", Alphabet: w.Layout.Spec().Alphabet},
		{Name: "vnni4", Alphabet: pack.Int8.Name},
	} {
		l, err := pack.Open(spec)
		if err != nil {
			continue // not an alphabet of that layout
		}
		for _, k := range kernels {
			if k.ISA == isa && k.Layout == spec.Name && k.serves(l.Spec()) && k.checkGroup(w.Shape.K, w.Group) == nil {
				return k, l.(pack.Paneled), nil
			}
		}
	}
	return nil, nil, fmt.Errorf("%w: no %s kernel for groups of %d columns", pack.ErrUnsupported, isa, w.Group)
}

// repack fills w.own with the matrix in layout l. If the layout of w has row panels, it works on some rows at a time,
// so that the codes of the whole matrix are never in memory.
func repack(w *Weights, l pack.Paneled) error {
	from, err := pack.FindAlphabet(w.Layout.Spec().Alphabet)
	if err != nil {
		return err
	}
	size, err := l.PackedSize(w.Shape)
	if err != nil {
		return err
	}
	if w.own, err = ownMemory.New(size); err != nil {
		return err
	}
	rows := w.Shape.M
	if p, ok := w.Layout.(pack.Paneled); ok {
		rows = min(rows, lcm(p.PanelRows(), l.PanelRows()))
	}
	codes, err := offheap.New(rows * w.Shape.K)
	if err != nil {
		return err
	}
	defer codes.Free()
	in, out := w.packed, w.own.Bytes
	for m := 0; m < w.Shape.M; m += rows {
		part := pack.Shape{M: min(rows, w.Shape.M-m), K: w.Shape.K}
		matrix := &pack.Matrix{Shape: part, Alphabet: from, Codes: asInt8(codes.Bytes[:part.M*part.K])}
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
