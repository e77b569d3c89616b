package server

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/lowpack/lowpack/runtime/chat"
	"github.com/lowpack/lowpack/runtime/server/grammar"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// callForm is how a model writes calls of functions, {"name": …, "arguments": {…}}.
type callForm struct {
	// around a call, or around a list of calls; open "" = a call begins with the answer, and there is one
	open, close string
	list        bool
	key         string // of the arguments
	gap         string // between open and the first call
	behind      string // between a call and close
	between     string // close and open
}

// The families whose calls are known, by what stands around them.
const (
	hermesOpen, hermesClose = "<tool_call>", "</tool_call>"
	mistralOpen             = "[TOOL_CALLS]"
)

const (
	probeName = "lowpack_probe"
	probeKey  = "lowpack_key"
)

// probeCall is a call in a text, with what is around it.
var probeCall = regexp.MustCompile(`(?s)(` + hermesOpen + `|` + regexp.QuoteMeta(mistralOpen) +
	`)?(\s*)(\[?)\{"name": ?"` + probeName + `", ?"(arguments|parameters)": ?\{"` + probeKey + `": ?1\}[^{}]*\}(\s*)(` +
	hermesClose + `|\])?`)

// callFormOf finds the form in which the chat template writes calls; nil = in none that is known.
func callFormOf(t *tokenizer.Tokenizer) *callForm {
	text, err := t.Chat([]chat.Message{
		{Role: "user", Content: "a"},
		{Role: "assistant", More: fmt.Appendf(nil, `{"content": "", "tool_calls": [{"id": "lowpack00", "type": "function", "function": {"name": %q, "arguments": {%q: 1}}}]}`, probeName, probeKey)},
	}, chat.Options{Tools: fmt.Appendf(nil, `[{"type": "function", "function": {"name": %q, "description": "b", "parameters": {"type": "object", "properties": {}}}}]`, probeName)})
	if err != nil || strings.Count(text, probeName) < 2 { // tools and calls are both there
		return nil
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

// grammar is the form for texts that must call; opened says that the opening stands in the prompt.
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
