package server

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/requests"
)

// field is a row of the table in docs/REQUESTS.md: a field with an example, and its treatment by each endpoint.
type field struct {
	name, example string
	fate          map[string]string
}

// endpoints are the columns of the table, each with a minimal request.
var endpoints = []struct{ path, body string }{
	{"/v1/chat/completions", `"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 3, "seed": 1`},
	{"/v1/completions", `"prompt": "Hello", "max_tokens": 3, "seed": 1`},
	{"/v1/responses", `"input": "Hello", "max_output_tokens": 3, "seed": 1`},
	{"/v1/embeddings", `"input": "Hello"`},
	{"/v1/rerank", `"query": "Hello", "documents": ["a"]`},
	{"/v1/score", `"text_1": "Hello", "text_2": "a"`},
}

// readFields parses the table.
func readFields(t *testing.T) (list []field) {
	t.Helper()
	text, err := os.ReadFile("../../docs/REQUESTS.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `(\"([a-z_0-9]+)\": .*)` \\| (.*)" +
		strings.Repeat(" \\| (.*)", len(endpoints)-1) + " \\|$")
	for _, row := range rows.FindAllSubmatch(text, -1) {
		f := field{name: string(row[2]), example: string(row[1]), fate: map[string]string{}}
		for i, e := range endpoints {
			f.fate[e.path] = string(row[3+i])
		}
		list = append(list, f)
	}
	return list
}

// TestFieldTable: the server treats every request field as docs/REQUESTS.md says, and the table lists every field that
// the server knows.
func TestFieldTable(t *testing.T) {
	servers := serveAll(t, Options{Queue: 10}, requests.Template)
	list := readFields(t)
	for _, e := range endpoints {
		web := servers(e.path)
		_, _, plain := post(t, web, e.path, "{"+e.body+"}")
		for _, f := range list {
			f.check(t, e.path, essence(t, plain), func(members string) (int, http.Header, string) {
				return post(t, web, e.path, merge(t, e.body, members))
			})
		}
		honoured := slices.Collect(maps.Keys(schemas()[e.path].Properties))
		for _, f := range list {
			if at := slices.Index(honoured, f.name); at >= 0 && f.fate[e.path] != "refused" {
				honoured = slices.Delete(honoured, at, at+1)
			} else if f.fate[e.path] == "yes" {
				t.Errorf("%s: %s is not in /openapi.json", e.path, f.name)
			}
		}
		if len(honoured) > 0 {
			t.Errorf("%s: the table lacks %q", e.path, honoured)
		}
	}
	for _, name := range mentioned(t) {
		if !slices.ContainsFunc(list, func(f field) bool { return f.name == name }) {
			t.Errorf("the table lacks %q", name)
		}
	}
}

// check sends a field to an endpoint; plain is the response without it.
func (f *field) check(t *testing.T, path, plain string, send func(string) (int, http.Header, string)) {
	t.Helper()
	example := f.example
	switch f.fate[path] {
	case "n = 1":
		example = `"n": 1`
	case "a number":
		example = `"logprobs": 2`
	case "refused": // send this member alone
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte("{"+example+"}"), &members); err != nil {
			t.Fatal(err)
		}
		example = `"` + f.name + `": ` + string(members[f.name])
	case "for `text_1`", "for `text_2`":
		example = `"text_1": null, "text_2": null, ` + example
		if f.name != "queries" {
			example += `, "queries": "Hello"`
		} else {
			example += `, "items": "a"`
		}
	case `without "function": {…}`:
		example = `"tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}]`
	}
	status, header, text := send(example)
	ignored := slices.Contains(strings.Split(header.Get("X-Lowpack-Ignored"), ", "), f.name)
	switch fate := f.fate[path]; {
	case fate == "refused":
		if e := at(object(t, text), "error"); status != http.StatusBadRequest || at(e, "param") != f.name ||
			at(e, "code") != "unsupported_parameter" {
			t.Errorf("%s: {%s}: %d %s", path, example, status, text)
		}
	case status != http.StatusOK || ignored != (fate == "unknown"):
		t.Errorf("%s: {%s}: %d, ignored %t: %s", path, example, status, ignored, text)
	case fate == "no effect" && essence(t, text) != plain:
		t.Errorf("%s: {%s} changes the answer:\n%s\nwas\n%s", path, example, text, plain)
	case fate == "repeated" && !strings.Contains(text, strings.ReplaceAll(example, " ", "")):
		t.Errorf("%s: {%s} is not repeated: %s", path, example, text)
	case !slices.Contains([]string{"no effect", "repeated", "unknown"}, fate) && !f.refuses(t, send):
		t.Errorf("%s: %s takes any value", path, f.name)
	}
}

// refuses reports whether the endpoint reads the field, shown by a value that it rejects.
func (f *field) refuses(t *testing.T, send func(string) (int, http.Header, string)) bool {
	t.Helper()
	for _, value := range []string{"[[{}]]", "5.5"} {
		if status, _, text := send(`"` + f.name + `": ` + value); status == http.StatusBadRequest &&
			strings.Contains(text, f.name) {
			return true
		}
	}
	return false
}

// merge puts other members in front of those of a request.
func merge(t *testing.T, members ...string) string {
	t.Helper()
	all := map[string]json.RawMessage{}
	for _, text := range members {
		if err := json.Unmarshal([]byte("{"+text+"}"), &all); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// mentioned lists the fields that the source passes to Refuse or Accept.
func mentioned(t *testing.T) (list []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range regexp.MustCompile(`\bb\.(?:Refuse|Accept)\(([^)]*)\)`).FindAllSubmatch(text, -1) {
			for _, word := range regexp.MustCompile(`"([a-z_]+)"`).FindAllSubmatch(call[1], -1) {
				list = append(list, string(word[1]))
			}
		}
	}
	if len(list) < 50 {
		t.Fatalf("only %q in %q", list, files)
	}
	return list
}
