package quantized

import (
	"slices"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// metal is the affine quantization of transformers for GPUs of Apple: MLX's layout, biases under another name, and
// weights that are computed in float32.
type metal struct {
	mlxMode
}

// metal reads MetalConfig.
func (k *keys) metal() *Scheme {
	k.follow("metal")
	f := metal{mlxMode{"affine", k.integer("bits", 4), k.integer("group_size", 64)}}
	if !slices.Contains([]int{2, 4, 8}, f.bits) || f.group < 1 || f.group > pack.MaxDim {
		k.fail(pack.ErrUnsupported, "bits is %d and group_size %d; supported are 2, 4 and 8 bits", f.bits, f.group)
	}
	return &Scheme{Method: "Metal", layer: f.layer}
}

func (f metal) layer(module string, look Lookup) (*Layer, error) {
	p := &parts{module: module, look: look}
	if !p.has(".scales") {
		return nil, nil
	}
	return f.affine(p, affine{biases: ".qbiases", in: safetensors.F32})
}
