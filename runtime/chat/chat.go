// Package chat renders conversations with the chat templates of models, as apply_chat_template of transformers does.
//
// A rendered conversation knows which of its bytes the template wrote and which came with a message. Only what the
// template wrote can be a control token; package tokenizer encodes conversations by that rule.
package chat

import (
	"errors"
	"fmt"
	"time"

	"github.com/lowpack/lowpack/internal/filekind"
	"github.com/lowpack/lowpack/internal/jinja"
	"github.com/lowpack/lowpack/pack"
)

// Message is one turn of a conversation. As in transformers 5.23 a null field counts as absent, and the assistant's
// reasoning, in the field reasoning_content, thinking or reasoning, is available to templates that read one of the
// first two.
type Message struct {
	Role    string // "system", "user", "assistant", "tool" …
	Content string
	// More holds further fields as a JSON object, for example {"tool_calls": […]}; nil = none. Fields of the same name
	// take precedence over Role and Content; if they are empty and More is set, they are absent.
	More []byte
}

// Options control how a conversation is rendered.
type Options struct {
	// AddGenerationPrompt ends the text with the start of an assistant message.
	AddGenerationPrompt bool
	// ContinueField ends the text inside a field of the last message, "content" or "reasoning_content", for the model
	// to continue (continue_final_message); "" = every message is complete. It cannot be combined with
	// AddGenerationPrompt.
	ContinueField string
	// Tools is a JSON list of the functions that the model may call; nil = none.
	Tools []byte
	// Documents is a JSON list of documents for retrieval; nil = none.
	Documents []byte
	// Vars are further variables of the template as a JSON object, for example {"enable_thinking": false}; nil = none.
	Vars []byte
	// Now is the clock of templates that contain the date; nil = time.Now.
	Now func() time.Time
}

// Text is a rendered conversation.
type Text struct {
	S string
	// Input has the length of S: 1 for a byte that came with the conversation, 0 for a byte of the template. "" = all
	// bytes are from the template.
	Input string
}

// Template is a chat template. It is safe for concurrent use.
type Template struct{ parsed *jinja.Template }

// Parse parses a chat template, in the Jinja2 subset that published templates use. Errors wrap pack.ErrUnsupported,
// with the name of the unsupported construct, pack.ErrCorrupt or pack.ErrLimit.
func Parse(source string) (*Template, error) {
	// To Jinja, a web page and a Git LFS pointer are valid text.
	if err := filekind.Text([]byte(source)); source != "" && err != nil {
		return nil, err
	}
	parsed, err := jinja.Parse(source)
	if err != nil {
		return nil, err
	}
	return &Template{parsed}, nil
}

// Render renders a conversation. tokens are the special tokens of the model by their names in templates: "bos_token",
// "eos_token" … Errors wrap pack.ErrUnsupported, with the name of the unsupported construct, or with the template's own
// message if it rejects the conversation; pack.ErrCorrupt for a broken template or JSON; pack.ErrLimit for a template
// that takes too long or writes too much.
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
