package model

import (
	"slices"
	"strings"
	"testing"
)

// TestGemma3n: which blocks share keys and values, and what else they have.
func TestGemma3n(t *testing.T) {
	d := mustParse(t, bundled("gemma-3n-e2b")[0])
	var of []int
	for i := range d.Blocks {
		of = append(of, d.Blocks[i].KVOf)
	}
	// The last 10 of 30 read those of blocks 18, with a window, and 19, as counted from 0.
	want := append(make([]int, 20), 19, 19, 19, 19, 20, 19, 19, 19, 19, 20)
	if !slices.Equal(of, want) || d.CachedLayers() != 20 || d.AttentionLayers() != 30 {
		t.Errorf("%v, %d blocks with keys and values", of, d.CachedLayers())
	}
	b := d.Blocks[0]
	if d.NormPlusOne || d.AttnScale != 1 || d.LogitSoftcap != 30 || d.SlidingWindow != 512 || d.Blocks[4].Local ||
		d.Rope.Theta != 1e6 || d.Rope.LocalTheta != 1e4 || !b.VNorm.Bare || b.Sparsity != 0.95 ||
		d.Blocks[10].Sparsity != 0 || b.Laurel.Left.Out != 64 || b.AltUp.Scale == "" || d.Head != d.Embed ||
		len(d.Unread) > 0 {
		t.Errorf("%+v, %+v, unread %q", d.Config, b, d.Unread)
	}
	if x, s := d.LayerInputs, d.Streams; x.Size != 256 || x.Rows != 262144 || s.Count != 4 || s.Active != 0 ||
		s.From[2] != "model.altup_unembed_projections.2.weight" {
		t.Errorf("%+v, %+v", x, s)
	}
	if b = d.Blocks[29]; b.K.Weight != "" || !b.KNorm.Skipped() || !slices.Contains(d.Spare, Spare{
		"model.layers.29.self_attn.k_proj.", "keys and values that are shared"}) || len(b.Linears()) != 9 {
		t.Errorf("%+v", b)
	}
	small := change(change(gemma3nE2B, "num_hidden_layers", "12"), "activation_sparsity_pattern", "null")
	if d = mustParse(t, small); d.Blocks[9].Sparsity != 0.95 || d.Blocks[10].Sparsity != 0 {
		t.Error("10 of 12 layers are sparse by default")
	}
	two := change(small, "num_hidden_layers", "2")
	if d = mustParse(t, two); d.Blocks[0].Sparsity != 0 {
		t.Error("a layer of 2 is sparse by default")
	}
	d = mustParse(t, change(change(change(two, "intermediate_size", "[64,96]"), "activation_sparsity_pattern",
		"[0,0.5]"), "altup_correct_scale", "false"))
	if b = d.Blocks[1]; d.Intermediate != 96 || d.Blocks[0].Down.In != 64 || b.Up.Out != 96 || b.Sparsity != 0.5 ||
		b.AltUp.Scale != "" || d.Blocks[0].Sparsity != 0 {
		t.Errorf("%+v", b)
	}
	for config, says := range map[string]string{
		change(two, "num_kv_shared_layers", "3"):                "more than num_hidden_layers",
		change(two, "num_kv_shared_layers", "2"):                "no earlier block of its kind",
		change(two, "altup_active_idx", "4"):                    "of 4 streams",
		change(two, "altup_num_inputs", "1"):                    "must be at least 2",
		change(two, "altup_num_inputs", "17"):                   "more than 16",
		change(two, "intermediate_size", "[64]"):                "1 entries for 2 layers",
		change(two, "intermediate_size", "[64,0]"):              "or 0",
		change(two, "activation_sparsity_pattern", "0.5"):       "not a list",
		change(two, "activation_sparsity_pattern", "[0.5]"):     "1 entries for 2 layers",
		change(two, "activation_sparsity_pattern", "[0,1]"):     "from 0 to 0.999",
		change(two, "hidden_size_per_layer_input", "0"):         "hidden_size_per_layer_input",
		change(two, "laurel_rank", "0"):                         "laurel_rank",
		change(two, "hidden_size_per_layer_input", "999999999"): "hidden_size_per_layer_input",
	} {
		if _, err := Parse([]byte(config), nil, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
