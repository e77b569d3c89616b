package model

import (
	"fmt"

	"github.com/lowpack/lowpack/pack"
)

// Parse reads config.json and, if not nil, generation_config.json into a Description. has looks up a tensor of the
// checkpoint or packed file by name; the tensors it returns are checked (see Check), and families query it for optional
// tensors. If has is nil nothing is checked and the family's usual tensors are assumed.
func Parse(config, generation []byte, has func(tensor string) (shape []int, ok bool)) (*Description, error) {
	k, err := parseKeys("config.json", config)
	if err != nil {
		return nil, err
	}
	architectures := k.texts("architectures")
	modelType := k.text("model_type", "")
	if k.err != nil {
		return nil, k.err
	}
	f, err := find(architectures, modelType)
	if err != nil {
		return nil, fmt.Errorf("config.json: %w", err)
	}
	k.fill(f.defaults)
	onlyCausal(k, f)
	names := namesOf(has)
	d := f.describe(k, names.within(has))
	if k.err != nil {
		return nil, k.err
	}
	names.rename(d)
	d.Family, d.Unread = f.Name, k.unread()
	if err := d.checkBiases(); err != nil {
		return nil, err
	}
	if generation == nil {
		d.defaultTokens(k, f)
	}
	if err := d.addGeneration(generation); err != nil {
		return nil, err
	}
	if has != nil {
		if err := d.Check(has); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// addGeneration adds the token ids of generation_config.json, which some models list only there. The end-of-text ids of
// both files count: stopping early is better than never stopping.
func (d *Description) addGeneration(generation []byte) error {
	if generation == nil {
		return nil
	}
	k, err := parseKeys("generation_config.json", generation)
	if err != nil {
		return err
	}
	d.addTokens(k)
	return k.err
}

// defaultTokens adds default tokens that config.json does not contain, if the vocabulary has them.
func (d *Description) defaultTokens(k *keys, f *family) {
	if f.bos != 0 && f.bos < d.Vocab && !k.mentions("bos_token_id") {
		d.BOS = f.bos
	}
	if f.eos != 0 && f.eos < d.Vocab && !k.mentions("eos_token_id") {
		d.EOS = []int{f.eos}
	}
}

func (d *Description) addTokens(k *keys) {
	if bos := k.tokens("bos_token_id", d.Vocab); len(bos) > 0 && d.BOS < 0 {
		d.BOS = bos[0]
	}
	for _, id := range k.tokens("eos_token_id", d.Vocab) {
		known := false
		for _, e := range d.EOS {
			known = known || e == id
		}
		if !known {
			d.EOS = append(d.EOS, id)
		}
	}
}

// onlyCausal rejects options that change the model in transformers, in some families or in all.
func onlyCausal(k *keys, f *family) {
	k.refuse("is_causal", true, "only causal attention is supported")
	if f.layered {
		return
	}
	k.refuse("use_bidirectional_attention", false, "only causal attention is supported")
	if s := k.sub("per_layer_config"); s.v != nil && len(s.v.Members) > 0 {
		k.fail(pack.ErrUnsupported, "per_layer_config gives layers configurations of their own")
	}
}

// sizes reads the numbers with the same key in nearly all families.
func sizes(k *keys) Config { return sizesWith(k, "rms_norm_eps") }

// sizesWith reads them where eps has another key.
func sizesWith(k *keys, eps string) Config { return sizesBy(k, "intermediate_size", eps) }

// sizesBy reads them where the width of the MLP has another key too.
func sizesBy(k *keys, ffn, eps string) Config {
	c := sizesWithout(k, ffn)
	c.NormEps = float32(k.positive(eps, 1, 0))
	k.mustHave(eps)
	return c
}

// sizesWithout reads them where eps is not in the file.
func sizesWithout(k *keys, ffn string) Config {
	c := Config{
		Hidden:       k.count("hidden_size", pack.MaxDim),
		Intermediate: k.count(ffn, pack.MaxDim),
		Layers:       k.count("num_hidden_layers", maxLayers),
		Heads:        k.count("num_attention_heads", maxHeads),
		Vocab:        k.count("vocab_size", pack.MaxDim),
		MaxPositions: k.count("max_position_embeddings", maxPositions),
		BOS:          -1,
	}
	c.KVHeads = k.countOr("num_key_value_heads", maxHeads, c.Heads)
	c.HeadDim = k.countOr("head_dim", maxHeadDim, c.Hidden/c.Heads)
	switch {
	case k.err != nil:
	case !k.has("head_dim") && c.Hidden%c.Heads != 0:
		k.fail(pack.ErrCorrupt, "num_attention_heads %d does not divide hidden_size %d, and head_dim is missing",
			c.Heads, c.Hidden)
	case c.Heads%c.KVHeads != 0:
		k.fail(pack.ErrCorrupt, "num_key_value_heads %d does not divide num_attention_heads %d", c.KVHeads, c.Heads)
	case c.HeadDim < 2 || c.HeadDim%2 != 0 || c.HeadDim > maxHeadDim:
		k.fail(pack.ErrCorrupt, "the head dimension %d is not an even number up to %d", c.HeadDim, maxHeadDim)
	}
	return c
}

// activations are the names of the activations in config.json.
var activations = map[string]Activation{
	"silu": SiLU, "swish": SiLU, "relu2": ReLU2, "gelu_pytorch_tanh": GELUTanh, "gelu_tanh": GELUTanh,
	"gelu_new": GELUTanh, "gelu_fast": GELUTanh, "gelu": GELU, "relu": ReLU,
}

// activation reads the activation of the MLP.
func activation(k *keys, name string) Activation {
	text := k.text(name, "")
	act, known := activations[text]
	switch {
	case text == "":
		k.fail(pack.ErrCorrupt, "%s is missing", name)
	case !known:
		k.fail(pack.ErrUnsupported, "%s is %q; supported are silu, relu, relu2, gelu and its tanh approximation", name,
			text)
	}
	return act
}
