// Package chat renders conversations with the chat templates of models: what apply_chat_template of transformers does.
//
// A rendered conversation knows which of its bytes the template wrote and which came with a message. Only control
// tokens that the template wrote are meant; the package tokenizer encodes a conversation by that rule.
package chat

import (
	"errors"
	"fmt"
	"time"

	"github.com/lowpack/lowpack/internal/filekind"
	"github.com/lowpack/lowpack/internal/jinja"
	"github.com/lowpack/lowpack/pack"
)

// Message is one turn of a conversation. As in transformers 5.23 a field that is null counts as absent, and what the
// assistant thought, under reasoning_content, thinking or reasoning, is there for templates that read it under one of
// the first two.
type Message struct {
	Role    string // "system", "user", "assistant", "tool" …
	Content string
	// More holds further fields as a JSON object, for example {"tool_calls": […]}; nil = none. Fields of the same name win
	// over Role and Content; empty ones beside it are absent.
	More []byte
}

// Options say how a conversation is rendered.
type Options struct {
	// AddGenerationPrompt ends the text with the beginning of an answer.
	AddGenerationPrompt bool
	// ContinueField ends the text inside a field of the last message, "content" or "reasoning_content", for the model to
	// go on there (continue_final_message); "" = every message is complete. It excludes AddGenerationPrompt.
	ContinueField string
	// Tools is a JSON list of the functions that the model may call; nil = none.
	Tools []byte
	// Documents is a JSON list of what the model may look things up in; nil = none.
	Documents []byte
	// Vars are further variables of the template as a JSON object, for example {"enable_thinking": false}; nil = none.
	Vars []byte
	// Now is the clock of templates that tell the date; nil = time.Now.
	Now func() time.Time
}

// Text is a rendered conversation.
type Text struct {
	S string
	// Input is as long as S: 1 for a byte that came with the conversation, 0 for one of the template. "" = all are the
	// template's.
	Input string
}

// Template is a chat template. It is safe for concurrent use.
type Template struct{ parsed *jinja.Template }

// Parse reads a chat template: the Jinja2 that published templates use. Errors wrap pack.ErrUnsupported, with the name
// of what the package does not have, pack.ErrCorrupt or pack.ErrLimit.
func Parse(source string) (*Template, error) {
	// To Jinja, a web page and a Git LFS pointer are texts like others.
	if err := filekind.Text([]byte(source)); source != "" && err != nil {
		return nil, err
	}
	parsed, err := jinja.Parse(source)
	if err != nil {
		return nil, err
	}
	return &Template{parsed}, nil
}

// Render renders a conversation. tokens are the special tokens of the model by the names that templates have for them:
// "bos_token", "eos_token" … Errors wrap pack.ErrUnsupported, with the name of what the template uses and this package
// does not have, or with what the template itself says about a conversation that it refuses; pack.ErrCorrupt for a
// broken template or JSON; pack.ErrLimit for a template that takes too long or writes too much.
func (t *Template) Render(messages []Message, tokens map[string]string, o Options) (none Text, err error) {
	c, err := newConversation(messages, tokens, &o, t.parsed.Source)
	if err != nil {
		return none, err
	}
	now := o.Now
	if now == nil {
		now = time.Now
	}
	text, err := t.parsed.Render(c.vars, now)
	var raised *jinja.Raised
	if errors.As(err, &raised) {
		return none, fmt.Errorf("%w: %w", pack.ErrUnsupported, raised)
	}
	if err != nil {
		return none, fmt.Errorf("chat template: %w", err)
	}
	if o.ContinueField != "" {
		text, err = c.cut(text)
	}
	return Text(text), err
}
