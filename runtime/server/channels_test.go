package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// harmonyTemplate writes conversations as that of gpt-oss does, as far as the tests see.
const harmonyTemplate = `{% for t in tools or [] %}{{ t.function.name }}{% endfor %}` +
	`{% for m in messages %}{{ '<|start|>' ~ m.role }}{% if m.tool_calls %}{% set c = m.tool_calls[0].function %}` +
	`{% if m.thinking %}{{ '<|channel|>analysis<|message|>' ~ m.thinking ~ '<|end|><|start|>assistant' }}{% endif %}` +
	`{{ ' to=functions.' ~ c.name ~ '<|channel|>commentary json<|message|>' ~ c.arguments | tojson ~ '<|call|>' }}` +
	`{% else %}{{ '<|message|>' ~ m.content ~ '<|end|>' }}{% endif %}{% endfor %}` +
	`{% if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}`

// Tokens of serveChannels.
const (
	startID = 2555 + iota
	channelID
	messageID
	constrainID
	endID
)

// serveChannels starts a server of the bundled model with the control tokens of harmony.
func serveChannels(t *testing.T, template string) *httptest.Server {
	t.Helper()
	return serveNames(t, template, map[string]string{
		"<|reserved_special_token_0|>": "<|start|>", "<|reserved_special_token_1|>": "<|channel|>",
		"<|reserved_special_token_2|>": "<|message|>", "<|reserved_special_token_3|>": "<|constrain|>",
		"<|reserved_special_token_4|>": "<|end|>", "<|eot_id|>": "<|call|>", "<|end_of_text|>": "<|return|>",
	}, true)
}

// TestChannels: messages in the analysis channel are in reasoning_content, all others in the content, whole and as a
// stream; reasoning_format none leaves everything in the content, with the control tokens.
func TestChannels(t *testing.T) {
	web := serveChannels(t, strings.Replace(harmonyTemplate, "'<|start|>assistant' }}{% endif %}",
		"'<|start|>assistant<|channel|>analysis<|message|>' }}{% endif %}", 2))
	answers, outputs := 0, []string{}
	for seed := range 8 {
		body := fmt.Sprintf(`{"messages": [{"role": "user", "content": "Hi"}], "seed": %d, "temperature": 1.4,
			"max_tokens": 40, "logit_bias": {"%d": 21, "%d": -100, "%d": -100, "%d": -100, "%d": -100}`, seed, endID,
			startID, channelID, messageID, constrainID)
		_, _, raw := post(t, web, "/v1/chat/completions", body+`, "reasoning_format": "none"}`)
		output, _ := at(object(t, raw), "choices", 0, "message", "content").(string)
		outputs = append(outputs, output)
		thought, rest, _ := strings.Cut(output, "<|end|>")
		var parts []string
		for part := range strings.SplitSeq(rest, "<|end|>") {
			if strings.Trim(part, blank) != "" {
				parts = append(parts, part)
			}
		}
		answer := strings.Join(parts, "\n")
		_, _, text := post(t, web, "/v1/chat/completions", body+"}")
		message := at(object(t, text), "choices", 0, "message")
		if said, _ := at(message, "reasoning_content").(string); said != thought || at(message, "content") != answer {
			t.Fatalf("%s\n%s", text, raw)
		}
		if thought != "" && !strings.Contains(text, `"reasoning_tokens"`) {
			t.Errorf("no tokens of a thought: %s", text)
		}
		_, _, stream := post(t, web, "/v1/chat/completions", body+`, "stream": true}`)
		if a, b := deltas(t, stream, "reasoning_content"), deltas(t, stream, "content"); a != thought || b != answer {
			t.Errorf("%q and %q, want %q and %q", a, b, thought, answer)
		}
		if thought != "" && answer != "" {
			answers++
		}
	}
	if answers == 0 {
		t.Errorf("no thought with an answer: %q", outputs)
	}
}

// TestChannelCalls: a call of a function that must be called begins in the prompt, and its arguments satisfy the
// schema.
func TestChannelCalls(t *testing.T) {
	web := serveChannels(t, harmonyTemplate)
	const ask = `{"messages": [{"role": "user", "content": "Hi"}], "seed": 1, "max_tokens": 60, "temperature": 1, ` +
		`"tools": [{"type": "function", "function": {"name": "set", "strict": true, "parameters": {"type": "object",
		"properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": false}}}`
	const named = `], "tool_choice": {"type": "function", "function": {"name": "set"}}`
	_, _, text := post(t, web, "/v1/chat/completions", ask+named+"}")
	choice := at(object(t, text), "choices", 0)
	calls, _ := at(choice, "message", "tool_calls").([]any)
	if len(calls) != 1 || at(choice, "finish_reason") != "tool_calls" || at(choice, "message", "content") != nil {
		t.Fatalf("%s", text)
	}
	var arguments struct{ N int }
	said, _ := at(calls[0], "function", "arguments").(string)
	if err := json.Unmarshal([]byte(said), &arguments); err != nil || arguments.N < 1 || arguments.N > 2 {
		t.Errorf("%s: %v", said, err)
	}
	compareCalls(t, web, ask+named, calls)

	const other = `, {"type": "function", "function": {"name": "stop"}}`
	for _, c := range []struct{ more, want string }{
		{`]`, "strict is not supported"},
		{other + `], "tool_choice": "required"`, "required with 2 functions"},
		{other + named, ""},
		{`], "tool_choice": "required"`, ""},
	} {
		status, _, text := post(t, web, "/v1/chat/completions", ask+c.more+"}")
		if want := http.StatusBadRequest; c.want != "" && (status != want || !strings.Contains(text, c.want)) ||
			c.want == "" && (status != http.StatusOK || !strings.Contains(text, `"name":"set"`)) {
			t.Errorf("%s: %d %s", c.more, status, text)
		}
	}
}

// TestChannelFormat: an answer with a format begins in the prompt, on the final channel.
func TestChannelFormat(t *testing.T) {
	web := serveChannels(t, harmonyTemplate)
	const ask = `{"messages": [{"role": "user", "content": "Hi"}], "seed": 1, "max_tokens": 9`
	_, _, free := post(t, web, "/v1/chat/completions", ask+"}")
	_, _, text := post(t, web, "/v1/chat/completions", ask+`, "guided_regex": "yes|no"}`)
	content, _ := at(object(t, text), "choices", 0, "message", "content").(string)
	if content != "yes" && content != "no" {
		t.Errorf("%s", text)
	}
	length := func(text string) json.Number {
		n, _ := at(object(t, text), "usage", "prompt_tokens").(json.Number)
		return n
	}
	_, _, same := post(t, web, "/tokenize",
		`{"content": "<|start|>user<|message|>Hi<|end|><|start|>assistant<|channel|>final<|message|>"}`)
	if n, _ := at(object(t, same), "count").(json.Number); length(text) != n || length(free) == n {
		t.Errorf("prompts of %s and %s tokens: want %s with a format\n%s", length(free), length(text), n, same)
	}
}

// TestChannelHistory: thoughts before a call reach the chat template of gpt-oss under the name that it reads.
func TestChannelHistory(t *testing.T) {
	web := serveChannels(t, harmonyTemplate)
	const call = `"tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{}"}}]`
	for _, c := range []struct{ message, want string }{
		{`"content": "", "reasoning_content": "Hm.", ` + call, "<|channel|>analysis<|message|>Hm.<|end|>"},
		{`"content": "Yes.", "reasoning_content": "Hm."`, "<|start|>assistant<|message|>Yes.<|end|>"},
	} {
		_, _, text := post(t, web, "/apply-template", `{"messages": [{"role": "user", "content": "Hi"},
			{"role": "assistant", `+c.message+`}]}`)
		if prompt, _ := at(object(t, text), "prompt").(string); !strings.Contains(prompt, c.want) {
			t.Errorf("%s: %s", c.message, text)
		}
	}
}
