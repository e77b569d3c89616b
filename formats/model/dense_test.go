package model

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// bundled returns configurations of package synth in the form of those in family_test.go, without layer_types, which
// would not fit another number of layers.
func bundled(names ...string) (configs []string) {
	for _, name := range names {
		data, err := os.ReadFile("../synth/configs/" + name + ".json")
		if err != nil {
			panic(err)
		}
		var text bytes.Buffer
		if err := json.Compact(&text, data); err != nil {
			panic(err)
		}
		config := text.String()
		if strings.Contains(config, `"layer_types"`) {
			config = change(config, "layer_types", "null")
		}
		configs = append(configs, config)
	}
	return configs
}

// dense are configurations of families that tests compare with transformers in every form (TestInteropLogits).
var dense = bundled("ministral-8b", "ministral-3-3b", "olmo-7b-0424", "seed-oss-36b", "cwm-32b", "afm-4.5b",
	"ernie-4.5-0.3b", "helium-1-2b", "glm-4-9b", "glm-4-9b-0414", "minitron-4b", "starcoder2-3b", "stablelm-2-1.6b",
	"stablelm-2-12b", "command-r-v01", "command-r-plus", "command-r7b", "apertus-8b", "phi-2")

// TestDenseParts: what blocks are made of.
func TestDenseParts(t *testing.T) {
	for name, right := range map[string]func(d *Description, b *Block) bool{
		"ministral-3-3b": func(d *Description, b *Block) bool {
			y := d.Rope.Yarn
			return d.Rope.QueryBeta == 0.1 && d.Rope.OriginalMaxPositions == 16384 && y.MScale == 1 &&
				y.MScaleAllDim == 1
		},
		"afm-4.5b": func(d *Description, b *Block) bool {
			return b.Gate.Weight == "" && d.Activation == ReLU2 && d.Rope.Yarn.MScale == 0
		},
		"glm-4-9b": func(d *Description, b *Block) bool {
			return d.Rope.Pairs && d.Rope.Dim == 64 && b.Q.Bias != "" && b.O.Bias == "" && b.Up.Rows.From == 13696
		},
		"glm-4-9b-0414": func(d *Description, b *Block) bool {
			return strings.HasSuffix(b.AttnPostNorm.Weight, "post_self_attn_layernorm.weight") &&
				strings.HasSuffix(b.FFNNorm.Weight, "post_attention_layernorm.weight")
		},
		"minitron-4b": func(d *Description, b *Block) bool {
			return d.LayerNorm && d.NormPlusOne && b.AttnNorm.Bias != "" && d.FinalNorm.Bias == "model.norm.bias"
		},
		"stablelm-2-12b": func(d *Description, b *Block) bool {
			return d.Parallel && b.FFNNorm == b.AttnNorm && b.QNorm.Apart() && d.HeadNorm == OwnHead && d.Rope.Dim == 40
		},
		"olmo-7b-0424": func(d *Description, b *Block) bool {
			return b.AttnNorm.Bare && d.FinalNorm.Bare && d.ClipQKV == 8 && d.NormEps == 1e-5
		},
		"command-r-plus": func(d *Description, b *Block) bool {
			return d.HeadNorm == OwnHead && !b.QNorm.Apart() && d.LogitScale != 0 && d.Head == d.Embed &&
				b.AttnNorm.Bias == ""
		},
		"command-r7b": func(d *Description, b *Block) bool {
			last := d.Blocks[3]
			return b.Local && !b.NoRope && last.NoRope && !last.Local && d.SlidingWindow == 4096
		},
		"apertus-8b": func(d *Description, b *Block) bool {
			return b.ActParams.Beta == "model.layers.0.mlp.act_fn.beta" && d.Rope.Factor == 8 && b.QNorm.Weight != ""
		},
		"phi-2": func(d *Description, b *Block) bool {
			return d.HeadBias == "lm_head.bias" && d.Activation == GELUTanh && d.Rope.Dim == 32 && b.Down.Bias != ""
		},
	} {
		if d := mustParse(t, bundled(name)[0]); !right(d, &d.Blocks[0]) {
			t.Errorf("%s: %+v\n%+v", name, d.Config, d.Blocks[0])
		}
	}
}

// TestGemmaPattern: layer_types decide which blocks have a window, whatever pattern stands beside them.
func TestGemmaPattern(t *testing.T) {
	three := change(change(gemma31B, "num_hidden_layers", "3"), "_sliding_window_pattern", "6")
	d := mustParse(t, change(three, "layer_types", `["full_attention","sliding_attention","full_attention"]`))
	if d.Blocks[0].Local || !d.Blocks[1].Local || d.Blocks[2].Local {
		t.Errorf("%+v", d.Blocks)
	}
	other := change(three, "_sliding_window_pattern", "2")
	_, err := Parse([]byte(other), nil, nil)
	if err == nil || !strings.Contains(err.Error(), "_sliding_window_pattern") {
		t.Errorf("%v", err)
	}
}

// TestDenseRefusals: values that transformers does not obey, or that it fails on.
func TestDenseRefusals(t *testing.T) {
	for _, c := range []struct{ name, key, value, says string }{
		{"helium-1-2b", "head_dim", "64", "16 heads of 64 values"},
		{"stablelm-2-1.6b", "head_dim", "32", "head_dim is 32"},
		{"command-r7b", "use_qk_norm", "true", "use_qk_norm"},
		{"command-r7b", "use_parallel_block", "false", "use_parallel_block"},
		{"apertus-8b", "post_norm", "true", "post_norm"},
		{"apertus-8b", "qk_norm", "false", "qk_norm"},
		{"phi-2", "partial_rotary_factor", "0.0125", "partial_rotary_factor"},
		{"cwm-32b", "partial_rotary_factor", "0.5", "partial_rotary_factor"},
		{"minitron-4b", "norm_eps", "null", "norm_eps is missing"},
		{"ministral-3-3b", "rope_parameters", `{"rope_type":"yarn","factor":4.0}`, "llama_4_scaling_beta is missing"},
	} {
		config := bundled(c.name)[0]
		if c.key == "rope_parameters" {
			config = `{"rope_scaling":` + c.value + "," + config[1:]
		} else {
			config = change(config, c.key, c.value)
		}
		if _, err := Parse([]byte(config), nil, nil); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s with %s %s: %v", c.name, c.key, c.value, err)
		}
	}
}
