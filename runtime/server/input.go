package server

import (
	"encoding/json"
	"strings"

	"github.com/lowpack/lowpack/runtime/chat"
	"github.com/lowpack/lowpack/runtime/server/internal/api"
)

// readInput renders instructions and input with the chat template.
func (j *job) readInput(b *api.Body) []int {
	var messages []chat.Message
	var reasoning struct {
		Effort json.RawMessage `json:"effort"`
	}
	b.Decode("reasoning", &reasoning, "an object")
	o := j.model.readChatOptions(b, reasoning.Effort)
	o.Tools = j.tools.shown()
	if text := ""; b.String("instructions", &text) {
		messages = append(messages, chat.Message{Role: "system", Content: text})
	}
	switch raw := b.Raw("input"); {
	case raw == nil:
		b.Fail("input", "input is missing")
	case raw[0] == '"':
		text := ""
		b.String("input", &text)
		messages = append(messages, chat.Message{Role: "user", Content: text})
	default:
		messages = append(messages, readItems(b)...)
	}
	return j.model.render(b, "input", messages, o)
}

// readItems reads a list of items: messages, calls of functions and what these returned.
func readItems(b *api.Body) (messages []chat.Message) {
	var list []json.RawMessage
	if !b.Decode("input", &list, "a string or a list of items") {
		return nil
	}
	if len(list) == 0 || len(list) > maxMessages {
		b.Fail("input", "input has %d items: must be between 1 and %d", len(list), maxMessages)
		return nil
	}
	var (
		last  chatItem   // the last message, if it is the assistant's: calls are added to it
		calls []toolCall // calls to add to last
	)
	join := func(i int) { // once for all calls of a message, which can be thousands
		if len(calls) > 0 {
			last.call(calls)
			messages[len(messages)-1], calls = readChatItem(b, i, last), nil
		}
	}
	var thought json.RawMessage // of the assistant message that follows
	for i, raw := range list {
		message, call, e := readItem(raw)
		if e != nil {
			b.Fail("input", "input[%d]: %s", i, e.Message)
		}
		if b.Err() != nil {
			return nil
		}
		if text, ok := message.thought(); ok {
			join(i)
			last, thought = nil, text
			continue
		}
		if call == nil || last == nil {
			join(i)
			if last = nil; message.is("assistant") {
				last = message
				last.think(thought)
			}
			messages, thought = append(messages, readChatItem(b, i, message)), nil
		}
		if call != nil { // calls belong to the assistant message before them
			if calls = append(calls, *call); call.Function.Name == "" {
				join(i) // fails
			}
		}
	}
	join(len(list) - 1)
	return messages
}

// chatItem is an item as a chat message, with the fields as in the request.
type chatItem map[string]json.RawMessage

// newChatItem returns a message with a role and one more field.
func newChatItem(role, name string, value json.RawMessage) chatItem {
	return chatItem{"role": jsonOf(role), name: value}
}

// is reports whether the message has the given role.
func (c chatItem) is(role string) bool {
	own := ""
	return json.Unmarshal(c["role"], &own) == nil && own == role
}

// thought returns the text of a reasoning item.
func (c chatItem) thought() (text json.RawMessage, ok bool) {
	return c[reasoningContent], string(c["type"]) == `"reasoning"`
}

// think adds a thought to a message, unless it has one or there is none.
func (c chatItem) think(thought json.RawMessage) {
	if c[reasoningContent] == nil && thought != nil {
		c[reasoningContent] = thought
	}
}

// call appends calls to the tool_calls of the message.
func (c chatItem) call(calls []toolCall) {
	var own []json.RawMessage
	json.Unmarshal(c["tool_calls"], &own) // cannot fail: the message was read before
	for i := range calls {
		own = append(own, jsonOf(calls[i]))
	}
	c["tool_calls"] = jsonOf(own)
}

// jsonOf marshals a value of this package or raw JSON.
func jsonOf(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// readChatItem reads the message of a chat that an item is.
func readChatItem(b *api.Body, i int, message chatItem) chat.Message {
	return readMessage(b, "input", i, jsonOf(message))
}

// inputItem holds the fields of items that are not messages.
type inputItem struct {
	Type      string          `json:"type"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
}

// readItem reads an item as a chat message. A function call is returned separately, with an empty assistant message.
func readItem(raw json.RawMessage) (message chatItem, call *toolCall, e *api.Error) {
	var item inputItem
	if api.Unmarshal(raw, &item) != nil || json.Unmarshal(raw, &message) != nil {
		return nil, nil, api.Invalid("", "want an object")
	}
	switch item.Type {
	case "", "message":
		return message, nil, nil
	case "function_call":
		call = &toolCall{ID: item.CallID, Type: "function", Function: toolFunction{item.Name, item.Arguments}}
		return newChatItem("assistant", "content", nil), call, nil
	case "function_call_output":
		message = newChatItem("tool", "content", item.Output)
		message["tool_call_id"] = jsonOf(item.CallID)
		return message, nil, nil
	case "reasoning":
		return readThought(raw)
	}
	return nil, nil, api.Invalid("", "an item of type %.40q is not supported: must be one of message, reasoning, "+
		"function_call, function_call_output", item.Type)
}

// readThought reads a reasoning item: its text or, where the server that made it keeps that secret, its summary.
func readThought(raw json.RawMessage) (message chatItem, call *toolCall, e *api.Error) {
	type part struct {
		Text string `json:"text"`
	}
	var item struct {
		Content []part `json:"content"`
		Summary []part `json:"summary"`
	}
	if api.Unmarshal(raw, &item) != nil {
		return nil, nil, api.Invalid("", "content and summary: want lists of parts with a text")
	}
	if item.Content == nil {
		item.Content = item.Summary
	}
	texts := make([]string, len(item.Content))
	for i, p := range item.Content {
		texts[i] = p.Text
	}
	return chatItem{"type": jsonOf("reasoning"), reasoningContent: jsonOf(strings.Join(texts, "\n"))}, nil, nil
}
