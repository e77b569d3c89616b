package hf_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/gguf/hf"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/pack"
)

type keyValues = map[string]gguf.Value

func count(n uint32) gguf.Value { return gguf.U32Value(n) }

// latentSizes are the keys of a model with latent attention.
var latentSizes = keyValues{".attention.kv_lora_rank": count(12), ".attention.q_lora_rank": count(24),
	".rope.dimension_count": count(4), ".attention.key_length_mla": count(10), ".attention.value_length_mla": count(6),
	".attention.head_count_kv": count(1)}

// routed returns the keys of a mixture of an architecture, with others.
func routed(arch string, more ...keyValues) *gguf.Header {
	all := keyValues{".expert_count": count(8), ".expert_used_count": count(3),
		".expert_feed_forward_length": count(48), ".expert_shared_count": count(2)}
	for _, m := range more {
		maps.Copy(all, m)
	}
	return changedKeys(arch, all)
}

func sigmoid(more keyValues) keyValues {
	all := keyValues{".expert_gating_func": count(2)}
	maps.Copy(all, more)
	return all
}

// TestRoutes: what the keys of routers, leading blocks and shared experts say.
func TestRoutes(t *testing.T) {
	groups := keyValues{".expert_group_count": count(4), ".expert_group_used_count": count(2),
		".expert_weights_norm": gguf.BoolValue(true), ".expert_weights_scale": gguf.FloatValue(2.5),
		".leading_dense_block_count": count(2)}
	routing := func(d *model.Description) string {
		n := 0
		for d.Blocks[n].Experts == nil {
			n++
		}
		b := &d.Blocks[n]
		x := b.Experts
		return fmt.Sprint(d.Family, n, " ", x.Score, x.Normalize, x.Scale, x.Groups, x.KeptGroups, x.ChoiceBias != "",
			" ", x.Up.Out, b.Up.Out)
	}
	for _, c := range []struct {
		arch string
		more keyValues
		want string
	}{
		{"glm4moe", nil, "glm4_moe0 sigmoidfalse 1 0 0 true 48 96"},
		{"glm4moe", groups, "glm4_moe2 sigmoidtrue 2.5 4 2 true 48 96"},
		{"dots1", sigmoid(keyValues{".attention.head_count_kv": count(4)}), "dots10 sigmoidfalse 1 0 0 true 48 96"},
		{"ernie4_5-moe", keyValues{".interleave_moe_layer_step": count(1), ".leading_dense_block_count": count(1),
			".expert_shared_feed_forward_length": count(144)}, "ernie4_5_moe1 true 0 0 0 true 48 144"},
		{"minimax-m2", sigmoid(nil), "minimax_m20 sigmoidtrue 0 0 0 true 96 0"},
		{"hunyuan-moe", nil, "hunyuan_moe0 true 0 0 0 false 96 96"},
		{"deepseek2", latentSizes, "deepseek_v20 false 1 0 0 false 48 96"},
		{"deepseek2", sigmoid(latentSizes), "deepseek_v30 sigmoidfalse 1 0 0 true 48 96"},
	} {
		d := describe(t, fileOf(routed(c.arch, c.more), nil, "output.weight"))
		if got := routing(d); got != c.want {
			t.Errorf("%s: %s, want %s", c.arch, got, c.want)
		}
	}
}

// TestPredicted: blocks behind the layers of the model predict further tokens, and are left out with their tensors.
func TestPredicted(t *testing.T) {
	f := fileOf(routed("glm4moe", keyValues{".nextn_predict_layers": count(1)}), nil, "blk.4.attn_norm.weight",
		"blk.5.attn_norm.weight", "blk.5.nextn.eh_proj.weight")
	if d := describe(t, f); d.Layers != 5 {
		t.Errorf("%d layers", d.Layers)
	}
	list, err := f.List()
	if err != nil || len(list) != 2 || list[0].Name != "model.layers.4.input_layernorm.weight" {
		t.Errorf("%v, %v", list, err)
	}
}

// TestLatent: sizes of heads are those of keys of their own, or in old files the usual ones; YaRN's factor of scores
// has few digits.
func TestLatent(t *testing.T) {
	yarn := sigmoid(keyValues{".rope.scaling.type": gguf.TextValue("yarn"),
		".rope.scaling.factor": gguf.FloatValue(40), ".rope.scaling.original_context_length": count(4096),
		".rope.scaling.yarn_log_multiplier": gguf.FloatValue(0.0707)})
	l := describe(t, fileOf(routed("deepseek2", latentSizes, yarn), nil, "output.weight"))
	if x := l.Latent; x.Rank != 12 || x.Nope != 6 || x.Value != 6 || l.Rope.Dim != 4 || x.MScale != 0.707 ||
		x.Factor != 40 || l.Blocks[0].MLA.QUp.In != 24 {
		t.Errorf("%+v, %+v", x, l.Blocks[0].MLA)
	}
	old := describe(t, fileOf(routed("deepseek2", keyValues{".attention.kv_lora_rank": count(12),
		".rope.dimension_count": count(4), ".attention.value_length": count(8), ".block_count": count(27)}), nil,
		"output.weight"))
	if x := old.Latent; x.Nope != 12 || x.Value != 8 || old.Blocks[0].MLA.QUp.Weight != "" {
		t.Errorf("%+v", x)
	}
	if lite := describe(t, fileOf(routed("deepseek2", latentSizes, keyValues{".block_count": count(27)}), nil,
		"output.weight")); lite.Blocks[0].MLA.QUp.Weight != "" {
		t.Error("llama.cpp does not read q_lora_rank with 27 blocks")
	}
}

// split is a file whose keys and values of latent attention have shapes; nil = the tensor is missing.
func split(keys, values []int64) *hf.File {
	f := fileOf(routed("deepseek2", latentSizes), nil)
	for part, shape := range map[string][]int64{hf.LatentKeys: keys, hf.LatentValues: values} {
		if name := "blk.0." + part + ".weight"; shape != nil {
			f.Tensors[name] = gguf.TensorInfo{Name: name, Shape: shape}
		}
	}
	return f
}

// TestLatentTensors: keys and values of latent attention, in one tensor or two, are one in the checkpoint.
func TestLatentTensors(t *testing.T) {
	const name = "model.layers.0.self_attn.kv_b_proj.weight"
	list, err := split([]int64{4, 12, 6}, []int64{4, 8, 12}).List()
	if err != nil || len(list) != 2 || list[0].Name != name || fmt.Sprint(list[0].Shape()) != "[56 12]" {
		t.Errorf("%+v, %v", list, err)
	}
	old := fileOf(routed("deepseek2", latentSizes), nil, "blk.0.attn_kv_b.weight")
	if list, err := old.List(); err != nil || list[0].Name != name || list[0].Values != nil {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestRefusedRoutes: keys that llama.cpp computes with and no config.json of the family has are refused by name.
func TestRefusedRoutes(t *testing.T) {
	with := func(arch string, key string, v gguf.Value, more ...keyValues) *hf.File {
		return fileOf(routed(arch, append(more, keyValues{key: v})...), nil, "output.weight")
	}
	yarn := keyValues{".rope.scaling.type": gguf.TextValue("yarn"), ".rope.scaling.factor": gguf.FloatValue(40)}
	step := keyValues{".interleave_moe_layer_step": count(1)}
	for says, f := range map[string]*hf.File{
		`"qwen3moe.expert_group_count" is 2`:   with("qwen3moe", ".expert_group_count", count(2)),
		`"llama.expert_group_count" is 4`:      with("llama", ".expert_group_count", count(4)),
		`"glm4moe.expert_gating_func" is 1`:    with("glm4moe", ".expert_gating_func", count(1)),
		`"dots1.expert_gating_func" is 0`:      with("dots1", ".expert_weights_norm", gguf.BoolValue(true)),
		`"minimax-m2.expert_gating_func" is 1`: with("minimax-m2", ".expert_gating_func", count(1)),
		`"deepseek2.expert_gating_func" is 4`: with("deepseek2", ".expert_gating_func", count(4),
			latentSizes),
		`"glm4moe.expert_shared_count"`:     with("glm4moe", ".expert_shared_count", gguf.TextValue("2")),
		`"glm4moe.expert_group_used_count"`: with("glm4moe", ".expert_group_count", count(2)),
		`"glm4moe.rope.dimension_sections"`: with("glm4moe",
			".rope.dimension_sections", gguf.I32sValue([]int32{4, 4})),
		`"glm4moe.nextn_predict_layers" is 6`: with("glm4moe", ".nextn_predict_layers", count(6)),
		`"ernie4_5-moe.interleave_moe_layer`:  with("ernie4_5-moe", ".interleave_moe_layer_step", count(2)),
		`"ernie4_5-moe.expert_shared_feed`: with("ernie4_5-moe",
			".expert_shared_feed_forward_length", count(50), step),
		`"hunyuan-moe.expert_shared_feed`: with("hunyuan-moe", ".expert_shared_feed_forward_length", count(48)),
		`"deepseek2.expert_group_count" is 4`: with("deepseek2",
			".expert_group_count", count(4), latentSizes, keyValues{".expert_group_used_count": count(2)}),
		`"deepseek2.expert_weights_norm"`: with("deepseek2",
			".expert_weights_norm", gguf.BoolValue(true), latentSizes),
		`"deepseek2.attention.temperature`: with("deepseek2",
			".attention.temperature_scale", gguf.FloatValue(0.5), latentSizes),
		`type yarn with 0 in key "deepseek2.`: with("deepseek2",
			".rope.scaling.original_context_length", count(4096), latentSizes, yarn),
		`type linear with 0 in key "deepseek2.`: with("deepseek2",
			".rope.scaling.factor", gguf.FloatValue(4), latentSizes),
		`one of which is missing`:   split([]int64{4, 12, 6}, nil),
		`"attn_k_b" and "attn_v_b"`: split(nil, []int64{4, 8, 12}),
		`[4 12 6] and [5 8 12]`:     split([]int64{4, 12, 6}, []int64{5, 8, 12}),
		`[4 12 6] and [4 8 11]`:     split([]int64{4, 12, 6}, []int64{4, 8, 11}),
		`[48 6] and [4 8 12]`:       split([]int64{48, 6}, []int64{4, 8, 12}),
		`"blk.6.attn_k_b.weight"`:   fileOf(routed("glm4moe"), nil, "blk.6.attn_k_b.weight"),
		`"blk.0.exp_probs_b.bias"`: fileOf(routed("deepseek2",
			latentSizes), nil, "blk.0.exp_probs_b.bias"),
		`"blk.0.attn_q_a.bias"`: fileOf(routed("deepseek2", latentSizes), nil, "blk.0.attn_q_a.bias"),
	} {
		_, err := f.Texts()
		if err == nil {
			_, err = f.List()
		}
		if err == nil || !strings.Contains(err.Error(), says) ||
			!errors.Is(err, pack.ErrUnsupported) && !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%v, want one that says %q", err, says)
		}
	}
}
