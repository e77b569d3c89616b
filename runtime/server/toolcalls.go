package server

import (
	"encoding/json"

	"github.com/lowpack/lowpack/runtime/server/api"
)

// toolCall is a call of a function as it stands in messages.
type toolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function toolFunction `json:"function"`
}

type toolFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// readCalls reads the calls of a message for the template: templates of many models expect the arguments as an object, which
// clients write as a text. Its fields keep their order, which some templates write.
func readCalls(b *api.Body) json.RawMessage {
	type function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	var calls []struct {
		ID       string    `json:"id,omitempty"`
		Type     string    `json:"type"`
		Function *function `json:"function"`
	}
	if !b.Decode("tool_calls", &calls, "a list of calls of functions") || len(calls) == 0 {
		return nil
	}
	for i := range calls {
		f := calls[i].Function
		if f == nil || f.Name == "" {
			b.Fail("tool_calls", "tool_calls[%d]: function.name is missing", i)
			return nil
		}
		calls[i].Type = "function"
		f.Arguments = argumentsOf(f.Arguments)
	}
	text, _ := json.Marshal(calls) // of JSON
	return text
}

// argumentsOf takes arguments out of a text that is a JSON object.
func argumentsOf(raw json.RawMessage) json.RawMessage {
	var (
		text   string
		object map[string]json.RawMessage
	)
	switch {
	case len(raw) == 0:
		return json.RawMessage("{}")
	case json.Unmarshal(raw, &text) != nil: // an object already
		return raw
	case text == "":
		return json.RawMessage("{}")
	case json.Unmarshal([]byte(text), &object) == nil:
		return json.RawMessage(text)
	}
	return raw
}
