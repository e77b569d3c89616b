package export

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// cuts are texts that pre-tokenizers cut in different places.
var cuts = []string{
	"I've, I'VE, we'Ll, it's'd don'T o'clock", "0 12 123 1234 12345 1234567890 3.14159 1,000,000 x1y22z333",
	"a  b   c    d     e", "line\nline\n\nline\r\n\r\nline \n \n x",
	"tabs\t\tand \t mixed \n\t", "trailing   ", "   leading", "/usr/local/bin//x\n//comment/\n", "!!!???...\n\n;;;",
	"(foo) [bar] {baz} <qux> @user #tag $5 100%", "HelloWorld helloWorld HELLOWorld HTTPServer iPhone McDonald",
	"naïve café résumé Äpfel ÜBER straße Ǆ ǅ ǆ", decomposed, "日本語のテキスト。漢字と 仮名", "한국어 텍스트 입니다", "Привет, мир! ПРИВЕТ",
	"مرحبا بالعالم ١٢٣٤٥", "हिन्दी में पाठ", "🚀👩‍👩‍👧‍👦🏳️‍🌈 🇩🇪",
	"½ ² Ⅷ ① ٣ ௧௨", "_under_score__ a_b-c", "\u00a0nbsp\u2003em\u200bzero", "x=y+z*2; if(a<b){return;}",
	"'tis 'twas '90s",
	"\n\n\n", " ", "",
}

// decomposed is a text that Hugging Face normalizes for Qwen, and llama.cpp does not.
const decomposed = "e\u0301a\u0308o\u0302 A\u030A"

// TestInteropPreTokenizers: with a vocabulary of 128,256 tokens, the tokenizer rebuilt from GGUF keys tokenizes as
// llama.cpp does, under the name of every pre-tokenizer: falcon3, lfm2, smaug-bpe and dbrx use the pattern of
// llama-bpe, deepseek-r1-qwen the pattern of qwen2, chatglm-bpe that of glm4, minimax-m2 that of gpt-4o, hunyuan-dense
// those of deepseek-v3.
func TestInteropPreTokenizers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "llama")
	tinymodel.MiniatureWith(t, "llama3-8b", dir, func(o *synth.Options) {
		o.Mini = false
		o.Config = []byte(`{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
			"vocab_size": 128256, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "hidden_act": "silu", "bos_token_id": 128000, "eos_token_id": 128001, "torch_dtype": "bfloat16"}`)
	})
	text, err := os.ReadFile(shared.Path(t, "data/tokenizers/llama3/tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	path, _ := exported(t, packedOf(t, dir, packed.Recipe{Quant: "none"}))
	for _, pre := range []string{"default", "gpt-2", "llama-bpe", "qwen2", "gpt-4o", "tekken", "smollm", "glm4",
		"hunyuan", "deepseek-v3"} {
		file := withPre(t, path, pre)
		_, tokens := llama(t, file, []int{1}, cuts)
		c, err := checkpoint.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		tok, err := tokenizer.Load(c.File)
		c.Close()
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range cuts {
			if want, err := tok.Encode(x, false); err != nil ||
				!slices.Equal(tokens[i], want) && (pre != "qwen2" || x != decomposed) {
				t.Errorf("%s: %q: llama.cpp %v, lowpack %v, %v", pre, x, tokens[i], want, err)
			}
		}
	}
}

// withPre rewrites a GGUF with another pre-tokenizer, and without tokenizer.json.
func withPre(t *testing.T, path, pre string) string {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h := headerOf(t, path)
	keys := slices.DeleteFunc(slices.Clone(h.Keys),
		func(kv gguf.KV) bool { return kv.Key == "tokenizer.huggingface.json" })
	for i := range keys {
		if keys[i].Key == "tokenizer.ggml.pre" {
			keys[i].Value = gguf.TextValue(pre)
		}
	}
	var b bytes.Buffer
	w, err := gguf.NewWriter(&b, keys, h.Tensors)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range h.Tensors {
		if err := w.Write(x.Name, file[h.DataStart+x.Begin:][:x.Size]); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), pre+".gguf")
	if err := os.WriteFile(out, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}
