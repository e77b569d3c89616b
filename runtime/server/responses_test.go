package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/runtime/server/internal/api"
)

// events returns the data of a stream with named events.
func events(t testing.TB, text string) (list []map[string]any) {
	t.Helper()
	name := ""
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		if event, ok := strings.CutPrefix(s.Text(), "event: "); ok {
			name = event
		}
		if data, ok := strings.CutPrefix(s.Text(), "data: "); ok {
			v := object(t, data)
			if v["type"] != name || fmt.Sprint(v["sequence_number"]) != fmt.Sprint(len(list)) {
				t.Errorf("frame %d, event %q: %s", len(list), name, data)
			}
			list = append(list, v)
		}
	}
	return list
}

// TestResponses: a response has the same text as the chat completion of the same conversation. Its stream has the
// events that clients expect, in order, and ends with the same object.
func TestResponses(t *testing.T) {
	web := serve(t, small, Options{Queue: 10, PrefixCache: true})
	const more = `"seed": 3, "temperature": 1.1, "top_p": 0.9`
	_, _, chat := post(t, web, "/v1/chat/completions",
		`{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}], `+
			`"max_tokens": 9, `+more+`}`)
	for _, input := range []string{
		`"instructions": "Be brief.", "input": "Hello"`,
		`"input": [{"role": "developer", "content": "Be brief."}, {"type": "message", "role": "user", ` +
			`"content": [{"type": "input_text", "text": "Hello"}]}]`,
	} {
		body := `{` + input + `, "max_output_tokens": 9, "metadata": {"a": "b"}, "store": true, ` + more
		status, h, text := post(t, web, "/v1/responses", body+"}")
		v := object(t, text)
		if status != http.StatusOK ||
			at(v, "output", 0, "content", 0, "text") != at(object(t, chat), "choices", 0, "message", "content") {
			t.Fatalf("%d %s\nwant %s", status, text, chat)
		}
		if fmt.Sprint(at(v, "usage", "output_tokens")) != "9" || v["status"] != "incomplete" ||
			at(v, "incomplete_details", "reason") != "max_output_tokens" ||
			at(v, "output", 0, "status") != "incomplete" || at(v, "metadata", "a") != "b" || v["store"] != false ||
			h.Get("X-Lowpack-Seed") != "3" {
			t.Errorf("%s", text)
		}
		_, h, text = post(t, web, "/v1/responses", body+`, "stream": true}`)
		if kind := h.Get("Content-Type"); kind != "text/event-stream; charset=utf-8" {
			t.Error(kind)
		}
		compareEvents(t, events(t, text), v)
	}
}

// sequence returns the event names, without repetitions, and the concatenated deltas.
func sequence(list []map[string]any) (names, deltas string) {
	var order []string
	for _, e := range list {
		order = append(order, e["type"].(string))
		delta, _ := e["delta"].(string)
		deltas += delta
	}
	return strings.Join(slices.Compact(order), " "), deltas
}

func compareEvents(t *testing.T, list []map[string]any, whole map[string]any) {
	t.Helper()
	names, deltas := sequence(list)
	want := "response.created response.in_progress response.output_item.added response.content_part.added " +
		"response.output_text.delta response.output_text.done response.content_part.done response.output_item.done " +
		"response.incomplete"
	if names != want {
		t.Fatalf("%s\nwant\n%s", names, want)
	}
	last := at(list[len(list)-1], "response").(map[string]any)
	if deltas != at(whole, "output", 0, "content", 0, "text") {
		t.Errorf("deltas %q", deltas)
	}
	item := at(last, "output", 0, "id")
	for _, e := range list {
		for _, id := range []any{e["item_id"], at(e, "item", "id")} {
			if id != nil && id != item {
				t.Errorf("%v is about %v, want %v", e["type"], id, item)
			}
		}
	}
	for _, v := range []map[string]any{whole, last} { // fields that may differ
		delete(v, "id")
		delete(v, "created_at")
		delete(v["usage"].(map[string]any), "input_tokens_details")
		delete(at(v, "output", 0).(map[string]any), "id")
	}
	if !reflect.DeepEqual(last, whole) {
		t.Errorf("%v\nwant\n%v", last, whole)
	}
}

// TestResponseFields: every field is supported, or rejected by name.
func TestResponseFields(t *testing.T) {
	web := serve(t, small, Options{Queue: 10})
	for _, c := range []struct{ body, param, says string }{
		{`{}`, "input", "input is missing"},
		{`{"input": 5}`, "input", "a string or a list of items"},
		{`{"input": []}`, "input", "between 1 and"},
		{`{"input": [5]}`, "input", "input[0]: want an object"},
		{`{"input": [{"type": "file_search_call"}]}`, "input", `item of type "file_search_call"`},
		{`{"input": [{"type": "reasoning", "content": "a"}]}`, "input", "input[0]: content and summary"},
		{`{"input": [{"role": "user", "content": [{"type": "input_image"}]}]}`, "input",
			`part 0 of type "input_image"`},
		{`{"input": [{"role": "king", "content": "a"}]}`, "input", `input[0]: role "king"`},
		{`{"input": "a", "instructions": 5}`, "instructions", "a string"},
		{`{"input": "a", "previous_response_id": "resp_1"}`, "previous_response_id", "the whole conversation"},
		{`{"input": "a", "background": true}`, "background", "not supported"},
		{`{"input": "a", "truncation": "auto"}`, "truncation", "must be disabled"},
		{`{"input": "a", "max_output_tokens": 0}`, "max_output_tokens", "between 1 and"},
		{`{"input": "a", "n": 2}`, "n", "must be 1"},
		{`{"input": "a", "top_logprobs": 2}`, "top_logprobs", "in include"},
		{`{"input": "a", "text": {"format": {"type": "yaml"}}}`, "text", "yaml"},
		{`{"input": "a", "text": {"format": {"type": "json_schema"}}}`, "text", "schema is missing"},
		{`{"input": "a", "text": {"format": {"type": "json_schema", "schema": {"type": "number", "minimum": 3}}}}`,
			"text",
			`"minimum" is not supported`},
		{`{"input": "a", "reasoning": {"effort": 3}}`, "reasoning_effort", "a string"},
	} {
		status, _, text := post(t, web, "/v1/responses", c.body)
		e := at(object(t, text), "error")
		param, _ := at(e, "param").(string)
		if says, _ := at(e, "message").(string); status != http.StatusBadRequest || param != c.param ||
			!strings.Contains(says, c.says) {
			t.Errorf("%s: %d %s; want 400, param %q, %q", c.body, status, text, c.param, c.says)
		}
	}
	_, _, text := post(t, web, "/v1/responses",
		`{"input": "a", "seed": 1, "include": ["message.output_text.logprobs"], "top_logprobs": 2,
		"text": {"format": {"type": "json_schema", "name": "x", "schema": {"enum": ["left", "right"]}}}}`)
	v := object(t, text)
	answer, _ := at(v, "output", 0, "content", 0, "text").(string)
	if v["status"] != "completed" || answer != `"left"` && answer != `"right"` ||
		len(at(v, "output", 0, "content", 0, "logprobs", 0, "top_logprobs").([]any)) != 2 {
		t.Error(text)
	}
}

// TestResponseFails: after an error in a stream, the final event is a failed response.
func TestResponseFails(t *testing.T) {
	server, web := serveModel(t, small, Options{Queue: 10})
	answer, err := web.Client().Post(web.URL+"/v1/responses", "application/json",
		strings.NewReader(`{"input": "a", "max_output_tokens": 240, "ignore_eos": true, "stream": true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	done, cancel := context.WithCancel(t.Context())
	cancel()
	server.Drain(done) // stops running requests
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	list := events(t, string(text))
	last := list[len(list)-1]
	if last["type"] != "response.failed" || at(last, "response", "error", "code") != "unavailable_error" ||
		at(last, "response", "status") != "failed" {
		t.Errorf("%v", last)
	}
}

// TestReadItems: calls are added to the assistant message before them, and arguments become objects with their key
// order.
func TestReadItems(t *testing.T) {
	b, e := api.ParseBody([]byte(`{"input": [
		{"role": "user", "content": "a"},
		{"role": "assistant", "content": [{"type": "output_text", "text": "wait"}]},
		{"type": "function_call", "call_id": "1", "name": "f", "arguments": "{\"z\": 1, \"a\": 2}"},
		{"type": "function_call", "call_id": "2", "name": "g", "arguments": "broken"},
		{"type": "function_call_output", "call_id": "1", "output": "ok"},
		{"type": "function_call", "call_id": "3", "name": "h", "arguments": ""},
		{"role": "assistant",
		"tool_calls": [{"function": {"name": "i", "arguments": {"z": 12345678901234567890, "a": 1.0}}}]}]}`))
	if e != nil {
		t.Fatal(e)
	}
	list := readItems(b)
	if len(list) != 5 || b.Err() != nil {
		t.Fatalf("%+v, %v", list, b.Err())
	}
	if list[2].Role != "tool" || list[2].Content != "ok" || list[1].Content != "wait" {
		t.Errorf("%+v", list)
	}
	for i, want := range map[int]string{
		1: `[{"id":"1","type":"function","function":{"name":"f","arguments":{"z":1,"a":2}}},{"id":"2","type":"function",` +
			`"function":{"name":"g","arguments":"broken"}}]`,
		3: `[{"id":"3","type":"function","function":{"name":"h","arguments":{}}}]`,
		// digits and all
		4: `[{"type":"function","function":{"name":"i","arguments":{"z":12345678901234567890,"a":1.0}}}]`,
	} {
		var more map[string]json.RawMessage
		if err := json.Unmarshal(list[i].More, &more); err != nil || string(more["tool_calls"]) != want {
			t.Errorf("%s\nwant %s", list[i].More, want)
		}
	}
}

// TestReadItemsTime: reading calls takes linear time; a request of 8 MiB can have thousands.
func TestReadItemsTime(t *testing.T) {
	allocs := func(calls int) float64 {
		item := `{"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}`
		text := []byte(`{"input": [` + strings.Repeat(item+",", calls-1) + item + `]}`)
		return testing.AllocsPerRun(1, func() {
			b, e := api.ParseBody(text)
			if e != nil {
				t.Fatal(e)
			}
			if list := readItems(b); len(list) != 1 || b.Err() != nil {
				t.Fatalf("%d messages, %v", len(list), b.Err())
			}
		})
	}
	if few, many := allocs(50), allocs(200); many > 5*few {
		t.Errorf("%v allocations for 50 calls, %v for 200", few, many)
	}
}

// TestReadItemsNames: a call without a name is rejected with the index of its item, and the first error is reported.
func TestReadItemsNames(t *testing.T) {
	const (
		call     = `{"type": "function_call", "call_id": "1", "name": "f", "arguments": ""}`
		nameless = `, {"type": "function_call"}`
	)
	for input, want := range map[string]string{
		call + nameless + ", " + call:                             "input[1]: tool_calls[1]: function.name is missing",
		`{"role": "assistant", "content": 5}, ` + call + nameless: "input[0]: content: want a string",
		call + `, {"type": "compaction"}`: `input[1]: an item of type "compaction" is not supported: ` +
			"must be one of message, reasoning, function_call, function_call_output",
		`{"role": "assistant", "tool_calls": [{"function": {"name": "g"}}]}, ` + call +
			nameless: "input[2]: tool_calls[2]: function.name is missing",
	} {
		b, e := api.ParseBody([]byte(`{"input": [` + input + `]}`))
		if e != nil {
			t.Fatal(e)
		}
		if readItems(b); b.Err() == nil || b.Err().Message != want {
			t.Errorf("%s: %v, want %s", input, b.Err(), want)
		}
	}
}
