package model_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/lowpack/lowpack/runtime/engine"
)

// longForms are models for long texts, the lengths at which logits are compared, and how many tokens transformers
// computes at once: rotations of the whole length need all of them, and masks of windows leave no memory for that.
var longForms = []struct {
	form
	lengths []int
	atOnce  int
}{
	{form{"gemma3, windows", `{"architectures":["Gemma3ForCausalLM"],"model_type":"gemma3_text","head_dim":16,
		"hidden_size":32,"num_attention_heads":1,"num_key_value_heads":1,"hidden_act":null,
		"hidden_activation":"gelu_pytorch_tanh","query_pre_attn_scalar":16,"max_position_embeddings":131072,
		"sliding_window":512,"layer_types":["sliding_attention","full_attention","sliding_attention"],
		"rope_theta":1000000.0,"rope_local_base_freq":10000.0,"rope_scaling":{"rope_type":"linear","factor":8.0}}`},
		[]int{600, 4096, 32768, 65537, 131071, 131072}, 1024},
	{form{"phi3, longrope", `{"architectures":["Phi3ForCausalLM"],"model_type":"phi3","sliding_window":null,
		"pad_token_id":0,"num_hidden_layers":2,"max_position_embeddings":131072,
		"original_max_position_embeddings":4096,"rope_scaling":{"type":"longrope","short_factor":[1,1.02,1.03,1.05,1.1,1.2,1.3,1.5],
		"long_factor":[1,1.2,2.1,5.3,12.5,28.1,41.2,64.3]}}`}, []int{4097, 8192, 16384}, 16384},
}

// TestInteropLongTexts: miniatures have the logits of transformers in a text of 128k tokens, with layers that hold
// their window alone in the KV cache, and in one of 16k with the rotations of long texts. transformers computes angles
// in float32, which at position p are off by up to p·2^-24, so that logits are less alike than in short texts.
func TestInteropLongTexts(t *testing.T) {
	const longMedian, longMost = 1e-4, 1e-3
	var args []string
	for i, f := range longForms {
		dir := filepath.Join(t.TempDir(), fmt.Sprint(i))
		writeForm(t, merged(t, sizesOfForms, f.set), dir)
		lengths, err := json.Marshal(f.lengths)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, dir, string(lengths), fmt.Sprint(f.atOnce))
	}
	lines := answers(t, "transformers/long.py", len(longForms), args...)
	for i, f := range longForms {
		t.Run(f.name, func(t *testing.T) {
			var want [][]float64
			if err := json.Unmarshal(lines[i], &want); err != nil {
				t.Fatal(err)
			}
			median, most, agree := deviation(t, longLogits(t, args[3*i], f.lengths), want)
			t.Logf("|Δ| over the standard deviation is %.2g at the median and %.2g at most", median, most)
			if median > longMedian || most > longMost || agree < len(f.lengths) {
				t.Errorf("arg-max agrees at %d of %d lengths", agree, len(f.lengths))
			}
		})
	}
}

// longLogits returns the logits of the engine after the first tokens of the text of testdata/transformers/long.py.
func longLogits(t *testing.T, dir string, lengths []int) (rows [][]float32) {
	t.Helper()
	v, d := packMini(t, dir)
	count := lengths[len(lengths)-1]
	e, err := engine.New(v, engine.Options{Threads: 2, Context: count})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if got, all := engine.CacheBytesAt(d, engine.CacheF32, count), engine.CacheBytesPerToken(d, engine.CacheF32)*
		int64(count); d.SlidingWindow > 0 && 2*got > all {
		t.Errorf("the KV cache has %d bytes, and all positions %d", got, all)
	}
	seq, err := e.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	defer seq.Close()
	tokens, x := make([]int, count), 1
	for i := range tokens {
		x = (x*1103515245 + 12345) % (1 << 31)
		tokens[i] = x >> 16 % 80
	}
	for _, n := range lengths {
		row := make([]float32, d.Vocab)
		chunk := engine.Chunk{Seq: seq, Tokens: tokens[seq.Len():n], Logits: row}
		if err := e.Forward(t.Context(), []engine.Chunk{chunk}); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}
