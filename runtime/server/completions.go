package server

import (
	"bytes"
	"net/http"
	"unicode/utf8"

	"github.com/lowpack/lowpack/runtime/server/internal/api"
	"github.com/lowpack/lowpack/runtime/server/schedule"
)

// defaultCompletion is the default of max_tokens for completions, as in OpenAI's API.
const defaultCompletion = 16

// completions handles POST /v1/completions.
func (s *Server) completions(w http.ResponseWriter, r *http.Request, m *model, b *api.Body) {
	j := &job{settings: m.readSettings(b), model: m, shape: textShape{}}
	scores := -1
	b.Int("logprobs", &scores, 0, maxTop)
	echo := false
	b.Bool("echo", &echo)
	b.Refuse("the model has no fill-in-the-middle tokens", "suffix")
	b.Refuse("that is a field of chat completions", "messages", "tools", "tool_choice", "top_logprobs")
	if j.maxTokens = defaultCompletion; b.Int("max_tokens", &j.maxTokens, 0, m.context) && j.maxTokens == 0 && !echo {
		b.Unsupported("max_tokens", "max_tokens is 0: must be at least 1 without echo")
	}
	if echo && scores >= 0 && j.maxTokens == 1 && !j.saysEnd(b) {
		j.ignoreEOS = true // evaluation harnesses drop the last logprob: it must be of a generated token, which this is
	}
	prompts := m.readPrompts(b, "prompt")
	if e := b.Err(); e != nil {
		e.Write(w)
		return
	}
	for _, p := range prompts {
		q := j.request(p.ids, scores, r)
		if echo {
			j.echo, q.PromptLogprobs = append(j.echo, p.text), scores
		}
		j.requests = append(j.requests, q)
	}
	j.head = m.newHead("cmpl-", "text_completion", &j.settings)
	b.Close()
	s.serve(w, r, j)
}

// saysEnd reports whether a request says itself which tokens end the text.
func (s *settings) saysEnd(b *api.Body) bool {
	return b.Raw("ignore_eos") != nil || s.format != nil || len(s.stopIDs) > 0
}

// prompt is a tokenized text.
type prompt struct {
	text string
	ids  []int
}

// readPrompts reads a field that is a string, a list of strings, a list of token ids, or a list of such lists.
func (m *model) readPrompts(b *api.Body, name string) (list []prompt) {
	raw := b.Raw(name)
	var (
		texts []*string
		ids   []api.Integers
	)
	switch inner := bytes.TrimLeft(bytes.TrimPrefix(raw, []byte("[")), " \t\r\n"); {
	case raw == nil:
		b.Fail(name, "%s is missing", name)
	case raw[0] == '"':
		texts = make([]*string, 1)
		b.Decode(name, &texts[0], "a string")
	case raw[0] == '[' && len(inner) > 0 && inner[0] == '"':
		b.Decode(name, &texts, "a list of strings")
	case raw[0] == '[' && len(inner) > 0 && inner[0] == '[':
		b.Decode(name, &ids, "a list of lists of token ids")
	default:
		ids = make([]api.Integers, 1)
		b.Decode(name, &ids[0], "a string, a list of strings, a list of token ids, or a list of such lists")
	}
	if len(texts)+len(ids) > maxPrompts {
		b.Fail(name, "%d %ss: at most %d are allowed", len(texts)+len(ids), name, maxPrompts)
	}
	for i, text := range texts {
		if text == nil {
			b.Fail(name, "%s[%d] is null: want a string", name, i)
			return nil
		}
		tokens, err := m.Tokenizer.Encode(*text, true)
		list = append(list, m.checkPrompt(b, name, prompt{*text, tokens}, err))
	}
	for _, tokens := range ids {
		list = append(list, m.checkPrompt(b, name, prompt{ids: tokens}, m.check(tokens)))
	}
	return list
}

// checkPrompt rejects a prompt that failed to tokenize or is empty, and decodes the text of a prompt given as token
// ids.
func (m *model) checkPrompt(b *api.Body, name string, p prompt, err error) prompt {
	if err == nil && len(p.ids) == 0 {
		err = errNoTokens
	}
	if err != nil {
		b.Unsupported(name, "%s: %v", name, err)
	} else if p.text == "" && len(p.ids) <= m.context { // longer prompts are rejected later
		p.text = m.Tokenizer.Decode(p.ids, true)
	}
	return p
}

// textShape builds text completions.
type textShape struct{}

// textChoice is a choice or an increment of one.
type textChoice struct {
	Index    int           `json:"index"`
	Text     string        `json:"text"`
	Logprobs *textLogprobs `json:"logprobs"`
	Reason   *string       `json:"finish_reason"`
}

// textLogprobs lists tokens with their logprobs; the first token of an echoed prompt has none.
type textLogprobs struct {
	Tokens        []string              `json:"tokens"`
	TokenLogprobs []*float64            `json:"token_logprobs"`
	TopLogprobs   []map[string]*float64 `json:"top_logprobs"`
	TextOffset    []int                 `json:"text_offset"`
}

type textAnswer struct {
	head
	Choices []textChoice `json:"choices"`
	Usage   *usage       `json:"usage,omitempty"`
}

func (textShape) whole(j *job, all []*choice, u *usage) any {
	a := textAnswer{head: j.head, Choices: make([]textChoice, len(all)), Usage: u}
	for i, c := range all {
		a.Choices[i] = textChoice{i, c.text.String(), j.textLogprobs(c, c.scores), &c.reason}
	}
	return a
}

func (textShape) begin(*job, *api.Stream, *choice) {}

func (textShape) piece(j *job, s *api.Stream, c *choice, p part) {
	s.Send(textAnswer{head: j.head,
		Choices: []textChoice{{Index: c.index, Text: p.text, Logprobs: j.textLogprobs(c, p.scores)}}})
}

func (textShape) end(j *job, s *api.Stream, c *choice) {
	s.Send(textAnswer{head: j.head, Choices: []textChoice{{Index: c.index, Reason: &c.reason}}})
}

func (textShape) last(j *job, s *api.Stream, _ []*choice, u *usage) {
	if j.usage {
		s.Send(textAnswer{head: j.head, Choices: []textChoice{}, Usage: u})
	}
	s.Done()
}

func (textShape) fail(_ *job, s *api.Stream, e *api.Error) { s.Send(e) }

// textLogprobs returns the logprobs of the next tokens of a choice; nil = not requested.
func (j *job) textLogprobs(c *choice, scores []schedule.Logprob) *textLogprobs {
	if j.requests[c.index/j.n].Logprobs < 0 || len(scores) == 0 && c.listed > 0 {
		return nil
	}
	l := &textLogprobs{Tokens: []string{}, TokenLogprobs: []*float64{}, TopLogprobs: []map[string]*float64{},
		TextOffset: []int{}}
	for i := range scores {
		text, raw := j.model.tokenText(scores[i].Token)
		l.add(text, c.offset, &scores[i], c.listed == 0 && j.echo != nil, j)
		c.listed++
		c.offset += utf8.RuneCount(raw)
	}
	return l
}

func (l *textLogprobs) add(text string, offset int, score *schedule.Logprob, first bool, j *job) {
	l.Tokens, l.TextOffset = append(l.Tokens, text), append(l.TextOffset, offset)
	if first { // a first token has no probability
		l.TokenLogprobs, l.TopLogprobs = append(l.TokenLogprobs, nil), append(l.TopLogprobs, nil)
		return
	}
	top := map[string]*float64{text: &score.Logprob}
	for i := range score.Top {
		name, _ := j.model.tokenText(score.Top[i].Token)
		if known := top[name]; known == nil || *known < score.Top[i].Logprob { // two tokens can have the same text
			top[name] = &score.Top[i].Logprob
		}
	}
	l.TokenLogprobs, l.TopLogprobs = append(l.TokenLogprobs, &score.Logprob), append(l.TopLogprobs, top)
}
