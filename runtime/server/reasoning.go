package server

import (
	"slices"

	"github.com/lowpack/lowpack/internal/thinking"
	"github.com/lowpack/lowpack/runtime/server/internal/api"
)

// reasoningFormats are the values of reasoning_format, by llama-server's names: none leaves thoughts in the content.
var reasoningFormats = []string{"", "auto", "deepseek", "none"} // "" = auto

// readReasoning reads whether thoughts are separated from the content, given the prompt. An output with a format is
// content as a whole: its first token is already of the format.
func (j *job) readReasoning(b *api.Body, prompt []int) {
	format := ""
	if b.String("reasoning_format", &format); !slices.Contains(reasoningFormats, format) {
		b.Fail("reasoning_format", "reasoning_format %.40q: must be one of auto, deepseek, none", format)
	}
	if j.model.harmony != nil {
		j.readChannels(prompt, format != "none")
		return
	}
	if format == "none" || j.format != nil && !j.tools.free() || b.Err() != nil {
		return
	}
	j.reasons = true
	j.promptTail = j.model.Tokenizer.Decode(prompt[max(0, len(prompt)-thinking.Tail):], true)
}

// thoughts returns a reader for the thoughts in one output; nil = they are content.
func (j *job) thoughts() *thinking.Reader {
	if !j.reasons {
		return nil
	}
	return thinking.New(j.promptTail)
}

// think separates thoughts from new text of a choice, whose tokens are already counted.
func (c *choice) think(text string, last bool) (thought, rest string) {
	if c.thinking == nil {
		return "", text
	}
	before := c.thinking.Thinking()
	thought, rest = c.thinking.Add(text)
	if before || c.thinking.Thinking() {
		c.reasoned = len(c.tokens)
	}
	if last {
		held, more := c.thinking.End()
		thought, rest = thought+held, rest+more
	}
	c.thought.WriteString(thought)
	return thought, rest
}
