package quantized

import (
	"strings"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// fp8 are 8-bit floats of transformers, DeepSeek and AutoFP8.
type fp8 struct {
	block [2]int            // rows and columns that share a scale; 0 = all
	of    safetensors.DType // of the weights
}

// Suffixes of the scales, which multiply under either name.
var fp8Scales = []string{".weight_scale_inv", ".weight_scale"}

// fp8 reads FineGrainedFP8Config, which is that of MXFP8 too, and its predecessors. transformers rounds weights to the
// dtype of the model.
func (k *keys) fp8() *Scheme {
	k.follow("fp8")
	f := &fp8{of: k.weightType()}
	if k.v.Get("weight_block_size") != nil {
		f.block = k.pair("weight_block_size")
	}
	if got := k.text("fmt", "e4m3"); got != "e4m3" && got != "float8_e4m3fn" { // MiniMax-M2 has its name in PyTorch
		k.fail(pack.ErrUnsupported, "fmt %q; supported is e4m3, or float8_e4m3fn", got)
	}
	if got := k.text("expert_dtype", "fp8"); got != "fp8" {
		k.fail(pack.ErrUnsupported, "expert_dtype %q; supported is fp8", got)
	}
	if scheme := k.text("activation_scheme", "dynamic"); scheme != "" {
		k.detail("activation_scheme %s is not followed: %s", scheme, floatActivations)
	}
	return &Scheme{Method: "FP8", values: f.values}
}

// weightTypes are the types of weights by their name in config.json.
var weightTypes = map[string]safetensors.DType{"float32": safetensors.F32, "float16": safetensors.F16,
	"bfloat16": safetensors.BF16}

// weightType returns the dtype of the model, which models with images may have in text_config.
func (k *keys) weightType() safetensors.DType {
	for _, v := range []*jsonread.Value{k.model, k.model.Get("text_config")} {
		for _, key := range []string{"dtype", "torch_dtype"} {
			if v == nil || v.Get(key) == nil {
				continue
			}
			name, _ := v.Get(key).Str()
			t, ok := weightTypes[strings.TrimPrefix(name, "torch.")]
			if !ok {
				k.fail(pack.ErrUnsupported, "%s is %s beside it; supported are bfloat16, float16 and float32", key,
					show(v.Get(key)))
			}
			return t
		}
	}
	k.fail(pack.ErrUnsupported, "config.json has no dtype, to which transformers rounds the weights: add it, "+
		"as in \"dtype\": \"bfloat16\"")
	return safetensors.BF16
}

func (f *fp8) values(name string, look Lookup, _ Read) (*Values, error) {
	module, weight := strings.CutSuffix(name, ".weight")
	w, _ := look(name)
	switch {
	case w.DType != e4m3:
		return nil, nil
	case weight:
	case len(w.Shape) == 3:
		return f.experts(name, look)
	default:
		return nil, nil
	}
	p := &parts{module: module, look: look}
	scale := fp8Scales[0]
	if !p.has(scale) && p.has(fp8Scales[1]) {
		scale = fp8Scales[1]
	}
	e := p.eight(".weight", scale, f.block)
	p.ignore(".input_scale", ".activation_scale")
	return e.values(p, name, f.of)
}

// experts describes the weights of all experts in one tensor, as FP8Experts of transformers has them. Without
// weight_block_size gate and up, which follow one another in the rows, have a scale each.
func (f *fp8) experts(name string, look Lookup) (*Values, error) {
	const scale = "_scale_inv"
	p := &parts{module: name, look: look}
	block := f.block
	if s, _ := look(name + scale); block == [2]int{} && len(s.Shape) == 3 && s.Shape[1] == 2 {
		w, _ := look(name)
		block[0] = w.Shape[1] / 2
	}
	e := p.eightIn(p.experts(""), "", scale, block, gridScales)
	if e.rows%e.block[0] != 0 || e.columns%e.block[1] != 0 {
		p.fail(pack.ErrUnsupported, "%d rows and %d columns of an expert are not whole blocks of %d and %d", e.rows,
			e.columns, e.block[0], e.block[1])
	}
	p.ignore("_activation_scale")
	return e.values(p, name, f.of)
}
