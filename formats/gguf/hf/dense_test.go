package hf_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/gguf/hf"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/pack"
)

// changedKeys returns keysOf with other values of some keys.
func changedKeys(arch string, change map[string]gguf.Value) *gguf.Header {
	h := keysOf(arch)
	for key, v := range change {
		found := false
		for i := range h.Keys {
			if h.Keys[i].Key == arch+key {
				h.Keys[i].Value, found = v, true
			}
		}
		if !found {
			h.Keys = append(h.Keys, gguf.KV{Key: arch + key, Value: v})
		}
	}
	return h
}

// pattern is one letter per block: w = with a window, s = without a rotation.
func pattern(d *model.Description) (s string) {
	for i := range d.Blocks {
		switch b := &d.Blocks[i]; {
		case b.Local && !b.NoRope:
			s += "w"
		case b.NoRope && !b.Local:
			s += "s"
		case b.Local:
			s += "?"
		default:
			s += "-"
		}
	}
	return s
}

// TestLayers: which blocks have a window, and which do not rotate.
func TestLayers(t *testing.T) {
	logit := gguf.FloatValue(0.25)
	five := gguf.BoolsValue([]bool{true, false, false, true, true, true})
	for _, c := range []struct {
		arch   string
		change map[string]gguf.Value
		want   string
	}{
		{"smollm3", nil, "---s--"},
		{"olmo2", nil, "www-ww"},
		{"olmo2", map[string]gguf.Value{".attention.sliding_window_pattern": five}, "w--www"},
		{"olmo2", map[string]gguf.Value{".attention.sliding_window": gguf.U32Value(0)}, "------"},
		{"exaone4", nil, "------"},
		{"exaone4", map[string]gguf.Value{".block_count": gguf.U32Value(64)}, strings.Repeat("wwws", 16)},
		{"cohere2", map[string]gguf.Value{".logit_scale": logit}, "wwwsww"},
	} {
		d := describe(t, fileOf(changedKeys(c.arch, c.change), nil, "output.weight"))
		if got := pattern(d); got != c.want {
			t.Errorf("%s, %v: %s, want %s", c.arch, c.change, got, c.want)
		}
	}
}

// TestDenseKeys: numbers and tensors of single architectures.
func TestDenseKeys(t *testing.T) {
	for _, c := range []struct {
		arch    string
		change  map[string]gguf.Value
		tensors []string
		of      func(d *model.Description) any
		want    string
	}{
		{"glm4", map[string]gguf.Value{".rope.dimension_count": gguf.U32Value(6)}, []string{"blk.0.attn_q.bias"},
			func(d *model.Description) any { return fmt.Sprint(d.Rope.Dim, d.Rope.Pairs, d.Blocks[0].Q.Bias != "") },
			"6 true true"},
		{"glm4", map[string]gguf.Value{".rope.dimension_count": gguf.U32Value(30),
			".attention.key_length": gguf.U32Value(44)}, nil, // 30.0/44*44 < 30
			func(d *model.Description) any { return d.Rope.Dim }, "30"},
		{"nemotron", nil, []string{"blk.0.ffn_up.bias"},
			func(d *model.Description) any { return fmt.Sprint(d.Rope.Dim, d.Blocks[0].Up.Bias, d.Blocks[0].Q.Bias) },
			"16model.layers.0.mlp.up_proj.bias"},
		{"stablelm", nil, []string{"blk.0.ffn_norm.weight"}, func(d *model.Description) any { return d.Parallel },
			"false"},
		{"stablelm", nil, nil, func(d *model.Description) any { return d.Blocks[0].FFNNorm == d.Blocks[0].AttnNorm },
			"true"},
		{"command-r", map[string]gguf.Value{".logit_scale": gguf.FloatValue(0.0625)},
			[]string{"blk.0.attn_q_norm.weight"},
			func(d *model.Description) any { return fmt.Sprint(d.LogitScale, " ", d.HeadNorm) }, "0.0625 own"},
		{"olmo", map[string]gguf.Value{".attention.clamp_kqv": gguf.FloatValue(8)}, nil,
			func(d *model.Description) any { return d.ClipQKV }, "8"},
		{"qwen2", map[string]gguf.Value{".rope.scaling.type": gguf.TextValue("yarn"),
			".rope.scaling.factor":                  gguf.FloatValue(8),
			".rope.scaling.yarn_attn_factor":        gguf.FloatValue(1.2079442),
			".rope.scaling.original_context_length": gguf.U32Value(4096)}, nil,
			func(d *model.Description) any { return d.Rope.Yarn.Attention }, "0"},
		{"gpt2", map[string]gguf.Value{".attention.head_count_kv": gguf.U32Value(4)}, nil,
			func(d *model.Description) any {
				return fmt.Sprint(d.Activation, d.Intermediate, d.MaxPositions, d.Positions, d.Blocks[5].Up.Weight)
			}, "gelu_tanh96 16384transformer.wpe.weighttransformer.h.5.mlp.c_fc.weight"},
		{"apertus", nil, []string{"blk.0.attn_q.bias"}, func(d *model.Description) any {
			return fmt.Sprint(d.Activation, d.Blocks[5].ActParams.Eps, d.Rope.Factor, d.Blocks[0].O.Bias)
		}, "xielumodel.layers.5.mlp.act_fn.eps0model.layers.0.self_attn.o_proj.bias"},
		{"seed_oss", map[string]gguf.Value{".rope.scale_linear": gguf.FloatValue(8)}, nil,
			func(d *model.Description) any { return d.Rope.Linear }, "8"},
	} {
		d := describe(t, fileOf(changedKeys(c.arch, c.change), nil, append(c.tensors, "output.weight")...))
		if got := fmt.Sprint(c.of(d)); got != c.want {
			t.Errorf("%s, %v: %s, want %s", c.arch, c.change, got, c.want)
		}
	}
}

// xielu are the keys of an Apertus's activations, with one number for all blocks but in the last key.
func xielu(eps []float32) []gguf.KV {
	one := func(key string, x float32) gguf.KV { return gguf.KV{Key: "xielu." + key, Value: gguf.FloatValue(x)} }
	return []gguf.KV{one("alpha_p", 0.25), one("alpha_n", -1), one("beta", 0.5),
		{Key: "xielu.eps", Value: gguf.FloatsValue(eps)}}
}

// TestXIELU: parameters of activations become tensors of the checkpoint.
func TestXIELU(t *testing.T) {
	list, err := fileOf(keysOf("apertus", xielu([]float32{1, 2, 3, 4, 5, 6})...), nil).List()
	if err != nil || len(list) != 25 {
		t.Fatalf("%d tensors, %v", len(list), err)
	}
	for at, want := range map[int]string{
		1: "model.layers.0.mlp.act_fn.alpha_p [1] [0.25]", 7: "model.layers.0.mlp.act_fn.alpha_n [1] [-1]",
		18: "model.layers.5.mlp.act_fn.beta [] [0.5]", 24: "model.layers.5.mlp.act_fn.eps [] [6]",
	} {
		if got := fmt.Sprintln(list[at].Name, list[at].Shape(), list[at].Numbers); got != want+"\n" {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestRowsOfGPT2: linear layers of a GGUF are not transposed, and have other names than in other checkpoints.
func TestRowsOfGPT2(t *testing.T) {
	f := fileOf(changedKeys("gpt2", map[string]gguf.Value{".attention.head_count_kv": gguf.U32Value(4)}), nil,
		"position_embd.weight", "output_norm.bias", "blk.0.attn_qkv.weight", "blk.0.ffn_down.bias")
	list, err := f.List()
	var names []string
	for _, x := range list {
		names = append(names, x.Name)
	}
	want := []string{"h.0.attn.qkv_proj.weight", "h.0.mlp.fc_out.bias", "ln_f.bias", "wpe.weight", "wte.weight"}
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v", names, err)
	}
}

// TestHeadLength: without a key the heads share the embedding length, whatever the default of config.json is.
func TestHeadLength(t *testing.T) {
	h := keysOf("glm4")
	h.Keys = slices.DeleteFunc(h.Keys, func(kv gguf.KV) bool { return kv.Key == "glm4.attention.key_length" })
	h.Keys = append(h.Keys, gguf.KV{Key: "glm4.rope.dimension_count", Value: gguf.U32Value(8)})
	if d := describe(t, fileOf(h, nil)); d.HeadDim != 16 || d.Rope.Dim != 8 {
		t.Errorf("%d of %d values rotate", d.Rope.Dim, d.HeadDim)
	}
}

// TestRefusedDense: what llama.cpp would not read or compute otherwise is refused by name.
func TestRefusedDense(t *testing.T) {
	for says, f := range map[string]*hf.File{
		`"olmo2.attention.sliding_window_pattern" is 3`: fileOf(changedKeys("olmo2", map[string]gguf.Value{
			".attention.sliding_window_pattern": gguf.U32Value(3)}), nil),
		`"olmo.attention.layer_norm_epsilon" is 1e-06, must be 1e-05`: fileOf(changedKeys("olmo",
			map[string]gguf.Value{".attention.layer_norm_epsilon": gguf.FloatValue(1e-6)}), nil),
		`"cohere2.logit_scale" is missing`: fileOf(keysOf("cohere2"), nil),
		`an array must have a boolean for each of 6 blocks`: fileOf(changedKeys("olmo2", map[string]gguf.Value{
			".attention.sliding_window_pattern": gguf.BoolsValue([]bool{true})}), nil),
		`"olmo2.attention.sliding_window"`: fileOf(changedKeys("olmo2", map[string]gguf.Value{
			".attention.sliding_window": gguf.TextValue("4096")}), nil),
		`"cohere2.rope.dimension_count" is 8`: fileOf(changedKeys("cohere2", map[string]gguf.Value{
			".rope.dimension_count": gguf.U32Value(8), ".logit_scale": gguf.FloatValue(0.25)}), nil),
		`"glm4.rope.dimension_sections"`: fileOf(changedKeys("glm4", map[string]gguf.Value{
			".rope.dimension_sections": gguf.I32sValue([]int32{2, 3, 3, 0})}), nil),
		`"hunyuan-dense.rope.scaling.alpha" is 1000`: fileOf(changedKeys("hunyuan-dense", map[string]gguf.Value{
			".rope.scaling.alpha": gguf.FloatValue(1000)}), nil),
		`"seed_oss.rope.scaling.attn_factor" is 2`: fileOf(changedKeys("seed_oss", map[string]gguf.Value{
			".rope.scaling.attn_factor": gguf.FloatValue(2)}), nil),
		`"llama.attention.causal" is false`: fileOf(changedKeys("llama", map[string]gguf.Value{
			".attention.causal": gguf.BoolValue(false)}), nil),
		`"olmo2.attention.key_length_swa" is 8`: fileOf(changedKeys("olmo2", map[string]gguf.Value{
			".attention.key_length_swa": gguf.U32Value(8)}), nil),
		`"gemma3.rope.dimension_count_swa" is 8`: fileOf(changedKeys("gemma3", map[string]gguf.Value{
			".rope.dimension_count_swa": gguf.U32Value(8)}), nil),
		`"olmo2.rope.freq_base_swa" is 77`: fileOf(changedKeys("olmo2", map[string]gguf.Value{
			".rope.freq_base_swa": gguf.FloatValue(77)}), nil),
		`yarn without key "qwen2.rope.scaling.factor"`: fileOf(changedKeys("qwen2", map[string]gguf.Value{
			".rope.scaling.type":                    gguf.TextValue("yarn"),
			".rope.scaling.original_context_length": gguf.U32Value(4096)}), nil),
		`"xielu.alpha_p" must have a number for each of 6 blocks`: fileOf(keysOf("apertus"), nil),
		`"xielu.eps" must have a number for each of 6 blocks`: fileOf(keysOf("apertus", xielu([]float32{1, 2})...),
			nil),
		`"xielu.eps": number 2 is NaN`: fileOf(keysOf("apertus",
			xielu([]float32{1, 2, float32(math.NaN()), 3, 4, 5})...), nil),
		`unexpected tensor "blk.0.attn_output.bias" for architecture glm4`: fileOf(keysOf("glm4"), nil,
			"blk.0.attn_output.bias"),
		`unexpected tensor "blk.0.attn_q.bias" for architecture olmo2`: fileOf(keysOf("olmo2"), nil,
			"blk.0.attn_q.bias"),
		`unexpected tensor "blk.0.ffn_norm.weight" for architecture olmo2`: fileOf(keysOf("olmo2"), nil,
			"blk.0.ffn_norm.weight"),
		`unexpected tensor "output.bias" for architecture llama`: fileOf(keysOf("llama"), nil, "output.bias"),
		`unexpected tensor "blk.0" for architecture phi2`:        fileOf(keysOf("phi2"), nil, "blk.0"),
		"65537 blocks, more than 65536": fileOf(changedKeys("olmo2", map[string]gguf.Value{
			".block_count":                      gguf.U32Value(1<<16 + 1),
			".attention.sliding_window_pattern": gguf.BoolsValue(make([]bool, 1<<16+1))}), nil),
	} {
		_, err := f.Texts()
		if err == nil {
			_, err = f.List()
		}
		if err == nil || !strings.Contains(err.Error(), says) || !errors.Is(err, pack.ErrUnsupported) &&
			!errors.Is(err, pack.ErrCorrupt) && !errors.Is(err, pack.ErrLimit) {
			t.Errorf("%v, want one that says %q", err, says)
		}
	}
}
