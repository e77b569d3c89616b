package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/runtime/server/internal/openapi"
)

// operations are the routes of a server.
var operations = sync.OnceValue(func() []route { return (&Server{registry: newRegistry()}).routes() })

// checkDeclared fails for a status that /openapi.json does not declare.
func checkDeclared(t testing.TB, method, path string, status int) {
	t.Helper()
	for _, r := range operations() {
		prefix, isPrefix := strings.CutSuffix(r.Path, "{id...}")
		if known := strings.TrimSuffix(r.Path, "{$}") == path || isPrefix && strings.HasPrefix(path, prefix); known &&
			r.Method == method && status != http.StatusOK && !slices.Contains(r.Kind.Statuses, status) {
			t.Errorf("%s %s: status %d is not declared", method, path, status)
		}
	}
}

// schemas holds the request schemas of the server of small, by path.
var schemas = sync.OnceValue(func() map[string]*jsonschema.Schema {
	limits := limits(small.Context, 2560, "tiny")
	list := map[string]*jsonschema.Schema{}
	for _, r := range operations() {
		if r.Method != http.MethodPost {
			continue
		}
		text, _ := json.Marshal(openapi.Document([]openapi.Route{r.Route}, limits))
		c := jsonschema.NewCompiler()
		doc, _ := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		c.AddResource("a.json", at(doc, "paths", r.Path, "post", "requestBody", "content",
			"application/json", "schema"))
		list[r.Path] = c.MustCompile("a.json")
	}
	return list
})

// checkSchema fails if /openapi.json and the server disagree: the server must reject what the schema rejects, and may
// reject what the schema allows only with a code.
func checkSchema(t testing.TB, path, body string, status int, answer string) {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	s := schemas()[path]
	if s == nil || err != nil {
		return
	}
	if _, fault := jsonread.Fields([]byte(body)); fault != nil { // other parsers would disagree on its meaning
		if status == http.StatusOK {
			t.Errorf("%s %.500s is answered: %v", path, body, fault)
		}
		return
	}
	err = s.Validate(v)
	if err != nil && status == http.StatusOK {
		t.Errorf("%s %.500s is answered, but the schema refuses it: %v", path, body, err)
	}
	if err == nil && status == http.StatusBadRequest && strings.Contains(answer, `"code":null`) {
		t.Errorf("%s %.500s: %s, but the schema allows it", path, body, answer)
	}
}

// TestOpenAPI: the document has every route with its statuses and the fields of its body.
func TestOpenAPI(t *testing.T) {
	web := serve(t, small, Options{Queue: 10})
	_, _, text := do(t, web, http.MethodGet, "/openapi.json", "")
	v := object(t, text)
	for _, r := range operations() {
		path := strings.NewReplacer("{$}", "", "...", "").Replace(r.Path)
		o := at(v, "paths", path, strings.ToLower(r.Method))
		statuses, _ := at(o, "responses").(map[string]any)
		if len(statuses) != len(r.Kind.Statuses)+1 || statuses["200"] == nil {
			t.Errorf("%s: %v", path, statuses)
		}
		body := at(o, "requestBody", "content", "application/json", "schema", "properties")
		if (body != nil) != (r.Method == http.MethodPost) {
			t.Errorf("%s: fields %v", path, body)
		}
	}
	if at(v, "openapi") != "3.1.0" || at(v, "info", "version") == nil ||
		at(v, "components", "schemas", "Error") == nil {
		t.Errorf("%s", text)
	}
}
