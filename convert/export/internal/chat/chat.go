// Package chat writes chat templates for minja, the engine of OpenVINO GenAI and of onnxruntime-genai.
package chat

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lowpack/lowpack/internal/jinja"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/chat"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// Template returns the chat template of a model; "" if there is none, or several.
func Template(files tokenizer.Files) string {
	if text, ok := files("chat_template.jinja"); ok {
		return string(text)
	}
	for _, name := range []string{"chat_template.json", "tokenizer_config.json"} {
		text, _ := files(name)
		var c struct {
			Template any `json:"chat_template"`
		}
		_ = json.Unmarshal(text, &c) // tokenizer.Load has refused invalid JSON
		if s, ok := c.Template.(string); ok {
			return s
		}
	}
	return ""
}

// Engine is a build of minja.
type Engine struct {
	filters []string
	cuts    bool // roles and contents are cut as Jinja2 does it
}

// Filters of both builds, found by calling every filter of Jinja2 in OpenVINO GenAI 2026.4.1 and onnxruntime-genai
// 0.18.
var filters = []string{
	"count", "default", "dictsort", "e", "escape", "indent", "int", "items", "join", "last", "length", "list", "lower",
	"map", "reject", "rejectattr",
	"safe", "select", "selectattr", "string", "tojson", "trim", "unique",
}

// The engines of both runtimes.
var (
	OpenVINO    = Engine{filters: append(slices.Clone(filters), "upper")}
	ONNXRuntime = Engine{filters: append(slices.Clone(filters), "sort"), cuts: true}
)

var (
	capitalized = regexp.MustCompile(`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[(?:'[^'\]]*'|"[^"\]]*")\])*)\s*\|\s*(?:capitalize|title)\b`)
	parts       = regexp.MustCompile(`\b(role|content)('\]|"\])?\[[^\]]*:`)
)

// roles that a template may capitalize.
var roles = []string{"user", "assistant", "system", "tool"}

// For returns a chat template for an engine, with the same text for every role and order of messages that was tried
// with t; it changes the template of t.
func For(engine Engine, t *tokenizer.Tokenizer, template string) (string, error) {
	ours := capitalized.ReplaceAllStringFunc(template, func(s string) string {
		what := capitalized.FindStringSubmatch(s)[1]
		var b strings.Builder
		for _, role := range roles {
			fmt.Fprintf(&b, "'%s' if %s == '%s' else ", strings.ToUpper(role[:1])+role[1:], what, role)
		}
		return "(" + b.String() + what + ")"
	})
	parsed, err := jinja.Parse(ours)
	if err != nil {
		return "", err
	}
	for _, name := range parsed.Filters {
		if !slices.Contains(engine.filters, name) {
			return "", fmt.Errorf("%w: its engine has no filter %s", pack.ErrUnsupported, name)
		}
	}
	if !engine.cuts && parts.MatchString(ours) {
		return "", fmt.Errorf("%w: its engine cuts texts differently", pack.ErrUnsupported)
	}
	if ours == template {
		return ours, nil
	}
	return ours, same(t, template, ours)
}

// same renders conversations with both templates.
func same(t *tokenizer.Tokenizer, template, ours string) error {
	var texts [2]string
	for i, source := range []string{template, ours} {
		if err := t.SetTemplate(source); err != nil {
			return err
		}
		for _, names := range [][]string{{"user"}, {"user", "assistant", "user"},
			{"system", "user", "assistant", "user"},
			{"user", "assistant", "tool"}} {
			for _, prompt := range []bool{false, true} {
				texts[i] += answered(t, names, prompt)
			}
		}
	}
	if texts[0] != texts[1] {
		return fmt.Errorf("%w: without a filter that its engine lacks it renders another text", pack.ErrUnsupported)
	}
	return nil
}

// answered renders a conversation, or returns why it cannot.
func answered(t *tokenizer.Tokenizer, names []string, prompt bool) string {
	var messages []chat.Message
	for _, name := range names {
		messages = append(messages, chat.Message{Role: name, Content: "what did the " + name + " SAY?"})
	}
	s, err := t.Chat(messages, chat.Options{AddGenerationPrompt: prompt,
		Now: func() time.Time { return time.Unix(0, 0) }})
	if err != nil {
		return err.Error()
	}
	return s
}
