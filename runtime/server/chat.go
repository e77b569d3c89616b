package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/lowpack/lowpack/runtime/server/api"
	"github.com/lowpack/lowpack/runtime/server/schedule"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// mostMessages bounds a conversation.
const mostMessages = 4096

// chat is POST /v1/chat/completions.
func (s *Server) chat(w http.ResponseWriter, r *http.Request, m *model, b *api.Body) {
	j := &job{settings: m.readSettings(b), model: m, shape: chatShape{}}
	scores := readChatLogprobs(b)
	b.Int("max_tokens", &j.maxTokens, 1, m.context)
	b.Int("max_completion_tokens", &j.maxTokens, 1, m.context)
	b.Refuse("only text is generated", "audio", "web_search_options")
	b.Refuse("the server does not look for calls of tools in answers", "tools", "functions", "function_call")
	if choice := ""; b.Raw("tool_choice") != nil && (!b.Decode("tool_choice", &choice, "a string, as there are no tools") || choice != "none" && choice != "auto") {
		b.Fail("tool_choice", "tool_choice is not supported: the server does not look for calls of tools in answers")
	}
	b.Accept("parallel_tool_calls", "modalities", "verbosity")
	b.Refuse("the prompt is never part of the answer of a chat", "echo")
	ids := m.readConversation(b)
	if e := b.Err(); e != nil {
		e.Write(w)
		return
	}
	if j.maxTokens < 0 {
		j.maxTokens = max(1, m.context-len(ids))
	}
	q := schedule.Request{Prompt: ids, Logprobs: scores, PromptLogprobs: -1, Salt: saltOf(r)}
	for i := range j.n {
		q.Texts = append(q.Texts, j.text(m, i))
	}
	j.requests = []schedule.Request{q}
	j.head = m.newHead("chatcmpl-", "chat.completion", j.seed)
	s.serve(w, r, j)
}

// readChatLogprobs returns the number of alternatives of each token; −1 = no logprobs.
func readChatLogprobs(b *api.Body) int {
	wanted, top := false, 0
	b.Bool("logprobs", &wanted)
	b.Int("top_logprobs", &top, 0, mostTop)
	switch {
	case wanted:
		return top
	case top > 0:
		b.Fail("top_logprobs", "top_logprobs needs logprobs to be true")
	}
	return -1
}

// readConversation renders the messages with the chat template.
func (m *model) readConversation(b *api.Body) []int {
	messages, o := m.readMessages(b)
	if b.Err() != nil {
		return nil
	}
	ids, err := m.Tokenizer.ChatTokens(messages, o)
	switch {
	case err != nil:
		b.Fail("messages", "messages: %v", err)
	case len(ids) == 0:
		b.Fail("messages", "messages: the chat template gives an empty text")
	}
	return ids
}

// readMessages reads a conversation, and how it is rendered.
func (m *model) readMessages(b *api.Body) ([]tokenizer.Message, tokenizer.ChatOptions) {
	var list []json.RawMessage
	o := m.readChatOptions(b)
	if !b.Decode("messages", &list, "a list of messages") {
		b.Fail("messages", "messages is missing")
		return nil, o
	}
	if len(list) == 0 || len(list) > mostMessages {
		b.Fail("messages", "messages has %d messages: must be between 1 and %d", len(list), mostMessages)
		return nil, o
	}
	messages := make([]tokenizer.Message, len(list))
	for i, raw := range list {
		messages[i] = readMessage(b, i, raw)
	}
	return messages, o
}

// readChatOptions reads how the conversation is rendered.
func (m *model) readChatOptions(b *api.Body) tokenizer.ChatOptions {
	o := tokenizer.ChatOptions{AddGenerationPrompt: true}
	b.Bool("add_generation_prompt", &o.AddGenerationPrompt)
	if goOn := false; b.Bool("continue_final_message", &goOn) && goOn {
		if o.ContinueField = "content"; b.Raw("add_generation_prompt") == nil {
			o.AddGenerationPrompt = false
		}
	}
	var vars map[string]json.RawMessage
	b.Decode("chat_template_kwargs", &vars, "an object")
	if effort := ""; b.String("reasoning_effort", &effort) {
		if vars == nil {
			vars = map[string]json.RawMessage{}
		}
		vars["reasoning_effort"] = b.Raw("reasoning_effort")
	}
	if vars != nil {
		o.Vars, _ = json.Marshal(vars) // of JSON
	}
	o.Documents = b.Raw("documents")
	b.Refuse("the model's own is used", "chat_template")
	return o
}

// roles of messages.
var roles = map[string]string{"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}

// readMessage reads message i.
func readMessage(b *api.Body, i int, raw json.RawMessage) (m tokenizer.Message) {
	inner, e := api.ParseBody(raw)
	if e != nil {
		b.Fail("messages", "messages[%d]: want an object", i)
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
	for _, name := range []string{"name", "tool_call_id", "tool_calls", "reasoning_content"} {
		if v := inner.Raw(name); v != nil {
			more[name] = v
		}
	}
	if content == nil && more["tool_calls"] == nil && role != "assistant" {
		inner.Fail("content", "content is missing")
	}
	if len(more) > 0 {
		more["role"], _ = json.Marshal(m.Role)
		more["content"], _ = json.Marshal(m.Content)
		m.More, _ = json.Marshal(more) // of JSON
	}
	if e := inner.Err(); e != nil {
		b.Fail("messages", "messages[%d]: %s", i, e.Message)
	}
	return m
}

// readContent reads a text, or a list of parts that are texts, which follow one another in lines.
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
		if p.Type != "text" || p.Text == nil {
			b.Fail("content", "part %d of type %.40q is not supported: must be text", i, p.Type)
			return ""
		}
		texts[i] = *p.Text
	}
	return strings.Join(texts, "\n")
}

// chatShape is the shape of chat completions.
type chatShape struct{}

type chatMessage struct {
	Role    string  `json:"role"`
	Content string  `json:"content"`
	Refusal *string `json:"refusal"`
}

type chatChoice struct {
	Index    int           `json:"index"`
	Message  *chatMessage  `json:"message,omitempty"`
	Delta    *chatDelta    `json:"delta,omitempty"`
	Logprobs *chatLogprobs `json:"logprobs"`
	Reason   *string       `json:"finish_reason"`
}

type chatDelta struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

type chatLogprobs struct {
	Content []chatToken `json:"content"`
	Refusal *string     `json:"refusal"`
}

// chatToken is a token with its alternatives, which themselves have none.
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
		a.Choices[i] = chatChoice{Index: i, Message: &chatMessage{Role: "assistant", Content: c.text.String()}, Logprobs: j.chatLogprobs(c.scores), Reason: &c.reason}
	}
	return a
}

// frame is a chunk with what is new of one choice.
func (j *job) frame(s *api.Stream, c chatChoice) {
	h := j.head
	h.Object = "chat.completion.chunk"
	s.Send(chatAnswer{head: h, Choices: []chatChoice{c}})
}

func (chatShape) begin(j *job, s *api.Stream, c *choice) {
	j.frame(s, chatChoice{Index: c.index, Delta: &chatDelta{Role: "assistant", Content: new(string)}})
}

func (chatShape) piece(j *job, s *api.Stream, c *choice, p part) {
	f := chatChoice{Index: c.index, Delta: &chatDelta{Content: &p.text}}
	if p.scores != nil {
		f.Logprobs = j.chatLogprobs(p.scores)
	}
	j.frame(s, f)
}

func (chatShape) end(j *job, s *api.Stream, c *choice) {
	j.frame(s, chatChoice{Index: c.index, Delta: &chatDelta{}, Reason: &c.reason})
}

func (chatShape) total(j *job, s *api.Stream, u *usage) {
	h := j.head
	h.Object = "chat.completion.chunk"
	s.Send(chatAnswer{head: h, Choices: []chatChoice{}, Usage: u})
}

// chatLogprobs lists tokens with their logprobs; nil where nobody asked.
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
