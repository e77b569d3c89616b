package model

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/hostile"
	"github.com/lowpack/lowpack/pack"
)

// Keys and values of published config.json files, as far as relevant here.
const (
	bitnetXL = `{"architectures":["BitnetForCausalLM"],"model_type":"llama","hidden_size":2048,"intermediate_size":5460,"num_hidden_layers":24,
"num_attention_heads":32,"num_key_value_heads":32,"vocab_size":32002,"max_position_embeddings":2048,"rms_norm_eps":1e-5,"hidden_act":"silu",
"rope_theta":10000.0,"rope_scaling":null,"tie_word_embeddings":true,"weight_bits":1,"input_bits":8,"bos_token_id":1,"eos_token_id":2,"torch_dtype":"float32"}`
	mistral01 = `{"architectures":["MistralForCausalLM"],"model_type":"mistral","hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,
"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":32000,"max_position_embeddings":32768,"rms_norm_eps":1e-5,"hidden_act":"silu",
"rope_theta":10000.0,"sliding_window":4096,"tie_word_embeddings":false,"bos_token_id":1,"eos_token_id":2}`
	mistralNemo = `{"architectures":["MistralForCausalLM"],"model_type":"mistral","hidden_size":5120,"head_dim":128,"intermediate_size":14336,"num_hidden_layers":40,
"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":131072,"max_position_embeddings":131072,"rms_norm_eps":1e-5,"hidden_act":"silu",
"rope_theta":1000000.0,"sliding_window":null,"tie_word_embeddings":false}`
	qwen25 = `{"architectures":["Qwen2ForCausalLM"],"model_type":"qwen2","hidden_size":896,"intermediate_size":4864,"num_hidden_layers":24,
"num_attention_heads":14,"num_key_value_heads":2,"vocab_size":151936,"max_position_embeddings":32768,"rms_norm_eps":1e-6,"hidden_act":"silu",
"rope_theta":1000000.0,"sliding_window":32768,"max_window_layers":21,"use_sliding_window":false,"tie_word_embeddings":true,"bos_token_id":151643,"eos_token_id":151645}`
	qwen3Small = `{"architectures":["Qwen3ForCausalLM"],"model_type":"qwen3","attention_bias":false,"head_dim":128,"hidden_size":1024,"intermediate_size":3072,
"num_hidden_layers":28,"num_attention_heads":16,"num_key_value_heads":8,"vocab_size":151936,"max_position_embeddings":40960,"rms_norm_eps":1e-6,"hidden_act":"silu",
"rope_theta":1000000,"rope_scaling":null,"sliding_window":null,"max_window_layers":28,"use_sliding_window":false,"tie_word_embeddings":true}`
	phi3Mini = `{"architectures":["Phi3ForCausalLM"],"model_type":"phi3","hidden_size":3072,"intermediate_size":8192,"num_hidden_layers":32,
"num_attention_heads":32,"num_key_value_heads":32,"vocab_size":32064,"max_position_embeddings":4096,"original_max_position_embeddings":4096,"rms_norm_eps":1e-5,
"hidden_act":"silu","rope_theta":10000.0,"rope_scaling":null,"sliding_window":2047,"tie_word_embeddings":false,"bos_token_id":1,"eos_token_id":32000}`
	mobileLLM = `{"architectures":["MobileLLMForCausalLM"],"model_type":"mobilellm","head_dim":64,"hidden_size":576,"intermediate_size":1536,"num_hidden_layers":30,
"num_attention_heads":9,"num_key_value_heads":3,"vocab_size":32000,"max_position_embeddings":2048,"rms_norm_eps":1e-5,"hidden_act":"silu",
"rope_theta":10000.0,"rope_scaling":null,"layer_sharing":false,"share_embedding":true}`
	gemma1 = `{"architectures":["GemmaForCausalLM"],"model_type":"gemma","head_dim":256,"hidden_size":2048,"intermediate_size":16384,"num_hidden_layers":18,
"num_attention_heads":8,"num_key_value_heads":1,"vocab_size":256000,"max_position_embeddings":8192,"rms_norm_eps":1e-6,"hidden_act":"gelu","rope_theta":10000.0}`
	gemma22B = `{"architectures":["Gemma2ForCausalLM"],"model_type":"gemma2","head_dim":256,"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":26,
"num_attention_heads":8,"num_key_value_heads":4,"vocab_size":256000,"max_position_embeddings":8192,"rms_norm_eps":1e-6,"hidden_act":"gelu_pytorch_tanh",
"hidden_activation":"gelu_pytorch_tanh","rope_theta":10000.0,"query_pre_attn_scalar":256,"sliding_window":4096,"attn_logit_softcapping":50.0,
"final_logit_softcapping":30.0,"bos_token_id":2,"eos_token_id":1}`
	smolLM3 = `{"architectures":["SmolLM3ForCausalLM"],"model_type":"smollm3","hidden_size":2048,"intermediate_size":11008,"num_hidden_layers":36,
"num_attention_heads":16,"num_key_value_heads":4,"vocab_size":128256,"max_position_embeddings":65536,"rms_norm_eps":1e-6,"hidden_act":"silu",
"rope_theta":5000000.0,"no_rope_layer_interval":4,"use_sliding_window":false,"tie_word_embeddings":true,"eos_token_id":128012}`
	granite332B = `{"architectures":["GraniteForCausalLM"],"model_type":"granite","hidden_size":2048,"intermediate_size":8192,"num_hidden_layers":40,
"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":49159,"max_position_embeddings":131072,"rms_norm_eps":1e-5,"hidden_act":"silu",
"rope_theta":10000000.0,"attention_multiplier":0.015625,"embedding_multiplier":12.0,"logits_scaling":8.0,"residual_multiplier":0.22,"tie_word_embeddings":true}`
	olmo21B = `{"architectures":["Olmo2ForCausalLM"],"model_type":"olmo2","hidden_size":2048,"intermediate_size":8192,"num_hidden_layers":16,
"num_attention_heads":16,"num_key_value_heads":16,"vocab_size":100352,"max_position_embeddings":4096,"rms_norm_eps":1e-6,"hidden_act":"silu","rope_theta":500000}`
	olmo37B = `{"architectures":["Olmo3ForCausalLM"],"model_type":"olmo3","hidden_size":4096,"intermediate_size":11008,"num_hidden_layers":32,
"num_attention_heads":32,"num_key_value_heads":32,"vocab_size":100278,"max_position_embeddings":65536,"rms_norm_eps":1e-6,"hidden_act":"silu",
"rope_theta":500000,"rope_scaling":{"rope_type":"yarn","factor":8.0,"beta_fast":32,"beta_slow":1,"original_max_position_embeddings":8192},"sliding_window":4096}`
	exaone432B = `{"architectures":["Exaone4ForCausalLM"],"model_type":"exaone4","hidden_size":5120,"intermediate_size":27392,"num_hidden_layers":64,
"num_attention_heads":40,"num_key_value_heads":8,"head_dim":128,"vocab_size":102400,"max_position_embeddings":131072,"rms_norm_eps":1e-5,"hidden_act":"silu",
"rope_theta":1000000,"sliding_window":4096,"sliding_window_pattern":"LLLG","tie_word_embeddings":false}`
	hunyuan18B = `{"architectures":["HunYuanDenseV1ForCausalLM"],"model_type":"hunyuan_v1_dense","hidden_size":2048,"intermediate_size":6144,"num_hidden_layers":32,
"num_attention_heads":16,"num_key_value_heads":4,"head_dim":128,"vocab_size":120818,"max_position_embeddings":262144,"rms_norm_eps":1e-5,"hidden_act":"silu",
"rope_theta":10000.0,"rope_scaling":{"alpha":1000.0,"beta_fast":32,"beta_slow":1,"factor":1.0,"mscale":1.0,"mscale_all_dim":1.0,"type":"dynamic"},"use_qk_norm":true,"tie_word_embeddings":true}`
	miniCPM2B = `{"architectures":["MiniCPMForCausalLM"],"model_type":"minicpm","hidden_size":2304,"intermediate_size":5760,"num_hidden_layers":40,
"num_attention_heads":36,"num_key_value_heads":36,"vocab_size":122753,"max_position_embeddings":4096,"rms_norm_eps":1e-5,"hidden_act":"silu",
"scale_emb":12,"dim_model_base":256,"scale_depth":1.4}`
	gemma31B = `{"architectures":["Gemma3ForCausalLM"],"model_type":"gemma3_text","head_dim":256,"hidden_size":1152,"intermediate_size":6912,"num_hidden_layers":26,
"num_attention_heads":4,"num_key_value_heads":1,"vocab_size":262144,"max_position_embeddings":32768,"rms_norm_eps":1e-6,"hidden_activation":"gelu_pytorch_tanh",
"rope_theta":1000000,"rope_local_base_freq":10000,"rope_scaling":null,"query_pre_attn_scalar":256,"sliding_window":512,"sliding_window_pattern":6,
"attn_logit_softcapping":null,"final_logit_softcapping":null,"eos_token_id":[1,106]}`
)

// change sets one key of a configuration in the form above.
func change(config, key, value string) string {
	i := strings.Index(config, `"`+key+`":`)
	if i < 0 {
		return strings.TrimSuffix(config, "}") + `,"` + key + `":` + value + "}"
	}
	from := i + len(key) + 3
	end := from + strings.IndexAny(config[from:], ",}")
	if config[from] == '[' {
		end = from + strings.IndexByte(config[from:], ']') + 1
	}
	return config[:from] + value + config[end:]
}

func names(d *Description) []string {
	var out []string
	for _, n := range d.Tensors() {
		out = append(out, n.Name)
	}
	return out
}

func TestBitnet158(t *testing.T) {
	d := mustParse(t, bitnetXL)
	if d.Family != "bitnet-1bitllm" || d.Quant.Declared != AbsMean || d.Head != d.Embed || d.Intermediate != 5460 ||
		d.HeadDim != 64 {
		t.Errorf("%+v", d)
	}
	b := d.Blocks[23]
	if b.AttnSubNorm.Weight != "model.layers.23.self_attn.inner_attn_ln.weight" ||
		b.FFNSubNorm.Weight != "model.layers.23.mlp.ffn_layernorm.weight" {
		t.Errorf("%q %q", b.AttnSubNorm.Weight, b.FFNSubNorm.Weight)
	}
}

func TestMistral(t *testing.T) {
	d := mustParse(t, mistral01)
	if d.SlidingWindow != 4096 || !d.Blocks[0].Local || !d.Blocks[31].Local {
		t.Errorf("window %d", d.SlidingWindow)
	}
	if d = mustParse(t, mistralNemo); d.SlidingWindow != 0 || d.Blocks[0].Local || d.HeadDim != 128 ||
		d.Blocks[0].Q.Out != 4096 || d.Blocks[0].O.In != 4096 {
		t.Errorf("%+v", d.Blocks[0])
	}
}

func TestQwen(t *testing.T) {
	d := mustParse(t, qwen25)
	b := d.Blocks[5]
	if b.Q.Bias != "model.layers.5.self_attn.q_proj.bias" || b.V.Bias == "" || b.O.Bias != "" || b.Up.Bias != "" ||
		b.Local || d.SlidingWindow != 0 {
		t.Errorf("%+v", b)
	}
	windowed := mustParse(t, change(qwen25, "use_sliding_window", "true"))
	if windowed.SlidingWindow != 32768 || windowed.Blocks[20].Local || !windowed.Blocks[21].Local {
		t.Error("max_window_layers is not read")
	}
	d = mustParse(t, qwen3Small)
	b = d.Blocks[27]
	if d.HeadDim != 128 || b.Q.Out != 2048 || b.Q.In != 1024 || b.O.In != 2048 ||
		b.KNorm.Weight != "model.layers.27.self_attn.k_norm.weight" || b.Q.Bias != "" {
		t.Errorf("%+v", b)
	}
	for _, n := range d.Tensors() {
		if n.Name == b.QNorm.Weight && !slices.Equal(n.Shape, []int{128}) {
			t.Errorf("q_norm has shape %v", n.Shape)
		}
	}
}

func TestPhi3(t *testing.T) {
	d := mustParse(t, change(phi3Mini, "num_key_value_heads", "8"))
	b := d.Blocks[1]
	const qkv = "model.layers.1.self_attn.qkv_proj.weight"
	if b.Q.Weight != qkv || b.V.Weight != qkv || b.Q.Rows != (Rows{From: 0, To: 3072}) ||
		b.K.Rows != (Rows{From: 3072, To: 3840}) || b.V.Rows != (Rows{From: 3840, To: 4608}) {
		t.Errorf("%+v %+v %+v", b.Q, b.K, b.V)
	}
	if b.Gate.Rows != (Rows{From: 0, To: 8192}) || b.Up.Rows != (Rows{From: 8192, To: 16384}) ||
		d.SlidingWindow != 2047 || !b.Local {
		t.Errorf("%+v %+v", b.Gate, b.Up)
	}
	seen := map[string]int{}
	for _, n := range d.Tensors() {
		seen[n.Name]++
		if n.Name == qkv && !slices.Equal(n.Shape, []int{4608, 3072}) {
			t.Errorf("qkv has shape %v", n.Shape)
		}
	}
	if seen[qkv] != 1 || seen["model.layers.1.mlp.gate_up_proj.weight"] != 1 {
		t.Errorf("fused tensors are listed %v times", seen)
	}
	if d = mustParse(t, change(phi3Mini, "partial_rotary_factor", "0.75")); d.Rope.Dim != 72 {
		t.Errorf("rotary dimension %d", d.Rope.Dim)
	}
}

func TestMobileLLM(t *testing.T) {
	d := mustParse(t, mobileLLM)
	if d.Head != d.Embed {
		t.Errorf("head %q", d.Head)
	}
	if d = mustParse(t, change(mobileLLM, "share_embedding", "false")); d.Head != "lm_head.weight" {
		t.Errorf("head %q", d.Head)
	}
	once := len(d.Blocks)
	d = mustParse(t, change(mobileLLM, "layer_sharing", "true"))
	if d.Layers != 2*once || len(d.Blocks) != 2*once || d.Blocks[1].Q.Weight != d.Blocks[0].Q.Weight ||
		d.Blocks[2].Q.Weight != "model.layers.1.self_attn.q_proj.weight" {
		t.Errorf("layer_sharing: %d blocks, %+v", len(d.Blocks), d.Blocks[1])
	}
	if n := len(d.Tensors()); n != 9*once+2 {
		t.Errorf("layer_sharing: %d tensors", n)
	}
}

// TestRotatedBlocks: which blocks rotate, and which have a window, in the families with different blocks.
func TestRotatedBlocks(t *testing.T) {
	for _, c := range []struct {
		config  string
		rotated string // of the first four blocks
		local   string
	}{
		{smolLM3, "1110", "0000"},
		{change(smolLM3, "no_rope_layers", "["+strings.TrimSuffix(strings.Repeat("0,1,", 18), ",")+"]"),
			"0101", "0000"},
		{olmo37B, "1111", "1110"},
		{exaone432B, "1110", "1110"},
		{change(exaone432B, "sliding_window", "null"), "1111", "0000"},
	} {
		d := mustParse(t, c.config)
		for i := range 4 {
			if b := d.Blocks[i]; b.NoRope == (c.rotated[i] == '1') || b.Local != (c.local[i] == '1') {
				t.Errorf("%s: block %d: %+v", d.Family, i, b)
			}
		}
	}
}

// TestFactors: the factors of Granite and MiniCPM, and the base of HunYuan.
func TestFactors(t *testing.T) {
	if d := mustParse(t, granite332B); d.EmbedScale != 12 || d.AttnScale != 0.015625 || d.ResidualScale != 0.22 ||
		d.LogitDivisor != 8 {
		t.Errorf("%+v", d.Config)
	}
	if d := mustParse(t, miniCPM2B); d.EmbedScale != 12 || d.ResidualScale != float32(1.4/math.Sqrt(40)) ||
		d.LogitDivisor != 9 || d.Head != d.Embed {
		t.Errorf("%+v", d.Config)
	}
	if d := mustParse(t, hunyuan18B); d.Rope.Alpha != 1000 || !d.RotateFirst {
		t.Errorf("%+v", d.Config)
	}
	for config, want := range map[string]string{
		change(miniCPM2B, "num_experts", "8"):                                 "experts",
		change(miniCPM2B, "sparse_config", `{"a":1}`):                         "sparse_config",
		change(hunyuan18B, "use_cla", "true"):                                 "share keys and values",
		change(smolLM3, "no_rope_layers", "[1,0]"):                            "2 entries",
		change(olmo37B, "rope_parameters", `{"rope_type":"yarn","factor":8}`): "rope type",
	} {
		if _, err := Parse([]byte(config), nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestScaledRope: yarn and longrope, under old and new keys, and invalid values.
func TestScaledRope(t *testing.T) {
	small := change(change(phi3Mini, "head_dim", "6"), "max_position_embeddings", "131072")
	const factors = `"short_factor":[1.5,2,2.5],"long_factor":[3,4,5]`
	for _, config := range []string{
		change(small, "rope_scaling", `{"type":"longrope",`+factors+`}`),
		change(small, "rope_scaling", `{"type":"su",`+factors+`}`),
		change(change(small, "original_max_position_embeddings", "null"), "rope_parameters",
			`{"rope_type":"longrope","rope_theta":10000.0,"original_max_position_embeddings":4096,`+factors+`}`),
	} {
		d := mustParse(t, config)
		l := d.Rope.LongRope
		if l == nil || !slices.Equal(l.Short, []float64{1.5, 2, 2.5}) || l.Extension != 32 || l.Attention != 0 ||
			!slices.Equal(l.Long, []float64{3, 4, 5}) || d.MaxPositions != 131072 || d.FixedPositions() != 4096 ||
			d.Rope.OriginalMaxPositions != 4096 {
			t.Errorf("%+v, %d positions", l, d.MaxPositions)
		}
	}
	d := mustParse(t, change(qwen25, "rope_scaling",
		`{"type":"yarn","factor":4.0,"original_max_position_embeddings":32768}`))
	if y := d.Rope.Yarn; y == nil || *y != (Yarn{Factor: 4, BetaFast: 32, BetaSlow: 1, Whole: true}) ||
		d.Rope.OriginalMaxPositions != 32768 || d.MaxPositions != 131072 {
		t.Errorf("%+v, %d positions", d.Rope.Yarn, d.MaxPositions)
	}
	d = mustParse(t, change(qwen25, "rope_scaling",
		`{"rope_type":"yarn","factor":2,"beta_fast":16,"beta_slow":2,"truncate":false,"attention_factor":1.5}`))
	if y := d.Rope.Yarn; *y != (Yarn{Factor: 2, BetaFast: 16, BetaSlow: 2, Attention: 1.5}) ||
		d.Rope.OriginalMaxPositions != 32768 {
		t.Errorf("%+v", y)
	}
	for scaling, word := range map[string]string{
		`{"type":"longrope"}`: "short_factor is missing",
		`{"type":"longrope","short_factor":[1,2],"long_factor":[1,2,3]}`:     "list of 3 numbers",
		`{"type":"longrope","short_factor":[1,2,3],"long_factor":[1,2,-3]}`:  "long_factor[2]",
		`{"type":"longrope","short_factor":[1,"2",3],"long_factor":[1,2,3]}`: "short_factor[1]",
		`{"type":"yarn"}`:                      "short_factor is missing", // the name of longrope in Phi-3
		`{"type":"dynamic","factor":4}`:        "supported are default and longrope",
		`{"type":"longrope","rope_type":null}`: "rope_type is null",
	} {
		if _, err := Parse([]byte(change(small, "rope_scaling", scaling)), nil, nil); err == nil ||
			!strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", scaling, err)
		}
	}
	for scaling, word := range map[string]string{
		`{"type":"yarn"}`: "factor is missing",
		`{"type":"yarn","factor":4,"beta_fast":1,"beta_slow":32}`:    "beta_fast",
		`{"type":"yarn","factor":4,"mscale":0,"mscale_all_dim":1.0}`: "mscale",
		`{"type":"spiral","factor":4}`:                               "supported are default, linear, llama3, yarn, longrope and dynamic",
		`{"type":"dynamic"}`:                                         "a factor of at least 1",
		`{"type":"dynamic","factor":0.5}`:                            "a factor of at least 1",
	} {
		if _, err := Parse([]byte(change(qwen25, "rope_scaling", scaling)), nil, nil); err == nil ||
			!strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", scaling, err)
		}
	}
	d = mustParse(t, change(qwen25, "rope_scaling", `{"type":"dynamic","factor":2.5}`))
	if d.Rope.Dynamic != 2.5 || d.Rope.OriginalMaxPositions != 32768 || d.MaxPositions != 81920 ||
		d.FixedPositions() != 32768 || d.Rope.Stage(32768) != 0 || d.Rope.Stage(32769) != 32769 {
		t.Errorf("%+v, %d positions", d.Rope, d.MaxPositions)
	}
	same := mustParse(t, change(small, "rope_scaling",
		`{"type":"longrope","short_factor":[3,4,5],"long_factor":[3,4,5]}`))
	if same.Rope.Staged() || same.FixedPositions() != 131072 {
		t.Errorf("equal factors: %+v", same.Rope.LongRope)
	}
	short := change(change(small, "original_max_position_embeddings", "1"), "rope_scaling",
		`{"type":"longrope",`+factors+`}`)
	if _, err := Parse([]byte(short), nil, nil); !errors.Is(err, pack.ErrCorrupt) ||
		!strings.Contains(err.Error(), "original_max_position_embeddings") {
		t.Errorf("%v", err)
	}
}

func TestGemma(t *testing.T) {
	d := mustParse(t, gemma1)
	if !d.NormPlusOne || d.EmbedScale != float32(math.Sqrt(2048)) || d.Activation != "gelu_tanh" || d.Head != d.Embed ||
		d.AttnScale != 0 || d.Blocks[0].AttnPostNorm.Weight != "" {
		t.Errorf("%+v", d.Config)
	}
	d = mustParse(t, gemma22B)
	b := d.Blocks[2]
	if b.AttnPostNorm.Weight != "model.layers.2.post_attention_layernorm.weight" ||
		b.FFNNorm.Weight != "model.layers.2.pre_feedforward_layernorm.weight" ||
		b.FFNPostNorm.Weight != "model.layers.2.post_feedforward_layernorm.weight" ||
		b.AttnNorm.Weight != "model.layers.2.input_layernorm.weight" {
		t.Errorf("%+v", b)
	}
	if d.AttnScale != 1.0/16 || d.AttnSoftcap != 50 || d.LogitSoftcap != 30 || !d.Blocks[0].Local ||
		d.Blocks[1].Local ||
		d.SlidingWindow != 4096 {
		t.Errorf("%+v", d.Config)
	}
	if d = mustParse(t, change(gemma22B, "attn_logit_softcapping", "null")); d.AttnSoftcap != 0 {
		t.Errorf("cap %v", d.AttnSoftcap)
	}
	if d = mustParse(t, strings.Replace(gemma22B, "final_logit_softcapping", "x", 1)); d.LogitSoftcap != 30 {
		t.Errorf("a Gemma 2 without final_logit_softcapping has the cap %v", d.LogitSoftcap)
	}
	for _, config := range []string{
		gemma31B,
		change(change(gemma31B, "rope_theta", "null"), "rope_parameters",
			`{"full_attention":{"rope_type":"default","rope_theta":1000000.0},"sliding_attention":{"rope_type":"default","rope_theta":10000.0}}`),
		strings.Replace(gemma31B, `"sliding_window_pattern"`, `"_sliding_window_pattern"`, 1),
	} {
		d = mustParse(t, config)
		var global []int
		for i := range d.Blocks {
			if !d.Blocks[i].Local {
				global = append(global, i)
			}
		}
		if d.Rope != (Rope{Theta: 1e6, LocalTheta: 1e4, Dim: 256}) || !slices.Equal(global, []int{5, 11, 17, 23}) ||
			d.AttnSoftcap != 0 || d.SlidingWindow != 512 {
			t.Errorf("%+v, global %v", d.Config, global)
		}
	}
	scaled := mustParse(t, change(gemma31B, "rope_scaling", `{"rope_type":"linear","factor":8.0}`))
	if scaled.Rope.Linear != 8 {
		t.Errorf("%+v", scaled.Rope)
	}
	if b = d.Blocks[0]; b.QNorm.Weight == "" || b.FFNPostNorm.Weight == "" {
		t.Errorf("%+v", b)
	}
}

func TestLayerTypes(t *testing.T) {
	types := func(s string) string { return change(change(mistral01, "num_hidden_layers", "2"), "layer_types", s) }
	d := mustParse(t, types(`["full_attention","sliding_attention"]`))
	if d.Blocks[0].Local || !d.Blocks[1].Local {
		t.Error("layer_types is not read")
	}
	for config, word := range map[string]string{
		types(`["full_attention"]`):                                                       "1 entries for 2 layers",
		types(`["full_attention","linear_attention"]`):                                    "linear_attention",
		change(types(`["full_attention","sliding_attention"]`), "sliding_window", "null"): "sliding_window is missing",
		change(change(qwen25, "num_hidden_layers", "1"), "layer_types",
			`["sliding_attention"]`): "without use_sliding_window",
	} {
		if _, err := Parse([]byte(config), nil, nil); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", word, err)
		}
	}
}

// everyFamily has configurations of all families but bitnet (TestTinyBitnet).
var everyFamily = append(append(dense, withImages...),
	bitnetXL, mistral01, mistralNemo, qwen25, qwen3Small, phi3Mini, mobileLLM, gemma1, gemma22B, gemma31B, smallLlama,
	smolLM3, granite332B, olmo21B, olmo37B, exaone432B, hunyuan18B, miniCPM2B, qwen330BA3B, qwen15MoE, mixtral8x7B,
	olmoe1B7B, granite1BA400M, gptoss20B, dotsLLM1, hunyuanA13B, glm45, ernie21B, deepseekV2Lite, deepseekV3, lfm212B,
	change(granite4H1B, "layer_types", "null"), bamba9B, recurrentMoE[0], recurrentMoE[1],
	early[0], early[1], early[2], early[3],
	next[0], next[1], next[2], next[3], next[4], mambaCodestral, llama4Scout,
	gemma3nE2B, minimaxOf2, mambas[0], mambas[1], mambas[2],
	gemma4s[0], gemma4s[1], gemma4s[2])

// mambas are families with Mamba layers.
var mambas = bundled("mamba-130m", "falcon-mamba-7b", "jamba-v0.1")

var mambaCodestral, llama4Scout = bundled("mamba-codestral-7b")[0], bundled("llama-4-scout")[0]

// gemma3nE2B has no lists, which do not go with other numbers of layers.
var gemma3nE2B = change(change(change(change(bundled("gemma-3n-e2b")[0], "layer_types", "null"),
	"activation_sparsity_pattern", "null"), "intermediate_size", "8192"), "num_kv_shared_layers", "0")

// gemma4s have no lists either, and no layers that share.
var gemma4s = func() (list []string) {
	for _, c := range bundled("gemma-4-e2b", "gemma-4-26b-a4b", "gemma-4-12b") {
		list = append(list, change(change(c, "layer_types", "null"), "num_kv_shared_layers", "0"))
	}
	return list
}()

// next are families with a gated delta rule, a sparse mixer, and attention beside Mamba-2.
var next = bundled("qwen3-next-80b-a3b", "qwen3.5-9b", "qwen3.5-35b-a3b", "phi-3.5-moe", "falcon-h1-0.5b")

// early are families from before Llama.
var early = bundled("gpt2", "pythia-160m", "opt-125m", "bloom-560m")

// recurrentMoE are families with recurrent layers and experts.
var recurrentMoE = bundled("lfm2-8b-a1b", "granite-4.0-h-tiny")

// shallow sets the number of layers, under each name that the configuration has.
func shallow(config, layers string) string {
	for _, name := range []string{"num_hidden_layers", "n_layer"} {
		if strings.Contains(config, `"`+name+`"`) {
			config = change(config, name, layers)
		}
	}
	return config
}

// TestEveryFamilyChecks: in every family, a checkpoint with exactly the required tensors passes, and one without any of
// them is rejected with the name of the tensor.
func TestEveryFamilyChecks(t *testing.T) {
	for _, config := range everyFamily {
		config = shallow(config, "2")
		d := mustParse(t, config)
		if _, err := Parse([]byte(config), nil, has(lookup(d))); err != nil {
			t.Errorf("%s: %v", d.Family, err)
		}
		all := names(d)
		for _, name := range all {
			m := lookup(d)
			delete(m, name)
			if _, err := Parse([]byte(config), nil, has(m)); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s without %s: %v", d.Family, name, err)
			}
		}
		sorted := slices.Clone(all)
		slices.Sort(sorted)
		if len(slices.Compact(sorted)) != len(all) {
			t.Errorf("%s lists a tensor twice: %v", d.Family, all)
		}
	}
}

// TestEveryFamilyIsTried: the configurations above cover the list, so that no family is added without a test.
func TestEveryFamilyIsTried(t *testing.T) {
	tried := map[string]bool{"bitnet": true} // TestTinyBitnet
	for _, config := range everyFamily {
		tried[mustParse(t, config).Family] = true
	}
	for _, f := range Families() {
		if !tried[f.Name] || f.Models == "" {
			t.Errorf("family %s is not tried, or names no models", f.Name)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, config := range everyFamily {
		f.Add([]byte(shallow(config, "1")), []byte(`{"eos_token_id":[1,2]}`), uint64(0))
		f.Add([]byte(shallow(config, "1")), []byte(`{"eos_token_id":[1,2]}`), uint64(1))
	}
	f.Fuzz(func(t *testing.T, config, generation []byte, seed uint64) {
		d, err := Parse(hostile.Mutate(seed, config), hostile.Mutate(seed/2, generation), nil)
		if err != nil {
			if !errors.Is(err, pack.ErrCorrupt) && !errors.Is(err, pack.ErrUnsupported) &&
				!errors.Is(err, pack.ErrLimit) {
				t.Errorf("an error of no class: %v", err)
			}
			return
		}
		if len(d.Blocks) != d.Layers || !(d.NormEps > 0) || !(d.Rope.Theta > 0) {
			t.Errorf("accepted %+v", d.Config)
		}
		for i := range d.Blocks {
			s, rotated := d.HeadShape(&d.Blocks[i]), d.Rope.Dim
			if d.Blocks[i].Local && d.Rope.LocalDim > 0 {
				rotated = d.Rope.LocalDim
			}
			if d.Heads%s.KVHeads != 0 || s.HeadDim%2 != 0 || rotated > s.HeadDim {
				t.Errorf("block %d: accepted heads of %+v, of which %d rotate, in %+v", i, s, rotated, d.Config)
			}
		}
		for _, n := range d.Tensors() {
			for _, s := range n.Shape {
				if s < 1 || s > pack.MaxDim {
					t.Fatalf("%s has shape %v", n.Name, n.Shape)
				}
			}
		}
	})
}

// TestKeeps: modules_to_not_convert matches modules by a suffix of their names, or by a prefix or pattern that ends at
// a component boundary.
func TestKeeps(t *testing.T) {
	var q Quant
	if err := q.keep([]string{"lm_head", "model.layers.0.mlp", `model\.layers\.(4|5)\.`}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"lm_head.weight": true, "model.lm_head.weight": true, "lm_head2.weight": false, "xlm_head.weight": true,
		"model.layers.0.mlp.weight":          true,
		"model.layers.0.mlp.up_proj.weight":  true,
		"layers.0.mlp.weight":                false,
		"":                                   false,
		"model.layers.0.mlp2.up_proj.weight": false,
		"model.layers.5.mlp.up_proj.weight":  true,
		"model.layers.50.mlp.up_proj.weight": false,
	} {
		if q.Keeps(name) != want {
			t.Errorf("%q is kept: %v", name, !want)
		}
	}
	for _, c := range []struct {
		patterns []string
		class    error
	}{{[]string{"(?<=x)y"}, pack.ErrUnsupported}, {make([]string, maxPatterns+1), pack.ErrLimit},
		{[]string{strings.Repeat("x", maxPatternBytes+1)}, pack.ErrUnsupported}} {
		if err := q.keep(c.patterns); !errors.Is(err, c.class) {
			t.Errorf("%.40q: %v", c.patterns, err)
		}
	}
}

// TestBiasUnderScale: a bias that transformers would multiply by weight_scale is rejected, unless its linear layer
// stays in floats.
func TestBiasUnderScale(t *testing.T) {
	quant := func(s string) string {
		return change(change(qwen25, "num_hidden_layers", "2"), "quantization_config", s)
	}
	const auto = `{"quant_method":"bitnet","linear_class":"autobitlinear","quantization_mode":"offline"`
	if _, err := Parse([]byte(quant(auto+"}")), nil, nil); !errors.Is(err, pack.ErrUnsupported) ||
		!strings.Contains(err.Error(), "q_proj.bias") {
		t.Errorf("%v", err)
	}
	for _, s := range []string{`{"quant_method":"bitnet"}`,
		auto + `,"modules_to_not_convert":["lm_head","q_proj","k_proj","v_proj"]}`,
		strings.Replace(auto, "offline", "online", 1) + "}"} {
		mustParse(t, quant(s))
	}
}
