package model

import (
	"strings"
	"testing"
)

const bamba9B = `{"architectures":["BambaForCausalLM"],"model_type":"bamba","attention_bias":false,"attn_layer_indices":[1],
"attn_rotary_emb":64,"bos_token_id":128000,"eos_token_id":128001,"hidden_act":"silu","hidden_size":4096,"intermediate_size":14336,
"mamba_chunk_size":256,"mamba_conv_bias":true,"mamba_d_conv":4,"mamba_d_head":64,"mamba_d_state":128,"mamba_expand":2,
"mamba_n_groups":1,"mamba_n_heads":128,"mamba_proj_bias":false,"max_position_embeddings":262144,"mlp_bias":false,
"num_attention_heads":32,"num_hidden_layers":2,"num_key_value_heads":8,"num_logits_to_keep":1,"rms_norm_eps":1e-05,
"rope_theta":10000.0,"tie_word_embeddings":false,"vocab_size":128256}`

// TestBamba: which blocks attend, the half rotation, and the names of norms and MLP.
func TestBamba(t *testing.T) {
	d := mustParse(t, bamba9B)
	b := d.Blocks[1]
	if !b.HasAttention() || d.Blocks[0].HasAttention() || d.Rope.Dim != 64 || len(d.Unread) > 0 ||
		d.FinalNorm.Weight != "model.final_layernorm.weight" ||
		b.FFNNorm.Weight != "model.layers.1.pre_ff_layernorm.weight" || d.Blocks[0].Mixer.SSD.Heads != 128 {
		t.Errorf("%+v, unread %v", d, d.Unread)
	}
	if n := mustParse(t, change(bamba9B, "attn_layer_indices", "null")).AttentionLayers(); n != 0 {
		t.Errorf("%d layers attend without attn_layer_indices", n)
	}
	biased := mustParse(t, change(change(bamba9B, "mlp_bias", "true"), "mamba_proj_bias", "true")).Blocks[0]
	if biased.Gate.Bias != "model.layers.0.feed_forward.gate_proj.bias" || biased.Mixer.Out.Bias == "" {
		t.Errorf("%+v", biased)
	}
	for key, value := range map[string]string{"partial_rotary_factor": "1.0", "attn_rotary_emb": "128"} {
		if _, err := Parse([]byte(change(bamba9B, key, value)), nil, nil); err == nil ||
			!strings.Contains(err.Error(), "transformers ignores it") {
			t.Errorf("%s: %v", key, err)
		}
	}
}
