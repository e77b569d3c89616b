package checkpoint

import (
	"cmp"

	"github.com/lowpack/lowpack/formats/gguf/hf"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/transpose"
)

// joined is the tensor of keys and values of latent attention, whose parts a GGUF has in two tensors: for each head the
// rows of its keys, which are stored transposed, and those of its values.
type joined struct {
	keys, values     *view
	rank, key, value int64 // columns, and rows of a head
	element          int64 // bytes
}

// joined returns the view of two tensors and its element type, F32 if they have different ones.
func (g *ggufFile) joined(t hf.Tensor) (*joined, safetensors.DType, error) {
	keys, dtype, err1 := g.view(hf.Tensor{From: t.From})
	values, other, err2 := g.view(hf.Tensor{From: *t.Values})
	if err := cmp.Or(err1, err2); err != nil {
		return nil, "", err
	}
	if dtype != other {
		dtype = safetensors.F32
		for _, v := range []*view{keys, values} {
			v.raw, v.size = "", dtype.Size()*int64(v.columns)
		}
	}
	return &joined{keys, values, t.From.Shape[1], t.From.Shape[2], t.Values.Shape[1], dtype.Size()}, dtype, nil
}

// readAt fills p with bytes starting at off.
func (j *joined) readAt(p []byte, off int64) error {
	size := (j.key + j.value) * j.rank * j.element
	for len(p) > 0 {
		head, err := j.head(off / size)
		if err != nil {
			return err
		}
		n := copy(p, head[off%size:])
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// head returns the rows of a head.
func (j *joined) head(number int64) ([]byte, error) {
	keys := make([]byte, j.rank*j.key*j.element)
	if err := j.keys.readAt(keys, number*int64(len(keys))); err != nil {
		return nil, err
	}
	values := make([]byte, j.value*j.rank*j.element)
	if err := j.values.readAt(values, number*int64(len(values))); err != nil {
		return nil, err
	}
	return append(transpose.Bytes(keys, int(j.rank), int(j.key)), values...), nil
}
