package model_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
)

// angleForms amplify differences of angles: their attention does not divide scores by a root.
var angleForms = []form{
	{"granite", `{"architectures":["GraniteForCausalLM"],"model_type":"granite","attention_multiplier":1.0}`},
	{"granitemoe", `{"architectures":["GraniteMoeForCausalLM"],"model_type":"granitemoe","attention_multiplier":1.0,
		"num_local_experts":4,"num_experts_per_tok":2}`},
}

// TestInteropAngles: what is left between the logits here and those of transformers in float64, in long texts of models
// with large scores, is the angles of rotation, which transformers rounds to float32 in every dtype: with angles in
// float64, all else unchanged, its logits are those of NUMERICS N17. Measured: 2.2e-6 at the median and 6.2e-5 at most,
// with the angles of transformers 1.3e-5 and 7.3e-4.
func TestInteropAngles(t *testing.T) {
	const length, sizes = 1000, `{"hidden_size":256,"intermediate_size":512,"max_position_embeddings":1024}`
	tokens := make([]int, length)
	for i := range tokens {
		tokens[i] = (i*i*37 + i*101 + 11) % 80
	}
	list, err := json.Marshal(tokens)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{string(list)}
	for i, f := range angleForms {
		dir := filepath.Join(t.TempDir(), fmt.Sprint(i))
		writeForm(t, merged(t, sizesOfForms, sizes, f.set), dir)
		args = append(args, dir)
	}
	lines := answers(t, "transformers/angles.py", 2*len(angleForms), args...)
	for i, f := range angleForms {
		t.Run(f.name, func(t *testing.T) {
			v, _ := packMini(t, args[i+1])
			got := engineLogits(t, v, tokens)
			for j, angles := range []string{"float32", "float64"} {
				var want struct{ Logits [][]float64 }
				if err := json.Unmarshal(lines[2*i+j], &want); err != nil {
					t.Fatal(err)
				}
				median, most, agree := deviation(t, got, want.Logits)
				t.Logf("angles in %s: median %.2g, at most %.2g, arg-max %d of %d", angles, median, most, agree, length)
				if j == 1 && (median > transformersBound || most > 100*transformersBound) {
					t.Errorf("with exact angles |Δ| over the standard deviation is %.2g and at most %.2g", median, most)
				}
			}
		})
	}
}
