package quantized

import (
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// fbgemm are 8-bit floats of FBGEMM by transformers, with a scale per row. transformers 5.23 runs such models in BF16,
// whatever their dtype is, and their products round element · scale to it.
type fbgemm struct {
	file   string
	floats []string // names of modules that are floats
}

// fbgemm reads FbgemmFp8Config.
func (k *keys) fbgemm() *Scheme {
	k.follow("fbgemm_fp8")
	f := fbgemm{file: k.file}
	if k.v.Get("modules_to_not_convert") != nil {
		f.floats = k.texts("modules_to_not_convert")
	}
	if v := k.v.Get("activation_scale_ub"); v != nil && v.Kind != jsonread.Number {
		k.fail(pack.ErrCorrupt, "activation_scale_ub is %s, not a number", v.Kind)
	}
	k.detail("activations are not quantized to 8-bit floats up to activation_scale_ub: %s", floatActivations)
	return &Scheme{Method: "FBGEMM FP8", values: f.values}
}

func (f fbgemm) values(name string, look Lookup, _ Read) (*Values, error) {
	w, _ := look(name)
	if w.DType != e4m3 {
		return nil, nil
	}
	module, weight := strings.CutSuffix(name, ".weight")
	p := &parts{module: module, look: look}
	if f.isFloat(module) {
		p.fail(pack.ErrCorrupt, "its weight has type %s, but modules_to_not_convert in %s names it", e4m3, f.file)
	}
	if !weight {
		return f.experts(p, w)
	}
	e := p.eight(".weight", ".weight_scale", [2]int{1, 0})
	p.ignore(".input_scale_ub")
	return e.values(p, name, safetensors.BF16)
}

// experts describes the weights of all experts of Llama 4 in one tensor, [experts, columns, rows]. The scales of rows
// are in a dimension of their own, of gate and up the last one, of down the second.
func (f fbgemm) experts(p *parts, w Tensor) (*Values, error) {
	if len(w.Shape) != 3 {
		p.fail(pack.ErrCorrupt, "tensor %q has shape %v; want that of all experts, with 3 dimensions", w.Name, w.Shape)
		return nil, p.err
	}
	down := strings.HasSuffix(w.Name, ".down_proj")
	e := p.eightIn(p.experts(""), "", "_scale", [2]int{0, 1}, func(grid [2]int) []int {
		if down {
			return []int{grid[1], grid[0]}
		}
		return grid[:]
	})
	return e.values(p, w.Name, safetensors.BF16)
}

// isFloat reports whether a module is named, or one around it, or what its name ends in. Regular expressions, which
// transformers takes names for too, are not looked at.
func (f fbgemm) isFloat(module string) bool {
	return slices.ContainsFunc(f.floats, func(name string) bool {
		return strings.HasPrefix(module+".", name+".") || strings.HasSuffix("."+module, "."+name)
	})
}
