package server

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lowpack/lowpack/runtime/server/internal/api"
)

// TestTemplateTime: a chat template that prints the time renders another prompt at another time. The response names the
// time used; a request with this time reproduces the response.
func TestTemplateTime(t *testing.T) {
	_, web := serveModel(t, small, Options{Queue: 10},
		`{{ bos_token }}{{ strftime_now('%d %b %Y %H:%M:%S %Z') }}{% for m in messages %}{{ m['content'] }}{% endfor %}`)
	const messages = `"messages": [{"role": "user", "content": " Hello"}]`
	at := func(path, body, when string) (int, string, string) {
		status, header, text := post(t, web, path, body, api.TimeHeader, when)
		return status, header.Get(api.TimeHeader), text
	}
	for when, says := range map[string]string{"2024-02-29T23:59:58Z": "29 Feb 2024 23:59:58 UTC",
		"2024-03-01T00:30:00.5+01:00": "29 Feb 2024 23:30:00 UTC"} {
		status, told, text := at("/apply-template", "{"+messages+"}", when)
		if same, err := time.Parse(time.RFC3339, told); status != http.StatusOK || err != nil ||
			!strings.Contains(text, says) || same.Format("05") != says[18:20] {
			t.Errorf("%s: %d, told %q: %s", when, status, told, text)
		}
	}
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"max_tokens": 4, "seed": 1, ` + messages + "}",
		"/v1/responses":        `{"max_output_tokens": 4, "seed": 1, "input": "Hello"}`,
		"/tokenize":            "{" + messages + "}",
	} {
		_, told, first := at(path, body, "")
		if then, err := time.Parse(time.RFC3339, told); err != nil || then.Location() != time.UTC {
			t.Fatalf("%s: told %q", path, told)
		}
		_, again, second := at(path, body, told)
		if path != "/tokenize" {
			first, second = essence(t, first), essence(t, second)
		}
		if again != told || first != second {
			t.Errorf("%s: told %s and %s: %s\n%s", path, told, again, first, second)
		}
	}
	status, _, text := at("/v1/completions", `{"prompt": "a", "max_tokens": 1}`, "yesterday")
	if status != http.StatusBadRequest || !strings.Contains(text, api.TimeHeader) {
		t.Errorf("%d %s", status, text)
	}
	if _, told, _ := at("/v1/completions", `{"prompt": "a", "max_tokens": 1}`, ""); told != "" {
		t.Errorf("nothing tells the time, but the answer names %s", told)
	}
}
