package model

import "github.com/lowpack/lowpack/pack"

// GPT-NeoX: attention and MLP side by side behind LayerNorms of their own, a rotation of a quarter of each head, the
// queries, keys and values of each head one after another in one tensor.
var gptneox = family{
	Info: Info{
		Name:          "gpt_neox",
		Architectures: []string{"GPTNeoXForCausalLM"},
		Types:         []string{"gpt_neox"},
		Models:        "Pythia, GPT-NeoX-20B, Dolly 2, StableLM 3B and 7B alpha, RedPajama-INCITE",
	},
	defaults: `{"hidden_act":"gelu","max_position_embeddings":2048,"layer_norm_eps":1e-5}`,
	bos:      0,
	eos:      2,
	describe: func(k *keys, _ shapes) *Description {
		c := learnedSizes(k, "intermediate_size")
		c.NormEps = float32(k.positive("layer_norm_eps", 1, 0))
		c.Activation = activation(k, "hidden_act")
		neoxRope(k, &c)
		k.known("classifier_dropout", "classifier_dropout_rate")
		d := describe(k, c, nil, false) // the head has another name
		neoxBlocks(k, d, k.flag("attention_bias", true))
		d.Parallel = k.flag("use_parallel_residual", true)
		checkLayerTypes(k, d)
		return d
	},
}

// neoxRope reads the rotary embedding under the family's own keys.
func neoxRope(k *keys, c *Config) {
	s := ropeKeys(k)
	for _, name := range []string{"rope_theta", "partial_rotary_factor"} {
		if k.has(name) {
			k.fail(pack.ErrUnsupported, "%s, which transformers ignores in this architecture; it is in "+
				"rope_parameters, or else called rotary_emb_base and rotary_pct", name)
		}
	}
	partial := s.positive("partial_rotary_factor", 1, k.positive("rotary_pct", 1, 0.25))
	c.Rope = Rope{Dim: rotated(k, c, partial),
		Theta: s.positive("rope_theta", maxRopeTheta, k.positive("rotary_emb_base", maxRopeTheta, 10000))}
	scale(s, c, k.countOr("original_max_position_embeddings", maxPositions, 0))
	k.take(s)
}

// neoxBlocks names the tensors.
func neoxBlocks(k *keys, d *Description, attention bool) {
	if d.setTable("gpt_neox.embed_in.weight"); d.Head == headName {
		d.Head = "embed_out.weight"
	}
	d.FinalNorm = withBias("gpt_neox.final_layer_norm.weight")
	for i := range d.Blocks {
		b, prefix := &d.Blocks[i], blockPrefix("gpt_neox.layers.", i)
		b.AttnNorm = withBias(prefix + "input_layernorm.weight")
		b.FFNNorm = withBias(prefix + "post_attention_layernorm.weight")
		d.interleave(prefix+"attention.query_key_value.weight", &b.Q, &b.K, &b.V)
		b.Gate = Linear{}
		b.O.Weight = prefix + "attention.dense.weight"
		b.Up.Weight, b.Down.Weight = prefix+"mlp.dense_h_to_4h.weight", prefix+"mlp.dense_4h_to_h.weight"
		if addBias(&b.Up, &b.Down); attention {
			addBias(&b.Q, &b.K, &b.V, &b.O)
		}
		d.masks(prefix + "attention.")
	}
}

// interleave stores linear layers in one tensor, the rows of each head of all of them one after another.
func (d *Description) interleave(name string, layers ...*Linear) {
	step := len(layers) * d.HeadDim
	for i, l := range layers {
		l.Weight = name
		l.Rows = Rows{From: i * d.HeadDim, To: d.Heads * step, Step: step, Run: d.HeadDim}
	}
}
