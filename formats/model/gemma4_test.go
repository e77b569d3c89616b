package model

import (
	"slices"
	"strings"
	"testing"
)

// TestGemma4: heads of blocks with a window and without, what they share, and what else blocks have.
func TestGemma4(t *testing.T) {
	d := mustParse(t, bundled("gemma-4-e2b")[0])
	if d.Global == nil || *d.Global != (HeadShape{1, 512}) || d.HeadDim != 256 || d.KVHeads != 1 ||
		d.Rope.Dim != 512 || d.Rope.LocalDim != 256 || d.Rope.Rotating != 128 || d.AttnScale != 1 ||
		d.LogitSoftcap != 30 || d.CachedLayers() != 15 || d.LayerInputs.Size != 256 || len(d.Unread) > 0 {
		t.Errorf("%+v, unread %q", d.Config, d.Unread)
	}
	if b := d.Blocks[11]; b.Local || b.Q.Out != 4096 || b.K.Out != 512 || b.O.In != 4096 || b.Gate.Out != 6144 ||
		b.KeysAsValues || !b.VNorm.Bare || b.Scalar != "model.layers.11.layer_scalar" {
		t.Errorf("%+v", b)
	}
	if b := d.Blocks[15]; !b.Local || b.KVOf != 15 || b.Q.Out != 2048 || b.Gate.Out != 12288 || b.Down.In != 12288 ||
		d.Intermediate != 12288 || d.Blocks[17].KVOf != 12 || d.Blocks[34].KVOf != 12 {
		t.Errorf("%+v", b)
	}
	d = mustParse(t, bundled("gemma-4-26b-a4b")[0])
	b := d.Blocks[5]
	if *d.Global != (HeadShape{2, 512}) || d.KVHeads != 8 || d.LayerInputs != nil || !b.KeysAsValues ||
		b.V.Weight != "" || b.K.Out != 1024 || d.Blocks[4].KeysAsValues || d.Blocks[4].V.Out != 2048 {
		t.Errorf("%+v, %+v", d.Config, b)
	}
	if x := b.Experts; x.Count != 128 || x.Chosen != 8 || !x.Normalize || x.Up.Rows != (Rows{From: 704, To: 1408}) ||
		x.Down.Weight != "model.layers.5.experts.down_proj" || b.Up.Out != 2112 || x.BesideMLP == nil ||
		x.BesideMLP.RouterNorm.Weight != "model.layers.5.router.scale" {
		t.Errorf("%+v", x)
	}
	if d = mustParse(t, bundled("gemma-4-12b")[0]); *d.Global != (HeadShape{1, 512}) || d.LayerInputs != nil ||
		d.Blocks[47].Experts != nil || d.SlidingWindow != 1024 {
		t.Errorf("%+v", d.Config)
	}
}

// TestGemma4Kinds: the last block has no window, whatever layer_types say, and heads may be listed by layer.
func TestGemma4Kinds(t *testing.T) {
	kinds := func(list string) string {
		three := change(change(gemma4s[1], "layer_types", list), "num_hidden_layers", "3")
		return change(three, "global_head_dim", "64")
	}
	d := mustParse(t, kinds(`["sliding_attention","full_attention","sliding_attention"]`))
	if !d.Blocks[0].Local || d.Blocks[2].Local || d.Blocks[2].Q.Out != 16*64 {
		t.Errorf("%+v", d.Blocks[2])
	}
	full := kinds(`["full_attention","full_attention","sliding_attention"]`)
	if d = mustParse(t, full); d.Global != nil || d.KVHeads != 2 || d.HeadDim != 64 || d.SlidingWindow != 0 ||
		d.Rope.LocalTheta != 0 {
		t.Errorf("%+v", d.Config)
	}
	if d = mustParse(t, change(full, "attention_k_eq_v", "false")); d.KVHeads != 8 {
		t.Errorf("%d key/value heads of values that are no keys", d.KVHeads)
	}
	some := kinds(`["sliding_attention","full_attention","full_attention"]`)
	perLayer := func(v string) string { return change(some, "per_layer_config", v) }
	if d = mustParse(t, perLayer(`{"01":{"head_dim":32},"2":{"head_dim":32}}`)); *d.Global != (HeadShape{8, 32}) ||
		d.HeadDim != 256 {
		t.Errorf("%+v", d.Config)
	}
	if d = mustParse(t, perLayer(`{"0":{"num_key_value_heads":4}}`)); d.KVHeads != 4 || d.Global.KVHeads != 8 {
		t.Errorf("%+v", d.Config)
	}
	if d = mustParse(t, perLayer(`{}`)); d.Global != nil || d.HeadDim != 256 || d.KVHeads != 8 {
		t.Errorf("%+v", d.Config)
	}
	beside := strings.Replace(some, `"rope_parameters":`, `"rope_theta":10000,"rope_parameters":`, 1)
	ropes := func(kind, partial string) string { return withRope(gemma4s[0], gemma4Ropes(kind, partial)) }
	for config, says := range map[string]string{
		perLayer(`{"1":{"head_dim":32}}`):                                 "heads of another shape than earlier layers of its kind",
		perLayer(`{"3":{"head_dim":32}}`):                                 "not the number of a layer",
		perLayer(`{"1":{"sliding_window":32},"2":{"sliding_window":32}}`): "layers can differ in head_dim",
		perLayer(`{"1":{"head_dim":null},"2":{"head_dim":null}}`):         "head_dim is null",
		perLayer(`{"1":[],"2":{}}`):                                       "not an object",
		perLayer(`{"1":{"head_dim":33},"2":{"head_dim":33}}`):             "pairs rotate",
		perLayer(`{"0":{"num_key_value_heads":3}}`):                       "16 heads cannot share 3 key/value heads evenly",
		change(some, "global_head_dim", "null"):                           "global_head_dim is null",
		change(some, "use_bidirectional_attention", `"all"`):              "only causal attention",
		beside:                                                          "stands beside rope_parameters",
		change(some, "top_k_experts", "129"):                            "top_k_experts is 129, of 128 experts",
		change(some, "num_experts", "null"):                             "num_experts is missing",
		change(some, "num_kv_shared_layers", "3"):                       "no earlier block of its kind",
		change(some, "hidden_size_per_layer_input", "1000000000"):       "hidden_size_per_layer_input",
		withRope(some, `{"full_attention":{}}`):                         "rope_theta is missing",
		withRope(some, `{"rope_theta":1e6}`):                            "stands beside, not in",
		change(gemma4s[0], "vocab_size_per_layer_input", "262143"):      "less than vocab_size 262144",
		change(gemma4s[2], "hidden_size_per_layer_input", "256"):        "ignores in this architecture",
		change(gemma4s[2], "enable_moe_block", "true"):                  "no experts in this architecture",
		change(smallLlama, "per_layer_config", `{"0":{"head_dim":32}}`): "configurations of their own",
		change(smallLlama, "use_bidirectional_attention", "true"):       "only causal attention",
		ropes("dynamic", ""):                                            "transformers fails",
		ropes("linear", "0.5"):                                          "transformers ignores in this",
		ropes("proportional", "0.001"):                                  "rotates none",
	} {
		if _, err := Parse([]byte(config), nil, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	d = mustParse(t, gemma4s[1])
	if list := names(d); !slices.Contains(list, "model.layers.5.router.per_expert_scale") ||
		slices.Contains(list, "model.layers.5.self_attn.v_proj.weight") {
		t.Error(list)
	}
}

// withRope replaces the rotations of a configuration.
func withRope(config, ropes string) string {
	from := strings.Index(config, `"rope_parameters":`) + len(`"rope_parameters":`)
	end := from + strings.Index(config[from:], "}}") + 2
	return config[:from] + ropes + config[end:]
}

// gemma4Ropes has a rotation of some type and share for blocks without a window.
func gemma4Ropes(kind, partial string) string {
	if partial != "" {
		partial = `,"partial_rotary_factor":` + partial
	}
	return `{"full_attention":{"rope_type":"` + kind + `","factor":2,"rope_theta":1e6` + partial +
		`},"sliding_attention":{"rope_theta":1e4}}`
}
