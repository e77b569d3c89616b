package server

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/lowpack/lowpack/internal/harmony"
	"github.com/lowpack/lowpack/runtime/chat"
	"github.com/lowpack/lowpack/runtime/server/grammar"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// callForm is the syntax of a model's tool calls, {"name": …, "arguments": {…}}.
type callForm struct {
	// open and close enclose a call, or a list of calls if list is set. If open is "", the output is either text or a
	// single call.
	open, close string
	list        bool
	key         string // key of the arguments: arguments or parameters
	gap         string // white space between open and the first call
	behind      string // white space between a call and close
	between     string // white space between close and the next open

	channels bool // calls are messages of harmony instead, in which only the arguments are JSON
}

// Delimiters of the supported families (Hermes/Qwen, Mistral). The Llama family has none.
const (
	hermesOpen, hermesClose = "<tool_call>", "</tool_call>"
	mistralOpen             = "[TOOL_CALLS]"
)

const (
	probeName = "lowpack_probe"
	probeKey  = "lowpack_key"
)

// probeCall matches the probe call in a rendered chat, with the delimiters around it.
var probeCall = regexp.MustCompile(`(?s)(` + hermesOpen + `|` + regexp.QuoteMeta(mistralOpen) +
	`)?(\s*)(\[?)\{"name": ?"` + probeName + `", ?"(arguments|parameters)": ?\{"` + probeKey + `": ?1\}[^{}]*\}(\s*)(` +
	hermesClose + `|\])?`)

// callFormOf renders a probe call with the chat template and recognizes its syntax; nil = not a known one.
func callFormOf(t *tokenizer.Tokenizer) *callForm {
	text, err := t.Chat([]chat.Message{
		{Role: "user", Content: "a"},
		{Role: "assistant", More: fmt.Appendf(nil,
			`{"content": "", "tool_calls": [{"id": "lowpack00", "type": "function", "function": {"name": %q, "arguments": {%q: 1}}}]}`, probeName, probeKey)},
	}, chat.Options{Tools: fmt.Appendf(nil,
		`[{"type": "function", "function": {"name": %q, "description": "b", "parameters": {"type": "object", "properties": {}}}}]`, probeName)})
	if err != nil || strings.Count(text, probeName) < 2 { // tools and calls are both there
		return nil
	}
	if strings.Contains(text, harmony.Recipient(probeName)) && harmony.Of(t) != nil {
		return &callForm{channels: true}
	}
	found := probeCall.FindStringSubmatch(text)
	if found == nil {
		return nil
	}
	open, gap, bracket, key, behind, end := found[1], found[2], found[3], found[4], found[5], found[6]
	switch {
	case open == hermesOpen && end == hermesClose && bracket == "":
		return &callForm{open: open, close: end, key: key, gap: gap, behind: behind, between: "\n"}
	case open == mistralOpen && end == "]" && bracket == "[":
		return &callForm{open: open, close: end, key: key, gap: gap + bracket, list: true}
	case open == "" && bracket == "" && key == "parameters":
		return &callForm{key: key}
	}
	return nil
}

// grammar returns the form for outputs that must call a function. opened says that the prompt already ends with open.
func (f *callForm) grammar(opened, several bool) grammar.CallForm {
	g := grammar.CallForm{First: f.open + f.gap, Key: f.key, Several: several && f.open != ""}
	if opened {
		g.First = f.gap
	}
	if f.list {
		g.Open, g.End = ", ", f.close
	} else {
		g.Close, g.Open = f.behind+f.close, f.between+f.open+f.gap
	}
	return g
}
