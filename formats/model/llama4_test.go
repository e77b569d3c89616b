package model

import (
	"strings"
	"testing"
)

// TestLlama4: which blocks rotate, attend to chunks and have experts, and the factor of queries.
func TestLlama4(t *testing.T) {
	small := change(change(change(llama4Scout, "num_hidden_layers", "4"), "interleave_moe_layer_step", "2"),
		"no_rope_layers", "[1,1,1,0]")
	kinds := func(d *Description) (rotated, local, norms, experts string) {
		bit := func(is bool) string { return map[bool]string{true: "1", false: "0"}[is] }
		for _, b := range d.Blocks {
			rotated, local = rotated+bit(!b.NoRope), local+bit(b.Local)
			norms, experts = norms+bit(b.QNorm.Bare && b.KNorm.Bare), experts+bit(b.Experts != nil)
		}
		return rotated, local, norms, experts
	}
	for _, c := range []struct{ config, rotated, local, norms, experts string }{
		{small, "1110", "1110", "1110", "0101"},
		{change(small, "no_rope_layers", "[]"), "1110", "1110", "1110", "0101"},
		{change(change(small, "no_rope_layers", "[]"), "no_rope_layer_interval", "2"), "1010", "1010", "1010", "0101"},
		{change(small, "use_qk_norm", "false"), "1110", "1110", "0000", "0101"},
		{change(small, "moe_layers", "[0]"), "1110", "1110", "1110", "1000"},
		{change(small, "moe_layers", "[]"), "1110", "1110", "1110", "0000"},
		{change(small, "layer_types", `["full_attention","chunked_attention","full_attention","chunked_attention"]`),
			"1110", "0101", "1110", "0101"},
	} {
		d := mustParse(t, c.config)
		rotated, local, norms, experts := kinds(d)
		if rotated != c.rotated || local != c.local || norms != c.norms || experts != c.experts {
			t.Errorf("%s %s %s %s for %+v", rotated, local, norms, experts, c)
		}
		if !d.Chunked || d.SlidingWindow != 8192 || d.Rope.StillBeta != 0.1 || d.Rope.StillSpan != 8192 {
			t.Errorf("%+v", d.Config)
		}
	}
	d := mustParse(t, small)
	x := d.Blocks[1].Experts
	if !x.Inputs || x.Score != Sigmoid || !x.Gate.Turned || x.Up.Rows != (Rows{From: 8192, To: 16384}) ||
		d.Blocks[1].Up.Out != 8192 || d.Blocks[0].Up.Out != 16384 || len(d.Unread) > 0 {
		t.Errorf("%+v, %+v, unread %q", x, d.Blocks[0].Up, d.Unread)
	}
	const full = `["full_attention","full_attention","full_attention","full_attention"]`
	if d = mustParse(t, change(change(small, "layer_types", full), "attn_temperature_tuning",
		"false")); d.Chunked || d.SlidingWindow != 0 || d.Rope.StillBeta != 0 {
		t.Errorf("%+v", d.Config)
	}
	for config, says := range map[string]string{
		change(small, "no_rope_layers", "[1,0]"):        "2 entries for 4",
		change(small, "layer_types", `["x"]`):           "1 entries for 4",
		change(small, "attention_chunk_size", "null"):   "attention_chunk_size",
		change(small, "num_experts_per_tok", "17"):      "of 16 experts",
		change(small, "attn_temperature_tuning", "4"):   "attn_temperature_tuning",
		change(small, "no_rope_layer_interval", "0"):    "no_rope_layer_interval",
		change(small, "interleave_moe_layer_step", "0"): "interleave_moe_layer_step",
	} {
		if _, err := Parse([]byte(config), nil, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
