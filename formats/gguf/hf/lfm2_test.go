package hf_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/gguf/hf"
	"github.com/lowpack/lowpack/pack"
)

// convolved are the keys of an LFM2 whose blocks have the given key/value heads, with others.
func convolved(arch string, heads []int32, more ...keyValues) *gguf.Header {
	own := keyValues{".attention.head_count_kv": gguf.I32sValue(heads), ".attention.sliding_window": count(0),
		".shortconv.l_cache": count(4)}
	return routed(arch, slices.Insert(more, 0, own)...)
}

// lfm2 is convolved without experts.
func lfm2(heads []int32, more ...keyValues) *gguf.Header {
	return convolved("lfm2", heads,
		slices.Insert(more, 0, keyValues{".expert_count": count(0), ".expert_used_count": count(0)})...)
}

// lfm2moe is convolved with experts.
func lfm2moe(more ...keyValues) *gguf.Header {
	return convolved("lfm2moe", []int32{0, 4, 0, 4, 0, 4}, slices.Insert(more, 0, sigmoid(nil))...)
}

// TestConvolutions: blocks without key/value heads have a convolution, whose weights have three dimensions in a
// checkpoint.
func TestConvolutions(t *testing.T) {
	for want, h := range map[string]*gguf.Header{
		"lfm2 2 cc-c-c 96 ......":     lfm2([]int32{0, 0, 2, 0, 2, 0}),
		"lfm2_moe 4 c-c-c- 96 ...888": lfm2moe(keyValues{".leading_dense_block_count": count(3)}),
		"lfm2_moe 4 c-c-c- 96 888888": lfm2moe(),
		"lfm2_moe 4 c-c-c- 96 ......": lfm2moe(keyValues{".leading_dense_block_count": count(6)}),
		"lfm2_moe 4 c-c-c- 96 .88888": lfm2moe(keyValues{".leading_dense_block_count": count(1)}, plainWeights),
		"lfm2 1 -c---- 96 ......":     lfm2([]int32{1, 0, 1, 1, 1, 1}),
	} {
		f := fileOf(h, nil)
		d := describe(t, f)
		kinds, experts := "", ""
		for i := range d.Blocks {
			b := &d.Blocks[i]
			kinds += map[bool]string{true: "-", false: "c"}[b.Mixer == nil]
			if b.Mixer != nil && b.Mixer.Conv.Width != 4 {
				t.Errorf("a width of %d", b.Mixer.Conv.Width)
			}
			if x := b.Experts; x != nil {
				experts += fmt.Sprint(x.Count)
			} else {
				experts += "."
			}
		}
		if got := fmt.Sprint(d.Family, " ", d.KVHeads, " ", kinds, " ", d.Intermediate, " ", experts); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		const conv = "blk.0." + hf.ConvPart + ".weight"
		f.Tensors[conv] = gguf.TensorInfo{Name: conv, Shape: []int64{64, 4}}
		list, err := f.List()
		if err != nil || list[0].Name != "model.layers.0.conv.conv.weight" ||
			fmt.Sprint(list[0].Shape()) != "[64 1 4]" {
			t.Errorf("%+v, %v", list, err)
		}
	}
}

// plainWeights are keys of experts' weights that say what llama.cpp computes without them.
var plainWeights = keyValues{".expert_weights_scale": gguf.FloatValue(1), ".expert_weights_norm": gguf.BoolValue(true),
	".expert_group_count": count(1)}

// TestNamesOfLFM2: the norm of the output has the name of one of embeddings.
func TestNamesOfLFM2(t *testing.T) {
	list, err := fileOf(lfm2moe(), nil, "token_embd_norm.weight", "blk.1.attn_output.weight",
		"blk.1.attn_k_norm.weight", "blk.0.shortconv.in_proj.weight", "blk.0.shortconv.out_proj.weight",
		"blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "blk.0.ffn_up.weight", "blk.5.ffn_gate_inp.weight",
		"blk.5.exp_probs_b.bias").List()
	var names []string
	for _, x := range list {
		names = append(names, strings.TrimPrefix(x.Name, "model."))
	}
	want := []string{"layers.0.operator_norm.weight", "layers.0.ffn_norm.weight", "layers.0.feed_forward.w3.weight",
		"layers.0.conv.in_proj.weight", "layers.0.conv.out_proj.weight", "layers.1.self_attn.k_layernorm.weight",
		"layers.1.self_attn.out_proj.weight", "layers.5.feed_forward.expert_bias", "layers.5.feed_forward.gate.weight",
		"embed_tokens.weight", "embedding_norm.weight"}
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v", names, err)
	}
}

// TestRefusedConvolutions: what config.json cannot say, or llama.cpp does not compute, is refused by name.
func TestRefusedConvolutions(t *testing.T) {
	heads := []int32{0, 2, 2, 2, 2, 2}
	with := func(key string, v gguf.Value) *hf.File { return fileOf(lfm2(heads, keyValues{key: v}), nil) }
	routes := func(key string, v gguf.Value) *hf.File { return fileOf(lfm2moe(keyValues{key: v}), nil) }
	tensor := func(name string, shape ...int64) *hf.File {
		f := fileOf(lfm2(heads), nil)
		f.Tensors[name] = gguf.TensorInfo{Name: name, Shape: shape}
		return f
	}
	const list = `"lfm2.attention.head_count_kv" must have a number for each of 6 blocks`
	for _, c := range []struct {
		says string
		f    *hf.File
	}{
		{list, fileOf(lfm2(heads[:5]), nil)},
		{list, fileOf(lfm2(append(heads, 2)), nil)},
		{list, with(".attention.head_count_kv", count(2))},
		{`differs between layers (1 and 2)`, fileOf(lfm2([]int32{0, 2, 1, 2, 0, 0}), nil)},
		{`differs between layers (-2 and 2)`, fileOf(lfm2([]int32{0, 2, -2, 2, 0, 0}), nil)},
		{`"lfm2.attention.head_count_kv" has no block with attention`, fileOf(lfm2(make([]int32, 6)), nil)},
		{`"lfm2.attention.head_count_kv" has no block with attention`,
			fileOf(lfm2([]int32{-1, -1, -1, -1, -1, -1}), nil)},
		{`"lfm2.attention.sliding_window" is 32`, with(".attention.sliding_window", count(32))},
		{`"lfm2.nextn_predict_layers" is 1`, fileOf(lfm2(heads[:5], keyValues{".nextn_predict_layers": count(1)}), nil)},
		{`"lfm2.attention.causal" is false`, with(".attention.causal", gguf.BoolValue(false))},
		{`"lfm2.rope.dimension_count" is 8`, with(".rope.dimension_count", count(8))},
		{`"lfm2.shortconv.l_cache" is not an integer`, with(".shortconv.l_cache", gguf.TextValue("4"))},
		{`"lfm2.shortconv.l_cache" is missing`, fileOf(changedKeys("lfm2", keyValues{
			".attention.head_count_kv": gguf.I32sValue(heads), ".attention.sliding_window": count(0)}), nil)},
		{`"lfm2.expert_count" is 8`, with(".expert_count", count(8))},
		{`"lfm2moe.expert_count" is 0`, routes(".expert_count", count(0))},
		{`"lfm2moe.expert_gating_func" is 1, must be 2`, routes(".expert_gating_func", count(1))},
		{`"lfm2moe.expert_gating_func" is 0, must be 2`, fileOf(convolved("lfm2moe", heads), nil)},
		{`"lfm2moe.expert_group_count" is 2`, routes(".expert_group_count", count(2))},
		{`"lfm2moe.expert_weights_scale" is 2.5`, routes(".expert_weights_scale", gguf.FloatValue(2.5))},
		{`"lfm2moe.expert_weights_norm" is false`, routes(".expert_weights_norm", gguf.BoolValue(false))},
		{`"lfm2moe.attention.sliding_window" is 32`, routes(".attention.sliding_window", count(32))},
		{`"blk.0.shortconv.conv.bias"`, tensor("blk.0.shortconv.conv.bias", 64)},
		{`"blk.0.shortconv.in_proj.bias"`, tensor("blk.0.shortconv.in_proj.bias", 192)},
		{`"blk.0.shortconv.conv.weight": unsupported: it has 3 dimensions`,
			tensor("blk.0.shortconv.conv.weight", 64, 1, 4)},
		{`"blk.1.attn_q.bias"`, tensor("blk.1.attn_q.bias", 64)},
		{`"output_norm.weight"`, tensor("output_norm.weight", 64)},
		{`"dense_2_out.weight"`, tensor("dense_2_out.weight", 32, 64)},
		{`"rope_freqs.weight"`, tensor("rope_freqs.weight", 8)},
	} {
		_, err := c.f.Texts()
		if err == nil {
			_, err = c.f.List()
		}
		if err == nil || !strings.Contains(err.Error(), c.says) ||
			!errors.Is(err, pack.ErrUnsupported) && !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%v, want one that says %q", err, c.says)
		}
	}
}
