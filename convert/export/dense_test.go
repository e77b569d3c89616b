package export

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
)

// denseFamilies are miniatures of the architectures that are written for llama.cpp alone, but those of mixtures, and
// the largest difference of logits from llama.cpp with floats on both sides. Its GELU is a table of float16 numbers.
var denseFamilies = map[string]float64{
	"smollm3-3b":        1e-4,
	"olmo-2-1b":         1e-4,
	"olmo-3-7b":         1e-4,
	"seed-oss-36b":      1e-4,
	"exaone-4.0-1.2b":   1e-4,
	"exaone-4.0-32b":    1e-4,
	"hunyuan-1.8b":      1e-4,
	"afm-4.5b":          1e-4,
	"ernie-4.5-0.3b":    1e-4,
	"glm-4-9b":          1e-4,
	"glm-4-9b-0414":     1e-4,
	"command-r-v01":     1e-4,
	"command-r-deep":    1e-4,
	"command-r7b":       1e-4,
	"starcoder2-3b":     5e-3,
	"stablelm-2-1.6b":   1e-4,
	"stablelm-parallel": 1e-4,
	"minitron-4b":       1e-4,
	"olmo-7b-0424":      1e-4,
	"phi-2":             5e-3,
	"glm-4.5":           1e-4,
	"glm-4.5-groups":    1e-4,
	"dots.llm1":         1e-4,
	"ernie-4.5-21b-a3b": 1e-4,
	"hunyuan-a13b":      1e-4,
	"deepseek-v2-lite":  1e-4,
	"deepseek-v3":       1e-4,
	"minimax-m2":        1e-4,
	"gpt2":              5e-3,
	"lfm2-1.2b":         1e-4,
	"lfm2-8b-a1b":       1e-4,
	"apertus-8b":        1e-4,
	"olmo-3-own":        1e-4,
	"exaone-4.0-own":    1e-4,
	"command-r7b-own":   1e-4,
}

// denseChanges are patterns and their replacements in config.json of miniatures: two models that llama.cpp recognizes
// by their 64 layers, with windows and with norms of heads, attention and MLP side by side, and positions that its
// converter accepts.
var denseChanges = map[string]struct {
	like    string
	changes []string
}{
	"exaone-4.0-32b": {"exaone-4.0-1.2b", []string{`"num_hidden_layers": 2`, `"num_hidden_layers": 64`,
		`"sliding_window": null`, `"sliding_window": 8, "sliding_window_pattern": "LLLG"`}},
	"command-r-deep": {"command-r-v01", []string{`"num_hidden_layers": 2`, `"num_hidden_layers": 64`,
		`"use_qk_norm": false`, `"use_qk_norm": true`}},
	"stablelm-parallel": {"stablelm-2-1.6b", []string{`"use_qkv_bias"`,
		`"use_parallel_residual": true, "use_qkv_bias"`}},
	"hunyuan-1.8b": {"hunyuan-1.8b", []string{`"max_position_embeddings": 1024`,
		`"max_position_embeddings": 32768`}},
	"olmo-3-own":      {"olmo-3-7b", ownWindows(`"layer_types": \[[^]]*\]`, 5)},
	"command-r7b-own": {"command-r7b", ownWindows(`"sliding_window_pattern": 4`, 5)},
	"exaone-4.0-own": {"exaone-4.0-1.2b", append([]string{`"num_hidden_layers": 2`, `"num_hidden_layers": 64`,
		`"sliding_window": null`, `"sliding_window": 8, "own"`}, ownWindows(`"own"`, 64)...)},
	"lfm2-8b-a1b": {"lfm2-8b-a1b", []string{narrowExperts, `"moe_intermediate_size": 32`}},
	"glm-4.5": {"glm-4.5", []string{narrowExperts, `"moe_intermediate_size": 32`, `"num_nextn_predict_layers": 1`,
		`"num_nextn_predict_layers": 0`}},
	"glm-4.5-groups": {"glm-4.5", []string{narrowExperts, `"moe_intermediate_size": 32`,
		`"num_nextn_predict_layers": 1`, `"num_nextn_predict_layers": 0`, `"n_group": 1`, `"n_group": 3`,
		`"topk_group": 1`, `"topk_group": 2`, `"use_qk_norm": true`, `"use_qk_norm": false`,
		`"norm_topk_prob": true`, `"norm_topk_prob": false`}},
	"dots.llm1": {"dots.llm1", []string{narrowExperts, `"moe_intermediate_size": 32`, `"noaux_tc"(?s:(.*))"noaux_tc"`,
		`"sigmoid"$1"noaux_tc"`}},
	"ernie-4.5-21b-a3b": {"ernie-4.5-21b-a3b", []string{narrowExperts, `"moe_intermediate_size": 32`,
		`"moe_num_shared_experts": 2`, `"moe_num_shared_experts": 3`}},
	"deepseek-v2-lite": {"deepseek-v2-lite", []string{narrowExperts, `"moe_intermediate_size": 32`,
		`"num_hidden_layers": 2`, `"num_hidden_layers": 27`, `"routed_scaling_factor": 1.0`,
		`"routed_scaling_factor": 1.5`}},
	"deepseek-v3": {"deepseek-v3", []string{narrowExperts, `"moe_intermediate_size": 32`, `"q_lora_rank": \d+`,
		`"q_lora_rank": 64`}},
	"hunyuan-a13b": {"hunyuan-a13b", []string{`"moe_intermediate_size": \[[^]]*\]`,
		`"moe_intermediate_size": [96, 96]`, `"hidden_size": \d+`, `"hidden_size": 512`, `"head_dim": \d+`,
		`"head_dim": 128`, `"attention_head_dim": \d+`, `"attention_head_dim": 128`,
		`"max_position_embeddings": 1024`, `"max_position_embeddings": 32768`}},
}

// ownWindows replaces a pattern in config.json by layer_types with windows in other blocks than usual.
func ownWindows(old string, layers int) []string {
	types := make([]string, layers)
	for i := range types {
		types[i] = []string{`"full_attention"`, `"sliding_attention"`, `"sliding_attention"`}[i%3]
	}
	return []string{old, `"layer_types": [` + strings.Join(types, ", ") + `]`}
}

const narrowExperts = `"moe_intermediate_size": \d+`

// denseModel writes a miniature whose columns fill whole blocks of 32.
func denseModel(t *testing.T, name string) string {
	t.Helper()
	x := denseChanges[name]
	like, changes := cmp.Or(x.like, name), x.changes
	if !slices.Contains([]string{"phi-2", "gpt2", "lfm2-1.2b"}, like) { // 256
		changes = append(slices.Clone(changes), `"intermediate_size": \d+`, `"intermediate_size": 96`)
	}
	return rewritten(t, like, name, changes...)
}

// rewritten writes a miniature whose config.json has replacements for patterns.
func rewritten(t *testing.T, like, name string, changes ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "small")
	tinymodel.Miniature(t, like, dir)
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(changes); i += 2 {
		old := regexp.MustCompile(changes[i])
		if !old.Match(config) {
			t.Fatalf("%s: no %s in %s", like, old, config)
		}
		config = old.ReplaceAll(config, []byte(changes[i+1]))
	}
	dir = filepath.Join(t.TempDir(), name)
	tinymodel.MiniatureWith(t, like, dir, func(o *synth.Options) { o.Mini, o.Stop, o.Config = false, nil, config })
	return dir
}

// rounded are models whose bases or factors of rotary embeddings are no float32 numbers, as a file has them.
var rounded = map[string]float64{"hunyuan-1.8b": 1e-5, "hunyuan-a13b": 1e-5, "starcoder2-3b": 1e-5,
	"exaone-4.0-1.2b": 1e-5, "exaone-4.0-32b": 1e-5, "exaone-4.0-own": 1e-5, "apertus-8b": 1e-5}

// TestDense: models survive the round trip through GGUF, as codes and as floats, and compute the same logits.
func TestDense(t *testing.T) {
	for like := range denseFamilies {
		t.Run(like, func(t *testing.T) {
			t.Parallel()
			roundTrip(t, like)
		})
	}
}

func roundTrip(t *testing.T, like string) {
	t.Helper()
	dir := denseModel(t, like)
	for _, r := range []packed.Recipe{{Quant: "none"}, {Quant: "int4", Scale: "group:32", AllowLossy: true}} {
		if like == "gpt2" && r.Quant != "none" { // its layers are transposed
			dir, _ = exported(t, packedOf(t, dir, packed.Recipe{Quant: "none"}))
		}
		source := packedOf(t, dir, r)
		path, _ := exported(t, source)
		again := packedOf(t, path, packed.Recipe{})
		if r.Quant != "none" {
			same(t, source, again)
		}
		ids := []int{1, 30, 40, 50, 60, 70, 80, 90, 100, 110}
		largest, _, _ := distance(logitsOf(t, source, ids), logitsOf(t, again, ids))
		if largest > rounded[like] {
			t.Errorf("%s: logits differ by %v", r.Quant, largest)
		}
		verified(t, again, path)
	}
}

// TestRefusedDense: what llama.cpp does not compute as the model does is refused by name.
func TestRefusedDense(t *testing.T) {
	for _, c := range []struct {
		like, old, new, says string
		dialect              Dialect
	}{
		{"smollm3-3b", `"no_rope_layer_interval": 4`, `"no_rope_layer_interval": 3`, "layer 2 does not rotate", ""},
		{"smollm3-3b", `"attention_bias": false`, `"attention_bias": true`, "self_attn.", ""},
		{"seed-oss-36b", `"mlp_bias": false`, `"mlp_bias": true`, "mlp.", ""},
		{"olmo-2-1b", `"tie_word_embeddings": false`, `"tie_word_embeddings": true`, "tied to the embedding", ""},
		{"olmo-2-1b", `"attention_bias"`, `"head_dim": 256, "attention_bias"`, "4 heads of 32 values", ""},
		{"command-r-v01", `"logit_scale"`, `"tie_word_embeddings": false, "logit_scale"`, "reads none", ""},
		{"command-r7b", `"sliding_window_pattern": 4`, `"layer_types": [` + strings.Repeat(`"full_attention", `, 4) +
			`"full_attention"]`, "no block has a sliding window", ""},
		{"command-r-plus", "", "", "norms of heads", ""},
		{"stablelm-2-12b", "", "", "layernorm.norms", ""},
		{"starcoder2-3b", `"use_bias": true`, `"use_bias": false`, "use_bias", ""},
		{"phi-2", `"qk_layernorm": false`, `"qk_layernorm": true`, "k_layernorm.", ""},
		{"phi-2", `"hidden_act": "gelu_new"`, `"hidden_act": "gelu"`,
			"computes gelu, and llama.cpp computes gelu_tanh", ""},
		{"smollm3-3b", "", "", "architecture smollm3, which is written for llama.cpp alone", IK},
		{"qwen2.5-1.5b-yarn", `"type": "yarn"`, `"type": "yarn", "beta_fast": 2`, "beta_fast 2", ""},
		{"gpt2", `"activation_function": "gelu_new"`, `"activation_function": "relu"`, "computes relu", ""},
		{"gpt2", `"activation_function": "gelu_new"`, `"activation_function": "gelu_new", "scale_attn_weights": false`,
			"scale_attn_weights", ""},
		{"apertus-8b", `"hidden_act": "xielu"`, `"hidden_act": "silu"`, "computes silu", ""},
		{"apertus-8b", `"tie_word_embeddings": false`, `"tie_word_embeddings": true`, "tied to the embedding", ""},
		{"apertus-8b", `"rope_type": "llama3",`, `"rope_type": "dynamic",`, "type dynamic", ""},
		{"pythia-160m", "", "", "no supported llama.cpp architecture", ""},
	} {
		target := filepath.Join(t.TempDir(), "m.gguf")
		_, err := GGUF(t.Context(), changed(t, c.like, c.old, c.new), target, GGUFOptions{Dialect: c.dialect,
			Force: true})
		if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, %s: %v, want one that says %q", c.like, c.new, err, c.says)
		}
	}
}
