package server

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/seed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/texts"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// Minimal templates of each family.
const (
	beginTemplate = `{{ '<|begin_of_text|>' }}` +
		`{% if tools %}{% for t in tools %}{{ t.function.name }}{% endfor %}{% endif %}` +
		`{% for m in messages %}{{ m.role }}: {% if m.tool_calls %}`
	endTemplate = `{% else %}{{ m.content }}{% endif %}{{ '<|eot_id|>' }}{% endfor %}` +
		`{% if add_generation_prompt %}assistant: {% endif %}`

	hermesTemplate = beginTemplate +
		`{% for c in m.tool_calls %}{{ '<tool_call>\n{"name": "' ~ c.function.name ~ ` +
		`'", "arguments": ' ~ c.function.arguments | tojson ~ '}\n</tool_call>' }}{% endfor %}` + endTemplate
	llamaTemplate = beginTemplate +
		`{% for c in m.tool_calls %}{{ '{"name": "' ~ c.function.name ~ ` +
		`'", "parameters": ' ~ c.function.arguments | tojson ~ '}' }}{% endfor %}` + endTemplate
	mistralTemplate = beginTemplate +
		`[TOOL_CALLS] [{% for c in m.tool_calls %}{{ '{"name": "' ~ c.function.name ~ ` +
		`'", "arguments": ' ~ c.function.arguments | tojson ~ ', "id": "' ~ c.id ~ '"}' }}` +
		`{% if not loop.last %}, {% endif %}{% endfor %}]` + endTemplate
)

func tinyTokenizer(t *testing.T) *tokenizer.Tokenizer {
	t.Helper()
	f, err := packed.Open(tinymodel.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := tokenizer.Load(f.Embedded)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func formOf(t *testing.T, template string) *callForm {
	t.Helper()
	tok := tinyTokenizer(t)
	if err := tok.SetTemplate(template); err != nil {
		t.Fatal(err)
	}
	return callFormOf(tok)
}

// TestCallForm: the form of calls is recognized from the template; a template that prints no tools has none.
func TestCallForm(t *testing.T) {
	for template, want := range map[string]string{
		hermesTemplate:  hermesOpen + "arguments",
		llamaTemplate:   "parameters",
		mistralTemplate: mistralOpen + "arguments",
		strings.ReplaceAll(hermesTemplate, "{{ t.function.name }}", "a tool"): "none",
		strings.ReplaceAll(hermesTemplate, "<tool_call>", "<call>"):           "none",
		`{{ messages[0].content }}`:                                           "none",
	} {
		got := "none"
		if f := formOf(t, template); f != nil {
			got = f.open + f.key
		}
		if got != want {
			t.Errorf("%s: %s, want %s", template, got, want)
		}
	}
}

// TestCallFormOfModels: the forms of published templates.
func TestCallFormOfModels(t *testing.T) {
	compared := map[string]texts.Record{}
	for name, want := range map[string]texts.Record{
		"Qwen-Qwen2.5-7B-Instruct":         {Family: "qwen2", Tools: hermesOpen},
		"Qwen-Qwen3-0.6B":                  {Family: "qwen3", Tools: hermesOpen},
		"meta-llama-Llama-3.2-3B-Instruct": {Family: "llama", Tools: "parameters"},
		"bitnet-2B4T":                      {Family: "bitnet", Tools: "none"},
		"microsoft-Phi-3.5-mini-instruct":  {Family: "phi3", Tools: "none"},
		"llama3-original":                  {Family: "llama", Tools: "none"},
	} {
		source, err := os.ReadFile(shared.Path(t, "data/chat-templates/"+name+".jinja"))
		if err != nil {
			t.Fatal(err)
		}
		got := "none"
		if f := formOf(t, string(source)); f != nil && f.open != "" {
			got = f.open
		} else if f != nil {
			got = f.key
		}
		if got != want.Tools {
			t.Errorf("%s: %q, want %q", name, got, want.Tools)
		}
		compared[name] = want
	}
	texts.Hold(t, compared)
}

// TestCallReader: calls and content are told apart however the text is split.
func TestCallReader(t *testing.T) {
	hermes, llama, mistral := formOf(t, hermesTemplate), formOf(t, llamaTemplate), formOf(t, mistralTemplate)
	numbers := seed.Rand(t)
	for _, c := range []struct {
		form       *callForm
		most       int
		text, want string
	}{
		{hermes, 9, `Just <text> { "name"`, `Just <text> { "name"`},
		{hermes, 9, "I look. \n" +
			"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}{\\\"\", \"b\": [1, {}]}}\n</tool_call>",
			`I look.|f{"a": "}{\"", "b": [1, {}]}`},
		{hermes, 9, "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n" +
			"<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>\n", "|f{}|g{}"},
		{hermes, 1, "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n" +
			"<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>\n", "|f{}"},
		{hermes, 9, "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call> Done.", " Done.|f{}"},
		{hermes, 9, "<tool_call>{\"name\":\"unknown\",\"arguments\":{}}</tool_call>",
			"<tool_call>{\"name\":\"unknown\",\"arguments\":{}}</tool_call>"},
		{hermes, 9, "<tool_call>{\"name\":\"f\",\"arguments\":5}", "<tool_call>{\"name\":\"f\",\"arguments\":5}"},
		{hermes, 9, "<tool_call>[1] <tool_call>{\"name\":\"g\",\"arguments\":{}}", "<tool_call>[1]|g{}"},
		{hermes, 9, "a <tool_call>\n{\"name\": \"f\", \"argu", "a <tool_call>\n{\"name\": \"f\", \"argu"},
		{hermes, 9, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"b", `|f{"a": "b`},
		{hermes, 9, "a < b \n", "a < b \n"},
		{llama, 9, ` {"name": "f", "parameters": {"a": 1}}`, `|f{"a": 1}`},
		{llama, 9, `{"name": "f", "arguments": {"a": 1}}`, `{"name": "f", "arguments": {"a": 1}}`},
		{llama, 9, `The {"name": "f", "parameters": {"a": 1}}`, `The {"name": "f", "parameters": {"a": 1}}`},
		{llama, 9, `{"name": "` + strings.Repeat("f", 200), `{"name": "` + strings.Repeat("f", 200)},
		{mistral, 9,
			`[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}, "id": "abcdefghi"}, {"name": "g", "arguments": {}}]`,
			`|f{"a": 1}|g{}`},
		{mistral, 9, `[TOOL_CALLS] [1, 2]`, `[TOOL_CALLS] [1, 2]`},
		{mistral, 9, `[1, 2]`, `[1, 2]`},
	} {
		for range 30 {
			tools := &tools{form: c.form, most: c.most, names: map[string]bool{"f": true, "g": true}}
			ch := choice{reader: tools.reader()}
			content := ""
			for rest := c.text; rest != ""; {
				n := 1 + numbers.IntN(min(len(rest), 12))
				r := ch.reader.add(rest[:n])
				rest = rest[n:]
				content += r.text
				ch.note(r.calls)
			}
			got := content + ch.reader.end()
			for _, call := range ch.calls {
				got += "|" + call.Function.Name + call.Function.Arguments
			}
			if got != c.want {
				t.Fatalf("%s:\ngot  %q\nwant %q", c.text, got, c.want)
			}
		}
	}
}

const twoTools = `"tools": [
	{"type": "function", "function": {"name": "weather", "description": "Weather", "parameters": {"type": "object",
		"properties": {"city": {"$ref": "#/$defs/City"}, "days": {"type": "integer"}}, "required": ["city"],
		"$defs": {"City": {"enum": ["Paris", "Rome"]}}}}},
	{"type": "function", "function": {"name": "stop", "strict": true}}]`

// checkCall checks a call against the functions.
func checkCall(t *testing.T, v any) string {
	t.Helper()
	name, _ := at(v, "function", "name").(string)
	arguments, _ := at(v, "function", "arguments").(string)
	var a struct {
		City string
		Days *int
	}
	d := json.NewDecoder(strings.NewReader(arguments))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil || name == "weather" && a.City != "Paris" && a.City != "Rome" ||
		name == "stop" && arguments != "{}" || name != "weather" && name != "stop" {
		t.Errorf("%v: %v", v, err)
	}
	if id, _ := at(v, "id").(string); len(id) != 9 || at(v, "type") != "function" {
		t.Errorf("%v", v)
	}
	return name
}

// TestToolChoice: a model of every family calls what it must, and a stream has the same calls.
func TestToolChoice(t *testing.T) {
	for family, template := range map[string]string{"hermes": hermesTemplate, "llama": llamaTemplate,
		"mistral": mistralTemplate} {
		_, web := serveModel(t, small, Options{Queue: 10, PrefixCache: true}, template)
		seen, most := map[string]bool{}, 0
		for seed := range 12 {
			choice := []string{`"required"`, `{"type": "function", "function": {"name": "stop"}}`}[seed%2]
			body := fmt.Sprintf(`{"messages": [{"role": "user", "content": "Hi"}], %s, "tool_choice": %s,
				"temperature": 1.5, "seed": %d, "max_tokens": 140, "parallel_tool_calls": %v`,
				twoTools, choice, seed, seed%3 > 0)
			if seed%4 == 1 { // the output may not end by itself
				body += `, "logit_bias": {"2553": -100, "2554": -100}`
			}
			status, _, text := post(t, web, "/v1/chat/completions", body+"}")
			v := object(t, text)
			if status != http.StatusOK {
				t.Fatalf("%s: %d %s", family, status, text)
			}
			calls, _ := at(v, "choices", 0, "message", "tool_calls").([]any)
			most = max(most, len(calls))
			reason := at(v, "choices", 0, "finish_reason")
			if reason == "length" {
				continue
			}
			if reason != "tool_calls" || len(calls) == 0 || seed%3 == 0 && len(calls) > 1 ||
				at(v, "choices", 0, "message", "content") != nil {
				t.Errorf("%s: %s: %s", family, body, text)
			}
			for _, call := range calls {
				name := checkCall(t, call)
				if seen[name] = true; seed%2 == 1 && name != "stop" {
					t.Errorf("%s: %s", body, text)
				}
			}
			compareCalls(t, web, body, calls)
		}
		if !seen["stop"] || family == "hermes" && (!seen["weather"] || most < 2) {
			t.Errorf("%s: calls of %v, at most %d at once", family, seen, most)
		}
	}
}

// compareCalls repeats a request with streaming and compares the calls.
func compareCalls(t *testing.T, web *httptest.Server, body string, want []any) {
	t.Helper()
	_, _, text := post(t, web, "/v1/chat/completions", body+`, "stream": true}`)
	var names, arguments []string
	for _, f := range frames(t, text) {
		if content, _ := at(f, "choices", 0, "delta", "content").(string); content != "" {
			t.Errorf("content %q", content)
		}
		deltas, _ := at(f, "choices", 0, "delta", "tool_calls").([]any)
		for _, d := range deltas {
			i, _ := d.(map[string]any)["index"].(json.Number).Int64()
			if name, ok := at(d, "function", "name").(string); ok {
				if int(i) != len(names) || len(at(d, "id").(string)) != 9 {
					t.Errorf("%v", d)
				}
				names, arguments = append(names, name), append(arguments, "")
			}
			arguments[i] += at(d, "function", "arguments").(string)
		}
	}
	if len(names) != len(want) {
		t.Fatalf("%q, want %v", names, want)
	}
	for i, call := range want {
		if names[i] != at(call, "function", "name") || arguments[i] != at(call, "function", "arguments") {
			t.Errorf("%s%s, want %v", names[i], arguments[i], call)
		}
	}
}

// TestResponseCalls: calls are items of a response, and of its stream.
func TestResponseCalls(t *testing.T) {
	_, web := serveModel(t, small, Options{Queue: 10}, hermesTemplate)
	body := `{"input": "Hi", "tools": [{"type": "function", "name": "stop", "parameters": null}],
		"tool_choice": {"type": "function", "name": "stop"}, "parallel_tool_calls": false, "seed": 1,
		"max_output_tokens": 60`
	_, _, text := post(t, web, "/v1/responses", body+"}")
	item := at(object(t, text), "output", 0)
	if at(item, "type") != "function_call" || at(item, "name") != "stop" || at(item, "arguments") != "{}" ||
		at(item, "status") != "completed" || at(object(t, text), "output", 1) != nil {
		t.Errorf("%s", text)
	}
	_, _, text = post(t, web, "/v1/responses", body+`, "stream": true}`)
	names, arguments := sequence(events(t, text))
	if arguments != "{}" ||
		names != "response.created response.in_progress response.output_item.added "+
			"response.function_call_arguments.delta response.function_call_arguments.done response.output_item.done "+
			"response.completed" {
		t.Errorf("%s: %s", arguments, names)
	}
}

// TestToolAuto: text that is not a call stays content; without tools, or with tool_choice none, calls are not parsed.
func TestToolAuto(t *testing.T) {
	_, web := serveModel(t, small, Options{Queue: 10}, hermesTemplate)
	const ask = `{"messages": [{"role": "user", "content": "Hi"}], "temperature": 1, "seed": 4, "max_tokens": 20`
	content := func(more string) string {
		_, _, text := post(t, web, "/v1/chat/completions", ask+more+"}")
		s, _ := at(object(t, text), "choices", 0, "message", "content").(string)
		return s
	}
	if plain, none := content(""), content(", "+twoTools+`, "tool_choice": "none"`); plain == "" || none != plain {
		t.Errorf("%q, without choice %q", plain, none)
	}
	if auto := content(", " + twoTools); auto == "" || auto == content("") {
		t.Errorf("the template shows no tools: %q", auto)
	}
	_, _, text := post(t, web, "/apply-template", `{"messages": [{"role": "user", "content": "Hi"}], `+twoTools+`}`)
	if !strings.Contains(text, "weather") {
		t.Errorf("%s", text)
	}
}

// TestToolStrict: when the model decides whether to call, calls of strict functions satisfy their schemas. A bias
// towards braces makes it call; without strict it writes nothing but braces.
func TestToolStrict(t *testing.T) {
	_, web := serveModel(t, small, Options{Queue: 10}, llamaTemplate)
	_, _, text := post(t, web, "/tokenize", `{"content": "{"}`)
	ask := fmt.Sprintf(`{"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 60, "temperature": 1,
		"logit_bias": {"%v": 100}, "tools": [{"type": "function", "function": {"name": "set", "strict": %%v,
		"parameters": {"type": "object", "properties": {"n": {"enum": [1, 2]}, "on": {"type": "boolean"}},
		"required": ["n", "on"], "additionalProperties": false}}}], "seed": %%d}`, at(object(t, text), "tokens", 0))
	for seed := range 4 {
		_, _, text = post(t, web, "/v1/chat/completions", fmt.Sprintf(ask, true, seed))
		call := at(object(t, text), "choices", 0, "message", "tool_calls", 0, "function")
		arguments, _ := at(call, "arguments").(string)
		if at(call, "name") != "set" ||
			!regexp.MustCompile(`^\{"n": ?[12], ?"on": ?(true|false)\}$`).MatchString(arguments) {
			t.Errorf("%s", text)
		}
		_, _, text = post(t, web, "/v1/chat/completions", fmt.Sprintf(ask, false, seed))
		said, _ := at(object(t, text), "choices", 0, "message", "content").(string)
		if !strings.HasPrefix(said, "{{{{") {
			t.Errorf("without strict: %s", text)
		}
	}
	bounded := strings.Replace(fmt.Sprintf(ask, true, 1), `"enum": [1, 2]`, `"type": "integer", "minimum": 3`, 1)
	if status, _, text := post(t, web, "/v1/chat/completions", bounded); status != http.StatusBadRequest ||
		!strings.Contains(text, `keyword \"minimum\"`) {
		t.Errorf("%d %s", status, text)
	}
}

// TestToolFields: an unsupported value is rejected with the name of its field.
func TestToolFields(t *testing.T) {
	_, web := serveModel(t, small, Options{Queue: 10}, hermesTemplate)
	bare := serve(t, small, Options{Queue: 10})
	for _, c := range []struct {
		web               *httptest.Server
		more, param, says string
	}{
		{bare, twoTools, "tools", "the model's chat template has no known form"},
		{web, `"tools": 5`, "tools", "a list"},
		{web, `"tools": [{"type": "web_search"}]`, "tools", `type "web_search"`},
		{web, `"tools": [{"type": "function"}]`, "tools", "function.name"},
		{web,
			`"tools": [{"type": "function", "function": {"name": "a"}}, {"type": "function", "function": {"name": "a"}}]`,
			"tools", "another function"},
		{web, twoTools + `, "tool_choice": "always"`, "tool_choice", "none, auto, required"},
		{web, twoTools + `, "tool_choice": {"type": "allowed_tools"}`, "tool_choice", "none, auto, required"},
		{web, twoTools + `, "tool_choice": {"type": "function", "function": {"name": "zzz"}}`, "tool_choice",
			`no function "zzz"`},
		{web, `"tool_choice": "required"`, "tool_choice", "needs tools"},
		{web, twoTools + `, "response_format": {"type": "json_object"}`, "tools", "combined"},
		{web, twoTools + `, "tool_choice": "required", "ignore_eos": true`, "tools", "ignore_eos"},
		{web, `"tool_choice": "required", "tools": [{"type": "function", "function": {"name": "a",
			"parameters": {"type": "object", "properties": {"x": {"type": "number", "minimum": 1}}}}}]`,
			"tools", `"minimum" is not supported`},
		{web, `"tool_choice": "required",
			"tools": [{"type": "function", "function": {"name": "a", "parameters": {"type": "string"}}}]`,
			"tools", `"type": "object"`},
		{web, `"functions": [{"name": "f"}]`, "functions", "not supported"},
	} {
		status, _, text := post(t, c.web, "/v1/chat/completions",
			`{"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, `+c.more+`}`)
		e := at(object(t, text), "error")
		if says, _ := at(e, "message").(string); status != http.StatusBadRequest || at(e, "param") != c.param ||
			!strings.Contains(says, c.says) {
			t.Errorf("%s: %d %s; want 400, param %q, %q", c.more, status, text, c.param, c.says)
		}
	}
}

// TestCallGrammar: the reader accepts whatever the grammar of a family generates, with the opening delimiter in the
// output or in the prompt.
func TestCallGrammar(t *testing.T) {
	for _, template := range []string{hermesTemplate, llamaTemplate, mistralTemplate} {
		for _, opened := range []bool{false, true} {
			f := formOf(t, template)
			g := f.grammar(opened, true)
			one := `{"name": "f", "` + f.key + `": {}}`
			text, want := g.First+one+g.Close+g.End, 1
			if g.Several {
				text, want = g.First+one+g.Close+g.Open+one+g.Close+g.End, 2
			}
			tools := &tools{form: f, most: math.MaxInt, names: map[string]bool{"f": true}}
			if opened {
				tools.opener = []int{1}
			}
			r := tools.reader()
			if content := r.add(text).text + r.end(); content != "" || r.calls != want ||
				opened && f.open != "" && strings.HasPrefix(text, f.open) {
				t.Errorf("%q: content %q, %d calls, want %d", text, content, r.calls, want)
			}
		}
	}
}
