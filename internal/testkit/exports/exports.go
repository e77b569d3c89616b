// Package exports holds what tests of exports share, and compare with: golden generations, the logits of the engine,
// the accumulators of packed codes.
package exports

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
)

// Packed converts a checkpoint, without golden outputs.
func Packed(t *testing.T, checkpoint string, r packed.Recipe) string {
	t.Helper()
	r.Golden = "none"
	return tinymodel.Converted(t, checkpoint, r)
}

// AsFloats is a recipe that quantizes nothing.
var AsFloats = packed.Recipe{Quant: "int8", AllowLossy: true, Include: []string{"nothing"}}

// PerRow is a recipe with a scale per row and token.
func PerRow(quant string) packed.Recipe {
	return packed.Recipe{Quant: quant, Scale: "row", Activation: "token", AllowLossy: true}
}

// Unpacked is a packed file of the same model whose weights are floats.
func Unpacked(t *testing.T, source string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "unpacked")
	if _, err := convert.Unpack(t.Context(), source, dir, convert.UnpackOptions{Form: convert.FormF32}); err != nil {
		t.Fatal(err)
	}
	return Packed(t, dir, AsFloats)
}

// Open opens a packed file for the time of a test.
func Open(t *testing.T, path string) *packed.File {
	t.Helper()
	f, err := packed.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// Contents are the files of a directory and of those in it, by their names with slashes.
func Contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, tree := map[string]string{}, os.DirFS(dir)
	err := fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(tree, name)
		files[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// ReadJSON reads a file.
func ReadJSON(t *testing.T, path string, to any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, to); err != nil {
		t.Fatal(err)
	}
}

// Small writes a checkpoint like testdata/tiny-bitnet with a fifth of its weights: the rows of attention are whole
// groups of every size; rows of 344 weights end within a group of 32, as rows of 688 do.
func Small(t *testing.T) string {
	t.Helper()
	return smallOf(t, "bitnet-2b4t-bf16", `"architectures":["BitNetForCausalLM"],"model_type":"bitnet","hidden_act":"relu2",
		"tie_word_embeddings":true,
		"quantization_config":{"quant_method":"bitnet","linear_class":"autobitlinear","quantization_mode":"online"}`)
}

// SmallLlama is a Llama of the shapes of Small, with a head of its own.
func SmallLlama(t *testing.T) string {
	t.Helper()
	return smallOf(t, "llama-3-8b", `"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_act":"silu",
		"tie_word_embeddings":false`)
}

func smallOf(t *testing.T, like, fields string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "small")
	tinymodel.MiniatureWith(t, like, dir, func(o *synth.Options) {
		o.Mini, o.Stop = false, nil
		o.Config = []byte(`{"hidden_size":256,"intermediate_size":344,"num_attention_heads":8,"num_key_value_heads":2,
			"num_hidden_layers":2,"vocab_size":320,"bos_token_id":301,"eos_token_id":302,"max_position_embeddings":256,
			"rms_norm_eps":1e-5,"rope_theta":10000,"torch_dtype":"bfloat16",` + fields + `}`)
	})
	return dir
}

// Golden is a recorded generation.
type Golden struct {
	Name   string
	Prompt []int `json:"prompt_ids"`
	Greedy []int `json:"greedy_ids"`
}

// TinyGoldens are the recorded generations of testdata/tiny-bitnet.
func TinyGoldens(t *testing.T) []Golden {
	var g struct{ Prompts []Golden }
	ReadJSON(t, filepath.Join(shared.Testdata(t, "tiny-bitnet-golden"), "tiny-bitnet-packed.json"), &g)
	return g.Prompts
}

// BitllamaGoldens are the recorded generations of bitllama2-3m, whose files have prompt and continuation in one list.
func BitllamaGoldens(t *testing.T) (checkpoint string, list []Golden) {
	dir := shared.Path(t, filepath.Join("data", "models", "bitllama2-3m"))
	var g []struct {
		Prompt []int `json:"prompt_ids"`
		IDs    []int
	}
	ReadJSON(t, filepath.Join(dir, "golden", "golden.json"), &g)
	for _, x := range g {
		list = append(list, Golden{Prompt: x.Prompt, Greedy: x.IDs[len(x.Prompt):]})
	}
	return filepath.Join(dir, "packed-auto"), list
}

// Session runs a model in a program, by testdata/session.py of the package under test.
func Session(t *testing.T, tool, dir string, spec, answer any) (values []float32) {
	t.Helper()
	return Script(t, tool, "testdata/session.py", dir, spec, answer)
}

// Script runs a model in a program, by a script: what it prints goes to answer, and the floats that it wrote are
// returned.
func Script(t *testing.T, tool, script, dir string, spec, answer any) (values []float32) {
	t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "floats")
	if err := json.Unmarshal(interop.Python(t, tool, script, dir, string(text), out), answer); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for ; len(data) > 0; data = data[4:] {
		values = append(values, math.Float32frombits(binary.LittleEndian.Uint32(data)))
	}
	return values
}

// Refused demands that nothing is left of an export to a directory that is stopped, or whose codes are damaged, and
// that it overwrites none.
func Refused(t *testing.T, source string, export func(ctx context.Context, path, dir string) error) {
	t.Helper()
	parent := t.TempDir()
	dir := filepath.Join(parent, "model")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := export(ctx, source, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	data, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)*2/3] ^= 1 // of the codes
	bad := filepath.Join(parent, "bad.safetensors")
	if err := os.WriteFile(bad, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := export(t.Context(), bad, dir); !errors.Is(err, pack.ErrCorrupt) || !strings.Contains(err.Error(), bad) {
		t.Errorf("%v", err)
	}
	if entries, err := os.ReadDir(parent); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := export(t.Context(), source, dir); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("%v", err)
	}
}

// Logits returns the logits of lowpack after each of the ids.
func Logits(t *testing.T, path string, ids []int) []float32 {
	t.Helper()
	e, err := engine.Open(path, engine.Options{Context: max(len(ids), 16)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := e.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	chunk := engine.Chunk{Seq: s, Tokens: ids, Logits: make([]float32, len(ids)*e.Description().Vocab)}
	if err := e.Forward(t.Context(), []engine.Chunk{chunk}); err != nil {
		t.Fatal(err)
	}
	return chunk.Logits
}

// Near demands logits within a tolerance, as a part of the largest one: floats are added in another order.
func Near(t *testing.T, name string, got, want []float32, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d logits, want %d", name, len(got), len(want))
	}
	largest, off := 0.0, 0.0
	for i, w := range want {
		largest, off = max(largest, math.Abs(float64(w))), max(off, math.Abs(float64(got[i]-w)))
	}
	t.Logf("%s: largest logit %.3g, largest difference %.3g", name, largest, off)
	if !(off <= tolerance*largest) {
		t.Errorf("%s: logits differ by up to %v of %v", name, off, largest)
	}
}

// SameSums computes the accumulators y of a tensor from its codes and the codes x of activations.
func SameSums(t *testing.T, f *packed.File, name string, x, y []float32) {
	t.Helper()
	e, ok := f.Manifest().Entry(name)
	if !ok {
		t.Fatalf("no tensor %s", name)
	}
	m, err := packed.Codes(f, e, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(x) == 0 || len(x)%m.K != 0 || len(x)/m.K*m.M != len(y) {
		t.Fatalf("%s: %d activations and %d accumulators", name, len(x), len(y))
	}
	for token := range len(x) / m.K {
		for row := range m.M {
			sum := int32(0)
			for k, c := range m.Codes[row*m.K:][:m.K] {
				sum += int32(c) * int32(x[token*m.K+k])
			}
			if got := y[token*m.M+row]; int32(got) != sum || got != float32(sum) {
				t.Fatalf("%s: token %d, row %d: accumulator %v, the sum is %d", name, token, row, got, sum)
			}
		}
	}
}

// SameCodes compares activation codes with the golden trace of tiny-bitnet before a linear layer.
func SameCodes(t *testing.T, layer string, got []float32) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(shared.Testdata(t, "tiny-bitnet-golden"),
		"tiny-bitnet-packed.trace.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	h, err := safetensors.Parse(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(h.Tensors, func(x safetensors.TensorInfo) bool { return x.Name == layer+".input_int8" })
	if i < 0 {
		t.Fatalf("no %s in the trace", layer)
	}
	want := packed.BytesAsCodes(data[h.DataStart:][h.Tensors[i].Begin:h.Tensors[i].End])
	if len(got) != len(want) {
		t.Fatalf("%s: %d activation codes; in the golden trace %d", layer, len(got), len(want))
	}
	for i, x := range got {
		if x != float32(want[i]) {
			t.Fatalf("%s: activation code %d is %v; in the golden trace %d", layer, i, x, want[i])
		}
	}
}
