package tokenizer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/internal/marked"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/chat"
)

// ErrNoTemplate: the model has no chat template.
var ErrNoTemplate = fmt.Errorf("%w: the model has no chat template", pack.ErrUnsupported)

// chatTemplate is a named template; one that does not parse keeps its error until it is used.
type chatTemplate struct {
	name string
	*chat.Template
	err error
}

const (
	defaultTemplate = "default"
	toolTemplate    = "tool_use"
)

// readTemplates reads the chat templates: chat_template.jinja, chat_template.json, or tokenizer_config.json, which has
// one template or a list of named ones.
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
	parsed, err := chat.Parse(source)
	t.templates = append(t.templates, chatTemplate{name, parsed, err})
}

// ChatTemplates lists the names of the chat templates of the model: none, "default", or several.
func (t *Tokenizer) ChatTemplates() []string {
	var names []string
	for _, c := range t.templates {
		names = append(names, c.name)
	}
	return names
}

// UseTemplate selects the chat template by name. It must not be called while Chat runs.
func (t *Tokenizer) UseTemplate(name string) error {
	if i := t.named(name); i >= 0 {
		t.chosen = i
		return t.templates[i].err
	}
	return fmt.Errorf("%w: no chat template %q; the model has %s", pack.ErrUnsupported, name,
		strings.Join(t.ChatTemplates(), ", "))
}

// SetTemplate replaces the model's own chat template. It must not be called while Chat runs.
func (t *Tokenizer) SetTemplate(source string) error {
	parsed, err := chat.Parse(source)
	if err != nil {
		return err
	}
	t.templates, t.chosen = []chatTemplate{{name: defaultTemplate, Template: parsed}}, 0
	t.addStop(t.endOfTurn())
	return nil
}

// ChatTokens returns the tokens of a conversation that is rendered with the model's chat template: EncodeChat of
// RenderChat.
func (t *Tokenizer) ChatTokens(messages []chat.Message, o chat.Options) ([]int, error) {
	text, err := t.RenderChat(messages, o)
	if err != nil {
		return nil, err
	}
	return t.EncodeChat(text)
}

// EncodeChat returns the tokens of a rendered conversation. Only text written by the template can become control
// tokens: the contents of messages, tools and variables are encoded as plain text, whatever they look like. It returns
// the errors of Encode.
func (t *Tokenizer) EncodeChat(text chat.Text) ([]int, error) {
	return t.encode(marked.Text(text), false)
}

// Chat renders a conversation with the model's chat template, for people to read: encoding this text turns what looks
// like a control token in a message into one, which EncodeChat does not. It returns the errors of RenderChat.
func (t *Tokenizer) Chat(messages []chat.Message, o chat.Options) (string, error) {
	text, err := t.RenderChat(messages, o)
	return text.S, err
}

// RenderChat renders a conversation with the model's chat template. Errors: ErrNoTemplate, and the errors of
// [chat.Template.Render].
func (t *Tokenizer) RenderChat(messages []chat.Message, o chat.Options) (none chat.Text, err error) {
	if len(t.templates) == 0 {
		return none, ErrNoTemplate
	}
	chosen := t.template(o.Tools != nil)
	if chosen.err != nil {
		return none, fmt.Errorf("chat template: %w", chosen.err)
	}
	return chosen.Render(messages, t.roles, o)
}

// template returns the selected template; if there are several and none was selected, the one for tools or the default.
func (t *Tokenizer) template(tools bool) *chatTemplate {
	if t.chosen >= 0 {
		return &t.templates[t.chosen]
	}
	names := []string{toolTemplate, defaultTemplate}
	if !tools {
		names = names[1:]
	}
	for _, name := range names {
		if i := t.named(name); i >= 0 {
			return &t.templates[i]
		}
	}
	return &t.templates[0]
}

// named returns the index of a template; −1 if there is none of that name.
func (t *Tokenizer) named(name string) int {
	return slices.IndexFunc(t.templates, func(c chatTemplate) bool { return c.name == name })
}

// endOfTurn returns the token with which the template ends an assistant message: what directly follows the message, if
// that is an added token; "" otherwise.
func (t *Tokenizer) endOfTurn() string {
	const answer = "lowpackanswer"
	conversation := []chat.Message{{Role: "user", Content: "question"}, {Role: "assistant", Content: answer}}
	text, err := t.Chat(conversation, chat.Options{})
	if err != nil {
		return ""
	}
	_, rest, found := strings.Cut(text, answer)
	if !found {
		return ""
	}
	rest = strings.TrimSpace(rest)
	for _, f := range []*finder{&t.raw, &t.normal} {
		if token, start, _, _ := f.next(marked.Text{S: rest}, 0, 0); token != nil && start == 0 {
			return token.content
		}
	}
	return ""
}
