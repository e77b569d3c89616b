package model_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/verify/reference"
)

// matrixLine is a line of testdata/transformers/matrix.jsonl; matrix.py describes its contents.
type matrixLine struct {
	Form   string
	Config map[string]json.RawMessage
	Name   string
	Of     string
	Set    map[string]json.RawMessage
	Drop   []string
	Answer map[string]any
	Error  string
}

const matrixFile = "transformers/matrix.jsonl"

// TestInteropMatrix: transformers still gives the recorded answers.
func TestInteropMatrix(t *testing.T) {
	answers := interop.Python(t, "transformers", shared.Testdata(t, "transformers/matrix.py"))
	interop.Recorded(t, shared.Testdata(t, matrixFile), answers)
}

// reason is a substring of an error or of the name of a case, and why transformers and lowpack may disagree there.
type reason struct{ part, why string }

// refusals are configurations that transformers runs and lowpack rejects.
var refusals = []reason{
	{"hidden_size is missing", "the library's default says nothing about a checkpoint"},
	{"intermediate_size is missing", "the same"},
	{"num_hidden_layers is missing", "the same"},
	{"num_attention_heads is missing", "the same"},
	{"vocab_size is missing", "the same"},
	{"does not go with architecture", "one of the two is wrong, and the weights tell of it only by their shapes"},
	{"does not divide hidden_size", "no head dimension follows from the file"},
	{"does not divide num_attention_heads", "attention itself fails; the matrix stops in front of it"},
	{"head_dim is 0", "heads without values"},
	{"rms_norm_eps is 0", "a vector of zeros would be divided by 0"},
	{"eos_token_id: \"48\" is not a token id", "the file belongs to another vocabulary"},
	{"is_causal is false", "not supported; transformers obeys it everywhere"},
	{"use_bidirectional_attention is true", "not supported; some families obey it"},
	{"per_layer_config", "not supported"},
	{"are different activations", "transformers 4 and 5 obey different ones"},
	{"supported are full_attention and sliding_attention", "ignored or not, other kinds of attention are meant"},
	{"which transformers ignores in this architecture; remove layer_types",
		"the file says by layer_types what transformers does not do"},
	{"sliding_window is 0", "positions that see nothing"},
	{"sliding_window is -1", "the same"},
	{"which transformers ignores in this architecture; remove it if whole heads",
		"the file says by partial_rotary_factor what transformers does not do"},
	{"a rotary embedding for each layer type", "it is ignored where the architecture has no layer types"},
	{"stands beside, not in, full_attention and sliding_attention",
		"ignored, so that the model would have default bases"},
	{"transformers ignores type here", "ignored, so that the model would not be scaled"},
	{"truncate is false, which transformers ignores", "the same"},
	{"for blocks with a sliding window", "local rotary embeddings that are scaled are not supported"},
	{"attn_logit_softcapping in a Gemma 3", "ignored, so that logits would not be capped"},
	{"_sliding_window_pattern is", "ignored, so that other blocks would have a window"},
	{"beta_fast is 0", "no number of rotations"},
	{"does not name lm_head", "output heads are not ternary"},
	{"use_rms_norm is true", "not supported"},
}

// leniencies are configurations that transformers fails on and lowpack runs.
var leniencies = []reason{
	{"null", "transformers 4 wrote null for what is absent, and null says nothing else"},
	{"no model_type", "the architecture says more"},
	{"eps an integer", "1 is 1.0"},
	{"no pad_token_id", "nothing is padded"},
	{"heads do not divide", "head_dim says what is to be known"},
	{"head_dim 6", "the rotary embedding of transformers overlooks head_dim"},
	{"head_dim 32", "the same"},
}

// TestMatrix: lowpack reads every form of config.json as transformers does, or rejects it.
func TestMatrix(t *testing.T) {
	bases, used, agree := map[string]matrixLine{}, map[string]bool{}, 0
	for _, line := range readMatrix(t) {
		config, want := line.Config, line.Answer
		if line.Form != "" {
			bases[line.Form] = line
		} else {
			base := bases[line.Of]
			config, want = changed(base.Config, line.Set, line.Drop), changed(base.Answer, line.Answer, nil)
		}
		text, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		name := line.Form + line.Of + ": " + line.Name
		d, err := model.Parse(text, nil, nil)
		switch {
		case err != nil && line.Error != "":
			agree++
		case err != nil && !known(refusals, err.Error(), used):
			t.Errorf("%s: transformers runs what lowpack refuses: %v\n%s", name, err, text)
		case err != nil:
		case line.Error == "":
			agree++
			compareAnswers(t, name, dump(d), want, text)
		case !known(leniencies, line.Name, used):
			t.Errorf("%s: lowpack runs what transformers refuses: %s\n%s", name, line.Error, text)
		}
	}
	t.Logf("%d forms are read alike", agree)
	for _, r := range append(refusals, leniencies...) {
		if !used[r.part] {
			t.Errorf("%q is a reason for nothing", r.part)
		}
	}
}

// known finds the reason for a disagreement and marks it as used.
func known(reasons []reason, text string, used map[string]bool) bool {
	for _, r := range reasons {
		if strings.Contains(text, r.part) {
			used[r.part] = true
			return true
		}
	}
	return false
}

func readMatrix(t *testing.T) (lines []matrixLine) {
	t.Helper()
	data, err := os.ReadFile(shared.Testdata(t, matrixFile))
	if err != nil {
		t.Fatal(err)
	}
	s := bufio.NewScanner(bytes.NewReader(data))
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var line matrixLine
		if err := json.Unmarshal(s.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if len(lines) < 3000 {
		t.Fatalf("%d lines in %s", len(lines), filepath.Base(matrixFile))
	}
	return lines
}

func changed[V any](base, set map[string]V, drop []string) map[string]V {
	out := map[string]V{}
	for k, v := range base {
		out[k] = v
	}
	for k, v := range set {
		out[k] = v
	}
	for _, k := range drop {
		delete(out, k)
	}
	return out
}

// dump reports the same facts of a description as matrix.py does of a model.
func dump(d *model.Description) map[string]any {
	out := map[string]any{
		"family": d.Family, "layers": d.Layers, "hidden": d.Hidden, "vocab": d.Vocab, "tied": d.Head == d.Embed,
		"act":       string(d.Activation),
		"eps":       float64(d.NormEps),
		"positions": d.MaxPositions,
		"bos":       d.BOS,
		"eos":       d.EOS,
		"cap":       float64(d.LogitSoftcap),
	}
	linears, norms := map[string]any{}, []string{}
	for _, n := range d.Tensors() {
		name, ok := strings.CutPrefix(n.Name, "model.layers.0.")
		name = strings.TrimSuffix(name, ".weight")
		switch module, bias := strings.CutSuffix(name, ".bias"); {
		case !ok:
		case bias:
			linears[module] = append(linears[module].([]any), "bias")
		case n.Linear:
			linears[name] = []any{n.Shape[0], n.Shape[1]}
		default:
			norms = append(norms, name)
		}
	}
	slices.Sort(norms)
	out["linears"], out["norms"], out["quantized"] = linears, norms, quantized(d)
	for key, values := range perLayer(d) {
		out[key] = values[0]
		for _, v := range values {
			if !same(v, values[0]) {
				out[key] = values
			}
		}
	}
	return out
}

const matrixTokens = 12 // TOKENS of matrix.py

func perLayer(d *model.Description) map[string][]any {
	out := map[string][]any{}
	for _, b := range d.Blocks {
		window, visible := 0, []any{}
		if b.Local {
			window = d.SlidingWindow
		}
		for i := range matrixTokens {
			n := i + 1
			if b.Local {
				n = min(n, window)
			}
			visible = append(visible, n)
		}
		scale := float64(d.AttnScale)
		if scale == 0 {
			scale = 1 / math.Sqrt(float64(d.HeadDim))
		}
		angles, factor := reference.Rotation(d.Rope, b.Local)
		for key, v := range map[string]any{
			"heads": d.Heads, "kv": d.KVHeads, "dim": d.HeadDim, "scale": scale, "softcap": float64(d.AttnSoftcap),
			"window": window, "visible": visible, "angles": angles, "size": factor,
		} {
			out[key] = append(out[key], v)
		}
	}
	return out
}

func quantized(d *model.Description) any {
	kind := map[model.Declared]string{model.Packed: "multiplies", model.AbsMean: "online"}[d.Quant.Declared]
	if kind == "" {
		return nil
	}
	if d.Quant.ScaleDivides {
		kind = "divides"
	}
	floats, all := []string{}, true
	for _, n := range d.Tensors() {
		switch keeps := n.Name == d.Head || d.Quant.Keeps(n.Name); {
		case n.Linear && keeps:
			floats = append(floats, strings.TrimSuffix(n.Name, ".weight"))
		case n.Linear:
			all = false
		}
	}
	if all {
		kind = ""
	}
	if d.Head == d.Embed {
		floats = append(floats, "lm_head")
	}
	slices.Sort(floats)
	return map[string]any{"kind": kind, "floats": floats}
}

func compareAnswers(t *testing.T, name string, got, want map[string]any, config []byte) {
	t.Helper()
	want = changed(want, nil, nil)
	// Scaled embeddings support other positions than max_position_embeddings, which transformers does not enforce.
	scaled := strings.Contains(string(config), `_factor"`) || strings.Contains(string(config), "yarn") ||
		strings.Contains(string(config), `"dynamic"`)
	for key, w := range want {
		if key == "positions" && scaled {
			continue
		}
		if key == "family" {
			w = map[any]any{"gemma3_text": "gemma3", "ministral": "mistral"}[w] // where lowpack has one name
			w = cmp.Or(w, want[key])
		}
		if !same(got[key], plainTokens(key, w, want["vocab"])) {
			t.Errorf("%s: %s is %v, in transformers %v\n%s", name, key, got[key], w, config)
		}
	}
}

// plainTokens omits tokens outside the vocabulary, which count as none.
func plainTokens(key string, v, vocab any) any {
	beyond := func(id any) bool { n, ok := id.(float64); return !ok || n < 0 || n >= vocab.(float64) }
	switch key {
	case "bos":
		if beyond(v) {
			return -1.0
		}
	case "eos":
		return slices.DeleteFunc(slices.Clone(v.([]any)), beyond)
	case "cap", "softcap":
		if v == nil {
			return 0.0
		}
	}
	return v
}

// same compares JSON values; numbers to the digits that matrix.py prints.
func same(got, want any) bool {
	a, b := generic(got), generic(want)
	switch a := a.(type) {
	case float64:
		b, ok := b.(float64)
		return ok && math.Abs(a-b) <= 6e-6*math.Abs(b)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, same)
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			if !same(v, b[k]) {
				return false
			}
		}
		return true
	}
	return a == b
}

// generic converts the values of dump to what encoding/json decodes.
func generic(v any) any {
	switch v := v.(type) {
	case int:
		return float64(v)
	case []int:
		return list(v)
	case []string:
		return list(v)
	case []float64:
		return list(v)
	}
	return v
}

func list[V any](v []V) []any {
	out := make([]any, len(v))
	for i := range v {
		out[i] = v[i]
	}
	return out
}
