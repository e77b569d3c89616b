package verify

import (
	"maps"
	"slices"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/quantized"
	"github.com/lowpack/lowpack/formats/safetensors"
)

// dequantize computes weights that are stored in fewer bits, but not as integers times a scale, from the tensors that
// this reader found, and puts them in their place.
func (r *second) dequantize(c *checkpoint.Checkpoint) error {
	if c.Config() == nil || len(c.Views()) == 0 {
		return nil
	}
	scheme, err := quantized.Parse(c.Config(), c)
	if err != nil {
		return err
	}
	stored := maps.Clone(r.tensors)
	read := func(name string, b []byte, off int64) error {
		_, err := stored[name].ReadAt(b, off)
		return err
	}
	look := func(name string) (quantized.Tensor, bool) {
		t, ok := stored[name]
		return quantized.Tensor{Name: name, DType: safetensors.DType(t.dtype), Shape: t.shape}, ok
	}
	found, err := scheme.Values(slices.Sorted(maps.Keys(stored)), look, read)
	if err != nil {
		return err
	}
	for name, v := range found {
		for _, part := range slices.Concat(v.Tensors, v.Ignored) {
			delete(r.tensors, part)
		}
		r.tensors[name] = sourceTensor{dequantized{v, read}, name, string(v.DType), v.Shape, v.Bytes()}
	}
	return nil
}

// dequantized is the data of a weight that becomes floats.
type dequantized struct {
	*quantized.Values
	read quantized.Read
}

func (d dequantized) ReadAt(p []byte, off int64) (int, error) {
	if err := d.Values.ReadAt(p, off, d.read); err != nil {
		return 0, err
	}
	return len(p), nil
}
