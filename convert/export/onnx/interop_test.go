package onnx

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/runtime/engine"
)

// session is what testdata/session.py is asked.
type session struct {
	Threads int      `json:"threads"`
	Level   string   `json:"level"`
	Prompts [][]int  `json:"prompts"`
	New     int      `json:"new"`
	Logits  bool     `json:"logits"`
	Outputs []string `json:"outputs,omitempty"`
}

const everything = "ORT_ENABLE_ALL"

// onnxruntime runs a model: the tokens it adds to each prompt, and the floats that it wrote.
func onnxruntime(t *testing.T, dir string, s session) (tokens [][]int, values []float32) {
	t.Helper()
	spec, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "floats")
	var answer struct{ Tokens [][]int }
	if err := json.Unmarshal(interop.Python(t, "onnxruntime", "testdata/session.py", dir, string(spec), out), &answer); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for ; len(data) > 0; data = data[4:] {
		values = append(values, math.Float32frombits(binary.LittleEndian.Uint32(data)))
	}
	return answer.Tokens, values
}

// golden is a recorded generation.
type golden struct {
	Text   string
	Prompt []int `json:"prompt_ids"`
	Greedy []int `json:"greedy_ids"`
}

func readJSON(t *testing.T, path string, to any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, to); err != nil {
		t.Fatal(err)
	}
}

// tinyGoldens are the recorded generations of testdata/tiny-bitnet.
func tinyGoldens(t *testing.T) []golden {
	var g struct{ Prompts []golden }
	readJSON(t, filepath.Join(shared.Testdata(t, "tiny-bitnet-golden"), "tiny-bitnet-packed.json"), &g)
	return g.Prompts
}

// bitllamaGoldens are those of bitllama2-3m: prompts and what follows in one list.
func bitllamaGoldens(t *testing.T, dir string) (list []golden) {
	var g []struct {
		Prompt []int `json:"prompt_ids"`
		IDs    []int
	}
	readJSON(t, filepath.Join(dir, "golden", "golden.json"), &g)
	for _, x := range g {
		list = append(list, golden{Prompt: x.Prompt, Greedy: x.IDs[len(x.Prompt):]})
	}
	return list
}

// TestInteropGreedy: onnxruntime generates the 64 golden tokens of every prompt from exact graphs.
func TestInteropGreedy(t *testing.T) {
	const n = 64
	bitllama := shared.Path(t, filepath.Join("data", "models", "bitllama2-3m"))
	for _, c := range []struct {
		checkpoint string
		goldens    []golden
	}{
		{shared.Testdata(t, "tiny-bitnet"), tinyGoldens(t)},
		{filepath.Join(bitllama, "packed-auto"), bitllamaGoldens(t, bitllama)},
	} {
		dir, _ := exportedOf(t, packedOf(t, c.checkpoint, packed.Recipe{}), export.Exact)
		var prompts [][]int
		for _, g := range c.goldens {
			prompts = append(prompts, g.Prompt)
		}
		for _, s := range []session{{Threads: 1, Level: everything}, {Threads: 2, Level: everything}, {Threads: 1, Level: "ORT_ENABLE_EXTENDED"}} {
			s.Prompts, s.New = prompts, n
			tokens, _ := onnxruntime(t, dir, s)
			for i, g := range c.goldens {
				if !slices.Equal(tokens[i], g.Greedy[:n]) {
					t.Errorf("%s, %d threads, %s, prompt %d: %v, golden %v", c.checkpoint, s.Threads, s.Level, i, tokens[i], g.Greedy[:n])
				}
			}
		}
	}
}

// TestInteropGroups: where scales belong to groups of columns, and where sums of 8-bit codes are long, onnxruntime chooses the tokens that
// lowpack chooses behind the same text, but where two logits of lowpack are nearly equal: floats are added in another order.
func TestInteropGroups(t *testing.T) {
	var prompts [][]int
	for _, g := range tinyGoldens(t) {
		prompts = append(prompts, g.Prompt)
	}
	for _, r := range []packed.Recipe{
		{Quant: "int4", AllowLossy: true}, {Quant: "int4", Scale: "group:128", AllowLossy: true}, {Quant: "int8", AllowLossy: true}, {Quant: "int8", Scale: "row", Head: "int8", Activation: "token", AllowLossy: true}, {Quant: "mxfp4", AllowLossy: true},
	} {
		source := packedOf(t, shared.Testdata(t, "tiny-bitnet"), r)
		dir, _ := exportedOf(t, source, export.Exact)
		tokens, _ := onnxruntime(t, dir, session{Threads: 2, Level: everything, Prompts: prompts, New: 64})
		same, largest := 0, float32(0)
		for i, made := range tokens {
			ids := append(slices.Clone(prompts[i]), made...)
			logits := logitsOf(t, source, ids)
			vocab := len(logits) / len(ids)
			for j, token := range made {
				row := logits[(len(prompts[i])+j-1)*vocab:][:vocab]
				if behind := slices.Max(row) - row[token]; behind == 0 {
					same++
				} else {
					largest = max(largest, behind)
				}
			}
		}
		t.Logf("%s %s: %d of %d tokens, largest distance %v", r.Quant, r.Scale, same, 64*len(tokens), largest)
		if same < 500 || largest > 0.1 {
			t.Errorf("%s %s: only %d of %d tokens are those of lowpack, others are up to %v behind", r.Quant, r.Scale, same, 64*len(tokens), largest)
		}
	}
}

// written is the directory of a plan.
func written(t *testing.T, m *exported) string {
	t.Helper()
	dir := t.TempDir()
	for _, file := range m.files() {
		f, err := os.Create(filepath.Join(dir, file.Name))
		if err != nil {
			t.Fatal(err)
		}
		if err := file.Write(f); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func sameCodes(t *testing.T, name string, got []float32, want []int8) {
	t.Helper()
	for i, x := range got {
		if x != float32(want[i]) {
			t.Fatalf("%s: activation code %d is %v; in the golden trace %d", name, i, x, want[i])
		}
	}
}

func readI8(t *testing.T, path, name string) []int8 {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := safetensors.Parse(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(h.Tensors, func(x safetensors.TensorInfo) bool { return x.Name == name })
	if i < 0 {
		t.Fatalf("no %s", name)
	}
	return packed.BytesAsCodes(data[h.DataStart:][h.Tensors[i].Begin:h.Tensors[i].End])
}

// logitsOf are the logits of lowpack behind each of the ids.
func logitsOf(t *testing.T, path string, ids []int) []float32 {
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

// asFloats is a recipe that quantizes nothing.
var asFloats = packed.Recipe{Quant: "int8", AllowLossy: true, Include: []string{"nothing"}}

// unpackedOf is a packed file of the same model whose weights are floats.
func unpackedOf(t *testing.T, source string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "unpacked")
	if _, err := convert.Unpack(t.Context(), source, dir, convert.UnpackOptions{Form: convert.FormF32}, nil); err != nil {
		t.Fatal(err)
	}
	return packedOf(t, dir, asFloats)
}

// near demands logits within a tolerance, as a part of the largest one: floats are added in another order.
func near(t *testing.T, name string, got, want []float32, tolerance float64) {
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

// TestInteropPlain: plain graphs compute code times scale, with zero points where there are any: their logits are those of lowpack for the
// unpacked floats.
func TestInteropPlain(t *testing.T) {
	lossy := func(quant, scale string) packed.Recipe {
		return packed.Recipe{Quant: quant, Scale: scale, AllowLossy: true}
	}
	for _, c := range []struct {
		checkpoint string
		recipe     packed.Recipe
	}{
		{"transformers/llama", lossy("absmean", "row")}, {"transformers/llama", lossy("sign", "tensor")}, {"transformers/llama", lossy("int2", "")},
		{"transformers/llama", lossy("int2-elastic", "")}, {"transformers/llama", lossy("int4", "group:32")}, {"transformers/llama", lossy("mxfp4", "")},
		{"packed/gptq-b4-asym-g128-v1", packed.Recipe{}},
		{"packed/awq-gemm-g64", packed.Recipe{}}, {"transformers/llama", packed.Recipe{Quant: "int4", Head: "int8", AllowLossy: true}}, {"packed/ct-pack-b2-asym-g32", packed.Recipe{}},
	} {
		source := packedOf(t, shared.Path(t, filepath.Join("data", c.checkpoint)), c.recipe)
		dir, _ := exportedOf(t, source, export.Plain)
		ids := []int{1, 5, 9, 33, 2, 71, 100, 18, 9, 9, 44}
		_, got := onnxruntime(t, dir, session{Threads: 1, Level: everything, Prompts: [][]int{ids}, Logits: true})
		near(t, c.checkpoint+" "+c.recipe.Quant, got, logitsOf(t, unpackedOf(t, source), ids), 1e-5)
	}
}

// TestInteropEmbedding: quantized embeddings, tied to the output head or not, give the floats that lowpack multiplies: plain graphs have the
// logits of the unpacked floats, and exact ones those of lowpack but for codes of activations on the other side of a tie.
func TestInteropEmbedding(t *testing.T) {
	for _, name := range []string{"mlx-mxfp4", "mlx-bonsai-ternary-f16-tied", "mlx-bonsai-bit1-f16-tied"} {
		for _, activation := range []string{"token", "group:32"} {
			source := packedOf(t, shared.Path(t, filepath.Join("data", "packed", name)), packed.Recipe{Activation: activation})
			ids := []int{1, 5, 9, 33, 2, 71, 100, 18, 9, 9, 44}
			for _, a := range []export.Arithmetic{export.Plain, export.Exact} {
				dir, _ := exportedOf(t, source, a)
				if g := modelOf(t, dir); !slices.ContainsFunc(g.nodes, func(n node) bool { return n.op == "GatherBlockQuantized" }) {
					t.Errorf("%s: no quantized embedding", name)
				}
				_, got := onnxruntime(t, dir, session{Threads: 1, Level: everything, Prompts: [][]int{ids}, Logits: true})
				if a == export.Plain {
					near(t, name+" plain", got, logitsOf(t, unpackedOf(t, source), ids), 1e-5)
				} else {
					near(t, name+" exact", got, logitsOf(t, source, ids), 0.02)
				}
			}
		}
	}
}

// TestInteropExperts: quantized experts are chosen, multiplied and weighted as lowpack does it, in every form of their matrices.
func TestInteropExperts(t *testing.T) {
	for _, c := range []struct {
		name   string
		recipe packed.Recipe
	}{
		{"qwen2_moe", packed.Recipe{Quant: "int4", AllowLossy: true}}, {"granitemoe", packed.Recipe{Quant: "int4", AllowLossy: true}},
		{"granitemoe", perRow("int8")}, {"granitemoe", packed.Recipe{Quant: "mxfp4", AllowLossy: true}}, {"mixtral", perRow("int8")}, {"qwen3_moe", packed.Recipe{Quant: "absmean", Scale: "row", AllowLossy: true}},
	} {
		source := packedOf(t, shared.Path(t, filepath.Join("data", "transformers", c.name)), c.recipe)
		var ids []int
		readJSON(t, filepath.Join(shared.Path(t, filepath.Join("data", "transformers", c.name)), "tokens.json"), &ids)
		for _, a := range []export.Arithmetic{export.Plain, export.Exact} {
			dir, _ := exportedOf(t, source, a)
			tokens, got := onnxruntime(t, dir, session{Threads: 2, Level: everything, Prompts: [][]int{ids[:24]}, New: 4, Logits: true})
			text := append(slices.Clone(ids[:24]), tokens[0]...)
			switch {
			case a == export.Exact:
				near(t, c.name+" exact", got, logitsOf(t, source, text), 0.02)
			case c.name == "granitemoe": // lowpack unpack does not write tensors of single experts
				near(t, c.name+" plain", got, logitsOf(t, unpackedOf(t, source), text), 1e-5)
			default:
				near(t, c.name+" plain, activations quantized in lowpack", got, logitsOf(t, source, text), 0.1)
			}
		}
	}
}

// TestInteropGenAI: onnxruntime-genai loads the directory, cuts the golden texts as lowpack does, and generates the golden tokens.
func TestInteropGenAI(t *testing.T) {
	dir, _ := exportedOf(t, packedOf(t, shared.Testdata(t, "tiny-bitnet"), packed.Recipe{}), export.Exact)
	var prompts []struct {
		Text string
		IDs  []int
	}
	readJSON(t, filepath.Join(shared.Testdata(t, "tiny-bitnet-golden"), "prompts.json"), &prompts)
	const bos = "<|begin_of_text|>"
	var texts []string
	for _, p := range prompts {
		texts = append(texts, bos+strings.TrimPrefix(p.Text, bos)) // it adds no BOS token of its own
	}
	spec, err := json.Marshal(map[string]any{"texts": texts, "new": 64})
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Prompts, Tokens [][]int }
	if err := json.Unmarshal(interop.Python(t, "onnxruntime", "testdata/generate.py", dir, string(spec)), &answer); err != nil {
		t.Fatal(err)
	}
	for i, g := range tinyGoldens(t)[:len(prompts)] {
		if !slices.Equal(answer.Prompts[i], prompts[i].IDs) {
			t.Errorf("%q: tokens %v, lowpack %v", texts[i], answer.Prompts[i], prompts[i].IDs)
		}
		if slices.Equal(prompts[i].IDs, g.Prompt) && !slices.Equal(answer.Tokens[i], g.Greedy[:64]) {
			t.Errorf("%q: %v, golden %v", texts[i], answer.Tokens[i], g.Greedy[:64])
		}
	}
}

// TestInteropFamilies: the graph of a miniature of every family that is exported gives the logits of lowpack, from floats,
// for a prompt that is longer than sliding windows and for tokens behind it. Heads have 8, 16, 24 and more values.
func TestInteropFamilies(t *testing.T) {
	ids := map[string][]int{"models/stories260k/hf-F32": {1, 403, 407, 261, 378}}
	for _, name := range []string{"exaone4", "gemma", "gemma2", "gemma3", "granite", "granitemoe", "hunyuan_v1_dense", "llama", "llama-yarn", "mistral", "mixtral", "olmo2", "olmo3", "olmoe", "phi3",
		"qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "smollm3"} {
		var list []int
		readJSON(t, filepath.Join(shared.Path(t, filepath.Join("data", "transformers", name)), "tokens.json"), &list)
		ids["transformers/"+name] = list[:40]
	}
	for name, prompt := range ids {
		source := packedOf(t, shared.Path(t, filepath.Join("data", name)), asFloats)
		exported, _ := exportedOf(t, source, "")
		tokens, got := onnxruntime(t, exported, session{Threads: 1, Level: everything, Prompts: [][]int{prompt}, New: 16, Logits: true})
		near(t, name, got, logitsOf(t, source, append(prompt, tokens[0]...)), 1e-5)
	}
}
