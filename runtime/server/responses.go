package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/lowpack/lowpack/runtime/server/internal/api"
	"github.com/lowpack/lowpack/runtime/server/schedule"
)

// responses handles POST /v1/responses. Nothing is stored: each request contains the whole conversation.
func (s *Server) responses(w http.ResponseWriter, r *http.Request, m *model, b *api.Body) {
	j := &job{settings: m.readSettings(b), model: m}
	b.Int("max_output_tokens", &j.maxTokens, 1, m.context)
	b.Refuse("the server stores nothing between requests; send the whole conversation as input", "previous_response_id",
		"conversation", "background")
	b.Refuse("only instructions and input are rendered", "prompt", "messages")
	if cut := ""; b.String("truncation", &cut) && cut != "disabled" {
		b.Fail("truncation", "truncation %.40q is not supported: must be disabled", cut)
	}
	if j.n != 1 {
		b.Fail("n", "n is %d: must be 1", j.n)
	}
	b.Accept("max_tool_calls", "context_management")
	j.readTextFormat(b)
	scores := readResponseLogprobs(b)
	j.offer(j.readTools(b, responseTools(b)))
	ids := j.readInput(b)
	ids = j.prompt(ids)
	j.readReasoning(b, ids)
	if e := b.Err(); e != nil {
		e.Write(w)
		return
	}
	j.requests = []schedule.Request{j.request(ids, scores, r)}
	j.head = m.newHead("resp_", "response", &j.settings)
	j.shape = newResponseShape(j, b)
	b.Close()
	s.serve(w, r, j)
}

// readTextFormat reads text.format, which is response_format with the schema one level up.
func (j *job) readTextFormat(b *api.Body) {
	var text struct {
		Format *struct {
			Type   string          `json:"type"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	}
	if !b.Decode("text", &text, "an object with a format") || text.Format == nil {
		return
	}
	switch f := text.Format; {
	case f.Type == "text":
	case f.Type == "json_object":
		j.useSchema(b, j.model, "text", nil)
	case f.Type == "json_schema" && f.Schema == nil:
		b.Fail("text", "text.format: schema is missing")
	case f.Type == "json_schema":
		j.useSchema(b, j.model, "text", f.Schema)
	default:
		b.Fail("text", "text.format of type %.40q: must be one of text, json_object, json_schema", f.Type)
	}
}

// includeLogprobs in include requests logprobs. Other values of include concern items that lowpack never returns.
const includeLogprobs = "message.output_text.logprobs"

// readResponseLogprobs returns the number of alternatives per token, 0 to maxTop; −1 = no logprobs.
func readResponseLogprobs(b *api.Body) int {
	var include []string
	b.Decode("include", &include, "a list of strings")
	top := 0
	b.Int("top_logprobs", &top, 0, maxTop)
	switch {
	case slices.Contains(include, includeLogprobs):
		return top
	case top > 0:
		b.Unsupported("top_logprobs", "top_logprobs needs %q in include", includeLogprobs)
	}
	return -1
}

// response is the response object; it also starts and ends a stream.
type response struct {
	ID          string         `json:"id"`
	Object      string         `json:"object"`
	Created     int64          `json:"created_at"`
	Status      string         `json:"status"`
	Error       *responseError `json:"error"`
	Incomplete  *incomplete    `json:"incomplete_details"`
	Model       string         `json:"model"`
	Fingerprint string         `json:"system_fingerprint"`
	Seed        int64          `json:"seed"` // reproduces the output
	Temperature float32        `json:"temperature"`
	TopP        float32        `json:"top_p"`
	MaxTokens   int            `json:"max_output_tokens"`
	Store       bool           `json:"store"` // always false: nothing is stored
	Background  bool           `json:"background"`
	Truncation  string         `json:"truncation"`
	Previous    *string        `json:"previous_response_id"`
	Output      []responseItem `json:"output"`
	Usage       *responseUsage `json:"usage"`

	// Copied from the request.
	Instructions json.RawMessage `json:"instructions"`
	Metadata     json.RawMessage `json:"metadata"`
	Reasoning    json.RawMessage `json:"reasoning"`
	Text         json.RawMessage `json:"text"`
	Tools        json.RawMessage `json:"tools"`
	ToolChoice   json.RawMessage `json:"tool_choice"`
	Parallel     json.RawMessage `json:"parallel_tool_calls"`
	User         json.RawMessage `json:"user"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type incomplete struct {
	Reason string `json:"reason"`
}

// responseItem is an item of the output: a thought, a message or a function call.
type responseItem struct {
	ID      string      `json:"id"`
	Type    string      `json:"type"`
	Status  string      `json:"status"`
	Role    string      `json:"role,omitempty"`
	Summary *[]struct{} `json:"summary,omitempty"` // empty, in a thought
	Content *[]any      `json:"content,omitempty"` // a responseText or responseThought; empty while in progress

	CallID    string  `json:"call_id,omitempty"`
	Name      string  `json:"name,omitempty"`
	Arguments *string `json:"arguments,omitempty"`
}

type responseText struct {
	Type        string      `json:"type"`
	Text        string      `json:"text"`
	Annotations []struct{}  `json:"annotations"`
	Logprobs    []chatToken `json:"logprobs"`
}

type responseThought struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type responseUsage struct {
	Input        int `json:"input_tokens"`
	InputDetails struct {
		Cached int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	Output        int `json:"output_tokens"`
	OutputDetails struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	Total int `json:"total_tokens"`
}

// Status values of responses and items.
const (
	inProgress   = "in_progress"
	completed    = "completed"
	isIncomplete = "incomplete"
)

// responseShape builds responses.
type responseShape struct {
	response
	frames int                // number of frames sent
	open   []int              // started items of the stream: indices of calls, itemMessage, itemThought
	scores []schedule.Logprob // of tokens before the next text of the message
}

// newResponseShape copies from the request what the response repeats.
func newResponseShape(j *job, b *api.Body) *responseShape {
	said := func(name, otherwise string) json.RawMessage {
		if raw := b.Raw(name); raw != nil {
			return slices.Clone(raw) // the body is released before
		}
		return json.RawMessage(otherwise)
	}
	return &responseShape{response: response{
		ID: j.head.ID, Object: j.head.Object, Created: j.head.Created, Status: inProgress, Model: j.head.Model,
		Fingerprint:  j.head.Fingerprint,
		Seed:         j.head.Seed,
		Temperature:  j.sampling.Temperature,
		TopP:         j.sampling.TopP,
		MaxTokens:    j.maxTokens,
		Truncation:   "disabled",
		Output:       []responseItem{},
		Instructions: said("instructions", "null"),
		Metadata:     said("metadata", "{}"),
		Reasoning:    said("reasoning", `{"effort":null,"summary":null}`),
		Text:         said("text", `{"format":{"type":"text"}}`),
		Tools:        said("tools", "[]"),
		ToolChoice:   said("tool_choice", `"auto"`),
		Parallel:     said("parallel_tool_calls", "true"),
		User:         said("user", "null"),
	}}
}

// Besides indices of calls, lists of items hold the message and the thought.
const (
	itemMessage = -1
	itemThought = -2
)

// item returns an item with the given status; in progress, its content is still empty.
func (r *responseShape) item(j *job, c *choice, which int, status string) responseItem {
	hex := r.ID[len("resp_"):]
	if which < 0 {
		item := responseItem{ID: "msg_" + hex, Type: "message", Status: status, Role: "assistant", Content: &[]any{}}
		if which == itemThought {
			item = responseItem{ID: "rs_" + hex, Type: "reasoning", Status: status, Summary: &[]struct{}{},
				Content: &[]any{}}
		}
		if status != inProgress {
			*item.Content = append(*item.Content, j.content(c, which))
		}
		return item
	}
	call, arguments := c.calls[which], ""
	if status != inProgress {
		arguments = call.Function.Arguments
	}
	return responseItem{ID: fmt.Sprintf("fc_%s_%d", hex, which), Type: "function_call", Status: status, CallID: call.ID,
		Name: call.Function.Name, Arguments: &arguments}
}

// content returns the content of a thought or message.
func (j *job) content(c *choice, which int) any {
	if which == itemThought {
		return responseThought{"reasoning_text", c.thought.String()}
	}
	return j.responseText(c.text.String(), c.scores)
}

// items lists the items of a choice in the order in which they started; at least one.
func (c *choice) items() (list []int) {
	for i := range c.calls {
		list = append(list, i)
	}
	thought := c.thought.Len() > 0
	if c.text.Len() > 0 || len(c.calls) == 0 && !thought {
		list = slices.Insert(list, c.before, itemMessage)
	}
	if thought {
		list = slices.Insert(list, 0, itemThought)
	}
	return list
}

func (j *job) responseText(text string, scores []schedule.Logprob) responseText {
	t := responseText{Type: "output_text", Text: text, Annotations: []struct{}{}, Logprobs: []chatToken{}}
	if l := j.chatLogprobs(scores); l != nil {
		t.Logprobs = l.Content
	}
	return t
}

// ended returns the finished response.
func (r *responseShape) ended(j *job, c *choice, u *usage) response {
	answer := r.response
	answer.Usage = &responseUsage{Input: u.Prompt, Output: u.Completion, Total: u.Total}
	answer.Usage.InputDetails.Cached = u.Details.Cached
	answer.Usage.OutputDetails.Reasoning = c.reasoned
	if answer.Status = completed; c.reason == "length" {
		answer.Status, answer.Incomplete = isIncomplete, &incomplete{"max_output_tokens"}
	}
	for _, which := range c.items() {
		answer.Output = append(answer.Output, r.item(j, c, which, answer.Status))
	}
	return answer
}

func (r *responseShape) whole(j *job, all []*choice, u *usage) any { return r.ended(j, all[0], u) }

// send sends an event with the next sequence number.
func (r *responseShape) send(s *api.Stream, event string, fields map[string]any) {
	fields["type"], fields["sequence_number"] = event, r.frames
	r.frames++
	s.SendEvent(event, fields)
}

// sendItem sends an event about an item.
func (r *responseShape) sendItem(s *api.Stream, event string, at int, item responseItem, fields map[string]any) {
	fields["item_id"], fields["output_index"] = item.ID, at
	if item.Content != nil {
		fields["content_index"] = 0
	}
	r.send(s, event, fields)
}

func (r *responseShape) begin(_ *job, s *api.Stream, _ *choice) {
	r.send(s, "response.created", map[string]any{"response": r.response})
	r.send(s, "response.in_progress", map[string]any{"response": r.response})
}

// opened starts an item unless it is started already, and returns its index in the output.
func (r *responseShape) opened(j *job, s *api.Stream, c *choice, which int) (int, responseItem) {
	item := r.item(j, c, which, inProgress)
	if at := slices.Index(r.open, which); at >= 0 {
		return at, item
	}
	at := len(r.open)
	r.open = append(r.open, which)
	r.send(s, "response.output_item.added", map[string]any{"output_index": at, "item": item})
	if which < 0 {
		r.sendItem(s, "response.content_part.added", at, item, map[string]any{"part": j.content(&choice{}, which)})
	}
	return at, item
}

func (r *responseShape) piece(j *job, s *api.Stream, c *choice, p part) {
	if p.thought != "" {
		at, item := r.opened(j, s, c, itemThought)
		r.sendItem(s, "response.reasoning_text.delta", at, item, map[string]any{"delta": p.thought})
	}
	r.scores = append(r.scores, p.scores...)
	if p.text != "" || j.tools == nil && r.scores != nil && slices.Contains(r.open, itemMessage) {
		at, item := r.opened(j, s, c, itemMessage)
		t := j.responseText(p.text, r.scores)
		r.scores = nil
		r.sendItem(s, "response.output_text.delta", at, item, map[string]any{"delta": t.Text, "logprobs": t.Logprobs})
	}
	for _, d := range p.calls {
		at, item := r.opened(j, s, c, d.index)
		if d.arguments != "" {
			r.sendItem(s, "response.function_call_arguments.delta", at, item, map[string]any{"delta": d.arguments})
		}
	}
}

func (r *responseShape) end(*job, *api.Stream, *choice) {}

func (r *responseShape) last(j *job, s *api.Stream, all []*choice, u *usage) {
	c := all[0]
	answer := r.ended(j, c, u)
	for i, which := range c.items() {
		at, _ := r.opened(j, s, c, which)
		item := answer.Output[i]
		r.sendDone(s, at, item)
		r.send(s, "response.output_item.done", map[string]any{"output_index": at, "item": item})
	}
	r.send(s, "response."+answer.Status, map[string]any{"response": answer})
}

// sendDone sends the events with which the content of an item ends.
func (r *responseShape) sendDone(s *api.Stream, at int, item responseItem) {
	if item.Content == nil {
		r.sendItem(s, "response.function_call_arguments.done", at, item,
			map[string]any{"name": item.Name, "arguments": *item.Arguments})
		return
	}
	part := (*item.Content)[0]
	switch part := part.(type) {
	case responseText:
		r.sendItem(s, "response.output_text.done", at, item,
			map[string]any{"text": part.Text, "logprobs": part.Logprobs})
	case responseThought:
		r.sendItem(s, "response.reasoning_text.done", at, item, map[string]any{"text": part.Text})
	}
	r.sendItem(s, "response.content_part.done", at, item, map[string]any{"part": part})
}

func (r *responseShape) fail(_ *job, s *api.Stream, e *api.Error) {
	answer := r.response
	answer.Status, answer.Error = "failed", &responseError{e.Type, e.Message}
	r.send(s, "response.failed", map[string]any{"response": answer})
}
