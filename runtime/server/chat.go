package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/runtime/chat"
	"github.com/lowpack/lowpack/runtime/server/internal/api"
	"github.com/lowpack/lowpack/runtime/server/schedule"
)

// maxMessages is the limit of messages in a request.
const maxMessages = 4096

// chat handles POST /v1/chat/completions.
func (s *Server) chat(w http.ResponseWriter, r *http.Request, m *model, b *api.Body) {
	j := &job{settings: m.readSettings(b), model: m, shape: chatShape{}}
	scores := readChatLogprobs(b)
	older, newer := 0, 0
	if b.Int("max_tokens", &older, 1, m.context) {
		j.maxTokens = older
	}
	if b.Int("max_completion_tokens", &newer, 1, m.context) {
		if j.maxTokens = newer; older > 0 && older != newer {
			b.Unsupported("max_tokens", "max_tokens is %d and max_completion_tokens is %d: must be equal", older, newer)
		}
	}
	b.Refuse("only text is generated", "audio", "web_search_options")
	b.Accept("modalities", "verbosity")
	b.Refuse("a chat completion never includes the prompt", "echo")
	j.offer(j.readTools(b, b.Raw("tools")))
	messages, o := m.readMessages(b)
	o.Tools = j.tools.shown()
	ids := m.render(b, "messages", messages, o)
	ids = j.prompt(ids)
	j.readReasoning(b, ids)
	if e := b.Err(); e != nil {
		e.Write(w)
		return
	}
	j.requests = []schedule.Request{j.request(ids, scores, r)}
	j.head = m.newHead("chatcmpl-", "chat.completion", &j.settings)
	b.Close()
	s.serve(w, r, j)
}

// request builds the request of one prompt. Without max_tokens the limit is the rest of the context.
func (j *job) request(ids []int, scores int, r *http.Request) schedule.Request {
	if j.maxTokens < 0 {
		j.maxTokens = max(1, j.model.context-len(ids))
	}
	q := schedule.Request{Prompt: ids, Logprobs: scores, PromptLogprobs: -1, Salt: saltOf(r)}
	for i := range j.n {
		if j.maxTokens > 0 {
			q.Texts = append(q.Texts, j.text(j.model, i))
		}
	}
	return q
}

// readChatLogprobs returns the number of alternatives per token, 0 to maxTop; −1 = no logprobs.
func readChatLogprobs(b *api.Body) int {
	wanted, top := false, 0
	b.Bool("logprobs", &wanted)
	b.Int("top_logprobs", &top, 0, maxTop)
	switch {
	case wanted:
		return top
	case top > 0:
		b.Unsupported("top_logprobs", "top_logprobs needs logprobs to be true")
	}
	return -1
}

// readConversation renders the messages with the chat template and returns the token ids.
func (m *model) readConversation(b *api.Body) []int {
	readFunctions(b, b.Raw("tools"))
	messages, o := m.readMessages(b)
	return m.render(b, "messages", messages, o)
}

// render makes the tokens of a conversation, which stands in a field of the request.
func (m *model) render(b *api.Body, field string, messages []chat.Message, o chat.Options) []int {
	if b.Err() != nil {
		return nil
	}
	ids, err := m.Tokenizer.ChatTokens(messages, o)
	switch {
	case err != nil:
		b.Unsupported(field, "%s: %v", field, err)
	case b.Untimed():
		b.Unsupported(field, "%s: %v", field, ErrNoTime)
	case len(ids) == 0:
		b.Unsupported(field, "%s: the chat template renders an empty prompt", field)
	}
	return ids
}

// readMessages reads a conversation, and how it is rendered.
func (m *model) readMessages(b *api.Body) ([]chat.Message, chat.Options) {
	var list []json.RawMessage
	o := m.readChatOptions(b, b.Raw("reasoning_effort"))
	if !b.Decode("messages", &list, "a list of messages") {
		b.Fail("messages", "messages is missing")
		return nil, o
	}
	if len(list) == 0 || len(list) > maxMessages {
		b.Fail("messages", "messages has %d messages: must be between 1 and %d", len(list), maxMessages)
		return nil, o
	}
	messages := make([]chat.Message, len(list))
	for i, raw := range list {
		messages[i] = readMessage(b, "messages", i, raw)
	}
	return messages, o
}

// readChatOptions reads how the conversation is rendered. effort is a string; nil = absent.
func (m *model) readChatOptions(b *api.Body, effort json.RawMessage) chat.Options {
	o := chat.Options{AddGenerationPrompt: true, Tools: b.Raw("tools"), Now: b.Now}
	b.Bool("add_generation_prompt", &o.AddGenerationPrompt)
	if goOn := false; b.Bool("continue_final_message", &goOn) && goOn {
		if o.ContinueField = "content"; b.Raw("add_generation_prompt") == nil {
			o.AddGenerationPrompt = false
		}
	}
	var vars map[string]json.RawMessage
	b.Decode("chat_template_kwargs", &vars, "an object")
	if effort != nil && string(effort) != "null" {
		if effort[0] != '"' {
			b.Fail("reasoning_effort", "reasoning_effort: want a string")
		}
		const name = "reasoning_effort"
		if other, known := vars[name]; known && !sameText(other, effort) {
			b.Unsupported("chat_template_kwargs",
				"chat_template_kwargs.reasoning_effort differs from the request's reasoning_effort")
		}
		if vars == nil {
			vars = map[string]json.RawMessage{}
		}
		vars[name] = effort
	}
	if vars != nil {
		o.Vars, _ = json.Marshal(vars) // the values are valid JSON
	}
	var documents []json.RawMessage
	if b.Decode("documents", &documents, "a list") {
		o.Documents = b.Raw("documents")
	}
	b.Refuse("the model's own is used", "chat_template")
	return o
}

// sameText reports whether two JSON strings have the same value.
func sameText(a, b json.RawMessage) bool {
	var x, y *string
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && x != nil && y != nil && *x == *y
}

// roles maps the role of a message to the role that the template gets.
var roles = map[string]string{"system": "system", "developer": "system", "user": "user", "assistant": "assistant",
	"tool": "tool"}

// reasoningContent is the field of an assistant message with its thoughts.
const reasoningContent = "reasoning_content"

// readMessage reads message i of a field.
func readMessage(b *api.Body, field string, i int, raw json.RawMessage) (m chat.Message) {
	inner, e := api.ParseBody(raw)
	if e != nil {
		b.Fail(field, "%s[%d]: want an object", field, i)
		return m
	}
	role := ""
	inner.String("role", &role)
	if m.Role = roles[role]; m.Role == "" {
		inner.Fail("role", "role %.40q: must be one of system, developer, user, assistant, tool", role)
	}
	content := inner.Raw("content")
	m.Content = readContent(inner, content)
	more := map[string]json.RawMessage{}
	for _, name := range []string{"name", "tool_call_id", reasoningContent} {
		if text := ""; inner.String(name, &text) {
			more[name] = inner.Raw(name)
		}
	}
	if calls := readCalls(inner); calls != nil {
		more["tool_calls"] = calls
	}
	if content == nil && role != "assistant" {
		inner.Fail("content", "content is missing")
	}
	if len(more) > 0 {
		more["role"], _ = json.Marshal(m.Role)
		more["content"], _ = json.Marshal(m.Content)
		m.More, _ = json.Marshal(more) // the values are valid JSON
	}
	if e := inner.Err(); e != nil {
		b.Fail(field, "%s[%d]: %s", field, i, e.Message)
	}
	return m
}

// textParts are the types of text parts, including those of the responses API.
var textParts = []string{"text", "input_text", "output_text"}

// readContent reads a string, or a list of text parts, which it joins with newlines.
func readContent(b *api.Body, raw json.RawMessage) (text string) {
	if raw == nil {
		return ""
	}
	if !bytes.HasPrefix(raw, []byte("[")) {
		b.String("content", &text)
		return text
	}
	var parts []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	b.Decode("content", &parts, "a string or a list of parts")
	texts := make([]string, len(parts))
	for i, p := range parts {
		if !slices.Contains(textParts, p.Type) || p.Text == nil {
			b.Fail("content", "part %d of type %.40q is not supported: must be text", i, p.Type)
			return ""
		}
		texts[i] = *p.Text
	}
	return strings.Join(texts, "\n")
}

// chatShape builds chat completions.
type chatShape struct{}

type chatMessage struct {
	Role    string     `json:"role"`
	Thought string     `json:"reasoning_content,omitempty"`
	Content *string    `json:"content"` // null if the message has calls and no text
	Refusal *string    `json:"refusal"`
	Calls   []toolCall `json:"tool_calls,omitempty"`
}

type chatChoice struct {
	Index    int           `json:"index"`
	Message  *chatMessage  `json:"message,omitempty"`
	Delta    *chatDelta    `json:"delta,omitempty"`
	Logprobs *chatLogprobs `json:"logprobs"`
	Reason   *string       `json:"finish_reason"`
}

type chatDelta struct {
	Role    string          `json:"role,omitempty"`
	Thought string          `json:"reasoning_content,omitempty"`
	Content *string         `json:"content,omitempty"`
	Calls   []chatCallDelta `json:"tool_calls,omitempty"`
}

// chatCallDelta is an increment of a call: id, type and name, or a part of the arguments.
type chatCallDelta struct {
	Index    int    `json:"index"`
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type chatLogprobs struct {
	Content []chatToken `json:"content"`
	Refusal *string     `json:"refusal"`
}

// chatToken is a token with its alternatives; an alternative has none of its own.
type chatToken struct {
	Token   string       `json:"token"`
	Logprob float64      `json:"logprob"`
	Bytes   []int        `json:"bytes"`
	Top     *[]chatToken `json:"top_logprobs,omitempty"`
}

type chatAnswer struct {
	head
	Choices []chatChoice `json:"choices"`
	Usage   *usage       `json:"usage,omitempty"`
}

func (chatShape) whole(j *job, all []*choice, u *usage) any {
	a := chatAnswer{head: j.head, Choices: make([]chatChoice, len(all)), Usage: u}
	for i, c := range all {
		message := &chatMessage{Role: "assistant", Thought: c.thought.String(), Calls: c.calls}
		if text := c.text.String(); text != "" || c.calls == nil {
			message.Content = &text
		}
		a.Choices[i] = chatChoice{Index: i, Message: message, Logprobs: j.chatLogprobs(c.scores), Reason: &c.reason}
	}
	return a
}

// frame sends a chunk for one choice.
func (j *job) frame(s *api.Stream, c chatChoice) {
	h := j.head
	h.Object = "chat.completion.chunk"
	s.Send(chatAnswer{head: h, Choices: []chatChoice{c}})
}

func (chatShape) begin(j *job, s *api.Stream, c *choice) {
	j.frame(s, chatChoice{Index: c.index, Delta: &chatDelta{Role: "assistant", Content: new(string)}})
}

func (chatShape) piece(j *job, s *api.Stream, c *choice, p part) {
	f := chatChoice{Index: c.index, Delta: &chatDelta{Thought: p.thought, Calls: p.deltas()}}
	if p.text != "" || p.calls == nil && p.thought == "" {
		f.Delta.Content = &p.text
	}
	if p.scores != nil {
		f.Logprobs = j.chatLogprobs(p.scores)
	}
	j.frame(s, f)
}

// deltas returns the call deltas of the part.
func (p *part) deltas() []chatCallDelta {
	list := make([]chatCallDelta, len(p.calls))
	for i, c := range p.calls {
		d := &list[i]
		if d.Index = c.index; c.name != "" {
			d.ID, d.Type = c.id, "function"
		}
		d.Function.Name, d.Function.Arguments = c.name, c.arguments
	}
	return list
}

func (chatShape) end(j *job, s *api.Stream, c *choice) {
	j.frame(s, chatChoice{Index: c.index, Delta: &chatDelta{}, Reason: &c.reason})
}

func (chatShape) last(j *job, s *api.Stream, _ []*choice, u *usage) {
	if j.usage {
		h := j.head
		h.Object = "chat.completion.chunk"
		s.Send(chatAnswer{head: h, Choices: []chatChoice{}, Usage: u})
	}
	s.Done()
}

func (chatShape) fail(_ *job, s *api.Stream, e *api.Error) { s.Send(e) }

// chatLogprobs returns the logprobs of tokens; nil = not requested.
func (j *job) chatLogprobs(scores []schedule.Logprob) *chatLogprobs {
	if j.requests[0].Logprobs < 0 {
		return nil
	}
	l := &chatLogprobs{Content: []chatToken{}}
	for _, score := range scores {
		t := j.chatToken(score.Token, score.Logprob)
		top := make([]chatToken, len(score.Top))
		for i, x := range score.Top {
			top[i] = j.chatToken(x.Token, x.Logprob)
		}
		t.Top = &top
		l.Content = append(l.Content, t)
	}
	return l
}

func (j *job) chatToken(id int, logprob float64) chatToken {
	text, raw := j.model.tokenText(id)
	t := chatToken{Token: text, Logprob: logprob, Bytes: make([]int, len(raw))}
	for i, c := range raw {
		t.Bytes[i] = int(c)
	}
	return t
}
