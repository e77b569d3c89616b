package model

import "github.com/lowpack/lowpack/pack"

// OPT: LayerNorms, learned positions, biases, ReLU. What OPT-350M has of its own is not supported.
var opt = family{
	Info: Info{
		Name:          "opt",
		Architectures: []string{"OPTForCausalLM"},
		Types:         []string{"opt"},
		Models:        "OPT 125M, 1.3B to 66B, Galactica",
	},
	defaults: `{"activation_function":"relu","max_position_embeddings":2048}`,
	bos:      2,
	eos:      2,
	describe: func(k *keys, has shapes) *Description {
		c := learnedSizes(k, "ffn_dim")
		c.NormEps, c.FirstPosition = 1e-5, 2
		c.Activation = activation(k, "activation_function")
		k.refuse("do_layer_norm_before", true, "norms behind the residuals are not supported")
		if n := k.countOr("word_embed_proj_dim", pack.MaxDim, c.Hidden); n != c.Hidden {
			k.fail(pack.ErrUnsupported, "word_embed_proj_dim is %d: embeddings of another width than the model are "+
				"not supported", n)
		}
		k.known("dropout", "activation_dropout", "layerdrop", "init_std")
		d := describe(k, c, has, true)
		optBlocks(k, d)
		return d
	},
}

// optBlocks names the tensors.
func optBlocks(k *keys, d *Description) {
	const prefix = "model.decoder."
	d.setTable(prefix + "embed_tokens.weight")
	d.Positions = prefix + "embed_positions.weight"
	norm := withBias
	if !k.flag("layer_norm_elementwise_affine", true) {
		norm = func(string) Norm { return Norm{Bare: true} }
	}
	if d.FinalNorm = norm(prefix + "final_layer_norm.weight"); k.flag("_remove_final_layer_norm", false) {
		d.FinalNorm = Norm{}
	}
	bias := k.flag("enable_bias", true)
	for i := range d.Blocks {
		b, prefix := &d.Blocks[i], blockPrefix(prefix+"layers.", i)
		b.AttnNorm = norm(prefix + "self_attn_layer_norm.weight")
		b.FFNNorm = norm(prefix + "final_layer_norm.weight")
		b.Q.Weight, b.K.Weight = prefix+"self_attn.q_proj.weight", prefix+"self_attn.k_proj.weight"
		b.V.Weight, b.O.Weight = prefix+"self_attn.v_proj.weight", prefix+"self_attn.out_proj.weight"
		b.Gate, b.NoRope = Linear{}, true
		if b.Up.Weight, b.Down.Weight = prefix+"fc1.weight", prefix+"fc2.weight"; bias {
			addBias(b.Linears()...)
		}
	}
}
