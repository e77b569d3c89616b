package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestFormat: even at a high temperature, an output that ends by itself satisfies its format, and a stream has the same
// text.
func TestFormat(t *testing.T) {
	web := serve(t, small, Options{Queue: 10, PrefixCache: true})
	const schema = `{"type": "object", "properties": {"name": {"type": "string", "maxLength": 8},
		"age": {"type": "integer"}, "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2}},
		"required": ["name", "age"], "additionalProperties": false}`
	judge := func(schema string) func(string) error {
		c := jsonschema.NewCompiler()
		doc, _ := jsonschema.UnmarshalJSON(strings.NewReader(schema))
		if err := c.AddResource("s.json", doc); err != nil {
			t.Fatal(err)
		}
		s := c.MustCompile("s.json")
		return func(text string) error {
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			if err == nil {
				err = s.Validate(v)
			}
			return err
		}
	}
	matches := func(pattern string) func(string) error {
		return func(text string) error {
			if !regexp.MustCompile("^(?:" + pattern + ")$").MatchString(text) {
				return fmt.Errorf("no match for %s", pattern)
			}
			return nil
		}
	}
	for _, c := range []struct {
		field string
		check func(string) error
	}{
		{`"response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": true, "schema": ` +
			schema + `}}`,
			judge(schema)},
		{`"response_format": {"type": "json_object"}`, judge(`{"type": "object"}`)},
		{`"guided_json": ` + schema, judge(schema)},
		{`"guided_regex": "(yes|no), [a-z]{3,5}\\."`, matches(`(yes|no), [a-z]{3,5}\.`)},
		{`"guided_choice": ["red", "green", "Bl\u00fce"]`, matches("red|green|Blüe")},
		{`"grammar": "root ::= item{2,3} end # a list\nitem ::= \"- \" [a-z]{1,4} \"\\n\"\nend ::= \"end\" | \".\""`,
			matches(`(- [a-z]{1,4}\n){2,3}(end|\.)`)},
	} {
		ended := 0
		for seed := range 12 {
			body := fmt.Sprintf(`{"messages": [{"role": "user", "content": "Tell me"}], "temperature": 2, "top_k": 0,
				"top_p": 1, "seed": %d, "max_tokens": 120, %s}`, seed, c.field)
			status, _, text := post(t, web, "/v1/chat/completions", body)
			if status != http.StatusOK {
				t.Fatalf("%s: %d %s", c.field, status, text)
			}
			v := object(t, text)
			content := at(v, "choices", 0, "message", "content").(string)
			if at(v, "choices", 0, "finish_reason") == "stop" {
				if ended++; c.check(content) != nil {
					t.Errorf("%s: %q: %v", c.field, content, c.check(content))
				}
			}
			if seed < 2 {
				compareStream(t, web, "/v1/chat/completions", body, essence(t, text))
			}
		}
		if ended == 0 && !strings.Contains(c.field, "json_object") { // its strings rarely end
			t.Errorf("%s: no answer ended", c.field)
		}
	}
}

// TestFormatRefused: an unsupported format is rejected with the name of its field.
func TestFormatRefused(t *testing.T) {
	web := serve(t, small, Options{Queue: 10})
	for field, says := range map[string]string{
		`"response_format": {"type": "yaml"}`:        "must be one of text, json_object, json_schema",
		`"response_format": {"type": "json_schema"}`: "json_schema.schema is missing",
		`"response_format": {"type": "json_schema", "json_schema": ` +
			`{"schema": {"type": "integer", "minimum": 1}}}`: `keyword \"minimum\" is not supported`,
		`"guided_regex": "(?=a)"`:                                       "guided_regex: regular expression",
		`"guided_regex": "a", "guided_choice": ["a"]`:                   "cannot be combined with another format",
		`"guided_choice": []`:                                           "guided_choice is empty",
		`"guided_regex": "a", "ignore_eos": true`:                       "ignore_eos",
		`"guided_json": {"not": {}}`:                                    `keyword \"not\"`,
		`"grammar": "root ::= a"`:                                       `rule \"a\" is not defined`,
		`"structured_outputs": {"json": {}}`:                            "structured_outputs is not supported",
		`"response_format": {"type": "json_object"}, "min_tokens": 500`: "min_tokens",
	} {
		status, _, text := post(t, web, "/v1/completions", `{"prompt": "a", `+field+`}`)
		if status != http.StatusBadRequest || !strings.Contains(text, says) {
			t.Errorf("%s: %d %s, want %q", field, status, text, says)
		}
	}
}

// TestFormats: the most recently used grammars stay cached.
func TestFormats(t *testing.T) {
	s, web := serveModel(t, small, Options{Queue: 10})
	for i := range 2 * maxFormats {
		choice, _ := json.Marshal([]string{fmt.Sprint("a", i/2)})
		status, _, text := post(t, web, "/v1/completions", `{"prompt": "a", "guided_choice": `+string(choice)+`}`)
		if status != http.StatusOK || !strings.Contains(text, fmt.Sprintf(`"text":"a%d"`, i/2)) {
			t.Fatal(status, text)
		}
	}
	for i := range 3 {
		post(t, web, "/v1/completions", fmt.Sprintf(`{"prompt": "a", "guided_choice": ["b%d"]}`, i))
	}
	if n := len(s.models.list[0].model.formats.known); n != maxFormats ||
		s.models.list[0].model.formats.order.Len() != n {
		t.Errorf("%d grammars are remembered", n)
	}
}
