package chat

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/internal/jinja"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/internal/marked"
	"github.com/lowpack/lowpack/pack"
)

// conversation holds the variables of a template.
type conversation struct {
	vars  *jinja.Dict
	final marked.Text // the field to be continued, without the tag
}

// newConversation makes the variables of a template as apply_chat_template of transformers 5.23 does.
func newConversation(
	messages []Message, tokens map[string]string, o *Options, template string,
) (c conversation, err error) {
	if len(messages) == 0 {
		return c, fmt.Errorf("%w: a conversation without messages", pack.ErrUnsupported)
	}
	list := make([]jinja.Value, len(messages))
	for i := range messages {
		d, err := messages[i].fields(fmt.Sprintf("message %d", i))
		if err != nil {
			return c, err
		}
		list[i] = withReasoning(d)
	}
	if o.ContinueField != "" {
		if c.final, err = tagged(list[len(list)-1].(*jinja.Dict), o, template); err != nil {
			return c, err
		}
	}
	c.vars = &jinja.Dict{}
	for role, token := range tokens {
		c.vars.Set(role, token)
	}
	c.vars.Set("messages", jinja.NewList(list))
	c.vars.Set("add_generation_prompt", o.AddGenerationPrompt)
	for _, list := range []struct {
		name string
		text []byte
	}{{"tools", o.Tools}, {"documents", o.Documents}} {
		v, err := parseValue(list.text, list.name)
		if err != nil {
			return c, err
		}
		c.vars.Set(list.name, v)
	}
	return c, setAll(c.vars, o.Vars, "variables")
}

// fields returns the fields of a message; null fields are absent.
func (m *Message) fields(what string) (*jinja.Dict, error) {
	all := &jinja.Dict{}
	if m.Role != "" || m.More == nil {
		all.Set("role", jinja.NewInput(m.Role))
	}
	if m.Content != "" || m.More == nil {
		all.Set("content", jinja.NewInput(m.Content))
	}
	if err := setAll(all, m.More, what); err != nil {
		return nil, err
	}
	d := &jinja.Dict{}
	for k, v := range all.All() {
		if v != nil {
			d.Set(k, v)
		}
	}
	return d, nil
}

// reasoningFields are the names of the field with the assistant's reasoning. The first is the standard.
var reasoningFields = []string{"reasoning_content", "thinking", "reasoning"}

// withReasoning fills reasoning_content from its older names, and thinking, which the templates of gpt-oss read.
func withReasoning(d *jinja.Dict) *jinja.Dict {
	for _, name := range reasoningFields {
		reasoning, ok := d.Get(name)
		if !ok {
			continue
		}
		out := &jinja.Dict{}
		out.Set("thinking", reasoning)
		for k, v := range d.All() {
			out.Set(k, v)
		}
		out.Set("reasoning_content", reasoning)
		return out
	}
	return d
}

// continueTag marks where the last message ends. Whether its space survives shows if the template trims the message.
const continueTag = "CONTINUE_FINAL_MESSAGE_TAG "

// tagged appends the tag to the field to be continued, and returns its former value.
func tagged(last *jinja.Dict, o *Options, template string) (none marked.Text, err error) {
	if o.AddGenerationPrompt {
		return none, fmt.Errorf("%w: a message cannot be continued together with AddGenerationPrompt, "+
			"which begins another one", pack.ErrUnsupported)
	}
	value, ok := last.Get(o.ContinueField)
	if !ok {
		return none, fmt.Errorf("%w: the last message has no %q to continue", pack.ErrUnsupported, o.ContinueField)
	}
	copies := []string{o.ContinueField}
	if slices.Contains(reasoningFields, o.ContinueField) {
		copies = slices.DeleteFunc(slices.Clone(reasoningFields), func(name string) bool {
			v, ok := last.Get(name)
			return !ok || !jinja.Equal(v, value)
		})
	}
	if !slices.ContainsFunc(copies, func(name string) bool { return strings.Contains(template, name) }) {
		return none, fmt.Errorf("%w: the chat template does not read %q, which is to be continued",
			pack.ErrUnsupported, o.ContinueField)
	}
	if blocks, ok := value.(*jinja.List); ok {
		return taggedBlock(blocks)
	}
	final, ok := jinja.AsText(value)
	if !ok {
		return none, fmt.Errorf("%w: %q of the last message is not text", pack.ErrCorrupt, o.ContinueField)
	}
	for _, name := range copies {
		last.Set(name, jinja.NewInput(final.S+continueTag))
	}
	return final, nil
}

// taggedBlock tags the last text among the content blocks.
func taggedBlock(blocks *jinja.List) (none marked.Text, err error) {
	for _, block := range slices.Backward(blocks.Items) {
		d, ok := block.(*jinja.Dict)
		if !ok {
			continue
		}
		value, ok := d.Get("text")
		if final, isText := jinja.AsText(value); ok && isText {
			d.Set("text", jinja.NewInput(final.S+continueTag))
			return final, nil
		}
	}
	return none, fmt.Errorf("%w: the last message has no text to continue", pack.ErrUnsupported)
}

// cut ends a rendered text where the final message ends.
func (c *conversation) cut(text marked.Text) (none marked.Text, err error) {
	trimmed := strings.TrimSpace(continueTag)
	at := strings.LastIndex(text.S, trimmed)
	if at < 0 || !strings.Contains(text.S, jinja.Trim(c.final.S)) {
		return none, fmt.Errorf("%w: the chat template does not write the last message as it is, so it "+
			"cannot be continued",
			pack.ErrUnsupported)
	}
	if strings.HasPrefix(text.S[at:], continueTag) {
		return text.Slice(0, at), nil
	}
	return text.Slice(0, len(jinja.TrimRight(text.S[:at]))), nil
}

// maxGiven bounds the JSON that comes with a conversation, in bytes.
const maxGiven = 1 << 24

// setAll sets the members of a JSON object.
func setAll(d *jinja.Dict, object []byte, what string) error {
	if object == nil {
		return nil
	}
	v, err := jsonread.Parse(object, maxGiven)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	for i := range v.Members {
		d.Set(jinja.NewInput(v.Members[i].Key), jinja.FromJSON(&v.Members[i].Value))
	}
	return nil
}

// parseValue parses JSON; empty text gives none.
func parseValue(text []byte, what string) (jinja.Value, error) {
	if text == nil {
		return nil, nil
	}
	v, err := jsonread.Parse(text, maxGiven)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return jinja.FromJSON(v), nil
}
