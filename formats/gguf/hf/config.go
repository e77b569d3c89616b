package hf

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/lowpack/lowpack/pack"
)

const embed = "token_embd.weight"

// config rebuilds config.json from the keys.
func (f *File) config(k *keys) ([]byte, error) {
	family, err := f.family()
	if err != nil {
		return nil, err
	}
	table, ok := f.Tensors[embed]
	if !ok || len(table.Shape) != 2 {
		return nil, fmt.Errorf("%w: tensor %q is missing, or not a matrix", pack.ErrCorrupt, embed)
	}
	_, head := f.Tensors["output.weight"]
	c := map[string]any{
		"architectures": []string{family.architecture}, "model_type": family.modelType,
		"vocab_size": table.Shape[0], "tie_word_embeddings": !head,
		"hidden_size": k.must(".embedding_length"), "intermediate_size": feedForward(k, family),
		"num_hidden_layers": k.layers(), "num_attention_heads": k.must(".attention.head_count"),
		"max_position_embeddings": k.must(".context_length"),
	}
	heads(k, family, c)
	epsilon(k, family, c)
	actKey := family.actKey
	if actKey == "" {
		actKey = "hidden_act"
	}
	c[actKey] = family.activation
	if act := k.text(".hidden_activation"); act != "" {
		c[actKey] = act
	}
	rope(k, family, c)
	refuseOtherAttention(k, family)
	family.experts.refuseOtherRoutes(k)
	if family.more != nil {
		family.more(f, k, c)
	}
	tokens(k, c)
	if k.err != nil {
		return nil, k.err
	}
	return marshal(c)
}

// feedForward returns the width of the MLPs. A mixture of experts may have the key of the experts' width only.
func feedForward(k *keys, family *family) int64 {
	if _, ok := k.get(".feed_forward_length"); !ok && family.experts != nil {
		return k.must(expertWidth)
	}
	return k.must(".feed_forward_length")
}

// heads sets the sizes of heads, except for those of latent attention.
func heads(k *keys, family *family, c map[string]any) {
	c["num_key_value_heads"] = k.keyHeads(family)
	head := headLength(k)
	c["head_dim"] = head
	if n, ok := k.count(".attention.value_length"); ok && n != head && !family.latent {
		k.fail(pack.ErrUnsupported, "head size %d of keys differs from head size %d of values", head, n)
	}
}

// epsilon sets that of the norms.
func epsilon(k *keys, family *family, c map[string]any) {
	key, name := ".attention.layer_norm_rms_epsilon", cmp.Or(family.eps, "rms_norm_eps")
	if family.layerNorm {
		key, name = ".attention.layer_norm_epsilon", family.eps
	}
	switch eps, ok := k.number(key); {
	case !ok:
		k.fail(pack.ErrCorrupt, "key %q is missing", k.name(key))
	case name != "":
		c[name] = eps
	case eps != usualEps:
		k.fail(pack.ErrUnsupported, "key %q is %v, must be %v", k.name(key), eps, usualEps)
	}
}

// rope sets the rotary embedding parameters common to all architectures.
func rope(k *keys, family *family, c map[string]any) {
	if theta, ok := k.number(".rope.freq_base"); ok {
		c["rope_theta"] = theta
	} else {
		c["rope_theta"] = decimal(10000)
	}
	if family.partial {
		c["partial_rotary_factor"] = partial(k)
	}
	f := oldFactor(k)
	factor, scaled := k.number(f)
	refuseOtherRope(k, family)
	switch kind := k.text(".rope.scaling.type"); {
	case kind == "" && scaled && factor != 1, kind == "linear" && scaled && factor != 1:
		c["rope_scaling"] = map[string]any{"rope_type": "linear", "factor": factor}
	case kind == "yarn":
		c["rope_scaling"] = yarn(k, factor)
	case kind == "" || kind == "none" || kind == "linear" || kind == "longrope":
	default:
		k.fail(pack.ErrUnsupported, "key %q is %q", k.name(".rope.scaling.type"), kind)
	}
}

// oldFactor returns the key of the factor that positions are divided by: llama.cpp reads an older one where the usual
// one is missing.
func oldFactor(k *keys) string {
	const usual, old = ".rope.scaling.factor", ".rope.scale_linear"
	if _, there := k.get(usual); there {
		return usual
	}
	return old
}

// refuseOtherRope refuses keys that llama.cpp computes rotary embeddings with and config.json has not.
func refuseOtherRope(k *keys, family *family) {
	if n, ok := k.count(".rope.dimension_count"); ok && !family.partial && !family.latent &&
		n != headLength(k) {
		k.fail(pack.ErrUnsupported, "key %q is %d; in architecture %s whole heads of %d values rotate",
			k.name(".rope.dimension_count"), n, family.arch, headLength(k))
	}
	sections, _ := k.get(".rope.dimension_sections")
	if list, _ := sections.Ints(); slices.ContainsFunc(list, func(n int64) bool { return n != 0 }) {
		k.fail(pack.ErrUnsupported, "key %q: the text part of a model for images, whose rows of q and k have another "+
			"order", k.name(".rope.dimension_sections"))
	}
	if n, ok := k.number(".rope.scaling.alpha"); ok && n > 0 {
		k.fail(pack.ErrUnsupported, "key %q is %v", k.name(".rope.scaling.alpha"), n)
	}
	if n, ok := k.number(".rope.scaling.attn_factor"); ok && n != 1 && !slices.Contains(family.rope, ropeLong) {
		k.fail(pack.ErrUnsupported, "key %q is %v, must be 1", k.name(".rope.scaling.attn_factor"), n)
	}
	swa, ok := k.number(".rope.freq_base_swa")
	base, there := k.number(".rope.freq_base")
	if !there {
		base = usualBase
	}
	if ok && family.local != nil && !family.bases && swa != base {
		k.fail(pack.ErrUnsupported, "key %q is %v and differs from %q", k.name(".rope.freq_base_swa"), swa,
			k.name(".rope.freq_base"))
	}
}

// refuseOtherAttention refuses keys by which attention is not causal, or heads have other sizes in blocks with a
// window.
func refuseOtherAttention(k *keys, family *family) {
	if !k.flag(".attention.causal", true) {
		k.fail(pack.ErrUnsupported, "key %q is false", k.name(".attention.causal"))
	}
	for _, key := range []string{".attention.key_length_swa", ".attention.value_length_swa",
		".rope.dimension_count_swa"} {
		if n, ok := k.count(key); ok && family.local != nil && n != headLength(k) {
			k.fail(pack.ErrUnsupported, "key %q is %d, must be the %d of other blocks", k.name(key), n, headLength(k))
		}
	}
}

// usualBase is llama.cpp's base of rotations where a file has none.
const usualBase = 10000

// headLength returns the size of a head: the heads share the embedding length if no key says otherwise.
func headLength(k *keys) int64 {
	if n, ok := k.count(".attention.key_length"); ok {
		return n
	}
	return k.must(".embedding_length") / max(1, k.must(".attention.head_count"))
}

// partial returns the share of a head that rotates: the number that gives rope.dimension_count again.
func partial(k *keys) float64 {
	head := headLength(k)
	dim, ok := k.count(".rope.dimension_count")
	if !ok || head == 0 {
		return 1
	}
	share := float64(dim) / float64(head)
	if int64(share*float64(head)) < dim {
		share = math.Nextafter(share, 2)
	}
	return share
}

func yarn(k *keys, factor decimal) map[string]any {
	s := map[string]any{"rope_type": "yarn", "factor": factor,
		"original_max_position_embeddings": k.must(".rope.scaling.original_context_length")}
	if factor <= 0 {
		k.fail(pack.ErrCorrupt, "yarn without key %q, or with %v there", k.name(".rope.scaling.factor"), factor)
		return s
	}
	for key, name := range map[string]string{".rope.scaling.yarn_beta_fast": "beta_fast",
		".rope.scaling.yarn_beta_slow": "beta_slow"} {
		if n, ok := k.number(key); ok {
			s[name] = n
		}
	}
	must := func(key string, other decimal) {
		if n, ok := k.number(key); ok && n != 1 && n != other {
			k.fail(pack.ErrUnsupported, "key %q is %v, must be %v", k.name(key), n, other)
		}
	}
	must(".rope.scaling.yarn_ext_factor", 1)
	// llama.cpp does not read this one, which its converter writes: it has the usual factor.
	must(".rope.scaling.yarn_attn_factor", decimal(1+math.Log(float64(factor))/10))
	return s
}

// tokens sets the ids of the BOS and EOS tokens.
func tokens(k *keys, c map[string]any) {
	if id, ok := k.count("tokenizer.ggml.bos_token_id"); ok {
		c["bos_token_id"] = id
	}
	if ids := stops(k); len(ids) > 0 {
		c["eos_token_id"] = ids
	}
}

// stops returns the ids of the tokens that end an output.
func stops(k *keys) (ids []int64) {
	for _, key := range []string{"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"} {
		if id, ok := k.count(key); ok && (len(ids) == 0 || ids[0] != id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// samplings maps GGUF keys to those of generation_config.json.
var samplings = map[string]string{
	"general.sampling.temp": "temperature", "general.sampling.top_p": "top_p", "general.sampling.min_p": "min_p",
	"general.sampling.penalty_repeat": "repetition_penalty",
}

// generation rebuilds generation_config.json if any of its keys is present.
func generation(k *keys, texts map[string][]byte) error {
	c := map[string]any{}
	for key, name := range samplings {
		if n, ok := k.number(key); ok {
			c[name] = n
		}
	}
	if n, ok := k.count("general.sampling.top_k"); ok {
		c["top_k"] = n
	}
	if t, ok := c["temperature"].(decimal); ok && t > 0 {
		c["do_sample"] = true
	}
	tokens(k, c)
	if k.err != nil || len(c) == 0 {
		return k.err
	}
	var err error
	texts["generation_config.json"], err = marshal(c)
	return err
}

// marshal returns JSON with sorted keys and without HTML escapes.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err := e.Encode(v)
	return b.Bytes(), err
}
