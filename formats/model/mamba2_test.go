package model

import (
	"strings"
	"testing"
)

// TestMamba2: a model without attention and without MLPs.
func TestMamba2(t *testing.T) {
	d := mustParse(t, mambaCodestral)
	b := d.Blocks[63]
	if b.HasAttention() || b.HasMLP() || d.AttentionLayers() != 0 || len(b.Linears()) != 2 ||
		b.AttnNorm.Weight != "backbone.layers.63.norm.weight" || b.Mixer.SSD.Norm == "" || b.Mixer.SSD.NormFirst ||
		d.Head != headName || d.Intermediate != 0 || d.MaxPositions != maxPositions || len(d.Unread) > 0 {
		t.Errorf("%+v, unread %q", b, d.Unread)
	}
	// Of 64 layers, three positions of the convolution and a state of 128 values for each of 8192.
	if n := int64(64 * 4 * (3*(8192+2*8*128) + 8192*128)); d.StateBytes() != n {
		t.Errorf("a state of %d bytes, not %d", d.StateBytes(), n)
	}
	if d = mustParse(t, change(mambaCodestral, "use_bias", "true")); d.Blocks[0].Mixer.Out.Bias == "" ||
		d.Blocks[0].Mixer.In.Bias == "" {
		t.Errorf("%+v", d.Blocks[0].Mixer)
	}
	for config, says := range map[string]string{
		change(mambaCodestral, "num_heads", "127"):             "not the inner size",
		change(mambaCodestral, "n_groups", "3"):                "does not divide",
		change(mambaCodestral, "hidden_act", `"gelu"`):         "only silu",
		change(mambaCodestral, "time_step_limit", "[0.1,0.2]"): "time_step_limit",
		change(mambaCodestral, "rms_norm", "false"):            "always",
		change(mambaCodestral, "intermediate_size", "4096"):    "computes with 8192",
	} {
		if _, err := Parse([]byte(config), nil, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
