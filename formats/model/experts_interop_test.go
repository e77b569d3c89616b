package model_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// form is a configuration of a family: its base with keys set, and null for those that are dropped.
type form struct {
	name string
	set  string // JSON
}

// sizesOfForms are the sizes of all forms, and what keeps their weights float32.
const sizesOfForms = `{"hidden_size":64,"intermediate_size":96,"num_hidden_layers":3,"num_attention_heads":4,
"num_key_value_heads":2,"vocab_size":80,"max_position_embeddings":256,"rms_norm_eps":1e-5,"bos_token_id":1,"eos_token_id":2,
"hidden_act":"silu","dtype":"float32","tie_word_embeddings":false,"rope_theta":10000.0}`

const routed = `{"n_routed_experts":6,"n_shared_experts":2,"num_experts_per_tok":2,"moe_intermediate_size":32,
"n_group":1,"topk_group":1,"first_k_dense_replace":1,"norm_topk_prob":true,"routed_scaling_factor":1.5,`

// expertForms are the configurations of families with experts that are compared with transformers.
var expertForms = map[string][]form{
	routed + `"architectures":["Dots1ForCausalLM"],"model_type":"dots1","head_dim":24,"sliding_window":null}`: append(
		[]form{
			{"attention bias", `{"attention_bias":true}`},
			{"window", `{"sliding_window":8,"max_window_layers":1}`},
			{"window, by layer_types", `{"sliding_window":8,
				"layer_types":["sliding_attention","full_attention","sliding_attention"]}`},
			{"default window", `{"sliding_window":16,"max_window_layers":null}`},
		}, sigmoidForms...),
	routed + `"architectures":["Glm4MoeForCausalLM"],"model_type":"glm4_moe","head_dim":24}`: append([]form{
		{"norms of heads", `{"use_qk_norm":true}`},
		{"attention bias", `{"attention_bias":true}`},
		{"another share", `{"partial_rotary_factor":0.75}`},
		{"a share among the parameters", `{"rope_theta":null,
			"rope_parameters":{"rope_type":"default","rope_theta":50000.0,"partial_rotary_factor":0.25}}`},
		{"heads of the hidden size", `{"head_dim":null}`},
		{"no head_dim, tied", `{"tie_word_embeddings":true}`},
	}, sigmoidForms...),
	`{"architectures":["Ernie4_5_MoeForCausalLM"],"model_type":"ernie4_5_moe","moe_num_experts":6,"moe_k":2,
"moe_intermediate_size":32,"tie_word_embeddings":null}`: {
		{"biases", `{"use_bias":true}`},
		{"no shared expert", `{"moe_num_shared_experts":0}`},
		{"one shared expert", `{"moe_num_shared_experts":1}`},
		{"every second layer", `{"moe_layer_interval":2}`},
		{"from the first to the second", `{"moe_layer_start_index":0,"moe_layer_end_index":1}`},
		{"a least sum that is reached", `{"moe_norm_min":0.6}`},
		{"by alias", `{"moe_k":null,"num_experts_per_tok":3,"moe_num_experts":null,"num_experts":5}`},
		{"default theta, untied", `{"rope_theta":null,"tie_word_embeddings":false}`},
		{"head_dim", `{"head_dim":24}`},
	},
	routed + latentForm + `"architectures":["DeepseekV3ForCausalLM"],"model_type":"deepseek_v3"}`: append(append([]form{
		{"halves of the rotated values", `{"rope_interleave":false}`},
		{"default router", `{"n_routed_experts":16,"n_group":null,"topk_group":null,"num_experts_per_tok":4,
			"routed_scaling_factor":null,"norm_topk_prob":null}`},
	}, sigmoidForms...), latentForms...),
	routed + latentForm + `"architectures":["DeepseekV2ForCausalLM"],"model_type":"deepseek_v2","topk_method":"greedy"}`: append([]form{
		{"groups", `{"topk_method":"group_limited_greedy","n_group":3,"topk_group":2,"num_experts_per_tok":3}`},
		{"one group", `{"topk_method":"group_limited_greedy","n_group":2,"topk_group":1,"num_experts_per_tok":3}`},
		{"no groups", `{"n_group":null,"topk_group":null,"norm_topk_prob":false}`},
		{"default method", `{"topk_method":null,"routed_scaling_factor":null}`},
		{"dense", `{"first_k_dense_replace":3}`},
		{"head_dim of the file", `{"head_dim":64}`},
	}, latentForms...),
	`{"architectures":["PhiMoEForCausalLM"],"model_type":"phimoe","num_local_experts":6,"num_experts_per_tok":2,
"router_jitter_noise":0.4,"sliding_window":null}`: {
		{"all near", `{"router_jitter_noise":1.0}`},
		{"biases", `{"attention_bias":true,"lm_head_bias":true}`},
		{"default distance, tied", `{"router_jitter_noise":null,"num_experts_per_tok":null,"tie_word_embeddings":true}`},
		{"window", `{"sliding_window":8}`},
		{"longrope", `{"original_max_position_embeddings":128,"rope_scaling":{"type":"longrope","short_mscale":1.2,
			"long_mscale":1.3,"original_max_position_embeddings":128,"short_factor":[1,1.1,1.2,1.3,1.4,1.5,1.6,1.7],
			"long_factor":[1,2,3,4,5,6,7,8]}}`},
		{"no theta", `{"rope_theta":null}`},
	},
	`{"architectures":["Qwen3MoeForCausalLM"],"model_type":"qwen3_moe","head_dim":24,"num_experts":6,"num_experts_per_tok":2,
"moe_intermediate_size":32,"sliding_window":8}`: {
		{"window", `{"use_sliding_window":true,"max_window_layers":1}`},
		{"default window", `{"use_sliding_window":true,"sliding_window":null}`},
	},
	`{"architectures":["Qwen2MoeForCausalLM"],"model_type":"qwen2_moe","num_experts":6,"num_experts_per_tok":2,
"moe_intermediate_size":32,"shared_expert_intermediate_size":40,"sliding_window":8}`: {
		{"window", `{"use_sliding_window":true}`},
		{"in the first layers", `{"use_sliding_window":true,"max_window_layers":1}`},
		{"by layer_types", `{"use_sliding_window":true,
			"layer_types":["full_attention","sliding_attention","sliding_attention"]}`},
	},
	`{"architectures":["Llama4ForCausalLM"],"model_type":"llama4_text","intermediate_size_mlp":112,"head_dim":24,
"num_local_experts":6,"num_experts_per_tok":2,"attention_chunk_size":16,"floor_scale":8,"no_rope_layer_interval":3}`: {
		{"one expert, no norms of heads", `{"num_experts_per_tok":1,"use_qk_norm":false}`},
		{"every second layer has experts", `{"interleave_moe_layer_step":2}`},
		{"listed experts", `{"moe_layers":[0,2]}`},
		{"dense", `{"moe_layers":[]}`},
		{"listed layers without rotation", `{"no_rope_layers":[0,1,0]}`},
		{"an empty list of them", `{"no_rope_layers":[],"no_rope_layer_interval":2}`},
		{"no temperature", `{"attn_temperature_tuning":false}`},
		{"another temperature", `{"attn_scale":0.5,"floor_scale":3}`},
		{"kinds of attention apart", `{"layer_types":["full_attention","chunked_attention","chunked_attention"]}`},
		{"no chunks", `{"layer_types":["full_attention","full_attention","full_attention"]}`},
		{"llama3 with one frequency", `{"rope_scaling":{"rope_type":"llama3","factor":16.0,"low_freq_factor":1.0,
			"high_freq_factor":1.0,"original_max_position_embeddings":32}}`},
		{"biases, tied", `{"attention_bias":true,"tie_word_embeddings":true}`},
		{"default chunks and theta", `{"attention_chunk_size":null,"floor_scale":null,"rope_theta":null,
			"no_rope_layer_interval":null,"num_experts_per_tok":null,"use_qk_norm":null}`},
	},
	`{"architectures":["MiniMaxM2ForCausalLM"],"model_type":"minimax_m2","head_dim":24,"rotary_dim":16,
"num_local_experts":6,"num_experts_per_tok":2}`: {
		{"whole heads", `{"rotary_dim":null}`},
		{"default experts per token", `{"num_local_experts":12,"num_experts_per_tok":null}`},
		{"by alias, one expert", `{"num_local_experts":null,"num_experts":5,"num_experts_per_tok":1}`},
		{"a share outside", `{"partial_rotary_factor":0.5}`},
		{"a share among the parameters", `{"rope_theta":null,
			"rope_parameters":{"rope_type":"default","rope_theta":50000.0,"partial_rotary_factor":0.25}}`},
		{"parameters without a share", `{"rope_theta":null,"rope_parameters":{"rope_type":"default","rope_theta":50000.0}}`},
		{"yarn", `{"rope_scaling":{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":64}}`},
		{"no theta, tied", `{"rope_theta":null,"tie_word_embeddings":true}`},
		{"as published", `{"attn_type_list":[1,1,1],"layernorm_full_attention_beta":1.0,"layernorm_mlp_beta":1.0,
			"layernorm_linear_attention_beta":1.0,"mlp_intermediate_size":128,"mtp_transformer_layers":1,
			"num_mtp_modules":3,"qk_norm_type":"per_layer","scoring_func":"sigmoid","shared_intermediate_size":0,
			"shared_moe_mode":"sigmoid","use_mtp":true,"use_qk_norm":true,"use_routing_bias":true}`},
	},
	`{"architectures":["HunYuanMoEV1ForCausalLM"],"model_type":"hunyuan_v1_moe","head_dim":24,"num_experts":6,"moe_topk":2}`: {
		{"one expert", `{"moe_topk":1}`},
		{"a number for each layer", `{"moe_topk":[3,1,2]}`},
		{"by alias", `{"moe_topk":null,"num_experts_per_tok":3,"num_experts":null,"num_local_experts":5}`},
		{"alpha", `{"rope_scaling":{"type":"dynamic","alpha":1000.0,"factor":1.0}}`},
		{"attention bias, tied", `{"attention_bias":true,"tie_word_embeddings":true}`},
	},
}

const latentForm = `"num_key_value_heads":4,"kv_lora_rank":40,"q_lora_rank":28,"qk_nope_head_dim":20,"qk_rope_head_dim":12,
"v_head_dim":18,`

// latentForms are forms of latent attention.
var latentForms = []form{
	{"one projection of queries", `{"q_lora_rank":null}`},
	{"attention bias", `{"attention_bias":true}`},
	{"attention bias, one projection", `{"attention_bias":true,"q_lora_rank":null}`},
	{"yarn, equal mscales", `{"rope_scaling":{"type":"yarn","factor":4.0,"original_max_position_embeddings":64,
		"mscale":0.707,"mscale_all_dim":0.707,"beta_fast":32,"beta_slow":1}}`},
	{"yarn, mscales", `{"rope_scaling":{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":64,
		"mscale":1.0,"mscale_all_dim":0.5}}`},
	{"yarn, one mscale", `{"rope_scaling":{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":64,
		"mscale_all_dim":0.8}}`},
	{"linear, mscale_all_dim", `{"rope_scaling":{"rope_type":"linear","factor":4.0,"mscale_all_dim":1.0}}`},
	{"tied", `{"tie_word_embeddings":true}`},
}

// sigmoidForms are forms of the router of DeepSeek-V3.
var sigmoidForms = []form{
	{"groups", `{"n_group":3,"topk_group":2}`},
	{"one group of two", `{"n_group":2,"topk_group":1,"num_experts_per_tok":3}`},
	{"not normalized", `{"norm_topk_prob":false}`},
	{"no scale", `{"routed_scaling_factor":1.0,"norm_topk_prob":true}`},
	{"no dense layer", `{"first_k_dense_replace":0}`},
	{"dense layers", `{"first_k_dense_replace":3}`},
	{"one shared expert", `{"n_shared_experts":1}`},
	{"all experts", `{"num_experts_per_tok":6}`},
	{"relu2", `{"hidden_act":"relu2"}`},
	{"yarn", `{"rope_scaling":{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":64}}`},
	{"parameters of 5.x", `{"rope_theta":null,"rope_parameters":{"rope_type":"default","rope_theta":50000.0}}`},
}

// TestInteropExperts: families with experts give the logits of transformers in every form of their configuration.
func TestInteropExperts(t *testing.T) {
	tokens := make([]int, 40)
	for i := range tokens {
		tokens[i] = (i*i*37 + i*101 + 11) % 80
	}
	list, err := json.Marshal(tokens)
	if err != nil {
		t.Fatal(err)
	}
	args, names := []string{string(list)}, []string(nil)
	for _, base := range slices.Sorted(maps.Keys(expertForms)) {
		for _, f := range append([]form{{"base", `{}`}}, expertForms[base]...) {
			config := merged(t, sizesOfForms, base, f.set)
			dir := filepath.Join(t.TempDir(), fmt.Sprint(len(names)))
			writeForm(t, config, dir)
			args, names = append(args, dir), append(names, modelType(t, config)+", "+f.name)
		}
	}
	for i, line := range answers(t, "transformers/logits.py", len(names), args...) {
		t.Run(names[i], func(t *testing.T) { compareForm(t, args[i+1], tokens, line) })
	}
	recordComparisons(t)
}

// answers runs a program of testdata with transformers, and returns its lines, one for each form.
func answers(t *testing.T, program string, forms int, args ...string) [][]byte {
	t.Helper()
	out := interop.Python(t, "transformers", shared.Testdata(t, program), args...)
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if len(lines) != forms {
		t.Fatalf("%d answers for %d forms", len(lines), forms)
	}
	return lines
}

// compareForm compares the logits of the engine and of the reference with those of transformers.
func compareForm(t *testing.T, dir string, tokens []int, line []byte) {
	t.Helper()
	var answer struct {
		Logits [][]float64
		Unused []string
		Error  string
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		t.Fatal(err)
	}
	if answer.Error != "" || len(answer.Unused) > 0 {
		t.Fatalf("transformers: %s; tensors that it does not use: %q", answer.Error, answer.Unused)
	}
	v, d := packMini(t, dir)
	for who, got := range map[string][][]float32{"reference": judged(t, v, d, tokens),
		"engine": engineLogits(t, v, tokens)} {
		median, most, agree := deviation(t, got, answer.Logits)
		if who == "engine" {
			compared(t, d.Family, median, most)
		}
		if median > formMedian || most > formMost || agree < len(tokens) || math.IsNaN(most) {
			t.Errorf("%s: |Δ| over the standard deviation is %.2g at the median and %.2g at most; arg-max agrees at "+
				"%d of %d positions", who, median, most, agree, len(tokens))
		}
	}
}

// formMedian and formMost bound |Δ| of logits over their standard deviation, float32 here and in transformers.
const formMedian, formMost = 2e-6, 2e-5

func writeForm(t *testing.T, config []byte, dir string) {
	t.Helper()
	ck, err := synth.New(synth.Options{Config: config, Seed: 7})
	if err != nil {
		t.Fatalf("%v\n%s", err, config)
	}
	if err := ck.Write(t.Context(), dir, nil); err != nil {
		t.Fatal(err)
	}
}

// merged is the union of JSON objects; later ones override, and null drops a key.
func merged(t *testing.T, objects ...string) []byte {
	t.Helper()
	all := map[string]any{}
	for _, text := range objects {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&all); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	maps.DeleteFunc(all, func(key string, v any) bool { return v == nil && !nulls[key] })
	data, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// nulls are keys whose null means something else than their absence.
var nulls = map[string]bool{"sliding_window": true, "q_lora_rank": true}

func modelType(t *testing.T, config []byte) string {
	t.Helper()
	var c struct {
		ModelType string `json:"model_type"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		t.Fatal(err)
	}
	return c.ModelType
}
