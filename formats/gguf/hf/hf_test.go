package hf_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/gguf/hf"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// keysOf returns the keys of a model of an architecture.
func keysOf(arch string, more ...gguf.KV) *gguf.Header {
	number := func(key string, n uint32) gguf.KV { return gguf.KV{Key: arch + key, Value: gguf.U32Value(n)} }
	return &gguf.Header{Keys: append([]gguf.KV{
		{Key: "general.architecture", Value: gguf.TextValue(arch)},
		number(".block_count", 6), number(".context_length", 16384), number(".embedding_length", 64),
		number(".feed_forward_length", 96), number(".attention.head_count", 4), number(".attention.head_count_kv", 2),
		number(".attention.key_length", 16), number(".attention.sliding_window", 32),
		{Key: arch + ".attention.layer_norm_rms_epsilon", Value: gguf.FloatValue(1e-6)},
		{Key: arch + ".attention.layer_norm_epsilon", Value: gguf.FloatValue(1e-5)},
		{Key: arch + ".rope.freq_base", Value: gguf.FloatValue(500000)},
		{Key: "tokenizer.ggml.bos_token_id", Value: gguf.U32Value(1)},
		{Key: "tokenizer.ggml.eos_token_id", Value: gguf.U32Value(2)},
		{Key: "tokenizer.ggml.eot_token_id", Value: gguf.U32Value(5)},
	}, more...)}
}

func fileOf(h *gguf.Header, floats map[string][]float32, names ...string) *hf.File {
	f := &hf.File{Keys: h, Tensors: map[string]gguf.TensorInfo{
		"token_embd.weight": {Name: "token_embd.weight", Shape: []int64{100, 64}}}}
	for _, name := range names {
		f.Tensors[name] = gguf.TensorInfo{Name: name, Shape: []int64{64}}
	}
	for name, list := range floats {
		f.Tensors[name] = gguf.TensorInfo{Name: name, Shape: []int64{int64(len(list))}}
	}
	f.Floats = func(t gguf.TensorInfo) ([]float32, error) { return floats[t.Name], nil }
	return f
}

func describe(t *testing.T, f *hf.File) *model.Description {
	t.Helper()
	texts, err := f.Texts()
	if err != nil {
		t.Fatal(err)
	}
	d, err := model.Parse(texts["config.json"], texts["generation_config.json"], nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, texts["config.json"])
	}
	return d
}

// TestFamilies: package model reads the config.json of every architecture, with the numbers of the keys.
func TestFamilies(t *testing.T) {
	for arch, want := range map[string]string{
		"llama":        "llama silu 0",
		"qwen2":        "qwen2 silu 0",
		"qwen3":        "qwen3 silu 0",
		"phi3":         "phi3 silu 32",
		"gemma":        "gemma gelu_tanh 0",
		"gemma2":       "gemma2 gelu_tanh 32",
		"gemma3":       "gemma3 gelu_tanh 32",
		"bitnet":       "bitnet silu 0",
		"bitnet-b1.58": "bitnet relu2 0",
		"bitnet-25":    "bitnet relu2 0",

		"smollm3":       "smollm3 silu 0",
		"olmo2":         "olmo3 silu 32",
		"seed_oss":      "seed_oss silu 0",
		"exaone4":       "exaone4 silu 0",
		"hunyuan-dense": "hunyuan silu 0",
		"arcee":         "arcee relu2 0",
		"ernie4_5":      "ernie4_5 silu 0",
		"glm4":          "glm4 silu 0",
		"chatglm":       "glm silu 0",
		"command-r":     "cohere silu 0",
		"starcoder2":    "starcoder2 gelu_tanh 0",
		"stablelm":      "stablelm silu 0",
		"nemotron":      "nemotron relu2 0",
		"olmo":          "olmo silu 0",
		"phi2":          "phi gelu_tanh 0",
	} {
		d := describe(t, fileOf(keysOf(arch), nil, "output.weight"))
		if got := fmt.Sprint(d.Family, " ", d.Activation, " ", d.SlidingWindow); got != want {
			t.Errorf("%s: %s, want %s", arch, got, want)
		}
		eps := float32(1e-6)
		if d.LayerNorm {
			eps = 1e-5
		}
		if d.Hidden != 64 || d.Intermediate != 96 || d.Layers != 6 || d.Heads != 4 || d.KVHeads != 2 ||
			d.HeadDim != 16 ||
			d.Vocab != 100 || d.NormEps != eps || d.Rope.Theta != 500000 || d.MaxPositions != 16384 ||
			d.BOS != 1 || !slices.Equal(d.EOS, []int{2, 5}) || d.Head == d.Embed {
			t.Errorf("%s: %+v", arch, d.Config)
		}
	}
}

// TestActivationKey: a file may declare the activation of a BitNet.
func TestActivationKey(t *testing.T) {
	d := describe(t, fileOf(keysOf("bitnet",
		gguf.KV{Key: "bitnet.hidden_activation", Value: gguf.TextValue("relu2")}), nil))
	if d.Activation != "relu2" || d.Head != d.Embed {
		t.Error(d.Activation, d.Head)
	}
}

// TestRope: scaled rotary embeddings.
func TestRope(t *testing.T) {
	var freqs []float32
	for i := range 8 { // the formula of llama.cpp's converter
		wavelength := 2 * math.Pi * math.Pow(500000, float64(i)/8)
		low, high := 8192.0, 8192.0/4
		switch {
		case wavelength < high:
			freqs = append(freqs, 1)
		case wavelength > low:
			freqs = append(freqs, 32)
		default:
			s := (8192/wavelength - 1) / 3
			freqs = append(freqs, float32(1/((1-s)/32+s)))
		}
	}
	r := describe(t, fileOf(keysOf("llama"), map[string][]float32{"rope_freqs.weight": freqs})).Rope
	if r.Factor != 32 || r.LowFreqFactor != 1 || r.HighFreqFactor != 4 || r.OriginalMaxPositions != 8192 {
		t.Errorf("%+v", r)
	}
	freqs[3] *= 1.01 // no longer Llama 3's
	r = describe(t, fileOf(keysOf("llama"), map[string][]float32{"rope_freqs.weight": freqs})).Rope
	if l := r.LongRope; r.Factor != 0 || l == nil || float32(l.Short[3]) != freqs[3] || l.Attention != 1 ||
		r.OriginalMaxPositions != 16384 {
		t.Errorf("%+v", r)
	}
	for says, f := range map[string]*hf.File{
		"16 factors, but heads of 16 values": fileOf(keysOf("llama"),
			map[string][]float32{"rope_freqs.weight": slices.Concat(freqs, freqs)}),
		"scale too": fileOf(keysOf("llama", gguf.KV{Key: "llama.rope.scaling.type", Value: gguf.TextValue("linear")},
			gguf.KV{Key: "llama.rope.scaling.factor", Value: gguf.FloatValue(4)}),
			map[string][]float32{"rope_freqs.weight": freqs}),
	} {
		if _, err := f.Texts(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want one that says %q", err, says)
		}
	}
	freqs[3] = 0
	if _, err := fileOf(keysOf("llama"), map[string][]float32{"rope_freqs.weight": freqs}).Texts(); err == nil ||
		!strings.Contains(err.Error(), `"rope_freqs.weight": factor 3 is 0`) {
		t.Error(err)
	}
	if _, err := fileOf(keysOf("qwen3"), map[string][]float32{"rope_freqs.weight": freqs}).List(); err == nil ||
		!strings.Contains(err.Error(), `"rope_freqs.weight" for architecture qwen3`) {
		t.Error(err)
	}
	linear := keysOf("qwen2", gguf.KV{Key: "qwen2.rope.scaling.type", Value: gguf.TextValue("linear")},
		gguf.KV{Key: "qwen2.rope.scaling.factor", Value: gguf.FloatValue(4)})
	if r := describe(t, fileOf(linear, nil)).Rope; r.Linear != 4 {
		t.Errorf("%+v", r)
	}
	yarn := keysOf("qwen3", gguf.KV{Key: "qwen3.rope.scaling.type", Value: gguf.TextValue("yarn")},
		gguf.KV{Key: "qwen3.rope.scaling.factor", Value: gguf.FloatValue(4)},
		gguf.KV{Key: "qwen3.rope.scaling.original_context_length", Value: gguf.U32Value(4096)})
	if r := describe(t, fileOf(yarn, nil)).Rope; r.Yarn == nil || r.Yarn.Factor != 4 || r.OriginalMaxPositions != 4096 {
		t.Errorf("%+v", r)
	}
	short, long := []float32{1, 1.25, 1.5, 1.75, 2, 2.25, 2.5, 2.75}, []float32{8, 9, 10, 11, 12, 13, 14, 15}
	phi := keysOf("phi3", gguf.KV{Key: "phi3.rope.scaling.original_context_length", Value: gguf.U32Value(4096)})
	r = describe(t, fileOf(phi, map[string][]float32{"rope_factors_long.weight": long,
		"rope_factors_short.weight": short})).Rope
	if r.LongRope == nil || r.LongRope.Short[1] != 1.25 || r.LongRope.Extension != 4 || r.LongRope.Attention != 0 {
		t.Errorf("%+v", r)
	}
	for factor, want := range map[float32]float64{float32(math.Sqrt(1 + math.Log(4)/math.Log(4096))): 0, 1.5: 1.5} {
		said := &gguf.Header{Keys: append(slices.Clone(phi.Keys),
			gguf.KV{Key: "phi3.rope.scaling.attn_factor", Value: gguf.FloatValue(factor)})}
		r = describe(t, fileOf(said, map[string][]float32{"rope_factors_long.weight": long,
			"rope_factors_short.weight": short})).Rope
		if r.LongRope.Attention != want {
			t.Errorf("attention factor %v is %v", factor, r.LongRope.Attention)
		}
	}
}

// TestRow: Row inverts the converter's permutation of the rows of a head, from halves to pairs.
func TestRow(t *testing.T) {
	x := hf.Tensor{Heads: 3, From: gguf.TensorInfo{Shape: []int64{24, 32}}}
	for head := range int64(3) {
		for p := range int64(2) {
			for i := range int64(4) {
				if got := x.Row(head*8 + p*4 + i); got != head*8+2*i+p {
					t.Errorf("head %d, half %d, row %d: %d", head, p, i, got)
				}
			}
		}
	}
}

// TestRefused: unusable keys are errors that name them.
func TestRefused(t *testing.T) {
	for says, h := range map[string]*gguf.Header{
		"phi3.embedding_length": {Keys: []gguf.KV{{Key: "general.architecture", Value: gguf.TextValue("phi3")}}},
		"qwen2.rope.scaling.type": keysOf("qwen2",
			gguf.KV{Key: "qwen2.rope.scaling.type", Value: gguf.TextValue("su")}),
		"head size 16 of keys": keysOf("qwen2",
			gguf.KV{Key: "qwen2.attention.value_length", Value: gguf.U32Value(8)}),
		"tokenizer.ggml.pre is \"unheard\"": keysOf("qwen2",
			gguf.KV{Key: "tokenizer.ggml.model", Value: gguf.TextValue("gpt2")},
			gguf.KV{Key: "tokenizer.ggml.tokens", Value: gguf.TextsValue([]string{"a", "b", "c", "d", "e", "f"})},
			gguf.KV{Key: "tokenizer.ggml.pre", Value: gguf.TextValue("unheard")}),
		"with 2 tokens": keysOf("qwen2",
			gguf.KV{Key: "tokenizer.ggml.model", Value: gguf.TextValue("gpt2")},
			gguf.KV{Key: "tokenizer.ggml.tokens", Value: gguf.TextsValue([]string{"a", "b"})}),
		"tokenizer.ggml.token_type": keysOf("qwen2",
			gguf.KV{Key: "tokenizer.ggml.model", Value: gguf.TextValue("gpt2")},
			gguf.KV{Key: "tokenizer.ggml.tokens", Value: gguf.TextsValue([]string{"a", "b"})},
			gguf.KV{Key: "tokenizer.ggml.token_type", Value: gguf.I32sValue([]int32{1})}),
		"tokenizer.ggml.model is \"bert\"": keysOf("qwen2",
			gguf.KV{Key: "tokenizer.ggml.model", Value: gguf.TextValue("bert")},
			gguf.KV{Key: "tokenizer.ggml.tokens", Value: gguf.TextsValue([]string{"a", "b", "c", "d", "e", "f"})}),
	} {
		_, err := fileOf(h, nil).Texts()
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want one that says %q", err, says)
		}
	}
}

// golden is a text with its token ids from Hugging Face tokenizers.
type golden struct {
	S   string `json:"s"`
	IDs []int  `json:"ids"`
}

func goldens(t *testing.T, name string) (list []golden) {
	t.Helper()
	text, err := os.ReadFile(shared.Path(t, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &list); err != nil || len(list) < 40 {
		t.Fatal(len(list), err)
	}
	return list
}

// encodes compares a tokenizer with recorded encodings.
func encodes(t *testing.T, texts map[string][]byte, list []golden) {
	t.Helper()
	tok, err := tokenizer.Load(func(name string) ([]byte, bool) { b, ok := texts[name]; return b, ok })
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range list {
		ids, err := tok.Encode(g.S, false)
		if err != nil || !slices.Equal(ids, g.IDs) {
			t.Errorf("%q: %v, %v, want %v", g.S, ids, err, g.IDs)
		}
	}
}

// TestSentencePiece: the tokenizer of a llama.cpp file encodes like Hugging Face's.
func TestSentencePiece(t *testing.T) {
	list := goldens(t, "data/tokenizers/llama2-spm/golden.json")
	encodes(t, textsOf(t, shared.Path(t, "data/gguf/ggml-vocab-llama-spm.gguf")), list)
}

// textsOf are those of the keys of a file.
func textsOf(t *testing.T, path string) map[string][]byte {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := gguf.Parse(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	texts, err := (&hf.File{Keys: h}).Texts()
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return texts
}

// TestByteLevel: a tokenizer rebuilt from Llama 3's vocabulary, merges and pre-tokenizer name encodes like the
// original.
func TestByteLevel(t *testing.T) {
	list := goldens(t, "data/tokenizers/llama3/golden.json")
	text, err := os.ReadFile(shared.Path(t, "data/tokenizers/llama3/tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	var source struct {
		Added []struct {
			ID      int
			Content string
		} `json:"added_tokens"`
		Model struct {
			Vocab  map[string]int
			Merges []json.RawMessage
		}
	}
	if err := json.Unmarshal(text, &source); err != nil {
		t.Fatal(err)
	}
	tokens, types, merges := make([]string, len(source.Model.Vocab)+len(source.Added)), []int32(nil), []string(nil)
	for token, id := range source.Model.Vocab {
		tokens[id] = token
	}
	for _, a := range source.Added {
		tokens[a.ID] = a.Content
	}
	if i := slices.Index(tokens, ""); i >= 0 {
		tokens = tokens[:i]
	}
	for range tokens {
		types = append(types, 1)
	}
	for _, a := range source.Added {
		types[a.ID] = 3
	}
	for _, m := range source.Model.Merges {
		var pair []string
		var one string
		if json.Unmarshal(m, &pair) != nil {
			if err := json.Unmarshal(m, &one); err != nil {
				t.Fatal(err)
			}
			pair = []string{one}
		}
		merges = append(merges, strings.Join(pair, " "))
	}
	h := &gguf.Header{Keys: []gguf.KV{
		{Key: "general.architecture", Value: gguf.TextValue("llama")},
		{Key: "tokenizer.ggml.model", Value: gguf.TextValue("gpt2")},
		{Key: "tokenizer.ggml.pre", Value: gguf.TextValue("llama-bpe")},
		{Key: "tokenizer.ggml.tokens", Value: gguf.TextsValue(tokens)},
		{Key: "tokenizer.ggml.token_type", Value: gguf.I32sValue(types)},
		{Key: "tokenizer.ggml.merges", Value: gguf.TextsValue(merges)},
		{Key: "tokenizer.ggml.bos_token_id", Value: gguf.U32Value(128000)},
	}}
	texts, err := (&hf.File{Keys: h}).Texts()
	if err != nil {
		t.Fatal(err)
	}
	encodes(t, texts, list)
	tok, err := tokenizer.Load(func(name string) ([]byte, bool) { b, ok := texts[name]; return b, ok })
	if err != nil {
		t.Fatal(err)
	}
	if ids, err := tok.Encode("a", true); err != nil || len(ids) != 2 || ids[0] != 128000 {
		t.Errorf("a text begins with %v, %v: llama-bpe adds the BOS token", ids, err)
	}
}
