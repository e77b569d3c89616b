package model

import (
	"errors"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// TestBaseModel: a checkpoint of a base model, with tensors without the prefix and perhaps the architecture without a
// head, is the same model with other names; a head that it would need is missed by name.
func TestBaseModel(t *testing.T) {
	const config = `{"architectures":["Qwen3ForCausalLM"],"model_type":"qwen3","tie_word_embeddings":true,` +
		textNumbers + `}`
	usual := mustParse(t, config)
	bare := map[string][]int{}
	for name, shape := range lookup(usual) {
		bare[strings.TrimPrefix(name, "model.")] = shape
	}
	for _, text := range []string{config, strings.Replace(config, "ForCausalLM", "Model", 1)} {
		d, err := Parse([]byte(text), nil, has(bare))
		if err != nil {
			t.Fatal(err)
		}
		if d.Embed != "embed_tokens.weight" || d.Head != d.Embed || d.FinalNorm.Weight != "norm.weight" ||
			d.Blocks[1].Q.Weight != "layers.1.self_attn.q_proj.weight" || d.Family != usual.Family ||
			len(d.Tensors()) != len(bare) {
			t.Errorf("%s, %s, %s, %s", d.Embed, d.Head, d.FinalNorm.Weight, d.Blocks[1].Q.Weight)
		}
	}
	untied := strings.Replace(config, "true", "false", 1)
	if _, err := Parse([]byte(untied), nil, has(bare)); !errors.Is(err, pack.ErrCorrupt) ||
		!strings.Contains(err.Error(), `"lm_head.weight" is missing`) {
		t.Error(err)
	}
}
