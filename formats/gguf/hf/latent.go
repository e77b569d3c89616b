package hf

import (
	"fmt"
	"strings"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/pack"
)

// Multi-head latent attention: llama.cpp multiplies queries by the keys' matrices of the heads, transposed, and the
// outputs by those of the values. A checkpoint has both in one tensor, head by head, and so have old files.

// Parts of a block with the matrices of latent attention: of keys and values, as checkpoints have them, and apart.
const (
	LatentKV     = "attn_kv_b" // [heads·(keys + values), rank]
	LatentKeys   = "attn_k_b"  // [heads, rank, keys]
	LatentValues = "attn_v_b"  // [heads, values, rank]
)

// Keys of latent attention, after the name of the architecture.
const (
	latentRank  = ".attention.kv_lora_rank"
	queryRank   = ".attention.q_lora_rank"
	keyOfHead   = ".attention.key_length_mla"
	valueOfHead = ".attention.value_length_mla"
	yarnLogMul  = ".rope.scaling.yarn_log_multiplier"
	temperature = ".attention.temperature_scale"
)

var latentKeys = []string{latentRank, queryRank, keyOfHead, valueOfHead, yarnLogMul}

// latentEps is the epsilon of the norms of latent vectors in transformers, whatever config.json says.
const latentEps = 1e-6

// lite reports whether llama.cpp takes a model of these sizes for one without a rank of queries.
func lite(layers, vocab int64) bool {
	return layers == 26 || layers == 27 || layers == 48 && vocab == 128256
}

// latentConfig sets the sizes of latent attention. Old files have no keys for the heads of their own.
func (f *File) latentConfig(k *keys, c map[string]any) {
	rotated, key, value := k.must(".rope.dimension_count"), keyOfHead, valueOfHead
	if _, there := k.get(key); !there {
		key, value = ".attention.key_length", ".attention.value_length"
	}
	c["kv_lora_rank"], c["qk_rope_head_dim"] = k.must(latentRank), rotated
	c["qk_nope_head_dim"], c["v_head_dim"] = k.must(key)-rotated, k.must(value)
	c["num_key_value_heads"], c["q_lora_rank"] = c["num_attention_heads"], nil
	delete(c, "head_dim")
	vocab, _ := c["vocab_size"].(int64)
	if rank, _ := k.count(queryRank); rank > 0 && !lite(k.layers(), vocab) {
		c["q_lora_rank"] = rank
	}
	if n, ok := k.number(temperature); ok && n != 0 {
		k.fail(pack.ErrUnsupported, "key %q is %v", k.name(temperature), n)
	}
	if s, ok := c["rope_scaling"].(map[string]any); ok {
		latentScaling(k, s)
	}
}

// latentScaling sets the factor of scores. llama.cpp multiplies scores by the logarithm of any scaling, and sines and
// cosines only without a key for that of scores: then, and for other scalings than YaRN, there is no such config.json.
func latentScaling(k *keys, s map[string]any) {
	n, _ := k.number(yarnLogMul)
	if s["rope_type"] != "yarn" || n <= 0 {
		k.fail(pack.ErrUnsupported, "rotary scaling of type %v with %v in key %q: llama.cpp scales scores as no "+
			"config.json can say", s["rope_type"], n, k.name(yarnLogMul))
		return
	}
	all := shortest(float64(n)*10, func(x float64) bool { return float32(0.1*x) == float32(n) })
	s["mscale"], s["mscale_all_dim"] = all, all
}

func deepseek3Config(f *File, k *keys, c map[string]any) {
	keyedRoutes(k, c)
	f.latentConfig(k, c)
	c["num_nextn_predict_layers"] = 0 // left out
}

// deepseek2Config: config.json can say neither that weights sum to 1 nor that groups are chosen by two experts.
func deepseek2Config(f *File, k *keys, c map[string]any) {
	keyedRoutes(k, c)
	f.latentConfig(k, c)
	c["topk_method"] = "greedy"
	if groups, _ := k.count(groupCount); groups > 1 {
		k.fail(pack.ErrUnsupported, "key %q is %d, with a softmax", k.name(groupCount), groups)
	}
	if k.flag(weightsNorm, false) {
		k.fail(pack.ErrUnsupported, "key %q is true, with a softmax", k.name(weightsNorm))
	}
}

// fitsLatent rejects latent attention that llama.cpp computes otherwise.
func fitsLatent(d *model.Description) error {
	l, y := d.Latent, d.Rope.Yarn
	switch own := d.Blocks[0].MLA.QUp.Weight != ""; {
	case !d.Rope.Pairs:
		return refuse("halves of heads rotate (rope_interleave false); llama.cpp rotates adjacent values")
	case d.NormEps != latentEps:
		return refuse("rms_norm_eps is %v: transformers has %v in the norms of latent vectors, and llama.cpp the same "+
			"in all", d.NormEps, latentEps)
	case own && lite(int64(d.Layers), int64(d.Vocab)):
		return refuse("q_lora_rank with %d layers: llama.cpp takes models of so many for ones without", d.Layers)
	case d.Rope.Linear != 0:
		return refuse("rotary scaling of type linear: llama.cpp scales scores too")
	case y == nil:
		return nil
	case y.Attention != 0 || y.MScale == 0 || y.MScale != y.MScaleAllDim || y.Factor < 1 || y.Factor != l.Factor:
		return refuse("yarn with mscale %v, mscale_all_dim %v, attention_factor %v and factor %v: llama.cpp computes "+
			"with mscale and mscale_all_dim that are the same, and a factor of at least 1", y.MScale, y.MScaleAllDim,
			y.Attention, y.Factor)
	}
	return nil
}

// latentPart joins the matrices of keys and values of a block in t; false: name is none of them. Those of values alone
// make no tensor.
func (f *File) latentPart(family *family, name string, t *Tensor) (joined bool, err error) {
	prefix, part, _ := strings.Cut(strings.TrimPrefix(name, "blk."), ".")
	if !family.latent || part != LatentKeys+".weight" && part != LatentValues+".weight" {
		return false, nil
	}
	prefix = "blk." + prefix + "."
	keys, ok := f.Tensors[prefix+LatentKeys+".weight"]
	values, ok2 := f.Tensors[prefix+LatentValues+".weight"]
	a, b := keys.Shape, values.Shape
	switch {
	case !ok || !ok2:
		return true, fmt.Errorf("%w: %q and %q, one of which is missing, belong together", pack.ErrCorrupt,
			LatentKeys, LatentValues)
	case len(a) != 3 || len(b) != 3 || a[0] != b[0] || a[1] != b[2]:
		return true, fmt.Errorf("%w: shapes %v and %v of keys and values do not fit", pack.ErrCorrupt, a, b)
	case part == LatentValues+".weight":
		return true, nil
	}
	if t.Name, _, err = family.rename(prefix + LatentKV + ".weight"); err == nil {
		t.Values = &values
	}
	return true, err
}

// Shape of the tensor in the checkpoint.
func (t *Tensor) Shape() []int64 {
	if t.Values == nil {
		return t.From.Shape
	}
	a, b := t.From.Shape, t.Values.Shape
	return []int64{a[0] * (a[2] + b[1]), a[1]}
}

// scored selects files whose router has a score by its key.
func scored(score model.Score) func(k *keys) bool {
	return func(k *keys) bool {
		n, _ := k.count(gatingFunc)
		return n == gatings[score]
	}
}
