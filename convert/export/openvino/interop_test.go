package openvino

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/convert/export/internal/folder"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/exports"
	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// session is the request to testdata/session.py.
type session struct {
	Threads int            `json:"threads"`
	Prompts [][]int        `json:"prompts"`
	New     int            `json:"new"`
	Logits  bool           `json:"logits"`
	Outputs []string       `json:"outputs,omitempty"`
	Options map[string]any `json:"options,omitempty"` // of the device NPU
}

// answer is its output: the continuation of each prompt, and how many matrix products read weights of each type.
type answer struct {
	Tokens [][]int
	Types  map[string]int
}

// openvino runs a model, without any option but the number of threads.
func openvino(t *testing.T, dir string, s session) (a answer, values []float32) {
	t.Helper()
	values = exports.Session(t, "openvino", dir, s, &a)
	return a, values
}

// golden demands the first 64 golden tokens after each prompt, with one and two threads.
func golden(t *testing.T, checkpoint, element string, goldens []exports.Golden) {
	t.Helper()
	const n = 64
	dir, _ := exportedOf(t, exports.Packed(t, checkpoint, packed.Recipe{}), export.Exact)
	var prompts [][]int
	for _, g := range goldens {
		prompts = append(prompts, g.Prompt)
	}
	for _, threads := range []int{1, 2} {
		a, _ := openvino(t, dir, session{Threads: threads, Prompts: prompts, New: n})
		for i, g := range goldens {
			if !slices.Equal(a.Tokens[i], g.Greedy[:n]) {
				t.Errorf("%s, %d threads, prompt %d: %v, golden %v", checkpoint, threads, i, a.Tokens[i], g.Greedy[:n])
			}
		}
		if a.Types[element] < len(matrices) {
			t.Errorf("%s: products with weights of %v; want %s", checkpoint, a.Types, element)
		}
	}
}

// TestInteropGreedy: OpenVINO generates the golden tokens of every prompt from exact graphs, whose weights stay
// compressed.
func TestInteropGreedy(t *testing.T) {
	golden(t, shared.Testdata(t, "tiny-bitnet"), "u2", exports.TinyGoldens(t))
	checkpoint, goldens := exports.BitllamaGoldens(t)
	golden(t, checkpoint, "u2", goldens)
}

// matrices maps the linear layers of a block in the graph to the checkpoint.
var matrices = [][2]string{
	{"attention.q", "self_attn.q_proj"}, {"attention.k", "self_attn.k_proj"}, {"attention.v", "self_attn.v_proj"},
	{"attention.o", "self_attn.o_proj"},
	{"mlp.gate", "mlp.gate_proj"}, {"mlp.up", "mlp.up_proj"}, {"mlp.down", "mlp.down_proj"},
}

// TestInteropAccumulators: in the first layer OpenVINO's sums equal the int32 accumulators of the packed codes, for
// weights of every width. Activation codes that depend on no float arithmetic except a norm equal the golden trace.
func TestInteropAccumulators(t *testing.T) {
	prompt := exports.TinyGoldens(t)[0].Prompt
	for _, r := range []packed.Recipe{{}, exports.PerRow("int4"), exports.PerRow("int8")} {
		source := exports.Packed(t, shared.Testdata(t, "tiny-bitnet"), r)
		f, err := packed.Open(source)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		m, err := plan(f, export.Exact, nil)
		if err != nil {
			t.Fatal(err)
		}
		dir := written(t, m)
		for _, threads := range []int{1, 2} {
			_, values := openvino(t, dir, session{Threads: threads, Prompts: [][]int{prompt}, Outputs: m.watched(t)})
			m.sameSums(t, values, len(prompt))
		}
	}
}

// sameSums checks the values of the watched outputs, for a number of tokens, against the codes of weights. If all codes
// come from the checkpoint, the first activations are checked against the golden trace, provided that it has all
// tokens.
func (m *exported) sameSums(t *testing.T, values []float32, tokens int) {
	t.Helper()
	traced := m.manifest.Recipe.Quant == "" && tokens == len(exports.TinyGoldens(t)[0].Prompt)
	for i, role := range matrices {
		name := "model.layers.0." + role[1]
		e, _ := m.manifest.Entry(name + ".weight")
		columns, rows := tokens*e.MatrixShape().K, tokens*e.MatrixShape().M
		x, y := values[:columns], values[columns:][:rows]
		values = values[columns+rows:]
		if traced && i < 3 {
			exports.SameCodes(t, name, x)
		}
		exports.SameSums(t, m.file, name+".weight", x, y)
	}
}

// watched returns the layers with the codes and the accumulators of the first block, two per role.
func (m *exported) watched(t *testing.T) (names []string) {
	t.Helper()
	find := func(layers []layer, name string) int {
		return slices.IndexFunc(layers, func(l layer) bool { return l.name == name })
	}
	for _, role := range matrices {
		out := "layers.0." + role[0] + "/accumulators"
		g := slices.IndexFunc(m.graphs, func(g graphFile) bool { return find(g.layers, out) >= 0 })
		if g < 0 {
			t.Fatalf("no layer %s", out)
		}
		layers := m.graphs[g].layers
		codes := &layers[layers[find(layers, out)].in[0].layer]
		if codes.op == "Pad" {
			codes = &layers[codes.in[0].layer]
		}
		names = append(names, codes.name, out)
	}
	return names
}

// TestInteropPlain: plain graphs compute code times scale, with zero points if there are any: their logits equal
// lowpack's for the unpacked floats. The weights stay compressed.
func TestInteropPlain(t *testing.T) {
	lossy := func(quant, scale string) packed.Recipe {
		return packed.Recipe{Quant: quant, Scale: scale, AllowLossy: true}
	}
	for _, c := range []struct {
		checkpoint string
		recipe     packed.Recipe
		element    string
	}{
		{"transformers/llama", lossy("absmean", "row"), "u2"}, {"transformers/llama", lossy("sign", "tensor"), "u2"},
		{"transformers/llama", lossy("int2", ""), "u2"},
		{"transformers/llama", lossy("int2-elastic", ""), "i4"},
		{"transformers/llama", lossy("int4", "group:32"), "i4"},
		{"transformers/llama", lossy("int4", "group:16"), "i4"},
		{"transformers/llama", lossy("int8", "group:16"), "i8"},
		{"transformers/llama", lossy("mxfp4", ""), "f4e2m1"},
		{"transformers/llama", packed.Recipe{Quant: "int4", Head: "int8", AllowLossy: true}, "i8"},
		{"transformers/llama", packed.Recipe{Quant: "int4", Head: "int6", AllowLossy: true}, "i8"},
		{"packed/gptq-b4-asym-g128-v1", packed.Recipe{}, "u4"}, {"packed/awq-gemm-g64", packed.Recipe{}, "u4"},
		{"packed/ct-pack-b2-asym-g32", packed.Recipe{}, "u2"},
	} {
		source := exports.Packed(t, shared.Path(t, filepath.Join("data", c.checkpoint)), c.recipe)
		dir, _ := exportedOf(t, source, export.Plain)
		ids := []int{1, 5, 9, 33, 2, 71, 100, 18, 9, 9, 44}
		a, got := openvino(t, dir, session{Threads: 1, Prompts: [][]int{ids}, Logits: true})
		exports.Near(t, c.checkpoint+" "+c.recipe.Quant, got, exports.Logits(t, exports.Unpacked(t, source), ids), 1e-5)
		if a.Types[c.element] == 0 {
			t.Errorf("%s %s: products with weights of %v; want %s", c.checkpoint, c.recipe.Quant, a.Types, c.element)
		}
	}
}

// TestInteropFamilies: for a miniature of every family, the graph gives lowpack's logits, from floats, for a prompt
// longer than the sliding windows and for the tokens after it.
func TestInteropFamilies(t *testing.T) {
	for _, name := range []string{
		"exaone4", "gemma", "gemma2", "gemma3", "granite", "hunyuan_v1_dense", "llama", "llama-yarn",
		"mistral", "olmo2",
		"olmo3", "phi3", "qwen2", "qwen3", "smollm3",
	} {
		dir := shared.Path(t, filepath.Join("data", "transformers", name))
		var ids []int
		exports.ReadJSON(t, filepath.Join(dir, "tokens.json"), &ids)
		ids = ids[:40]
		source := exports.Packed(t, dir, exports.AsFloats)
		path, _ := exportedOf(t, source, "")
		a, got := openvino(t, path, session{Threads: 1, Prompts: [][]int{ids}, New: 16, Logits: true})
		exports.Near(t, name, got, exports.Logits(t, source, append(ids, a.Tokens[0]...)), 1e-5)
	}
}

// spoken is the output of testdata/generate.py.
type spoken struct {
	Encoded   []encoding
	Rendered  []string
	Continued []string
	Answered  []string
}

// encoding holds the tokens of a text, with and without special tokens around it, and the decoded text of the latter.
type encoding struct {
	with, without []int
	text          string
}

func (e *encoding) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&e.with, &e.without, &e.text})
}

// genai asks OpenVINO GenAI.
func genai(t *testing.T, dir string, spec map[string]any) (s spoken) {
	t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(interop.Python(t, "openvino", "testdata/generate.py", dir, string(text)), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestInteropGenAI: OpenVINO GenAI continues the golden texts, bare and as chats, from the directory alone and without
// an option.
func TestInteropGenAI(t *testing.T) {
	const bos = "<|begin_of_text|>"
	dir, _ := exportedOf(t, tiny(t), "")
	var g struct {
		Prompts []struct {
			Text   string `json:"prompt_text"`
			Greedy string `json:"greedy_text"`
		}
	}
	exports.ReadJSON(t, filepath.Join(shared.Testdata(t, "tiny-bitnet-golden"), "tiny-bitnet-packed.json"), &g)
	var texts, bare, chatted []string
	var chats [][]map[string]string
	for _, p := range g.Prompts {
		text := strings.TrimPrefix(p.Text, bos)
		if content, chat := strings.CutPrefix(text, "User: "); chat {
			content, _, _ = strings.Cut(content, "<|eot_id|>")
			chats, chatted = append(chats,
				[]map[string]string{{"role": "user", "content": content}}), append(chatted, p.Greedy)
			continue
		}
		texts, bare = append(texts, text), append(bare, p.Greedy)
	}
	got := genai(t, dir, map[string]any{"generate": texts, "chat": chats, "chats": chats, "new": 64})
	for i, want := range append(bare, chatted...) {
		if text := append(got.Continued, got.Answered...)[i]; text != want {
			t.Errorf("prompt %d: %q, golden %q", i, text, want)
		}
	}
	if len(got.Rendered) != 2 || !strings.HasPrefix(got.Rendered[0],
		bos+"User: Tell me about the king.<|eot_id|>Assistant: ") {
		t.Errorf("chats %q", got.Rendered)
	}
}

// TestInteropNPU: the NPU path, which splits the model and fixes its shapes, gives lowpack's logits for prompts, with a
// CPU in place of the NPU; and OpenVINO GenAI begins its text with the golden one. Its KV cache is float16, which
// changes later tokens.
func TestInteropNPU(t *testing.T) {
	source := tiny(t)
	dir, _ := exportedOf(t, source, export.Exact)
	for _, g := range exports.TinyGoldens(t)[:2] {
		_, got := openvino(t, dir, session{Prompts: [][]int{g.Prompt}, Logits: true, Options: map[string]any{
			"NPU_USE_NPUW":              "YES",
			"NPUW_DEVICES":              "CPU",
			"NPUW_F16IC":                "NO",
			"NPUW_LLM":                  "YES",
			"NPUW_LLM_MAX_PROMPT_LEN":   32,
			"NPUW_LLM_MIN_RESPONSE_LEN": 96,
		}})
		want := exports.Logits(t, source, g.Prompt)
		exports.Near(t, g.Name, got, want[len(want)-len(got):], 1e-5)
	}
	got := genai(t, dir, map[string]any{"generate": []string{"Once upon a time there was a little"}, "new": 64,
		"device": "NPU", "options": map[string]any{
			"NPU_USE_NPUW":     "YES",
			"NPUW_DEVICES":     "CPU",
			"NPUW_F16IC":       "NO",
			"MAX_PROMPT_LEN":   32,
			"MIN_RESPONSE_LEN": 96,
		}})
	if !strings.HasPrefix(got.Continued[0], " boy, who was a little boy, and had a") {
		t.Errorf("%q", got.Continued[0])
	}
}

// awkward are texts that tokenizers have cut wrongly.
var awkward = []string{
	"The king's 12345 men weren't there.", "  two  spaces\n\n\tand tabs \r\n", "naïve café — “quotes” … ½",
	"日本語のテキスト。中文",
	"🦙👩‍👩‍👧 emoji", "x = f(a[1], b->c) != 0x1F;", "ALL'LL CAPS I'VE", "e\u0301", "a",
}

// TestInteropTokenizer: OpenVINO GenAI cuts texts as lowpack does and puts them together again. A list of differences
// that are known belongs to a tokenizer: openvino_tokenizers has no ignore_merges, and Llama 3 has words that merges do
// not reach.
func TestInteropTokenizer(t *testing.T) {
	tiny := shared.Testdata(t, "tiny-bitnet")
	for _, c := range []struct {
		name, dir string
		changed   map[string]string
		differ    []string
	}{
		{name: "tiny-bitnet", dir: tiny},
		{name: "bitllama2-3m", dir: shared.Path(t, "data/models/bitllama2-3m/packed-auto")},
		{name: "Llama 2", dir: shared.Path(t, "data/tokenizers/llama2-spm")},
		{name: "Llama 3", dir: shared.Path(t, "data/tokenizers/llama3"), differ: []string{"Cửa Việt"}},
		{name: "NFC", dir: tiny, changed: with(t, tiny, "normalizer", `{"type":"NFC"}`)},
		{name: "GPT-2", dir: tiny, changed: with(t, tiny, "pre_tokenizer",
			`{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}`)},
		{name: "digits", dir: tiny, changed: with(t, tiny, "pre_tokenizer",
			`{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}]}`)},
	} {
		v, err := readVocabulary(filesOf(c.dir, c.changed))
		if err != nil {
			t.Fatal(err)
		}
		m := &exported{}
		info := []field{{name: "openvino_tokenizers_version", value: tokenizersVersion}}
		dir := filepath.Join(t.TempDir(), "tokenizer")
		m.graph(tokenizerFile, v.tokenizer(4096, info), false)
		m.graph(detokenizerFile, v.detokenizer(info), false)
		if _, err := folder.Write(t.Context(), dir, m.written(), nil); err != nil {
			t.Fatal(err)
		}
		texts := append(recorded(t, c.dir), awkward...)
		for i, got := range genai(t, dir, map[string]any{"texts": texts}).Encoded {
			v.same(t, c.name, texts[i], got,
				slices.ContainsFunc(c.differ, func(s string) bool { return strings.Contains(texts[i], s) }))
		}
	}
}

// with returns tokenizer.json with one value replaced.
func with(t *testing.T, dir, key, value string) map[string]string {
	t.Helper()
	var file map[string]json.RawMessage
	exports.ReadJSON(t, filepath.Join(dir, "tokenizer.json"), &file)
	file[key] = json.RawMessage(value)
	text, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"tokenizer.json": string(text)}
}

// recorded returns the texts of a file of golden encodings, if there is one.
func recorded(t *testing.T, dir string) (texts []string) {
	t.Helper()
	path := filepath.Join(dir, "golden.json")
	if _, err := os.Stat(path); err != nil {
		return nil
	}
	var list []struct{ S string }
	exports.ReadJSON(t, path, &list)
	for _, x := range list {
		texts = append(texts, x.S)
	}
	return texts
}

// same compares tokens with lowpack's, and the decoded text.
func (v *vocabulary) same(t *testing.T, name, text string, got encoding, differs bool) {
	t.Helper()
	for special, ids := range map[bool][]int{true: got.with, false: got.without} {
		want, err := v.loaded.Encode(text, special)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(ids, want) == differs {
			t.Errorf("%s: %q: tokens %v, lowpack %v", name, text, ids, want)
		}
	}
	if want := v.loaded.Decode(got.without, true); got.text != want {
		t.Errorf("%s: %q comes back as %q, from lowpack as %q", name, text, got.text, want)
	}
}
