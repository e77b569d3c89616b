package model

import (
	"slices"
	"strings"
	"testing"
)

// TestMamba: models of Mamba layers alone, with norms of their parameters and without.
func TestMamba(t *testing.T) {
	d := mustParse(t, mambas[0])
	b := d.Blocks[23]
	s := b.Mixer.Selective
	if b.HasAttention() || b.HasMLP() || len(b.Linears()) != 3 || d.Head != d.Embed || s.Channels != 1536 ||
		s.Rank != 48 || s.StateDim != 16 || s.Params.Out != 48+2*16 || !s.StepNorm.Skipped() ||
		s.ALog != "backbone.layers.23.mixer.A_log" || b.Mixer.In.Bias != "" || len(d.Unread) > 0 {
		t.Errorf("%+v, %+v, unread %q", b, s, d.Unread)
	}
	if n := int64(24 * 4 * (3*1536 + 1536*16)); d.StateBytes() != n {
		t.Errorf("a state of %d bytes, not %d", d.StateBytes(), n)
	}
	if d = mustParse(t, change(change(mambas[0], "use_bias", "true"), "time_step_rank", `"auto"`)); d.Blocks[0].Mixer.
		Out.Bias == "" || d.Blocks[0].Mixer.Selective.Rank != 48 {
		t.Errorf("%+v", d.Blocks[0].Mixer)
	}
	odd := change(change(mambas[1], "hidden_size", "4100"), "intermediate_size", "8200")
	if n := mustParse(t, change(odd, "time_step_rank", "null")).Blocks[0].Mixer.Selective.Rank; n != 257 {
		t.Errorf("steps of %d values", n)
	}
	d = mustParse(t, change(mambas[1], "mixer_rms_eps", "0.5"))
	if s = d.Blocks[0].Mixer.Selective; !s.StepNorm.Bare || !s.BNorm.Bare || !s.CNorm.Bare || s.NormEps != 0.5 ||
		d.NormEps != 1e-5 || d.Head == d.Embed || len(d.Unread) > 0 {
		t.Errorf("%+v, unread %q", s, d.Unread)
	}
	for config, says := range map[string]string{
		change(mambas[0], "hidden_act", `"gelu"`):      "only silu",
		change(mambas[0], "rms_norm", "false"):         "always",
		change(mambas[0], "intermediate_size", "1024"): "computes with 1536",
		change(mambas[0], "d_model", "1024"):           "computes with 768",
		change(mambas[0], "time_step_rank", `"all"`):   "time_step_rank",
		change(mambas[0], "state_size", "0"):           "state_size",
		change(mambas[0], "state_size", "4097"):        "more than 4096",
	} {
		if _, err := Parse([]byte(config), nil, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// TestJamba: which layers attend, and which have experts.
func TestJamba(t *testing.T) {
	kinds := func(d *Description) (attends, experts string) {
		for i := range d.Blocks {
			b := &d.Blocks[i]
			attends += map[bool]string{true: "1", false: "0"}[b.HasAttention()]
			experts += map[bool]string{true: "1", false: "0"}[b.Experts != nil]
		}
		return attends, experts
	}
	small := change(mambas[2], "num_hidden_layers", "8")
	for _, c := range []struct{ config, attends, experts string }{
		{small, "00001000", "01010101"},
		{change(change(small, "attn_layer_period", "3"), "attn_layer_offset", "2"), "00100100", "01010101"},
		{change(change(small, "expert_layer_period", "4"), "expert_layer_offset", "0"), "00001000", "10001000"},
		{change(change(small, "num_experts", "1"), "num_experts_per_tok", "1"), "00001000", "00000000"},
	} {
		d := mustParse(t, c.config)
		if attends, experts := kinds(d); attends != c.attends || experts != c.experts || len(d.Unread) > 0 {
			t.Errorf("%s %s, unread %q, for %+v", attends, experts, d.Unread, c)
		}
	}
	list := func(one, other string) string {
		kinds := slices.Repeat([]string{`"` + one + `"`}, 8)
		kinds[4] = `"` + other + `"`
		return "[" + strings.Join(kinds, ",") + "]"
	}
	listed := change(change(small, "layers_block_type", list("mamba", "attention")), "layer_types",
		list("linear_attention", "full_attention"))
	d := mustParse(t, listed)
	if b := d.Blocks[1]; b.Mixer.Selective.BNorm.Weight != "model.layers.1.mamba.b_layernorm.weight" ||
		b.Mixer.Selective.NormEps != 1e-6 || !d.Blocks[4].NoRope || b.Experts.Normalize ||
		b.Experts.Router != "model.layers.1.feed_forward.router.weight" {
		t.Errorf("%+v, %+v", b, b.Mixer.Selective)
	}
	for config, says := range map[string]string{
		change(small, "attn_layer_offset", "8"):          "attn_layer_offset 8 is not less",
		change(small, "expert_layer_offset", "2"):        "expert_layer_offset 2 is not less",
		change(small, "mamba_inner_layernorms", "false"): "always",
		change(small, "sliding_window", "512"):           "sliding_window",
		change(listed, "attn_layer_offset", "5"):         "layers_block_type[4]",
		change(small, "layer_types", `["mamba"]`):        "layer_types has 1 entries",
		change(small, "num_experts_per_tok", "17"):       "of 16 experts",
		change(small, "hidden_act", `"relu"`):            "only silu",
	} {
		if _, err := Parse([]byte(config), nil, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
