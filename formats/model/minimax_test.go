package model

import (
	"strings"
	"testing"
)

var minimaxOf2 = bundled("minimax-m2")[0]

// TestMiniMaxM2: the share of a head that rotates, under three names, and keys that would mean another model.
func TestMiniMaxM2(t *testing.T) {
	small := change(change(minimaxOf2, "num_hidden_layers", "2"), "attn_type_list", "[1,1]")
	for config, dim := range map[string]int{
		small:                               64,
		change(small, "rotary_dim", "null"): 128,
		change(small, "rotary_dim", "32"):   32,
		change(small, "partial_rotary_factor", "0.25"):                              32,
		change(small, "rope_parameters", `{"partial_rotary_factor":0.75,"x":null}`): 96,
	} {
		d := mustParse(t, config)
		b := d.Blocks[1]
		if d.Rope.Dim != dim || d.Rope.Theta != 5e6 || d.HeadNorm != WholeHead || b.QNorm.Weight == "" ||
			b.Experts.Score != Sigmoid || !b.Experts.Normalize || b.Experts.Epsilon != 0 || len(d.Unread) > 0 ||
			b.Experts.ChoiceBias != "model.layers.1.block_sparse_moe.e_score_correction_bias" {
			t.Errorf("%+v, %+v, unread %q; want %d values that rotate", d.Config, b.Experts, d.Unread, dim)
		}
	}
	for config, says := range map[string]string{
		change(small, "attn_type_list", "[1,0]"):          "attn_type_list[1]",
		change(small, "layernorm_mlp_beta", "2.5"):        "layernorm_mlp_beta",
		change(small, "routed_scaling_factor", "2.5"):     "routed_scaling_factor",
		change(small, "qk_norm_type", `"per_head"`):       "the architecture has per_layer",
		change(small, "scoring_func", `"softmax"`):        "the architecture has sigmoid",
		change(small, "use_qk_norm", "false"):             "use_qk_norm",
		change(small, "use_routing_bias", "false"):        "use_routing_bias",
		change(small, "sliding_window", "4096"):           "sliding_window",
		change(small, "attn_window_size", "4096"):         "attn_window_size",
		change(small, "shared_intermediate_size", "1536"): "no shared expert",
		change(small, "rotary_dim", "129"):                "rotary_dim",
		change(small, "rotary_dim", "33"):                 "even number",
		change(small, "num_experts_per_tok", "257"):       "of 256 experts",
		change(small, "num_local_experts", "null"):        "num_local_experts is missing",
	} {
		if _, err := Parse([]byte(config), nil, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
