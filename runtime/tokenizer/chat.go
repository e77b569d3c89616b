package tokenizer

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lowpack/lowpack/internal/filekind"
	"github.com/lowpack/lowpack/internal/jinja"
	"github.com/lowpack/lowpack/pack"
)

// Message is one turn of a conversation. As in transformers 5.23 a field that is null counts as absent, and what the assistant
// thought, under reasoning_content, thinking or reasoning, is there for templates that read it under one of the first two.
type Message struct {
	Role    string // "system", "user", "assistant", "tool" …
	Content string
	// More holds further fields as a JSON object, for example {"tool_calls": […]}; nil = none. Fields of the same name win
	// over Role and Content; empty ones beside it are absent.
	More []byte
}

// ChatOptions say how a conversation is rendered.
type ChatOptions struct {
	// AddGenerationPrompt ends the text with the beginning of an answer.
	AddGenerationPrompt bool
	// ContinueField ends the text inside a field of the last message, "content" or "reasoning_content", for the model to go
	// on there (continue_final_message); "" = every message is complete. It excludes AddGenerationPrompt.
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

// ErrNoTemplate: the model has no chat template.
var ErrNoTemplate = fmt.Errorf("%w: the model has no chat template", pack.ErrUnsupported)

// chatTemplate is a template by name; one that cannot be read keeps its error until it is used.
type chatTemplate struct {
	name string
	*jinja.Template
	err error
}

const (
	defaultTemplate = "default"
	toolTemplate    = "tool_use"
)

// readTemplates reads the chat templates: chat_template.jinja, chat_template.json, or tokenizer_config.json, which has one or
// a list with names.
func (t *Tokenizer) readTemplates(files Files, c *config) {
	t.chosen = -1
	if data, ok := files(templateFile); ok {
		t.addTemplate(defaultTemplate, string(data))
		return
	}
	if v, err := parseFile(files, templateJSON); err != nil {
		t.templates = []chatTemplate{{name: defaultTemplate, err: err}}
		return
	} else if source, ok := v.Get("chat_template").Str(); ok {
		t.addTemplate(defaultTemplate, source)
		return
	}
	if source, ok := c.templates.Str(); ok {
		t.addTemplate(defaultTemplate, source)
	} else if c.templates != nil {
		for i := range c.templates.Items {
			name, _ := c.templates.Items[i].Get("name").Str()
			source, _ := c.templates.Items[i].Get("template").Str()
			t.addTemplate(name, source)
		}
	}
}

func (t *Tokenizer) addTemplate(name, source string) {
	parsed, err := parseTemplate(source)
	t.templates = append(t.templates, chatTemplate{name, parsed, err})
}

// parseTemplate parses a chat template. To Jinja, a web page and a Git LFS pointer are texts like others.
func parseTemplate(source string) (*jinja.Template, error) {
	if err := filekind.Text([]byte(source)); source != "" && err != nil {
		return nil, err
	}
	return jinja.Parse(source)
}

// ChatTemplates lists the names of the chat templates of the model: none, "default", or several.
func (t *Tokenizer) ChatTemplates() []string {
	var names []string
	for _, c := range t.templates {
		names = append(names, c.name)
	}
	return names
}

// UseTemplate chooses the chat template by name. It must not be called while Chat runs.
func (t *Tokenizer) UseTemplate(name string) error {
	for i, c := range t.templates {
		if c.name == name {
			t.chosen = i
			return c.err
		}
	}
	return fmt.Errorf("%w: no chat template %q; the model has %s", pack.ErrUnsupported, name, strings.Join(t.ChatTemplates(), ", "))
}

// SetTemplate puts a chat template in the place of the model's own. It must not be called while Chat runs.
func (t *Tokenizer) SetTemplate(source string) error {
	parsed, err := parseTemplate(source)
	if err != nil {
		return err
	}
	t.templates, t.chosen = []chatTemplate{{name: defaultTemplate, Template: parsed}}, 0
	t.addStop(t.endOfTurn())
	return nil
}

// ChatTokens returns the tokens of a conversation that is rendered with the model's chat template. Control tokens are those
// that the template writes: what stands in a message, a tool or a variable is text, whatever it looks like. Errors are those
// of Chat and Encode.
func (t *Tokenizer) ChatTokens(messages []Message, o ChatOptions) ([]int, error) {
	text, err := t.render(messages, o)
	if err != nil {
		return nil, err
	}
	return t.encode(text, false)
}

// Chat renders a conversation with the model's chat template, for people to read: whoever encodes this text takes what looks
// like a control token in a message for one, which ChatTokens does not. Errors: ErrNoTemplate; pack.ErrUnsupported with the name of what the template uses
// and this package does not have, or with what the template itself says about a conversation that it refuses;
// pack.ErrCorrupt for a broken template; pack.ErrLimit for one that takes too long or writes too much.
func (t *Tokenizer) Chat(messages []Message, o ChatOptions) (string, error) {
	text, err := t.render(messages, o)
	return text.S, err
}

func (t *Tokenizer) render(messages []Message, o ChatOptions) (none jinja.Text, err error) {
	if len(t.templates) == 0 {
		return none, ErrNoTemplate
	}
	chosen := t.template(o.Tools != nil)
	if chosen.err != nil {
		return none, fmt.Errorf("chat template: %w", chosen.err)
	}
	c, err := t.conversation(messages, &o, chosen.Source)
	if err != nil {
		return none, err
	}
	now := o.Now
	if now == nil {
		now = time.Now
	}
	text, err := chosen.Render(c.vars, now)
	var raised *jinja.Raised
	if errors.As(err, &raised) {
		return none, fmt.Errorf("%w: %w", pack.ErrUnsupported, raised)
	}
	if err != nil {
		return none, fmt.Errorf("chat template: %w", err)
	}
	if o.ContinueField != "" {
		return c.cut(text)
	}
	return text, nil
}

// template is the one that was chosen; of several that nobody chose from, the one for tools or the default.
func (t *Tokenizer) template(tools bool) *chatTemplate {
	for i := range t.templates {
		if name := t.templates[i].name; t.chosen < 0 && (name == toolTemplate && tools || name == defaultTemplate && !tools) {
			return &t.templates[i]
		}
	}
	for i := range t.templates {
		if t.chosen < 0 && t.templates[i].name == defaultTemplate {
			return &t.templates[i]
		}
	}
	return &t.templates[max(t.chosen, 0)]
}

// endOfTurn returns the token with which the template ends what the assistant says: the first thing behind it, when that is
// an added token; "" otherwise.
func (t *Tokenizer) endOfTurn() string {
	const answer = "lowpackanswer"
	conversation := []Message{{Role: "user", Content: "question"}, {Role: "assistant", Content: answer}}
	text, err := t.Chat(conversation, ChatOptions{})
	if err != nil {
		return ""
	}
	_, rest, found := strings.Cut(text, answer)
	if !found {
		return ""
	}
	rest = strings.TrimSpace(rest)
	for _, f := range []*finder{&t.raw, &t.normal} {
		if token, start, _, _ := f.next(jinja.Text{S: rest}, 0, 0); token != nil && start == 0 {
			return token.content
		}
	}
	return ""
}
