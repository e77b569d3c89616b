package chat_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/texts"
	"github.com/lowpack/lowpack/runtime/chat"
)

const chatAnswers = "testdata/chat.json"

// publishedTemplates are the chat templates stored next to the checkout.
func publishedTemplates(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(shared.Path(t, "data/chat-templates"), "*.jinja"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no templates: %v", err)
	}
	return paths
}

// TestInteropChat regenerates the renderings of transformers.
func TestInteropChat(t *testing.T) {
	paths := append([]string{shared.Testdata(t, "tiny-bitnet/tokenizer_config.json")}, publishedTemplates(t)...)
	interop.Recorded(t, chatAnswers, interop.Python(t, "transformers", "testdata/chat.py", paths...))
}

// chatCase is a conversation of testdata/chat.py.
type chatCase struct {
	Messages         []json.RawMessage
	Tools, Documents json.RawMessage
	Vars             json.RawMessage
	Prompt           bool   `json:"add_generation_prompt"`
	Continue         string `json:"continue"`
}

// render renders the conversation with a template; tokens are the special tokens of the model.
func (c *chatCase) render(source string, tokens map[string]string) (string, error) {
	parsed, err := chat.Parse(source)
	if err != nil {
		return "", err
	}
	text, err := parsed.Render(c.messages(), tokens, c.options())
	return text.S, err
}

func (c *chatCase) messages() []chat.Message {
	messages := make([]chat.Message, len(c.Messages))
	for i, raw := range c.Messages {
		messages[i].More = raw
	}
	return messages
}

func (c *chatCase) options() chat.Options {
	return chat.Options{
		AddGenerationPrompt: c.Prompt, ContinueField: c.Continue, Tools: c.Tools, Documents: c.Documents, Vars: c.Vars,
		Now: func() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) },
	}
}

// tokens are the special tokens in testdata/chat.py.
var tokens = map[string]string{"bos_token": "<s>", "eos_token": "</s>"}

// chatAnswersFile is testdata/chat.json: the output of apply_chat_template of transformers; null where it fails.
type chatAnswersFile struct {
	Cases []chatCase
	Own   map[string]struct {
		Template string
		Rendered []*string
	}
	Published map[string][]*string // digests
}

// TestChatAgainstTransformers: conversations are transformed as in apply_chat_template, and templates written for this
// give the same output, or fail in both.
func TestChatAgainstTransformers(t *testing.T) {
	var f chatAnswersFile
	readJSON(t, chatAnswers, &f)
	for name, own := range f.Own {
		for i := range f.Cases {
			got, err := f.Cases[i].render(own.Template, tokens)
			switch want := own.Rendered[i]; {
			case (want == nil) != (err != nil):
				t.Errorf("%s, case %d %s\ngot %q, %v", name, i, f.Cases[i].Messages, got, err)
			case want != nil && got != *want:
				t.Errorf("%s, case %d %s\ngot  %q\nwant %q", name, i, f.Cases[i].Messages, got, *want)
			}
		}
	}
	var bundled struct {
		Template string `json:"chat_template"`
	}
	readJSON(t, shared.Testdata(t, "tiny-bitnet/tokenizer_config.json"), &bundled)
	f.check(t, "tiny-bitnet", bundled.Template)
	if len(f.Own) < 5 {
		t.Errorf("%d templates", len(f.Own))
	}
	texts.Hold(t, map[string]texts.Record{"tiny-bitnet": {Family: "bitnet", Conversations: len(f.Cases)}})
}

// TestPublishedTemplatesAgainstTransformers is TestChatAgainstTransformers for templates of published models.
func TestPublishedTemplatesAgainstTransformers(t *testing.T) {
	var f chatAnswersFile
	readJSON(t, chatAnswers, &f)
	compared := map[string]texts.Record{}
	for _, path := range publishedTemplates(t) {
		f.check(t, filepath.Base(path), string(readFile(t, path)))
		name := strings.TrimSuffix(filepath.Base(path), ".jinja")
		compared[name] = texts.Record{Family: templateFamilies[name], Conversations: len(f.Cases)}
	}
	texts.Hold(t, compared)
}

// templateFamilies are the families of the models that publishedTemplates belong to.
var templateFamilies = map[string]string{
	"Qwen-Qwen2.5-7B-Instruct":         "qwen2",
	"Qwen-Qwen3-0.6B":                  "qwen3",
	"bitnet-2B4T":                      "bitnet",
	"llama3-original":                  "llama",
	"meta-llama-Llama-3.2-3B-Instruct": "llama",
	"microsoft-Phi-3.5-mini-instruct":  "phi3",
}

// check compares the output of a template with the recorded digests.
func (f *chatAnswersFile) check(t *testing.T, name, template string) {
	t.Helper()
	if len(f.Published[name]) != len(f.Cases) {
		t.Errorf("%s was not recorded", name)
		return
	}
	for i := range f.Cases {
		got, err := f.Cases[i].render(template, tokens)
		switch want := f.Published[name][i]; {
		case (want == nil) != (err != nil):
			t.Errorf("%s, case %d %s\ngot %q, %v; transformers refuses: %v", name, i, f.Cases[i].Messages, got, err,
				want == nil)
		case want != nil && fmt.Sprintf("%x", sha256.Sum256([]byte(got)))[:16] != *want:
			t.Errorf("%s, case %d %s renders another text: %q", name, i, f.Cases[i].Messages, got)
		}
	}
}
