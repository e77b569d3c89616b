package server

import (
	"github.com/lowpack/lowpack/internal/harmony"
	"github.com/lowpack/lowpack/runtime/server/grammar"
	"github.com/lowpack/lowpack/runtime/server/internal/api"
	"github.com/lowpack/lowpack/runtime/server/schedule"
)

// readChannels reads whether the channels of a model are told apart; else the content holds them with their control
// tokens.
func (j *job) readChannels(prompt []int, split bool) {
	j.marked, j.showSpecial = split, !split
	if split {
		j.opened = prompt
	}
}

// channels returns a reader for the channels in one output; nil = they are content, or there are none.
func (j *job) channels() *harmony.Reader {
	if j.opened == nil {
		return nil
	}
	known := func(name string) bool { return j.tools != nil && j.tools.names[name] }
	return j.model.harmony.Reader(j.opened, j.model.Tokenizer.NewStream(true), known)
}

// readChannels splits new text of a choice whose messages have channels.
func (c *choice) readChannels(e schedule.Event) (p part) {
	before := c.channels.Thinking()
	list := c.channels.Add(e.Piece.Text)
	if e.Token >= 0 && (before || c.channels.Thinking()) {
		c.reasoned++
	}
	if e.Reason != "" {
		list = append(list, c.channels.End()...)
	}
	for _, d := range list {
		switch {
		case d.Kind == harmony.Thought:
			p.thought += d.Text
		case d.Kind == harmony.Answer:
			if c.text.Len() == 0 && p.text == "" {
				c.before = len(c.calls)
			}
			p.text += d.Text
		case d.Name != "":
			p.calls = append(p.calls, callDelta{index: len(c.calls), name: d.Name})
			c.note(p.calls[len(p.calls)-1:])
		default:
			p.calls = append(p.calls, callDelta{index: len(c.calls) - 1, arguments: d.Text})
			c.note(p.calls[len(p.calls)-1:])
		}
	}
	c.thought.WriteString(p.thought)
	return p
}

// forceChannel begins a call of the one function that is allowed, and constrains its arguments.
func (j *job) forceChannel(b *api.Body, t *tools, allowed []grammar.Function) {
	if len(allowed) > 1 {
		b.Unsupported("tool_choice", "tool_choice required with %d functions is not supported: the model names a "+
			"function between control tokens, which no constraint covers; name one in tool_choice", len(allowed))
		return
	}
	t.opener = j.model.harmony.Calls(allowed[0].Name, j.model.encode)
	j.use(b, j.model, "tools", "arguments "+string(allowed[0].Parameters),
		func() (*grammar.Grammar, error) { return grammar.Arguments(allowed[0]) })
}

// encode returns the tokens of a text without control tokens.
func (m *model) encode(text string) []int {
	ids, _ := m.Tokenizer.EncodePlain(text, false) // it reads any text
	return ids
}
