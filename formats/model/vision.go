package model

import (
	"slices"
	"strings"

	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// vision is the text part of models that read images: a family under other names. Its keys are in text_config, or, in
// older files of some models, beside those of the other parts.
type vision struct {
	text     func(kind string) *family // the family of text_config.model_type; nil = not supported
	kind     string                    // without a model_type
	flat     bool                      // there may be no text_config
	tied     bool                      // tie_word_embeddings without the key
	textTied bool                      // text_config may tie the head as well
	names    []textNames               // in files of different age, the usual one first
	towers   []string                  // prefixes of the tensors of other parts
}

// textNames are the prefix of the text model's tensors, and its head.
type textNames struct{ prefix, head string }

// otherParts are keys of the other parts.
var otherParts = []string{"vision_config", "image_token_id", "video_token_id", "vision_start_token_id",
	"vision_end_token_id", "vision_token_id", "image_token_index", "projector_hidden_act", "vision_feature_layer",
	"multimodal_projector_bias", "spatial_merge_size", "scale_factor", "mm_tokens_per_image", "boi_token_index",
	"eoi_token_index", "boi_token_id", "eoi_token_id", "audio_config", "audio_token_id", "boa_token_id",
	"eoa_token_id", "eoa_token_index", "audio_soft_tokens_per_image", "vision_soft_tokens_per_image"}

// describe describes the text part.
func (v *vision) describe(k *keys, has shapes) *Description {
	t := k.sub("text_config")
	if t.v == nil && v.flat {
		t = &keys{file: k.file, v: k.v, asked: k.asked}
	}
	kind := t.text("model_type", v.kind)
	if t.v == k.v {
		kind = v.kind
	}
	f := v.text(kind)
	switch {
	case t.v == nil:
		k.fail(pack.ErrCorrupt, "text_config is missing")
	case f == nil:
		k.fail(pack.ErrUnsupported, "text_config.model_type is %.40q, which is not supported in this architecture",
			kind)
	}
	if k.err != nil {
		return &Description{}
	}
	k.known(otherParts...)
	t = t.with("tie_word_embeddings", v.tie(k, t)).with("quantization_config", k.get("quantization_config"))
	t.fill(f.defaults)
	onlyCausal(t, f)
	names := v.names[0]
	for _, n := range v.names[1:] {
		if has.exists(n.prefix+strings.TrimPrefix(embedName, textPrefix), false) {
			names = n
		}
	}
	d := f.describe(t, names.within(has))
	k.take(t)
	if k.err == nil {
		names.rename(d)
		d.Outside = v.towers
		d.addTokens(k)
	}
	return d
}

// tie is whether the head is the embedding.
func (v *vision) tie(k, t *keys) *jsonread.Value {
	tied := k.flag("tie_word_embeddings", v.tied) || v.textTied && t.flag("tie_word_embeddings", false)
	t.known("tie_word_embeddings")
	return &jsonread.Value{Kind: jsonread.Bool, Bool: tied}
}

// with returns the keys with another value for one of them.
func (k *keys) with(name string, value *jsonread.Value) *keys {
	out, v := *k, *k.v
	v.Members = slices.DeleteFunc(slices.Clone(v.Members), func(m jsonread.Member) bool { return m.Key == name })
	if value != nil {
		v.Members = append(v.Members, jsonread.Member{Key: name, Value: *value})
	}
	out.v = &v
	return &out
}

// textPrefix is the prefix of the tensors of a text model alone.
const textPrefix = "model."

// of returns the name of a tensor of the text model.
func (n textNames) of(tensor string) string {
	if rest, ok := strings.CutPrefix(tensor, textPrefix); ok {
		return n.prefix + rest
	}
	if tensor == headName {
		return n.head
	}
	return tensor
}

// within looks tensors up by the names of a text model alone. A head with another name is looked up by that name later.
func (n textNames) within(has shapes) shapes {
	if has == nil {
		return nil
	}
	return func(tensor string) ([]int, bool) {
		if tensor == headName && n.head != headName {
			return nil, true
		}
		return has(n.of(tensor))
	}
}

// namesOf returns the names of a text model alone. Checkpoints of a base model, written by AutoModel of transformers as
// those of Qwen3-Embedding are, have them without the prefix.
func namesOf(has shapes) textNames {
	const bare = ""
	if !has.exists(embedName, true) && has.exists(strings.TrimPrefix(embedName, textPrefix), false) {
		return textNames{bare, headName}
	}
	return textNames{textPrefix, headName}
}

// rename gives the tensors of a description their names in the file.
func (n textNames) rename(d *Description) {
	d.eachName(func(name *string) { *name = n.of(*name) })
}

// Elsewhere reports whether a tensor belongs to a part of the model that is not described, as its vision tower.
func (d *Description) Elsewhere(tensor string) bool {
	return slices.ContainsFunc(d.Outside, func(prefix string) bool { return strings.HasPrefix(tensor, prefix) })
}

// textOf returns a function that knows families of text by their model_type.
func textOf(kinds map[string]*family) func(kind string) *family {
	return func(kind string) *family { return kinds[kind] }
}
