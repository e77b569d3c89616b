package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/requests"
)

// inRequests has a request of every endpoint with a body, with a placeholder for any value and one for a string.
var inRequests = []struct{ path, value, text, place string }{
	{"/v1/completions", `{"prompt": "a", "max_tokens": 1, "extra": %s}`, `{"max_tokens": 1, "prompt": "%s"}`, "prompt"},
	{"/v1/chat/completions", `{"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, "extra": %s}`,
		`{"max_tokens": 1, "messages": [{"role": "user", "content": "%s"}]}`, "messages[0].content"},
	{"/v1/responses", `{"input": "a", "max_output_tokens": 1, "extra": %s}`,
		`{"max_output_tokens": 1, "input": [{"role": "user", "content": [{"type": "input_text", "text": "%s"}]}]}`,
		"input[0].content[0].text"},
	{"/v1/embeddings", `{"input": "a", "extra": %s}`, `{"input": ["a", "%s"]}`, "input[1]"},
	{"/v1/rerank", `{"query": "a", "documents": ["b"], "extra": %s}`, `{"query": "a", "documents": ["a", {"text": "%s"}]}`,
		"documents[1].text"},
	{"/v1/score", `{"text_1": "a", "text_2": "b", "extra": %s}`, `{"text_1": "a", "text_2": ["a", "%s"]}`, "text_2[1]"},
	{"/tokenize", `{"content": "a", "extra": %s}`, `{"content": "%s"}`, "content"},
	{"/detokenize", `{"tokens": [1], "extra": %s}`, `{"tokens": [1], "extra": "%s"}`, "extra"},
	{"/apply-template", `{"messages": [{"role": "user", "content": "a"}], "extra": %s}`,
		`{"messages": [{"role": "user", "content": "%s"}]}`, "messages[0].content"},
}

// TestOneMeaning: every endpoint rejects a request that other parsers may read differently, and names the place; a
// strange but unambiguous one is accepted.
func TestOneMeaning(t *testing.T) {
	servers := serveAll(t, Options{Queue: 10})
	refused := func(path, body, says, place string) {
		t.Helper()
		status, _, text := post(t, servers(path), path, body)
		message, _ := at(object(t, text), "error", "message").(string)
		param, _ := at(object(t, text), "error", "param").(string)
		if status != http.StatusBadRequest || !strings.Contains(message, says) || !strings.Contains(message, "byte ") ||
			place != "" && !strings.Contains(message, "in "+place+")") ||
			place != "" && !strings.HasPrefix(place, param) {
			t.Errorf("%s %.200q: %d %s; want 400, %q in %q", path, body, status, text, says, place)
		}
	}
	for _, r := range inRequests {
		for value, says := range map[string]string{
			`{"a": 1, "a": 1}`: `the key "a" occurs twice`, `{"a": 1, "\u0061": 2}`: `the key "a" occurs twice`,
			`{"\ud800": 1}`:          "half of a surrogate pair",
			"{\"\xff\": 1}":          "not UTF-8",
			`1e400`:                  "too large",
			`-1e400`:                 "too large",
			`NaN`:                    "NaN",
			`-Infinity`:              "Infinity",
			`01`:                     "start with 0",
			`+1`:                     "a value is expected",
			strings.Repeat("9", 400): "too large",
			strings.Repeat("[", 100) + strings.Repeat("]", 100): "nested deeper than 64",
			strings.Repeat(`{"a":`, 5000) + "1":                 "nested deeper than 64",
			"\"a\nb\"":                                          "control character",
		} {
			refused(r.path, fmt.Sprintf(r.value, value), says, "")
			refused(r.path, fmt.Sprintf(r.value, `[{"b": `+value+`}]`), says, "")
		}
		refused(r.path, fmt.Sprintf(r.value, `{"b c": [0, {"d": {"a": 1, "a": 2}}]}`), "twice", `extra["b c"][1].d`)
		for text, says := range map[string]string{
			`\ud800`:       "half of a surrogate pair",
			`\udc00`:       "half of a surrogate pair",
			`\ud800\ud800`: "half of a surrogate pair",
			`a\ud83dx`:     "half of a surrogate pair",
			"\xff":         "not UTF-8",
			"\xc0\x80":     "not UTF-8",
			"\xed\xa0\x80": "not UTF-8",
			"a\xe2\x82":    "not UTF-8",
			"\\n\xff":      "not UTF-8",
		} {
			refused(r.path, fmt.Sprintf(r.text, text), says, r.place)
		}
		plain := fmt.Sprintf(r.value, "1")
		refused(r.path, "\ufeff"+plain, "where a value is expected", "")
		refused(r.path, plain+"{}", "after the end", "")
		refused(r.path, plain+"\x00", "after the end", "")
		refused(r.path, "[1]", "where an object is expected", "")
		refused(r.path, "", "the text ends", "")
		refused(r.path, "{"+plain[1:len(plain)-1]+", "+plain[1:], "occurs twice", "")
		refused(r.path, strings.Join(strings.Split(plain, ""), "\x00"), "", "") // UTF-16
		for _, text := range []string{`\ud83d\ude00`, `\u0000`, "\U0001f600", "\u007f", `\/`, "\u2028", "\ufeff"} {
			status, _, answer := post(t, servers(r.path), r.path, fmt.Sprintf(r.text, text))
			if status != http.StatusOK {
				t.Errorf("%s %q: %d %s", r.path, text, status, answer)
			}
		}
	}
}

// TestOneMeaningInside: the same holds for schemas and function parameters, which templates and grammars read.
func TestOneMeaningInside(t *testing.T) {
	web := serve(t, small, Options{Queue: 10})
	const (
		schema = `{"type": "object", "properties": {"a": {"type": "null"}, "a": {"type": "integer"}}}`
		format = `"response_format": {"type": "json_schema", "json_schema": {"schema": `
		tools  = `"tools": [{"type": "function", "function": {"name": "f", "parameters": `
	)
	for field, place := range map[string]string{
		format + schema +
			`}}`: "response_format.json_schema.schema.properties",
		tools + schema + `}}]`:                                              "tools[0].function.parameters.properties",
		`"guided_json": ` + schema:                                          "guided_json.properties",
		`"chat_template_kwargs": {"a": true, "a": false}`:                   "chat_template_kwargs",
		`"logit_bias": {"5": 100, "5": -100}`:                               "logit_bias",
		`"stream_options": {"include_usage": false, "include_usage": true}`: "stream_options",
		`"prediction": {"type": "content", "content": "a", "content": "b"}`: "prediction",
		`"documents": [{"a": [[{"b": 1, "b": 2}]]}]`:                        "documents[0].a[0][0]",
	} {
		status, _, text := post(t, web, "/v1/chat/completions",
			`{"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, `+field+"}")
		if message, _ := at(object(t, text), "error", "message").(string); status != http.StatusBadRequest ||
			!strings.Contains(message, "in "+place+")") {
			t.Errorf("%s: %d %s; want a fault in %s", field, status, text, place)
		}
	}
	// Names are case-sensitive.
	for _, field := range []string{
		`"response_format": {"type": "text", "Type": "yaml"}`,
		`"stream_options": {"include_usage": true, "INCLUDE_USAGE": 5}, "stream": true`,
		`"tool_choice": "none", "tools": [{"type": "function", "Type": "x", "function": {"name": "f", "Name": ""}}]`,
	} {
		status, _, text := post(t, web, "/v1/chat/completions",
			`{"messages": [{"role": "user", "content": "a", "Role": "king"}], "max_tokens": 1, `+field+"}")
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", field, status, text)
		}
	}
	if status, _, text := post(t, web, "/v1/chat/completions",
		`{"messages": [{"role": "user", "content": [{"type": "text", "TEXT": "b"}]}]}`); status !=
		http.StatusBadRequest {
		t.Errorf("a part without a text: %d %s", status, text)
	}
}

// TestNumbers: numbers have their exact value or are rejected.
func TestNumbers(t *testing.T) {
	web := serve(t, small, Options{Queue: 10})
	for _, c := range []struct {
		field  string
		status int
		says   string
	}{
		{`"max_tokens": 1e2`, 200, ""},
		{`"max_tokens": 100.0`, 200, ""},
		{`"max_tokens": 0.1e1`, 200, ""},
		{`"max_tokens": 1.00000000000000000001`, 400, "an integer"},
		{`"max_tokens": 1e-400`, 400, "an integer"},
		{`"max_tokens": -0`, 400, "max_tokens is 0"},
		{`"max_tokens": 99999999999999999999`, 400, "an integer"},
		{`"max_tokens": 1e19`, 400, "an integer"},
		{`"max_tokens": 9223372036854775807`, 400, "between"},
		{`"max_tokens": 18446744073709551617`, 400, "an integer"},
		{`"seed": 1e18`, 200, "1000000000000000000"},
		{`"seed": 9007199254740993.0`, 200, "9007199254740993"},
		{`"seed": -9223372036854775808`, 200, "-9223372036854775808"},
		{`"seed": 9223372036854775808`, 400, "64-bit"},
		{`"temperature": -0`, 200, ""},
		{`"temperature": -1e-400`, 400, "between 0 and 2"},
		{`"stop_token_ids": [1e400]`, 400, "too large"},
		{`"stop_token_ids": [5.5]`, 400, "a list of token ids"},
	} {
		status, header, text := post(t, web, "/v1/completions", `{"prompt": "a", `+c.field+"}")
		if status != c.status || !strings.Contains(text+header.Get("X-Lowpack-Seed"), c.says) {
			t.Errorf("%s: %d %s; want %d, %q", c.field, status, text, c.status, c.says)
		}
	}
	// Any temperature above 0 samples: the seed matters.
	hot := func(temperature string) string {
		_, _, text := post(t, web, "/v1/responses",
			`{"input": "a", "max_output_tokens": 1, "temperature": `+temperature+"}")
		return fmt.Sprint(at(object(t, text), "temperature"))
	}
	if tiny, zero := hot("1e-400"), hot("0e5"); tiny == "0" || zero != "0" {
		t.Errorf("temperatures %s and %s", tiny, zero)
	}
}

// TestModelNames: a request for an unknown model is rejected unless Options.AnyModel is set; a request without a name
// gets the first model.
func TestModelNames(t *testing.T) {
	for _, c := range []struct {
		any    bool
		field  string
		status int
	}{
		{false, `"model": "tiny"`, 200}, {false, `"model": ""`, 200}, {false, `"model": null`, 200},
		{false, `"x": 1`, 200},
		{false, `"model": "gpt-4o"`, 404}, {false, `"model": "TINY"`, 404}, {false, `"model": " tiny"`, 404},
		{false, `"model": 5`, 400},
		{true, `"model": "gpt-4o"`, 200}, {true, `"model": "tiny"`, 200}, {true, `"x": 1`, 200},
		{true, `"model": 5`, 400},
	} {
		servers := serveAll(t, Options{Queue: 10, AnyModel: c.any})
		_, _, document := do(t, servers(""), http.MethodGet, "/openapi.json", "")
		if lists := strings.Contains(document, `"model":{"enum":["",null,"tiny"]}`); lists == c.any {
			t.Errorf("any %t: /openapi.json lists the names of models: %t", c.any, lists)
		}
		for _, r := range inRequests {
			body := strings.Replace(fmt.Sprintf(r.value, "1"), "{", "{"+c.field+", ", 1)
			status, _, text := post(t, servers(r.path), r.path, body)
			e := at(object(t, text), "error")
			if status != c.status || status == 404 &&
				(at(e, "code") != "model_not_found" || at(e, "param") != "model") {
				t.Errorf("any %t: %s %s: %d %s, want %d", c.any, r.path, body, status, text, c.status)
			}
		}
	}
}

// TestContradictions: a request with different values under two names of an option is rejected; equal values are
// accepted.
func TestContradictions(t *testing.T) {
	_, web := serveModel(t, small, Options{Queue: 10}, requests.Template)
	const chat, schema = `"messages": [{"role": "user", "content": "a"}]`, `{"type": "integer"}`
	const one = `{"type": "function", "function": {"name": "f"}}`
	const another = `{"type": "function", "function": {"name": "ff"}}`
	for _, c := range []struct{ path, body, param string }{
		{"/v1/chat/completions", chat + `, "max_tokens": 1, "max_completion_tokens": 2`, "max_tokens"},
		{"/v1/chat/completions", chat + `, "max_tokens": 2, "max_completion_tokens": 2`, ""},
		{"/v1/chat/completions", chat +
			`, "max_tokens": 2, "reasoning_effort": "low", "chat_template_kwargs": {"reasoning_effort": "high"}`,
			"chat_template_kwargs"},
		{"/v1/chat/completions", chat +
			`, "max_tokens": 2, "reasoning_effort": "low", "chat_template_kwargs": {"reasoning_effort": "l\u006fw"}`,
			""},
		{"/v1/chat/completions", chat +
			`, "max_tokens": 2, "response_format": {"type": "json_object", "json_schema": {"schema": ` + schema + `}}`,
			"response_format"},
		{"/v1/chat/completions", chat + `, "max_tokens": 2, "response_format": {"type": "text", "schema": ` +
			schema + `}`,
			"response_format"},
		{"/v1/chat/completions", chat +
			`, "max_tokens": 2, "response_format": {"type": "json_schema", "schema": {}, "json_schema": {"schema": ` +
			schema +
			`}}`, "response_format"},
		{"/v1/chat/completions", chat +
			`, "max_tokens": 2, "response_format": {"type": "json_object", "schema": ` + schema +
			`, "json_schema": {"name": "x"}}`, ""},
		{"/v1/chat/completions", chat + `, "max_tokens": 2, "tools": [` + one + "," + another +
			`], "tool_choice": {"type": "function", "name": "f", "function": {"name": "ff"}}`, "tool_choice"},
		{"/v1/chat/completions", chat + `, "max_tokens": 2, "tools": [` + one + "," + another +
			`], "tool_choice": {"type": "function", "name": "f", "function": {"name": "f"}}`, ""},
		{"/v1/completions", `"prompt": ["a", null]`, "prompt"},
		{"/v1/completions", `"prompt": [[1], null]`, "prompt"},
		{"/v1/completions", `"prompt": ["a", ""], "max_tokens": 1`, ""},
		{"/tokenize", `"content": "a", "prompt": "b"`, "prompt"},
		{"/tokenize", `"content": "a", ` + chat, "messages"},
		{"/tokenize", `"content": "a", "add_special": true, "add_special_tokens": false`, "add_special_tokens"},
		{"/tokenize", `"prompt": "a", "content": null, "messages": null`, ""},
	} {
		status, _, text := post(t, web, c.path, "{"+c.body+"}")
		param, _ := at(object(t, text), "error", "param").(string)
		if status == http.StatusOK != (c.param == "") || param != c.param || status > http.StatusBadRequest {
			t.Errorf("%s {%s}: %d %s, want %q", c.path, c.body, status, text, c.param)
		}
	}
}
