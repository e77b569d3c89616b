package model

import (
	"slices"
	"strings"
	"testing"
)

const granite4H1B = `{"architectures":["GraniteMoeHybridForCausalLM"],"model_type":"granitemoehybrid","attention_bias":false,
"attention_multiplier":0.0078125,"bos_token_id":100257,"embedding_multiplier":12,"eos_token_id":100257,"hidden_act":"silu",
"hidden_size":1536,"init_method":"mup","intermediate_size":4096,"layer_types":["mamba","attention","mamba","mamba"],
"logits_scaling":6,"mamba_chunk_size":256,"mamba_conv_bias":true,"mamba_d_conv":4,"mamba_d_head":64,"mamba_d_state":128,
"mamba_expand":2,"mamba_n_groups":1,"mamba_n_heads":48,"mamba_proj_bias":false,"max_position_embeddings":131072,
"normalization_function":"rmsnorm","num_attention_heads":12,"num_experts_per_tok":0,"num_hidden_layers":4,
"num_key_value_heads":4,"num_local_experts":0,"position_embedding_type":"nope","residual_multiplier":0.22,"rms_norm_eps":1e-05,
"rope_theta":10000,"shared_intermediate_size":2048,"tie_word_embeddings":true,"vocab_size":100352}`

// TestGraniteHybrid: sizes, kinds of layers and names.
func TestGraniteHybrid(t *testing.T) {
	d := mustParse(t, granite4H1B)
	const inner, channels = 3072, 3072 + 2*128
	if d.Intermediate != 2048 || d.AttentionLayers() != 1 || d.StateBytes() != 3*4*(3*channels+inner*128) ||
		len(d.Unread) > 0 || !d.Blocks[1].NoRope || d.ResidualScale != 0.22 {
		t.Errorf("%+v, %d bytes, unread %v", d.Config, d.StateBytes(), d.Unread)
	}
	m := d.Blocks[0].Mixer
	if m.Kind != Mamba2 || m.In.Out != inner+channels+48 || m.In.Bias != "" || m.Conv.Bias == "" ||
		m.SSD.HeadDim != 64 || m.SSD.ALog != "model.layers.0.mamba.A_log" || d.Blocks[1].Mixer != nil ||
		d.Blocks[0].HasAttention() {
		t.Errorf("%+v, %+v", m, m.SSD)
	}
	biases := mustParse(t, change(granite4H1B, "mamba_proj_bias", "true")).Blocks[0].Mixer
	if biases.In.Bias == "" || biases.Out.Bias == "" {
		t.Errorf("%+v", biases)
	}
	if mustParse(t, change(granite4H1B, "position_embedding_type", `"rope"`)).Blocks[1].NoRope {
		t.Error("position_embedding_type is not read")
	}
	none := mustParse(t, change(granite4H1B, "layer_types", "null"))
	if none.AttentionLayers() != 0 {
		t.Errorf("%d layers attend without layer_types", none.AttentionLayers())
	}
	blocks := change(change(granite4H1B, "layer_types", "null"), "layers_block_type",
		`["attention","attention","mamba","attention"]`)
	if n := mustParse(t, blocks).AttentionLayers(); n != 3 {
		t.Errorf("%d layers attend by layers_block_type", n)
	}
	for _, most := range []string{`{"__float__":"Infinity"}`, "Infinity"} {
		limits := change(granite4H1B, "time_step_limit", "[0.0,"+most+"]")
		if !slices.Equal(mustParse(t, limits).Unread, nil) {
			t.Error("time_step_limit is not read")
		}
	}
}

// TestGraniteHybridRefused: what this program does not compute, or the file leaves open.
func TestGraniteHybridRefused(t *testing.T) {
	for key, c := range map[string][2]string{
		"num_local_experts": {"62", "experts"}, "mamba_n_heads": {"47", "not the inner size"},
		"mamba_n_groups": {"5", "does not divide"}, "hidden_act": {`"gelu_pytorch_tanh"`, "only silu"},
		"time_step_limit": {"[0.001,0.1]", "time_step_limit"}, "layer_types": {`["mamba"]`, "1 entries for 4"},
		"normalization_function": {`"layernorm"`, "only rmsnorm"}, "layers_block_type": {`["mamba"]`, "two names"},
		"position_embedding_type": {`"alibi"`, "supported are rope and nope"}, "mamba_d_conv": {"1", "at least 2"},
		"mamba_d_head": {"32", "not the inner size"},
	} {
		if _, err := Parse([]byte(change(granite4H1B, key, c[0])), nil, nil); err == nil ||
			!strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s %s: %v", key, c[0], err)
		}
	}
	sliding := change(granite4H1B, "layer_types", `["mamba","sliding_attention","mamba","mamba"]`)
	if _, err := Parse([]byte(sliding), nil, nil); err == nil || !strings.Contains(err.Error(), "supported are") {
		t.Errorf("%v", err)
	}
}
