package printable

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

func TestText(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"model.layers.0 größer 模型 👩‍👩‍👧\t\n", "model.layers.0 größer 模型 👩‍👩‍👧\t\n"},
		{"\x1b[2J", `\u001b[2J`},
		{"a\rb\x00\x7f", `a\u000db\u0000\u007f`},
		{"\u009b31m", `\u009b31m`},
		{"\x9b31m", `\x9b31m`},
		{"\u202egpj.exe\u2069", `\u202egpj.exe\u2069`},
		{"\ufffd", "\ufffd"},
		{"\xe2\x80", `\xe2\x80`},
	} {
		if got := string(Text([]byte(c.text))); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
	if got := Line("name\nPASS\t\x1b"); got != `name\nPASS\t\u001b` {
		t.Errorf("%q", got)
	}
}

// TestJSON: every character survives in the JSON that is printed.
func TestJSON(t *testing.T) {
	for r := rune(0); r <= 0x3000; r++ {
		want := map[string]string{"k" + string(r): "v" + string(r)}
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(want); err != nil {
			t.Fatal(err)
		}
		text := Text(b.Bytes())
		var got map[string]string
		if err := json.Unmarshal(text, &got); err != nil || got["k"+string(r)] != want["k"+string(r)] {
			t.Fatalf("%U: %s: %v, %v", r, text, got, err)
		}
		if strings.ContainsFunc(string(text), func(r rune) bool { return unicode.IsControl(r) && r != '\n' }) {
			t.Fatalf("%U: %q", r, text)
		}
	}
}
