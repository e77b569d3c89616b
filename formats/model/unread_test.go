package model_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// TestUnread: unknown keys are listed, with their path in objects; keys that are read, null or known not to change the
// model are not.
func TestUnread(t *testing.T) {
	const known = `"architectures":["LlamaForCausalLM"],"hidden_size":64,"intermediate_size":64,"num_hidden_layers":1,
		"num_attention_heads":2,"vocab_size":32,"rms_norm_eps":1e-5,"use_cache":true,"torch_dtype":"bfloat16","attention_dropout":0.1`
	for more, want := range map[string][]string{
		``:                           nil,
		`,"warp":null`:               nil,
		`,"warp":1,"a_gate":"x"`:     {"a_gate", "warp"},
		`,"use_sliding_window":true`: {"use_sliding_window"},
		`,"rope_scaling":{"rope_type":"linear","factor":2,"bend":3}`:             {"rope_scaling.bend"},
		`,"rope_parameters":{"rope_type":"default","rope_theta":1e4,"bend":3}`:   {"rope_parameters.bend"},
		`,"quantization_config":{"quant_method":"gptq","whatever":1}`:            nil, // rejected by package quantized
		`,"rope_scaling":{"rope_type":"linear","factor":2},"rope_parameters":{}`: nil,
		`,"warp":[0.0,Infinity]`:           {"warp"},
		`,"warp":{"__float__":"Infinity"}`: {"warp"},
		`,"initializer_range":NaN`:         nil,
	} {
		d, err := model.Parse([]byte("{"+known+more+"}"), nil, nil)
		if err != nil || !slices.Equal(d.Unread, want) {
			t.Errorf("%s: %v, %v; want %v", more, d, err, want)
		}
	}
}

// TestInteropUnread: no config class of transformers has a field that is unknown here, and with all silent keys changed
// it computes the same logits. A new version with a new field fails here.
func TestInteropUnread(t *testing.T) {
	root := shared.Path(t, "data/transformers")
	dirs, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	silent, err := json.Marshal(model.Silent())
	if err != nil {
		t.Fatal(err)
	}
	args := []string{root, string(silent)}
	for _, e := range dirs {
		// The classes of BitNet and MXFP4 are shared with other models; their weights would need other programs.
		if _, supported := architectureOf(t, filepath.Join(root, e.Name())); supported &&
			!strings.Contains(e.Name(), "packed-") &&
			!strings.Contains(e.Name(), "bitnet") && e.Name() != wide {
			args = append(args, e.Name())
		}
	}
	var answer map[string]struct {
		Config json.RawMessage
		Differ []string
	}
	if err := json.Unmarshal(interop.Python(t, "transformers", shared.Testdata(t, "transformers/fields.py"), args...),
		&answer); err != nil {
		t.Fatal(err)
	}
	if len(answer) < 20 {
		t.Errorf("only %d families", len(answer))
	}
	for name, a := range answer {
		d, err := model.Parse(a.Config, nil, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(d.Unread) > 0 {
			t.Errorf("%s: transformers has fields that are not known: %v", name, d.Unread)
		}
		if len(a.Differ) > 0 {
			t.Errorf("%s: other logits with %v changed", name, a.Differ)
		}
	}
}
