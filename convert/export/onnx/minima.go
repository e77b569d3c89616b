package onnx

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/lowpack/lowpack/convert/export/internal/folder"
	"github.com/lowpack/lowpack/formats/packed"
)

// Minima (FORMAT F25) have a product of their own, as in NUMERICS N39: with the sums of the activations over the
// columns that share a minimum. As a zero point, a minimum would be divided by its scale, which rounds, and fails for
// a scale of 0.

// plusMinima adds the products of minima and sums of activations to those of codes.
func (d *decoder) plusMinima(y, sums, minima, out string) string {
	m := d.contrib("FusedMatMul", []string{sums, minima}, out+"/minima", attribute{"transB", int64(1)})
	return d.op("Add", []string{y, m}, out)
}

// sums returns the sums of x over the blocks of a form.
func (d *decoder) sums(x string, f *form) string {
	from := d.filled(x, f.entry.MatrixShape().K, f.blocks()*f.block)
	return d.once(fmt.Sprintf("%s/sums.%d", x, f.block), func(out string) {
		d.summed(from, f.blocks(), f.block, out, false)
	})
}

// summed adds up each block of columns.
func (d *decoder) summed(x string, blocks, block int, out string, keep bool) string {
	dims := attribute{"keepdims", int64(0)}
	if keep {
		dims.value = int64(1)
	}
	split := d.op("Reshape", []string{x, d.ints(0, 0, int64(blocks), int64(block))}, out+"/blocks")
	return d.op("ReduceSum", []string{split, d.ints(-1)}, out, dims)
}

// codeSums returns s of N39: for each group of columns that share a minimum, the sums of activation codes over its
// blocks, integers of at most 127 · 33,025 that float32 adds exactly, times the scale of the activations of each block.
func (d *decoder) codeSums(x string, n *integers) string {
	codes, step := d.quantized(d.groups(x, n))
	return d.once(fmt.Sprintf("%s/sums.%d", codes, n.entry.Scale.Group), func(out string) {
		if n.grouped() {
			step = d.repeated(step, n)
		} else {
			step = d.op("Unsqueeze", []string{step, d.ints(-1)}, out+"/step")
		}
		s := d.summed(codes, n.blocks, n.block, out+"/integers", true)
		s = d.op("Mul", []string{s, step}, out+"/scaled")
		if more := n.minima()*n.perMinimum() - n.blocks; more > 0 {
			s = d.op("Pad", []string{s, d.ints(0, 0, 0, 0, 0, 0, int64(more), 0)}, out+"/filled")
		}
		d.summed(s, n.minima(), n.perMinimum(), out, false)
	})
}

// perMinimum is the number of blocks that share a minimum.
func (n *integers) perMinimum() int {
	return max(1, n.entry.Scale.Group/n.block)
}

// minima is the number of minima of a row, those of blocks that fill up included.
func (n *integers) minima() int { return (n.blocks + n.perMinimum() - 1) / n.perMinimum() }

func (n *integers) minimaDims() []int64 { return n.dims(n.entry.MatrixShape().M, n.minima()) }

// writeMinima writes the minima, row after row, 0 for blocks that fill up.
func (n *integers) writeMinima(v *packed.File, w io.Writer) error {
	minima, err := folder.Minima(v, n.entry)
	if err != nil {
		return err
	}
	row, groups := make([]float32, n.minima()), n.entry.Groups()
	for r := range n.entry.Rows() {
		copy(row, minima[r*groups:][:groups])
		if err := binary.Write(w, binary.LittleEndian, row); err != nil {
			return err
		}
	}
	return nil
}
