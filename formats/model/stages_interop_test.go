package model_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
)

const shortAndLong = `"short_factor":[1,1.1,1.2,1.3,1.4,1.5,1.6,1.7],"long_factor":[1,2,3,4,5,6,7,8]`

// stagedForms are configurations whose rotations depend on the length of the text.
var stagedForms = []struct {
	form
	drops bool // generate() computes the text once more where the factors change, as Phi-3 does
}{
	{form{"llama, longrope", `{"architectures":["LlamaForCausalLM"],"model_type":"llama","rope_scaling":{
		"rope_type":"longrope","original_max_position_embeddings":24,` + shortAndLong + `}}`}, false},
	{form{"llama, longrope, factors", `{"architectures":["LlamaForCausalLM"],"model_type":"llama","rope_scaling":{
		"rope_type":"longrope","factor":3.0,"attention_factor":1.3,"original_max_position_embeddings":24,` + shortAndLong + `}}`}, false},
	{form{"phi3, longrope", `{"architectures":["Phi3ForCausalLM"],"model_type":"phi3","sliding_window":null,"pad_token_id":0,
		"original_max_position_embeddings":24,"rope_scaling":{"type":"longrope",` + shortAndLong + `}}`}, true},
	{form{"phi3, window, half of the head", `{"architectures":["Phi3ForCausalLM"],"model_type":"phi3","sliding_window":10,
		"pad_token_id":0,"partial_rotary_factor":0.5,"original_max_position_embeddings":24,"rope_scaling":{"type":"longrope",
		"short_factor":[1,1.1,1.2,1.3],"long_factor":[1,2,3,4]}}`}, true},
	{form{"llama, dynamic", `{"architectures":["LlamaForCausalLM"],"model_type":"llama","max_position_embeddings":24,
		"rope_scaling":{"type":"dynamic","factor":4.0}}`}, false},
	{form{"qwen2, dynamic, parameters of 5.x", `{"architectures":["Qwen2ForCausalLM"],"model_type":"qwen2","rope_theta":null,
		"max_position_embeddings":24,"use_sliding_window":false,"rope_parameters":{"rope_type":"dynamic","factor":2.5,
		"rope_theta":50000.0}}`}, false},
	{form{"gpt_neox, dynamic", `{"architectures":["GPTNeoXForCausalLM"],"model_type":"gpt_neox","max_position_embeddings":24,
		"rotary_pct":0.5,"num_key_value_heads":null,"rope_theta":null,"rope_scaling":{"rope_type":"dynamic","factor":4.0}}`}, false},
	{form{"gemma3, dynamic, local base", `{"architectures":["Gemma3ForCausalLM"],"model_type":"gemma3_text","head_dim":16,
		"hidden_act":null,"hidden_activation":"gelu_pytorch_tanh","query_pre_attn_scalar":16,"max_position_embeddings":24,
		"sliding_window":8,"layer_types":["sliding_attention","full_attention","sliding_attention"],"rope_local_base_freq":500.0,
		"rope_scaling":{"rope_type":"dynamic","factor":4.0}}`}, false},
	{form{"deepseek_v3, dynamic", routed + latentForm + `"architectures":["DeepseekV3ForCausalLM"],"model_type":"deepseek_v3",
		"max_position_embeddings":24,"rope_scaling":{"rope_type":"dynamic","factor":4.0}}`}, false},
}

// TestInteropStages: texts shorter and longer than the original number of positions have the logits that transformers
// computes for the whole text, at every length; and those of its generate(), with a cache, in the families whose cache
// goes where the factors change.
func TestInteropStages(t *testing.T) {
	tokens, lengths := make([]int, 40), []int{20, 23, 24, 25, 26, 31, 40}
	for i := range tokens {
		tokens[i] = (i*i*37 + i*101 + 11) % 80
	}
	const more = 12
	var args []string
	for _, x := range []any{tokens, lengths, more} {
		text, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, string(text))
	}
	for i, f := range stagedForms {
		dir := filepath.Join(t.TempDir(), fmt.Sprint(i))
		writeForm(t, merged(t, sizesOfForms, f.set), dir)
		args = append(args, dir)
	}
	lines := answers(t, "transformers/lengths.py", len(stagedForms), args...)
	for i, f := range stagedForms {
		t.Run(f.name, func(t *testing.T) {
			var answer struct {
				Logits, Steps [][]float64
				Generated     []int
			}
			if err := json.Unmarshal(lines[i], &answer); err != nil {
				t.Fatal(err)
			}
			compareLengths(t, args[3+i], tokens, lengths, answer.Logits)
			if f.drops {
				text, ends := slices.Concat(tokens[:lengths[0]], answer.Generated), []int(nil)
				for n := range answer.Steps {
					ends = append(ends, lengths[0]+n)
				}
				compareLengths(t, args[3+i], text, ends, answer.Steps)
			}
		})
	}
}

// compareLengths compares the logits after the first tokens of a text, of so many of them.
func compareLengths(t *testing.T, dir string, tokens, lengths []int, want [][]float64) {
	t.Helper()
	v, d := packMini(t, dir)
	for who, all := range map[string][][]float32{"reference": judged(t, v, d, tokens),
		"engine": engineLogits(t, v, tokens)} {
		var got [][]float32
		for _, n := range lengths {
			got = append(got, all[n-1])
		}
		median, most, agree := deviation(t, got, want)
		if median > formMedian || most > formMost || agree < len(lengths) {
			t.Errorf("%s: |Δ| over the standard deviation is %.2g at the median and %.2g at most; arg-max agrees at "+
				"%d of %d lengths", who, median, most, agree, len(lengths))
		}
	}
}
