package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dlclark/regexp2"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// formal is a chat with a required output format and a judge that shares no code with the server:
// santhosh-tekuri/jsonschema, with regexp2 for patterns, which backtracks where the server uses automata.
type formal struct {
	kind   string
	body   string // without the closing brace
	judge  func(said) error
	before string // messages, each followed by a comma
}

// said is the output of a response, streamed or not.
type said struct {
	content string
	calls   []spoken
	reason  string
}

// spoken is a function call.
type spoken struct{ name, arguments string }

// formals generates chats of every kind: schemas, objects, regular expressions, and tools with optional, required or
// named calls.
func formals(t testing.TB, model string, n int, r *rand.Rand) []formal {
	list := make([]formal, n)
	for i := range list {
		g := &formalRand{r, t}
		list[i] = g.formal(i)
		words := strings.Fields("river city boat song recipe planet book mountain student garden")
		verb := []string{"Describe", "Invent", "Compare"}[g.IntN(3)]
		question := fmt.Sprintf("%s a %s and a %s.", verb, words[g.IntN(10)], words[g.IntN(10)])
		if list[i].before != "" {
			question = "Call get_weather."
		}
		list[i].body = fmt.Sprintf(`{"model": %q, "messages": [%s{"role": "user", "content": %q}], "max_tokens": 160, `+
			`"seed": %d, "temperature": %.1f, %s`, model, list[i].before, question,
			g.Uint32(), float64(g.IntN(13))/10, list[i].body)
	}
	return list
}

type formalRand struct {
	*rand.Rand
	t testing.TB
}

func (g *formalRand) formal(i int) formal {
	switch i % 6 {
	case 0:
		s := g.object(2)
		const format = `"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": %s}}`
		return formal{kind: "schema", body: fmt.Sprintf(format, s), judge: g.content(g.schema(s))}
	case 1:
		check := g.content(g.schema(`{"type": "object"}`))
		return formal{kind: "object", body: `"response_format": {"type": "json_object"}`, judge: check}
	case 2:
		pattern := g.pattern()
		quoted, _ := json.Marshal(pattern)
		return formal{kind: "regex", body: `"guided_regex": ` + string(quoted), judge: g.content(g.matches(pattern))}
	}
	return g.tools(i % 6)
}

// tools generates one to three functions.
func (g *formalRand) tools(kind int) formal {
	var tools []string
	checks, names := map[string]func(string) error{}, []string{"get_weather", "find_book", "set_alarm"}[:1+g.IntN(3)]
	for _, name := range names {
		parameters, strict := g.object(1), kind != 3 || g.IntN(2) == 0
		tools = append(tools, fmt.Sprintf(`{"type": "function", "function": {"name": %q, "description": "Calls %s", `+
			`"strict": %v, "parameters": %s}}`, name, name, strict, parameters))
		if checks[name] = g.schema(parameters); !strict {
			checks[name] = g.schema(`{"type": "object"}`)
		}
	}
	several, must, name := g.IntN(2) == 0, kind != 3, ""
	choice := []string{`"auto"`, `"required"`}[min(1, kind-3)]
	if kind == 5 {
		name = names[g.IntN(len(names))]
		choice = fmt.Sprintf(`{"type": "function", "function": {"name": %q}}`, name)
	}
	before := ""
	if !must { // a small model calls if the chat already contains a call
		before = strings.Repeat(`{"role": "user", "content": "Call get_weather."}, `+
			`{"role": "assistant", "content": "", "tool_calls": [{"id": "call00000", "type": "function", `+
			`"function": {"name": "get_weather", "arguments": "{}"}}]}, `, 2)
	}
	return formal{
		before: before,
		kind:   []string{"auto", "required", "named"}[kind-3],
		body: fmt.Sprintf(`"tools": [%s], "tool_choice": %s, "parallel_tool_calls": %v`,
			strings.Join(tools, ", "), choice, several),
		judge: func(a said) error {
			switch {
			case must && (len(a.calls) == 0 || a.content != ""):
				return errors.New("want calls alone")
			case len(a.calls) > 1 && !several:
				return errors.New("want one call")
			}
			for _, c := range a.calls {
				check := checks[c.name]
				if check == nil || name != "" && c.name != name {
					return fmt.Errorf("a call of %q", c.name)
				}
				if err := check(c.arguments); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// content judges the content of an output that ended by itself.
func (g *formalRand) content(check func(string) error) func(said) error {
	return func(a said) error {
		if len(a.calls) > 0 {
			return errors.New("calls, of no tools")
		}
		return check(a.content)
	}
}

// object generates the schema of an object.
func (g *formalRand) object(depth int) string {
	names := strings.Fields("name age city title count size color when where tags done next")
	g.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	var properties, required []string
	for _, name := range names[:1+g.IntN(4)] {
		properties = append(properties, fmt.Sprintf("%q: %s", name, g.value(depth)))
		if g.IntN(3) > 0 {
			required = append(required, fmt.Sprintf("%q", name))
		}
	}
	return fmt.Sprintf(`{"type": "object", "properties": {%s}, "required": [%s], "additionalProperties": false, `+
		`"$defs": {"unit": {"enum": ["km", "mile", "°C", 1, null]}}}`,
		strings.Join(properties, ", "), strings.Join(required, ", "))
}

// value generates the schema of a value.
func (g *formalRand) value(depth int) string {
	kinds := []func() string{
		func() string {
			return fmt.Sprintf(`{"type": "string", "minLength": %d, "maxLength": %d}`, g.IntN(3), 4+g.IntN(60))
		},
		func() string {
			return fmt.Sprintf(`{"type": "string", "pattern": "^[A-Z][a-z]{2,%d}( [A-Z][a-z]+)?$"}`, 3+g.IntN(9))
		},
		func() string { return `{"type": "string", "format": "date"}` },
		func() string { return `{"enum": ["red", "grün", "blue \"sky\"", 7]}` },
		func() string { return `{"type": "integer"}` },
		func() string { return `{"type": ["number", "null"]}` },
		func() string { return `{"type": "boolean"}` },
		func() string { return `{"$ref": "#/$defs/unit"}` },
		func() string {
			return fmt.Sprintf(`{"type": "array", "items": %s, "minItems": 1, "maxItems": %d}`, g.value(0), 1+g.IntN(5))
		},
		func() string { return fmt.Sprintf(`{"anyOf": [%s, %s]}`, g.value(0), g.value(0)) },
		func() string {
			inner := g.object(depth - 1) // $ref is resolved at the root, which defines the same
			return inner[:strings.LastIndex(inner, `, "$defs"`)] + "}"
		},
	}
	if depth == 0 {
		kinds = kinds[:8]
	}
	return kinds[g.IntN(len(kinds))]()
}

// pattern generates a regular expression that differs from all earlier ones.
func (g *formalRand) pattern() string {
	most := 8 + g.IntN(100)
	return []string{
		fmt.Sprintf(`(yes|no), [a-z]{3,%d}[.]`, most),
		fmt.Sprintf(`[A-Z]{2}-[0-9]{3,%d}`, most),
		fmt.Sprintf(`[A-Z][a-z ]{10,%d}\.`, 10+most),
		fmt.Sprintf(`(red|green|blue)( (red|green|blue)){0,%d}`, most),
		fmt.Sprintf(`\w+@\w{2,%d}\.(com|org)`, most),
		`#[0-9a-f]{6}`,
		fmt.Sprintf(`[^"\n]{5,%d}!`, most),
		fmt.Sprintf(`- [a-zà-ÿ]{1,%d}(\n- [a-z]+){1,3}`, most),
		fmt.Sprintf(`([α-ω]|[一-龥]){1,%d}`, most),
		fmt.Sprintf(`(\+[0-9]{1,3} )?[0-9]{3}-[0-9]{4}( ext [0-9]{1,%d})?`, most),
	}[g.IntN(10)]
}

func (g *formalRand) schema(text string) func(string) error {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		g.t.Fatalf("%s: %v", text, err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.UseRegexpEngine(func(source string) (jsonschema.Regexp, error) { return newBacktracking(source) })
	if err := c.AddResource("s.json", doc); err != nil {
		g.t.Fatal(err)
	}
	s, err := c.Compile("s.json")
	if err != nil {
		g.t.Fatalf("%s: %v", text, err)
	}
	return func(text string) error {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err == nil {
			err = s.Validate(v)
		}
		return err
	}
}

func (g *formalRand) matches(pattern string) func(string) error {
	re, err := newBacktracking(`\A(?:` + pattern + `)\z`)
	if err != nil {
		g.t.Fatalf("%s: %v", pattern, err)
	}
	return func(text string) error {
		if !re.MatchString(text) {
			return fmt.Errorf("no match for %s", pattern)
		}
		return nil
	}
}

// backtracking adapts an expression of regexp2.
type backtracking struct{ *regexp2.Regexp }

func newBacktracking(source string) (backtracking, error) {
	re, err := regexp2.Compile(source, regexp2.RE2)
	return backtracking{re}, err
}

func (b backtracking) MatchString(s string) bool {
	ok, err := b.Regexp.MatchString(s)
	return ok && err == nil
}

// saidOf reads a response without streaming.
func saidOf(t testing.TB, text string) (a said) {
	choice := at(object(t, text), "choices", 0)
	a.content, _ = at(choice, "message", "content").(string)
	a.reason, _ = at(choice, "finish_reason").(string)
	calls, _ := at(choice, "message", "tool_calls").([]any)
	for _, c := range calls {
		name, _ := at(c, "function", "name").(string)
		arguments, _ := at(c, "function", "arguments").(string)
		a.calls = append(a.calls, spoken{name, arguments})
	}
	return a
}

// saidBy assembles a stream.
func saidBy(t testing.TB, text string) (a said) {
	for _, f := range frames(t, text) {
		choice := at(f, "choices", 0)
		part, _ := at(choice, "delta", "content").(string)
		a.content += part
		if reason, ok := at(choice, "finish_reason").(string); ok {
			a.reason = reason
		}
		deltas, _ := at(choice, "delta", "tool_calls").([]any)
		for _, d := range deltas {
			if name, ok := at(d, "function", "name").(string); ok {
				a.calls = append(a.calls, spoken{name: name})
			}
			part, _ := at(d, "function", "arguments").(string)
			if len(a.calls) == 0 {
				t.Errorf("arguments of no call: %s", text)
				return a
			}
			a.calls[len(a.calls)-1].arguments += part
		}
	}
	return a
}

// TestFormalJudge: the judge rejects wrong output and accepts correct output.
func TestFormalJudge(t *testing.T) {
	g := &formalRand{rand.New(rand.NewPCG(1, 2)), t}
	s := g.content(g.schema(`{"type": "object", "properties": {"a": {"type": "string", "pattern": "^[a-z]{2}$"},
		"d": {"type": "string", "format": "date"}}, "required": ["a"], "additionalProperties": false}`))
	m := g.content(g.matches(`[a-z]{2}`))
	for i, c := range []struct {
		judge func(said) error
		a     said
		ok    bool
	}{
		{s, said{content: `{"a": "xy"}`}, true},
		{s, said{content: `{"a": "xyz"}`}, false},
		{s, said{content: `{"a": "xy"`}, false},
		{s, said{content: `{"d": "2026-01-01"}`}, false},
		{s, said{content: `{"a": "xy", "d": "2026-13-01"}`}, false},
		{s, said{content: `{"a": "xy", "b": 1}`}, false},
		{s, said{content: `{"a": "xy"}`, calls: []spoken{{}}}, false},
		{m, said{content: "ab"}, true}, {m, said{content: "ab\n"}, false}, {m, said{content: "abc"}, false},
	} {
		if err := c.judge(c.a); (err == nil) != c.ok {
			t.Errorf("case %d, %+v: %v", i, c.a, err)
		}
	}
	for kind := 3; kind < 6; kind++ {
		f := g.tools(kind)
		if err := f.judge(said{content: "no"}); (err == nil) != (kind == 3) {
			t.Errorf("%s without a call: %v", f.kind, err)
		}
		for _, wrong := range []spoken{{"unknown", "{}"}, {"get_weather", "[]"}} {
			if f.judge(said{calls: []spoken{wrong}}) == nil {
				t.Errorf("%s: %v is right", f.kind, wrong)
			}
		}
	}
}
