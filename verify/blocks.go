package verify

import (
	"slices"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// blockRows are the rows of a matrix that a GGUF stores in blocks: their codes, scales and minima as they are stored,
// and their weights as floats.
type blockRows struct {
	checkpoint.Blocks
	from           *checkpoint.Checkpoint
	t              checkpoint.Tensor // of floats
	group          int
	beyond         int // what codes of the file exceed these by: with minima both count from the lowest of an alphabet
	stored         []byte
	codes          []int8
	scales, minima []float32
	floats         []byte
	weights        []float32
}

// checkBlocks compares codes, zero points, scales and minima with the GGUF. If a scale is 0 there, weights are equal
// whatever their codes are, and the file may store them differently.
func (o *origin) checkBlocks(e *packed.Entry) error {
	t, ok := o.from.Lookup(e.Name)
	b, blocks := o.from.Blocks(t)
	if !ok || !blocks {
		return broken("", "the checkpoint holds no codes for it")
	}
	shape := e.MatrixShape()
	if e.Order || !slices.Equal(t.Shape, e.Shape) {
		return broken("", "the matrix of the checkpoint is %v without an order of columns", t.Shape)
	}
	scales, err := packed.Scales(o.view, e)
	if err != nil {
		return err
	}
	if !e.Scale.DType.Factored() { // which is always signed (F9)
		if err := checkSigned(e, negative(scales)); err != nil {
			return err
		}
	}
	zeros, err := packed.Zeros(o.view, e)
	if err != nil {
		return err
	}
	if zeros == nil {
		zeros = make([]int8, len(scales))
	}
	minima, err := packed.Minima(o.view, e)
	if err != nil {
		return err
	}
	kind, _ := b.Type.Codes()
	a, err := pack.FindAlphabet(e.Layout.Alphabet)
	if err != nil {
		return err
	}
	beyond := 0
	if kind.Minima {
		beyond = int(a.Values[0]) - int(kind.Alphabet.Values[0])
	}
	k, groups := shape.K, shape.K/kind.Group
	return o.sweep(e, func(row int, codes []int8, _ []byte) error {
		r := &blockRows{
			Blocks:  b,
			from:    o.from,
			t:       t,
			group:   kind.Group,
			beyond:  beyond,
			stored:  make([]byte, b.Stored.Shape[1]),
			codes:   make([]int8, k),
			scales:  make([]float32, groups),
			minima:  make([]float32, groups),
			floats:  make([]byte, 4*k),
			weights: make([]float32, k),
		}
		for ; len(codes) > 0; row, codes = row+1, codes[k:] {
			if err := r.read(row); err != nil {
				return err
			}
			for i, c := range codes[:k] {
				at := e.Unit(row, i)
				var minimum *float32
				if minima != nil {
					minimum = &minima[at]
				}
				if err := r.compare(row, i, c, zeros[at], scales[at], minimum); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (r *blockRows) read(row int) error {
	if err := r.from.ReadAt(r.Stored, r.stored, int64(row)*int64(len(r.stored))); err != nil {
		return err
	}
	if err := r.Type.DecodeRow(r.codes, r.scales, r.minima, r.stored); err != nil {
		return err
	}
	if err := r.from.ReadAt(r.t, r.floats, int64(row)*int64(len(r.floats))); err != nil {
		return err
	}
	widen(r.weights, "F32", r.floats)
	return nil
}

// compare judges one weight of the file, of a group that may have a minimum.
func (r *blockRows) compare(row, column int, code, zero int8, scale float32, minimum *float32) error {
	got, g := float32(float32(int(code)-int(zero))*scale), column/r.group
	if minimum != nil {
		if want := r.minima[g]; *minimum != want {
			return broken("", "row %d, column %d: minimum %v; the checkpoint has %v", row, column, *minimum, want)
		}
		got += *minimum
	}
	if want := r.weights[column]; got != want {
		return broken("", "row %d, column %d: code %d, zero point %d and scale %v give %v; the checkpoint has %v", row,
			column, code, zero, scale, got, want)
	}
	if s := r.scales[g] * r.Scale(row); s != 0 && (int(code) != int(r.codes[column])+r.beyond || scale != s) {
		return broken("", "row %d, column %d: code %d with scale %v; in the checkpoint %d with %v", row, column,
			code, scale,
			r.codes[column], s)
	}
	return nil
}
