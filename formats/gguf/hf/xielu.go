package hf

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/pack"
)

// xieluKeys are llama.cpp's keys of the parameters of xIELU, with a number for each block, and the tensors that a
// checkpoint has in their place, after the prefix of a block. Two of these have a dimension.
var xieluKeys = []struct {
	key, tensor string
	shape       []int64
}{
	{"xielu.alpha_p", "mlp.act_fn.alpha_p", []int64{1}},
	{"xielu.alpha_n", "mlp.act_fn.alpha_n", []int64{1}},
	{"xielu.beta", "mlp.act_fn.beta", nil},
	{"xielu.eps", "mlp.act_fn.eps", nil},
}

// xieluTensors are the tensors of all blocks. A key may have one number for all of them.
func xieluTensors(k *keys) (list []Tensor) {
	for _, x := range xieluKeys {
		v, there := k.get(x.key)
		numbers, ok := v.Floats()
		if one, single := v.Float(); there && single {
			numbers, ok = nil, true
			for range k.layers() {
				numbers = append(numbers, one)
			}
		}
		if int64(len(numbers)) != k.layers() || !ok {
			k.fail(pack.ErrCorrupt, "key %q must have a number for each of %d blocks", x.key, k.layers())
			return nil
		}
		for i, n := range numbers {
			if n-n != 0 {
				k.fail(pack.ErrCorrupt, "key %q: number %d is %v", x.key, i, n)
				return nil
			}
			list = append(list, Tensor{Name: fmt.Sprint(usualBlocks, i, ".", x.tensor),
				From: gguf.TensorInfo{Name: x.key, Shape: x.shape}, Numbers: []float32{float32(n)}})
		}
	}
	return list
}
