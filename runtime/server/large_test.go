package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// listed joins n items with commas.
func listed(n int, item func(i int) string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = item(i)
	}
	return strings.Join(list, ",")
}

// TestFormatTooLarge: every way in which a format can be too large is rejected with its own message. A format that
// proves too ambiguous, or that the vocabulary cannot express, is rejected during generation.
func TestFormatTooLarge(t *testing.T) {
	web := serve(t, small, Options{Queue: 10})
	word := func(i int) string { return fmt.Sprintf(`"%064d"`, i) }
	long := func(i int) string { return `"` + strings.Repeat("x", 6000) + fmt.Sprint(i) + `"` }
	property := func(i int) string { return fmt.Sprintf(`"%d": {"type": "string", "maxLength": 4096}`, i) }
	for _, c := range []struct{ field, says string }{
		{`"guided_json": {"enum": [` + listed(10000, word) + `]}`, "670011 bytes of JSON, more than 262144"},
		{`"response_format": {"type": "json_schema", "json_schema": {"schema": {"enum": [` +
			listed(10000, word) + `]}}}`,
			"more than 262144"},
		{`"guided_json": {"enum": [` + listed(3900, word) + `]}`, "more than 262144 places"},
		{`"guided_json": {"type": "object", "properties": {` + listed(300, property) + `}}`, "more than 262144 places"},
		{`"guided_json": ` + strings.Repeat(`{"type": "array", "items": `, 100) + "{}" + strings.Repeat("}", 100),
			"nested deeper than 64"},
		{`"guided_regex": "((a{1000}){1000}){1000}"`, "invalid repeat count"},
		{`"guided_regex": "` + strings.Repeat("(?:)", 5000) + `"`, "20000 bytes: at most 16384"},
		{`"guided_regex": "` + strings.Repeat("a?", 5000) + `a"`, "too ambiguous"},
		{`"guided_choice": [` + listed(1024, long) + `]`, "more than 262144 places"},
		{`"guided_choice": [` + listed(1025, word) + `]`, "at most 1024"},
		{`"grammar": "root ::= \"a\" #` + strings.Repeat("x", 100000) + `"`, "at most 65536"},
		{`"grammar": "root ::= ` + strings.Repeat("(", 1000) + `\"a\"` + strings.Repeat(")", 1000) + `"`,
			"groups nested deeper"},
		{`"grammar": "root ::= ((\"a\"{4000}){4000}){4000}"`, "more than 262144 places"},
		{`"guided_regex": "b` + strings.Repeat("a?", 5000) + `a"`, "too ambiguous at this point"},
	} {
		status, _, text := post(t, web, "/v1/completions", `{"prompt": "a", "max_tokens": 4, `+c.field+"}")
		e := at(object(t, text), "error")
		name := strings.Split(c.field, `"`)[1]
		if message, _ := at(e, "message").(string); status != http.StatusBadRequest || at(e, "param") != name ||
			!strings.Contains(message, c.says) {
			t.Errorf("%.60s: %d %.400s; want 400, %q, %q", c.field, status, text, name, c.says)
		}
	}
}
