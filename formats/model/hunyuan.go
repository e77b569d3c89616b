package model

import "github.com/lowpack/lowpack/pack"

// HunYuan dense: Llama blocks with norms per head after the rotation.
var hunyuan = family{
	Info: Info{
		Name:          "hunyuan",
		Architectures: []string{"HunYuanDenseV1ForCausalLM"},
		Types:         []string{"hunyuan_v1_dense"},
		Models:        "Hunyuan 0.5B to 7B, HY-1.8B-2bit, Hunyuan-MT, Hy-MT1.5-1.8B-2bit",
	},
	defaults: `{"hidden_act":"silu","max_position_embeddings":2048,"rms_norm_eps":1e-5}`,
	bos:      1,
	eos:      2,
	describe: hunyuanBlocks,
}

// hunyuanBlocks describes HunYuan without experts.
func hunyuanBlocks(k *keys, has shapes) *Description {
	k.refuse("use_cla", false, "layers that share keys and values are not supported")
	k.refuse("use_qk_norm", true, "transformers has the norms of heads always")
	c := sizes(k)
	c.Activation = activation(k, "hidden_act")
	c.RotateFirst = true
	hunyuanRope(k, &c)
	d := describe(k, c, has, false)
	attentionBiases(k, d)
	for i := range d.Blocks {
		d.Blocks[i].QNorm.Weight = d.prefix(i) + "self_attn.query_layernorm.weight"
		d.Blocks[i].KNorm.Weight = d.prefix(i) + "self_attn.key_layernorm.weight"
	}
	checkLayerTypes(k, d)
	return d
}

// hunyuanRope: rope type dynamic with an alpha is another base for all positions, theta·alpha^(dim/(dim − 2)).
func hunyuanRope(k *keys, c *Config) {
	s := ropeKeys(k)
	alpha := s.positive("alpha", maxScaleFactors, 1)
	if kind := s.text("rope_type", s.text("type", "default")); kind != "dynamic" || !s.has("alpha") {
		setRope(k, c, 10000)
		return
	}
	if f := s.positive("factor", maxScaleFactors, 1); f != 1 {
		s.fail(pack.ErrUnsupported, "rope type dynamic with alpha and a factor of %v; supported is 1", f)
	}
	refusePartial(k)
	refusePartial(s)
	if c.HeadDim < 4 {
		s.fail(pack.ErrUnsupported, "rope type dynamic with alpha for heads of %d values; at least 4 are needed",
			c.HeadDim)
	}
	c.Rope = Rope{Dim: c.HeadDim, Theta: ropeBase(k, s, 10000), Alpha: alpha}
	k.take(s)
}
