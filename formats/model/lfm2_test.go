package model

import (
	"slices"
	"strings"
	"testing"
)

const lfm212B = `{"architectures":["Lfm2ForCausalLM"],"model_type":"lfm2","block_auto_adjust_ff_dim":true,"block_dim":2048,
"block_ff_dim":12288,"block_ffn_dim_multiplier":1.0,"block_mlp_init_scale":1.0,"block_multiple_of":256,"block_norm_eps":1e-05,
"block_out_init_scale":1.0,"block_use_swiglu":true,"block_use_xavier_init":true,"bos_token_id":1,"conv_L_cache":3,
"conv_bias":false,"conv_dim":2048,"conv_dim_out":2048,"conv_use_xavier_init":true,"eos_token_id":7,
"full_attn_idxs":[2,5,8,10,12,14],"hidden_size":2048,"max_position_embeddings":128000,"norm_eps":1e-05,
"num_attention_heads":32,"num_heads":32,"num_hidden_layers":16,"num_key_value_heads":8,"rope_theta":1000000.0,
"use_pos_enc":true,"vocab_size":65536}`

// TestLFM2: which blocks attend, and how wide the MLP is, in old and new files.
func TestLFM2(t *testing.T) {
	d := mustParse(t, lfm212B)
	if d.Intermediate != 8192 || d.NormEps != 1e-5 || d.Head != d.Embed || d.AttentionLayers() != 6 ||
		d.StateBytes() != 10*2*2048*4 || len(d.Unread) > 0 {
		t.Errorf("%+v, unread %v", d.Config, d.Unread)
	}
	attends := func(config string) (list []int) {
		for i, b := range mustParse(t, config).Blocks {
			if b.HasAttention() != (b.Mixer == nil) || b.HasAttention() != (b.QNorm != Norm{}) {
				t.Errorf("block %d: %+v", i, b)
			}
			if b.HasAttention() {
				list = append(list, i)
			}
		}
		return list
	}
	few := change(lfm212B, "num_hidden_layers", "3")
	for _, c := range []struct {
		config string
		want   []int
	}{
		{lfm212B, []int{2, 5, 8, 10, 12, 14}},
		{few, []int{2}},
		{change(few, "full_attn_idxs", "null"), []int{0, 1, 2}},
		{change(few, "full_attn_idxs", "[]"), nil},
		{change(few, "layer_types", `["full_attention","conv","conv"]`), []int{0}},
	} {
		if got := attends(c.config); !slices.Equal(got, c.want) {
			t.Errorf("blocks %v attend, want %v\n%s", got, c.want, c.config)
		}
	}
	for _, c := range []struct {
		key, value string
		want       int
	}{
		{"block_auto_adjust_ff_dim", "false", 12288}, {"block_ffn_dim_multiplier", "1.3", 10752},
		{"block_ffn_dim_multiplier", "null", 8192}, {"block_ff_dim", "10000", 6912}, {"block_multiple_of", "100", 8200},
	} {
		if got := mustParse(t, change(lfm212B, c.key, c.value)).Intermediate; got != c.want {
			t.Errorf("%s %s: an MLP of %d, want %d", c.key, c.value, got, c.want)
		}
	}
	if d := mustParse(t, change(lfm212B, "tie_embedding", "false")); d.Head == d.Embed {
		t.Error("tie_embedding is not read")
	}
	b := mustParse(t, change(lfm212B, "conv_bias", "true")).Blocks[0].Mixer
	if b.In.Bias == "" || b.Out.Bias == "" || b.Conv.Bias != "model.layers.0.conv.conv.bias" {
		t.Errorf("%+v", b)
	}
}

// TestLFM2Refused: files that say what transformers does not compute.
func TestLFM2Refused(t *testing.T) {
	for key, c := range map[string][2]string{
		"block_dim": {"1024", "transformers ignores it"}, "num_heads": {"16", "transformers ignores it"},
		"block_norm_eps": {"1e-6", "transformers ignores it"}, "use_pos_enc": {"false", "without positions"},
		"block_use_swiglu": {"false", "gated"}, "conv_L_cache": {"1", "must be at least 2"},
		"layer_types": {`["conv"]`, "1 entries for 16"}, "norm_eps": {"0", "greater than 0"},
		"block_ffn_dim_multiplier": {"1e5", "the MLP has"},
	} {
		config := change(lfm212B, key, c[0])
		if _, err := Parse([]byte(config), nil, nil); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s %s: %v", key, c[0], err)
		}
	}
	sliding := change(change(lfm212B, "num_hidden_layers", "1"), "layer_types", `["sliding_attention"]`)
	if _, err := Parse([]byte(sliding), nil, nil); err == nil || !strings.Contains(err.Error(), "conv") {
		t.Errorf("%v", err)
	}
}
