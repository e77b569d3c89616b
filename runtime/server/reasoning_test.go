package server

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// marks are written by the model of these tests as one token each, in the place of special tokens of the bundled one.
var marks = []string{"<think>", "</think>", "<tool_call>"}

// serveThinking starts a server of the bundled model with tokens for the marks.
func serveThinking(t *testing.T, template string) *httptest.Server {
	t.Helper()
	names := map[string]string{}
	for i, mark := range marks {
		names[fmt.Sprintf("<|reserved_special_token_%d|>", i)] = mark
	}
	return serveNames(t, template, names, false)
}

// serveNames starts a server of the bundled model, whose special tokens get other names.
func serveNames(t *testing.T, template string, names map[string]string, special bool) *httptest.Server {
	t.Helper()
	m := tiny(t, "tiny", small)
	embedded := m.File.Embedded
	files := func(name string) ([]byte, bool) {
		data, ok := embedded(name)
		for old, name := range names {
			token := regexp.MustCompile(`("content": *"` + regexp.QuoteMeta(old) + `"[^}]*"special": *)true`)
			data = token.ReplaceAll(data, fmt.Appendf(nil, "${1}%v", special))
			data = bytes.ReplaceAll(data, []byte(old), []byte(name))
		}
		return data, ok
	}
	m.Load = func() (*tokenizer.Tokenizer, *engine.Engine, error) {
		tok, err := tokenizer.Load(files)
		if err != nil {
			return nil, nil, err
		}
		if err := tok.SetTemplate(template); err != nil {
			return nil, nil, err
		}
		e, err := engine.New(m.File, m.Engine)
		return tok, e, err
	}
	_, web := serveOf(t, m, Options{Queue: 10})
	return web
}

// openTemplate ends with the mark that opens the thoughts.
var openTemplate = strings.Replace(hermesTemplate, "assistant: {% endif %}", `assistant: <think>{{ "\n" }}{% endif %}`, 1)

// biased makes the model write marks now and then.
const biased = `"temperature": 1.4, "max_tokens": 24, "logit_bias": {"2555": 20, "2556": 18}`

// split is what clients should get of an output.
func split(output string, opened bool) (thought, content string) {
	rest, found := strings.CutPrefix(strings.TrimLeft(output, " \t\r\n"), "<think>")
	if !found && !opened {
		return "", output
	}
	thought, content, _ = strings.Cut(rest, "</think>")
	if !found {
		thought, content, _ = strings.Cut(output, "</think>")
	}
	return strings.Trim(thought, " \t\r\n"), strings.TrimLeft(content, " \t\r\n")
}

// deltas joins what a stream of one choice says of a field.
func deltas(t *testing.T, stream, field string) (joined string) {
	t.Helper()
	for _, f := range frames(t, stream) {
		text, _ := at(f, "choices", 0, "delta", field).(string)
		joined += text
	}
	return joined
}

// TestReasoning: thoughts are in reasoning_content, whole and as a stream, also if the template opens them;
// reasoning_format none leaves them in the content, and an answer with a format is content as a whole.
func TestReasoning(t *testing.T) {
	for name, template := range map[string]string{"written": hermesTemplate, "opened": openTemplate} {
		web := serveThinking(t, template)
		thoughts, answers, unthought := 0, 0, 0
		for seed := range 16 {
			body := fmt.Sprintf(`{"messages": [{"role": "user", "content": "Hi"}], "seed": %d, `+biased, seed)
			_, _, raw := post(t, web, "/v1/chat/completions", body+`, "reasoning_format": "none"}`)
			output, _ := at(object(t, raw), "choices", 0, "message", "content").(string)
			thought, content := split(output, name == "opened")
			_, _, text := post(t, web, "/v1/chat/completions", body+"}")
			message := at(object(t, text), "choices", 0, "message")
			said, _ := at(message, "reasoning_content").(string)
			if said != thought || at(message, "content") != content || strings.Contains(raw, "reasoning") {
				t.Fatalf("%s: %s\n%s", name, text, raw)
			}
			if counted := strings.Contains(text, `"reasoning_tokens"`); thought != "" && !counted ||
				output == content && counted {
				t.Errorf("%s: %s", name, text)
			}
			_, _, scored := post(t, web, "/v1/chat/completions", body+`, "logprobs": true}`)
			_, _, stream := post(t, web, "/v1/chat/completions", body+`, "stream": true, "logprobs": true}`)
			a, b := deltas(t, stream, "reasoning_content"), deltas(t, stream, "content")
			if a != thought || b != content {
				t.Errorf("%s: %q and %q, want %q and %q", name, a, b, thought, content)
			}
			if a, b := strings.Count(stream, `"token":`), strings.Count(scored, `"token":`); a != b || a == 0 {
				t.Errorf("%s: logprobs of %d tokens, %d in the stream", name, b, a)
			}
			switch {
			case thought == "":
				unthought++
			case content == "":
				thoughts++
			default:
				answers++
			}
		}
		if answers == 0 || name == "written" && unthought == 0 {
			t.Errorf("%s: %d thoughts, %d with an answer, %d answers", name, thoughts, answers, unthought)
		}
		_, _, text := post(t, web, "/v1/chat/completions",
			`{"messages": [{"role": "user", "content": "Hi"}], "seed": 1, "guided_regex": "<think>a</think>b"}`)
		if at(object(t, text), "choices", 0, "message", "content") != "<think>a</think>b" {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestReasoningCalls: functions are called after thinking, and a thought is not a call.
func TestReasoningCalls(t *testing.T) {
	web := serveThinking(t, openTemplate)
	called := 0
	for seed := range 12 {
		body := fmt.Sprintf(`{"messages": [{"role": "user", "content": "Hi"}], "seed": %d, "temperature": 1.4,
			"max_tokens": 120, "logit_bias": {"2556": 18, "2557": 17}, "tools": [{"type": "function",
			"function": {"name": "stop", "strict": true, "parameters": {"type": "object", "properties": {},
			"additionalProperties": false}}}]`, seed)
		_, _, text := post(t, web, "/v1/chat/completions", body+"}")
		message := at(object(t, text), "choices", 0, "message")
		thought, _ := at(message, "reasoning_content").(string)
		content, _ := at(message, "content").(string)
		_, _, stream := post(t, web, "/v1/chat/completions", body+`, "stream": true}`)
		if a, b := deltas(t, stream, "reasoning_content"), deltas(t, stream, "content"); a != thought || b != content {
			t.Errorf("%q and %q, want %q and %q", a, b, thought, content)
		}
		if calls, _ := at(message, "tool_calls").([]any); len(calls) > 0 && thought != "" {
			called++
			checkCall(t, calls[0])
			if n := strings.Count(stream, `"name":"stop"`); n != len(calls) {
				t.Errorf("%d calls in the stream, want %d", n, len(calls))
			}
		}
	}
	if called == 0 {
		t.Error("no call after a thought")
	}
}

// TestReasoningResponses: a thought is an item of a response and of its stream, before the message.
func TestReasoningResponses(t *testing.T) {
	web := serveThinking(t, openTemplate)
	both := 0
	for seed := range 12 {
		body := fmt.Sprintf(`{"input": "Hi", "seed": %d, "include": ["message.output_text.logprobs"], `+
			strings.Replace(biased, "max_tokens", "max_output_tokens", 1), seed)
		_, _, text := post(t, web, "/v1/responses", body+"}")
		_, _, raw := post(t, web, "/v1/responses", body+`, "reasoning_format": "none"}`)
		whole := object(t, text)
		output, _ := at(object(t, raw), "output", 0, "content", 0, "text").(string)
		thought, content := split(output, true)
		if thought == "" || content == "" {
			continue
		}
		both++
		if at(whole, "output", 0, "type") != "reasoning" || at(whole, "output", 0, "content", 0, "text") != thought ||
			at(whole, "output", 1, "content", 0, "text") != content ||
			fmt.Sprint(at(whole, "usage", "output_tokens_details", "reasoning_tokens")) == "0" {
			t.Fatalf("%s\nof %q", text, output)
		}
		_, _, stream := post(t, web, "/v1/responses", body+`, "stream": true}`)
		list := events(t, stream)
		names, joined := sequence(list)
		const item = "response.output_item.added response.content_part.added "
		const done = " response.content_part.done response.output_item.done "
		if want := "response.created response.in_progress " + item + "response.reasoning_text.delta " + item +
			"response.output_text.delta response.reasoning_text.done" + done + "response.output_text.done" + done +
			"response.incomplete"; joined != thought+content || names != want {
			t.Errorf("%q\n%s\nwant %q\n%s", joined, names, thought+content, want)
		}
		streamed, scores := 0, at(whole, "output", 1, "content", 0, "logprobs").([]any)
		for _, e := range list {
			if e["type"] == "response.output_text.delta" {
				streamed += len(e["logprobs"].([]any))
			}
		}
		if streamed != len(scores) || streamed == 0 {
			t.Errorf("logprobs of %d tokens, %d in the stream", len(scores), streamed)
		}
	}
	if both == 0 {
		t.Error("no thought with an answer")
	}
}

// TestReasoningInput: a reasoning item belongs to the message or the calls that follow it.
func TestReasoningInput(t *testing.T) {
	_, web := serveModel(t, small, Options{Queue: 10}, `{% for m in messages %}{{ m.role }}:{{ m.reasoning_content }}:`+
		`{{ m.content }}:{% for c in m.tool_calls %}{{ c.function.name }}{% endfor %}|{% endfor %}`)
	const thought = `{"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}`
	const call = `{"type": "function_call", "name": "look", "call_id": "a", "arguments": "{}"}`
	const user = `{"role": "user", "content": "Hi"}`
	for _, c := range []struct{ items, want string }{
		{thought + `, {"role": "assistant", "content": "Yes."}`, "assistant:Hm.:Yes.:|"},
		{thought + `, ` + call + `, ` + call, "assistant:Hm.::looklook|"},
		{call + `, ` + thought + `, ` + call, "assistant:::look|assistant:Hm.::look|"},
		{thought + `, ` + user + `, ` + call, "user::Hi:|assistant:::look|"},
		{`{"type": "reasoning", "summary": [{"type": "summary_text", "text": "So."}]}, ` + call, "assistant:So.::look|"},
	} {
		status, _, text := post(t, web, "/v1/responses", `{"max_output_tokens": 1, "input": [`+user+`, `+c.items+`]}`)
		_, _, same := post(t, web, "/tokenize", fmt.Sprintf(`{"content": %q}`, "user::Hi:|"+c.want))
		if status != http.StatusOK ||
			fmt.Sprint(at(object(t, text), "usage", "input_tokens")) != fmt.Sprint(at(object(t, same), "count")) {
			t.Errorf("%s: %d %s\nwant %q: %s", c.items, status, text, c.want, same)
		}
	}
}
