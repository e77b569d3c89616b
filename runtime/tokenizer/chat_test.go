package tokenizer

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/chat"
)

// tinyFiles are the files of the bundled model.
func tinyFiles(t testing.TB) Files {
	return func(name string) ([]byte, bool) {
		data, err := os.ReadFile(shared.Testdata(t, "tiny-bitnet/"+name))
		return data, err == nil
	}
}

func mustLoad(t testing.TB, f Files) *Tokenizer {
	t.Helper()
	tok, err := Load(f)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestChatTiny: the bundled model's template and the tokens of what it renders.
func TestChatTiny(t *testing.T) {
	tok := mustLoad(t, tinyFiles(t))
	var golden struct {
		Cases []struct {
			Messages []chat.Message
			Prompt   bool `json:"add_generation_prompt"`
			Rendered string
			IDs      []int
		}
	}
	unmarshal(t, shared.Testdata(t, "tiny-bitnet-golden/chat_template.json"), &golden)
	for _, c := range golden.Cases {
		got, err := tok.Chat(c.Messages, chat.Options{AddGenerationPrompt: c.Prompt})
		if err != nil || got != c.Rendered {
			t.Errorf("got  %q, %v\nwant %q", got, err, c.Rendered)
		}
		if ids := encode(t, tok, got, false); !slices.Equal(ids, c.IDs) {
			t.Errorf("%q\ngot  %v\nwant %v", got, ids, c.IDs)
		}
	}
	if len(golden.Cases) == 0 {
		t.Error("no cases")
	}
	if stops := tok.StopIDs(); !slices.Equal(stops, []int{2553,
		2554}) { // generation_config.json and the template agree on 2554
		t.Errorf("stops %v", stops)
	}
}

// TestTemplateSources: chat_template.jinja before chat_template.json before tokenizer_config.json, which may have
// several.
func TestTemplateSources(t *testing.T) {
	render := func(pairs ...any) string {
		t.Helper()
		tok := mustLoad(t, files(append(pairs, tokenizerJSON, small{}.json())...))
		text, err := tok.Chat([]chat.Message{{Role: "user", Content: "x"}}, chat.Options{})
		if err != nil {
			return err.Error()
		}
		return text
	}
	config := `{"chat_template":"config {{ messages[0].content }}"}`
	named := `{"chat_template":[{"name":"default","template":"first"},{"name":"tool_use","template":"second"}]}`
	for _, c := range []struct{ got, want string }{
		{render(configJSON, config), "config x"},
		{render(configJSON, config, templateJSON, `{"chat_template":"json"}`), "json"},
		{render(configJSON, config, templateJSON, `{"chat_template":"json"}`, templateFile, "jinja"), "jinja"},
		{render(configJSON, named), "first"},
		{render(configJSON, `{}`), ErrNoTemplate.Error()},
		{render(), ErrNoTemplate.Error()},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	tok := mustLoad(t, files(tokenizerJSON, small{}.json(), configJSON, named))
	if names := tok.ChatTemplates(); !slices.Equal(names, []string{"default", "tool_use"}) {
		t.Errorf("%v", names)
	}
	if text, err := tok.Chat(hello, chat.Options{Tools: []byte("[]")}); err != nil ||
		text != "second" { // none was selected
		t.Errorf("%q, %v", text, err)
	}
	if err := tok.UseTemplate("tool_use"); err != nil {
		t.Error(err)
	}
	if text, err := tok.Chat(hello, chat.Options{}); err != nil || text != "second" {
		t.Errorf("%q, %v", text, err)
	}
	if err := tok.UseTemplate("rag"); !errors.Is(err, pack.ErrUnsupported) ||
		!strings.Contains(err.Error(), "tool_use") {
		t.Errorf("%v", err)
	}
	if err := tok.SetTemplate("third {{ x }}"); err != nil {
		t.Error(err)
	}
	if text, err := tok.Chat(hello, chat.Options{Vars: []byte(`{"x": [1, "a"]}`)}); err != nil ||
		text != "third [1, 'a']" {
		t.Errorf("%q, %v", text, err)
	}
	if err := tok.SetTemplate("{% include 'x' %}"); !errors.Is(err, pack.ErrUnsupported) ||
		!strings.Contains(err.Error(), "include") {
		t.Errorf("%v", err)
	}
}

var hello = []chat.Message{{Role: "user", Content: "Hello."}}

// TestBrokenTemplate: a template that does not parse is an error of Chat that names the construct, not of Load.
func TestBrokenTemplate(t *testing.T) {
	for template, c := range map[string]struct {
		class error
		word  string
	}{
		"{% include 'x' %}":            {pack.ErrUnsupported, "include"},
		"{% if %}":                     {pack.ErrCorrupt, "line 1"},
		"{{ messages | frobnicate }}":  {pack.ErrUnsupported, "frobnicate"},
		"{{ raise_exception('odd') }}": {pack.ErrUnsupported, "odd"},
		"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}": {pack.ErrLimit, "work"},
	} {
		tok := mustLoad(t, files(tokenizerJSON, small{}.json(), templateFile, template))
		if _, err := tok.Chat(hello, chat.Options{}); !errors.Is(err, c.class) ||
			!strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: %v", template, err)
		}
	}
	tok := mustLoad(t, files(tokenizerJSON, small{}.json(), templateFile, "x"))
	for what, o := range map[string]chat.Options{"tools": {Tools: []byte("[")}, "variables": {Vars: []byte("{,}")}} {
		if _, err := tok.Chat(hello, o); !errors.Is(err, pack.ErrCorrupt) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := tok.Chat(nil, chat.Options{}); !errors.Is(err, pack.ErrUnsupported) ||
		!strings.Contains(err.Error(), "without messages") {
		t.Errorf("%v", err)
	}
	if _, err := tok.Chat([]chat.Message{{More: []byte("x")}}, chat.Options{}); !errors.Is(err, pack.ErrCorrupt) ||
		!strings.Contains(err.Error(), "message 0") {
		t.Errorf("%v", err)
	}
}

// TestStops: every source of stop tokens counts, and the end of a turn is found in real templates.
func TestStops(t *testing.T) {
	added := `[{"id":3,"content":"<|eot_id|>","special":true},{"id":4,"content":"<|im_end|>","special":true},{"id":5,"content":"<|end|>","special":true},{"id":6,"content":"</s>","special":true},{"id":7,"content":"<eos>","special":true}]`
	for template, turn := range map[string]int{
		"Qwen-Qwen2.5-7B-Instruct.jinja":         4,
		"Qwen-Qwen3-0.6B.jinja":                  4,
		"bitnet-2B4T.jinja":                      3,
		"llama3-original.jinja":                  3,
		"meta-llama-Llama-3.2-3B-Instruct.jinja": 3, "microsoft-Phi-3.5-mini-instruct.jinja": 5,
	} {
		tok := mustLoad(t, files(tokenizerJSON, small{added: added}.json(), templateFile,
			readFile(t, shared.Path(t, "data/chat-templates/"+template)),
			configJSON, `{"eos_token":"</s>","bos_token":"<s>"}`, generationJSON, `{"eos_token_id":[7,2]}`, modelJSON,
			`{"eos_token_id":1}`))
		want := []int{1, 2, 6, 7, turn}
		slices.Sort(want)
		if got := tok.StopIDs(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", template, got, want)
		}
	}
	tok := mustLoad(t, files(tokenizerJSON, small{}.json(), generationJSON, `{"eos_token_id":99}`, modelJSON,
		`{"eos_token_id":null}`, configJSON, `{"eos_token":"nobody"}`))
	if got := tok.StopIDs(); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// TestTokensAround: tokenizer_config.json decides about the special tokens before and after a text for Llama tokenizers
// only.
func TestTokensAround(t *testing.T) {
	post := `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"a"}},{"Sequence":{"id":"A"}}],"special_tokens":{"a":{"ids":[0]}}}`
	for config, want := range map[string][]int{
		`{}`: {0, 2},
		`{"tokenizer_class":"PreTrainedTokenizerFast","add_bos_token":false,"bos_token":"b"}`: {0, 2},
		`{"tokenizer_class":"LlamaTokenizer","add_bos_token":false,"bos_token":"b"}`:          {2},
		`{"tokenizer_class":"LlamaTokenizerFast","add_bos_token":true,"bos_token":"b"}`:       {1, 2},
		`{"tokenizer_class":"GemmaTokenizer","add_eos_token":true,"eos_token":"b"}`:           {0, 2, 1},
	} {
		tok := mustLoad(t, files(tokenizerJSON, small{post: post}.json(), configJSON, config))
		if got := encode(t, tok, "ab", true); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", config, got, want)
		}
		if got := encode(t, tok, "ab", false); !slices.Equal(got, []int{2}) {
			t.Errorf("%s: %v", config, got)
		}
	}
	if _, err := Load(files(tokenizerJSON, small{}.json(), configJSON,
		`{"tokenizer_class":"LlamaTokenizer","add_bos_token":true,"bos_token":"q"}`)); !errors.Is(err,
		pack.ErrCorrupt) {
		t.Errorf("%v", err)
	}
	for name, text := range map[string]string{configJSON: `{`, specialMapJSON: `[`, generationJSON: `{"a":1,"a":2}`,
		modelJSON: `NaN`} {
		if _, err := Load(files(tokenizerJSON, small{}.json(), name, text)); !errors.Is(err, pack.ErrCorrupt) ||
			!strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
