package jinja

import (
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/jsonread"
)

// marks renders a template about x, which came with the conversation, and returns the text with what is marked in «».
func marks(t *testing.T, source, x string) string {
	t.Helper()
	parsed, err := Parse(source)
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	vars := &Dict{}
	vars.Set("x", NewInput(x))
	vars.Set("list", FromJSON(&jsonread.Value{Kind: jsonread.Array,
		Items: []jsonread.Value{{Kind: jsonread.String, Text: x}}}))
	text, err := parsed.Render(vars, clock)
	if err != nil {
		return "error"
	}
	if text.Input == "" {
		text.Input = strings.Repeat("\x00", len(text.S))
	}
	if len(text.S) != len(text.Input) {
		t.Fatalf("%s: %d bytes, %d marks", source, len(text.S), len(text.Input))
	}
	var out strings.Builder
	last := byte(0)
	for i := range len(text.S) {
		if text.Input[i] != last {
			out.WriteString([]string{"»", "«"}[text.Input[i]])
		}
		last = text.Input[i]
		out.WriteByte(text.S[i])
	}
	return out.String() + map[byte]string{1: "»"}[last]
}

// TestMarks: what a template does with the text of a conversation does not hide where it came from, and what it writes
// itself does not become a part of the conversation.
func TestMarks(t *testing.T) {
	for _, c := range []struct{ source, x, want string }{
		{"<s>{{ x }}</s>", "hi", "<s>«hi»</s>"},
		{"<s>{{ x | trim }}</s>", " hi ", "<s>«hi»</s>"},
		{"{{ '<s>' + x + '</s>' }}", "hi", "<s>«hi»</s>"},
		{"{{ ('<s> ' ~ x ~ ' </s>').strip() | trim }}", "hi", "<s> «hi» </s>"},
		{"{% set m %}<s>{{ x }}</s>{% endset %}{{ m | trim }}", "hi", "<s>«hi»</s>"},
		{"{% macro f(a) %}<s>{{ a }}</s>{% endmacro %}{{ f(x) * 2 }}", "hi", "<s>«hi»</s><s>«hi»</s>"},
		{"{{ x.split('</think>')[-1].lstrip('\\n') }}|{{ x.split('</think>')[0].split('<think>')[1] }}",
			"<think>a</think>\nb", "«b»|«a»"},
		{"{{ x.split() | join('<s>') }}", "a b c", "«a»<s>«b»<s>«c»"},
		{"{{ x.rsplit('.', 1)[1] }}", "a.b.c", "«c»"},
		{"{{ x.splitlines() | join('|') }}", "a\r\nb\vc", "«a»|«b»|«c»"},
		{"{{ x.replace('b', '<s>') }}", "abc", "«a»<s>«c»"},
		{"{{ 'a-c'.replace('-', x) }}", "b", "a«b»c"},
		{"{{ x.replace('', '-') }}", "äb", "-«ä»-«b»-"},
		{"{{ x[1:] }}{{ x[0] }}{{ x[::-1] }}", "äbc", "«bcäcbä»"},
		{"{{ ('<' ~ x)[1:2] }}{{ ('<' ~ x)[0] }}", "ab", "«a»<"},
		{"{% for c in x %}{{ c }}.{% endfor %}", "äb", "«ä».«b»."},
		{"{{ ('a' ~ x) | upper }}", "ß", "A«SS»"},
		{"{{ ('a' ~ x) | title }}", "b", "«Ab»"},
		{"{{ x | indent(2) }}", "a\nb", "«a\n»  «b»"},
		{"{{ x | tojson }}", "a\"b", `"«a\"b»"`},
		{"{{ list | tojson }}", "ab", `["«ab»"]`},
		{"{{ list }}", "ab", `«['ab']»`},
		{"{{ x | default('d') }}{{ y | default(x) }}", "a", "«aa»"},
		{"{{ {x: 1}.keys() | first }}", "a", "«a»"},
		{"{% filter upper %}a{{ x }}{% endfilter %}", "b", "A«B»"},
		{"{{ [x, 'b'] | sort | join }}", "c", "b«c»"},
	} {
		if got := marks(t, c.source, c.x); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.source, got, c.want)
		}
	}
}

// TestMarksOfEveryFilter: whatever filter or method a text goes through, no letter of it comes out as the template's
// own.
func TestMarksOfEveryFilter(t *testing.T) {
	check := func(source string) {
		t.Helper()
		depth := 0
		for _, c := range marks(t, source, "q qQ\nq") {
			switch {
			case c == '«':
				depth++
			case c == '»':
				depth--
			case depth == 0 && (c == 'q' || c == 'Q'):
				t.Errorf("%s: %s", source, marks(t, source, "q qQ\nq"))
				return
			}
		}
	}
	arguments := []string{"", "(' ')", "(' ', '-')", "(x)", "(2)", "(list)", "('upper')"}
	for name := range filters {
		for _, args := range arguments {
			for _, of := range []string{"x", "list", "{x: x}", "('a' ~ x)", "[x, list]"} {
				check("{{ " + of + " | " + name + args + " }}")
				check("{{ " + of + " | " + name + args + " | list | join }}")
			}
		}
	}
	for name := range stringMethods {
		for _, args := range arguments {
			if args == "" {
				args = "()"
			}
			check("{{ x." + name + args + " }}")
			check("{{ ('a' ~ x)." + name + args + " | list | join }}")
			check("{{ 'a b'." + strings.Replace(name+args, "'-'", "x", 1) + " }}")
		}
	}
}
