package export

import (
	"bytes"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
)

// mixtures are miniatures of all architectures with experts that are written.
var mixtures = []string{"gpt-oss-20b", "granite-3.1-1b-a400m", "mixtral-8x7b-v0.1", "olmoe-1b-7b", "qwen1.5-moe-a2.7b",
	"qwen3-30b-a3b"}

// mixture writes a miniature whose experts' columns fill whole groups of 32.
func mixture(t *testing.T, like string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), like)
	tinymodel.MiniatureWith(t, like, dir, func(o *synth.Options) {
		// the size becomes 64
		o.Config = regexp.MustCompile(`("(moe|shared_expert)_intermediate_size": )\d+`).ReplaceAll(o.Config,
			[]byte("${1}2048"))
		// as llama.cpp does it
		o.Config = bytes.ReplaceAll(o.Config, []byte(`"truncate": false`), []byte(`"truncate": true`))
	})
	return dir
}

// TestExperts: experts survive the round trip through GGUF unchanged, in one tensor or in several, as codes and as
// floats, and the model computes the same logits. Every architecture is exported unquantized and, except for gpt-oss,
// whose codes are imported, in one block type (LOWPACK_LONG: in both). Names, shapes and the order of experts follow
// the architecture, codes follow the block type.
func TestExperts(t *testing.T) {
	for i, like := range mixtures {
		dir := mixture(t, like)
		for k, name := range []string{"as it is", "Q4_0", "Q8_0"} {
			r := packed.Recipe{}
			if k > 0 {
				r = packed.Recipe{Quant: map[string]string{"Q4_0": "int4", "Q8_0": "int8"}[name], Scale: "group:32",
					AllowLossy: true}
			}
			if k > 0 && (like == "gpt-oss-20b" || i%2 != k%2 && !long.All) {
				continue
			}
			source := packedOf(t, dir, r)
			path, _ := exported(t, source)
			again := packedOf(t, path, packed.Recipe{})
			if _, err := VerifyGGUF(t.Context(), path, again); err != nil {
				t.Errorf("%s, %s: %v", like, name, err)
			}
			for _, x := range headerOf(t, path).Tensors {
				if strings.HasSuffix(x.Name, "ffn_down_exps.weight") && r.Quant != "" && x.Type.String() != name {
					t.Errorf("%s, %s: experts in %s", like, name, x.Type)
				}
			}
			ids := []int{1, 30, 40, 50, 60, 70}
			if a, b := logitsOf(t, source, ids), logitsOf(t, again, ids); !slices.EqualFunc(a, b, slices.Equal) {
				t.Errorf("%s, %s: other logits", like, name)
			}
			verified(t, again, path)
		}
	}
}

// TestRefusedExperts: llama.cpp computes each architecture in one way; deviations are refused by name.
func TestRefusedExperts(t *testing.T) {
	for _, c := range []struct {
		like, old, new, says string
		dialect              Dialect
	}{
		{"qwen3-30b-a3b", `"norm_topk_prob": true`, `"norm_topk_prob": false`, "norm_topk_prob", ""},
		{"qwen1.5-moe-a2.7b", `"norm_topk_prob": false`, `"norm_topk_prob": true`, "norm_topk_prob", ""},
		{"qwen3-30b-a3b", `"decoder_sparse_step": 1`, `"decoder_sparse_step": 2`, "layer 0 has no experts", ""},
		{"olmoe-1b-7b", `"tie_word_embeddings": false`, `"tie_word_embeddings": true`, "tied to the embedding", ""},
		{"gpt-oss-20b", `"swiglu_limit": 7.0`, `"swiglu_limit": 8.0`, "swiglu_limit 8", ""},
		{"mixtral-8x7b-v0.1", "", "", "for llama.cpp alone", IK},
	} {
		target := filepath.Join(t.TempDir(), "m.gguf")
		_, err := GGUF(t.Context(), changed(t, c.like, c.old, c.new), target, GGUFOptions{Dialect: c.dialect})
		if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want one that says %q", c.like, err, c.says)
		}
	}
}

// TestRefusedRoutes: routers, dense blocks and latent attention that llama.cpp computes otherwise are refused by name.
func TestRefusedRoutes(t *testing.T) {
	const latent, mscale = "deepseek-v3", `"mscale": 1(\.0)?,`
	groups := []string{`"n_group": \d+`, `"n_group": 3`, `"topk_group": \d+`, `"topk_group": 3`}
	for _, c := range []struct {
		like, says string
		changes    []string
	}{
		{"glm-4.5", "topk_group is 3, of 3 groups", groups},
		{"glm-4.5", "layer 0 has no experts", []string{`"first_k_dense_replace": 1`, `"first_k_dense_replace": 2`}},
		{"dots.llm1", "2 key/value heads of 4", []string{`"num_key_value_heads": 4`, `"num_key_value_heads": 2`}},
		{"dots.llm1", "self_attn.o_proj.bias", []string{`"attention_bias": false`, `"attention_bias": true`}},
		{"dots.llm1", "tied to the embedding", []string{`"tie_word_embeddings": false`, `"tie_word_embeddings": true`}},
		{"ernie-4.5-21b-a3b", "layer 2 has no experts", []string{`"num_hidden_layers": 2`, `"num_hidden_layers": 3`,
			`"moe_layer_end_index": 27`, `"moe_layer_end_index": 1`}},
		{"ernie-4.5-21b-a3b", "layer 2 has no experts", []string{`"num_hidden_layers": 2`, `"num_hidden_layers": 3`,
			`"moe_layer_interval": 1`, `"moe_layer_interval": 2`}},
		{"ernie-4.5-21b-a3b", "moe_norm_min", []string{`"moe_k"`, `"moe_norm_min": 0.0001, "moe_k"`}},
		{"ernie-4.5-21b-a3b", "bias", []string{`"use_bias": false`, `"use_bias": true`}},
		{"hunyuan-a13b", "layer 0 chooses 2 experts and layer 1 1", []string{`"moe_topk": \[[^]]*\]`,
			`"moe_topk": [2, 1]`}},
		{"hunyuan-a13b", "self_attn.o_proj.bias", []string{`"attention_bias": false`, `"attention_bias": true`}},
		{"deepseek-v2-lite", "n_group 3", append([]string{`"topk_method": "greedy"`,
			`"topk_method": "group_limited_greedy"`}, groups...)},
		{latent, "topk_group is 3, of 3 groups", groups},
		{latent, "rope_interleave", []string{`"rope_theta"`, `"rope_interleave": false, "rope_theta"`}},
		{latent, "rms_norm_eps is 1e-05", []string{`"rms_norm_eps": 1e-06`, `"rms_norm_eps": 1e-05`}},
		{latent, "q_lora_rank with 27 layers", []string{`"num_hidden_layers": 2`, `"num_hidden_layers": 27`}},
		{latent, "type linear", []string{`"type": "yarn"`, `"type": "linear"`}},
		{latent, "mscale 0.5, mscale_all_dim 1", []string{mscale, `"mscale": 0.5,`}},
		{latent, "mscale 0,", []string{mscale, ""}},
		{latent, "attention_factor 1.25", []string{mscale, `"mscale": 1, "attention_factor": 1.25,`}},
		{latent, "beta_fast 8", []string{`"beta_fast": 32`, `"beta_fast": 8`}},
		{latent, "bias", []string{`"attention_bias": false`, `"attention_bias": true`}},
	} {
		source := packedOf(t, rewritten(t, c.like, c.like, c.changes...), packed.Recipe{})
		_, err := GGUF(t.Context(), source, filepath.Join(t.TempDir(), "m.gguf"), GGUFOptions{})
		if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want one that says %q", c.like, err, c.says)
		}
	}
}

// changed converts a miniature whose config.json has other text in one place.
func changed(t *testing.T, like, old, text string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), like)
	tinymodel.MiniatureWith(t, like, dir, func(o *synth.Options) {
		if old != "" && !bytes.Contains(o.Config, []byte(old)) {
			t.Errorf("%s: config.json has no %s", like, old)
		}
		o.Config = bytes.Replace(o.Config, []byte(old), []byte(text), 1)
	})
	return packedOf(t, dir, packed.Recipe{})
}

// TestRefusedActivations: llama.cpp computes the activation of its architecture, whatever a file says, and graphs have
// those that were compared; another is refused by its name.
func TestRefusedActivations(t *testing.T) {
	for _, c := range []struct {
		act, gguf string
		graphs    string // "" = they express it
	}{
		{"gelu_pytorch_tanh", "computes gelu_tanh, and llama.cpp computes silu for architecture llama", ""},
		{"gelu", "computes gelu, and llama.cpp computes silu for architecture llama", "gelu by the error function"},
		{"relu", "computes relu, and llama.cpp computes silu for architecture llama", "has relu"},
	} {
		source := changed(t, "llama-3-8b", `"hidden_act": "silu"`, `"hidden_act": "`+c.act+`"`)
		_, err := GGUF(t.Context(), source, filepath.Join(t.TempDir(), "m.gguf"), GGUFOptions{Force: true})
		if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), c.gguf) {
			t.Errorf("%s: %v, want one that says %q", c.act, err, c.gguf)
		}
		_, d := tinymodel.Open(t, source)
		if err = Expressible(d); c.graphs == "" != (err == nil) || err != nil &&
			(!errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), c.graphs)) {
			t.Errorf("%s: %v, want one that says %q", c.act, err, c.graphs)
		}
	}
}
