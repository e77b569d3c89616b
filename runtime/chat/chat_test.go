package chat_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/runtime/chat"
)

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func readJSON(t testing.TB, path string, v any) {
	t.Helper()
	if err := json.Unmarshal(readFile(t, path), v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func template(t testing.TB, source []byte) *chat.Template {
	t.Helper()
	parsed, err := chat.Parse(string(source))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// message parses a message as it is written in a file.
func message(t *testing.T, raw json.RawMessage) chat.Message {
	t.Helper()
	var m chat.Message
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	m.More = raw
	return m
}

// TestRenderings: real templates, compared with renderings by Python.
func TestRenderings(t *testing.T) {
	var golden struct {
		Cases []struct {
			BOS      string `json:"bos_token"`
			EOS      string `json:"eos_token"`
			Prompt   bool   `json:"add_generation_prompt"`
			Messages []json.RawMessage
			Tools    json.RawMessage
		}
		Expected map[string]string
	}
	readJSON(t, shared.Path(t, "data/chat-templates/expected.json"), &golden)
	now := func() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }
	for name, want := range golden.Expected {
		file, number, _ := strings.Cut(name, "#")
		c := golden.Cases[number[0]-'0']
		tokens := map[string]string{"bos_token": c.BOS, "eos_token": c.EOS}
		var messages []chat.Message
		for _, raw := range c.Messages {
			messages = append(messages, message(t, raw))
		}
		got, err := template(t, readFile(t, shared.Path(t, "data/chat-templates/"+file))).
			Render(messages, tokens, chat.Options{AddGenerationPrompt: c.Prompt, Tools: c.Tools, Now: now})
		if err != nil || got.S != want {
			t.Errorf("%s\ngot  %q, %v\nwant %q", name, got.S, err, want)
		}
	}
	if len(golden.Expected) != 24 {
		t.Errorf("%d renderings", len(golden.Expected))
	}
}

// TestTools: with tools and tool calls every template of the collection either renders or says why not; its output
// holds the tools in the order in which they are written.
func TestTools(t *testing.T) {
	tools := []byte(`[{"type":"function","function":{"name":"get_weather","description":"Get \"weather\" é","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}]`)
	messages := []chat.Message{
		{Role: "user", Content: "Hi"},
		{Role: "assistant",
			More: []byte(`{"content":"","tool_calls":[{"type":"function","function":{"name":"get_weather","arguments":{"unit":"C","city":"Paris"}}}]}`)},
		{Role: "tool", Content: `{"t": 12}`},
	}
	for name, want := range map[string]string{
		"Qwen-Qwen2.5-7B-Instruct.jinja": "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a " +
			"helpful " +
			"assistant.\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are " +
			"provided with function signatures within <tools></tools> XML tags:\n<tools>\n{\"type\": \"function\", " +
			"\"function\": {\"name\": \"get_weather\", \"description\": \"Get \\\"weather\\\" é\", \"parameters\": " +
			"{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\"}}, \"required\": " +
			"[\"city\"]}}}\n</tools>",
		"Qwen-Qwen3-0.6B.jinja": "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"unit\": \"C\", " +
			"\"city\": \"Paris\"}}\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\n{\"t\": " +
			"12}\n</tool_response><|im_end|>\n",
		"meta-llama-Llama-3.2-3B-Instruct.jinja": "{\n    \"type\": \"function\",\n    \"function\": {\n        " +
			"\"name\": " +
			"\"get_weather\",\n        \"description\": \"Get \\\"weather\\\" é\",\n        \"parameters\": {\n",
		"bitnet-2B4T.jinja": "Tool: {\"t\": 12}<|eot_id|>",
	} {
		parsed := template(t, readFile(t, shared.Path(t, "data/chat-templates/"+name)))
		got, err := parsed.Render(messages, nil, chat.Options{Tools: tools, Now: time.Now})
		if err != nil || !strings.Contains(got.S, want) {
			t.Errorf("%s\ngot  %q, %v\nwant %q", name, got.S, err, want)
		}
	}
}
