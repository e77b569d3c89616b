package grammar

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// accepts reports whether a grammar allows a whole text, read byte by byte.
func accepts(g *Grammar, text string) bool {
	s := g.first()
	for i := 0; s != nil && i < len(text); i++ {
		s = g.step(s, text[i])
	}
	return s != nil && s.accepts
}

// TestRegex compares with package regexp for all short texts.
func TestRegex(t *testing.T) {
	var texts []string
	for n := range 6 {
		for i := range 1 << (2 * n) {
			text := ""
			for j := range n {
				text += []string{"a", "b", "1", "é"}[i>>(2*j)&3]
			}
			texts = append(texts, text)
		}
	}
	for _, pattern := range []string{"", "a", "a*b?", "(a|b)+1", "[^a]*", "a{2,3}", "(ab|a)(b|)", `\d+\w`, ".",
		"(?s:.)*é",
		"^ab$", "a{0}", "[a-b]é{1,}", "(a*)*b", "(?:a|)+", "(?i)A[B]"} {
		g, err := Regex(pattern)
		if err != nil {
			t.Fatal(pattern, err)
		}
		re := regexp.MustCompile("^(?:" + pattern + ")$")
		for _, text := range texts {
			if got, want := accepts(g, text), re.MatchString(text); got != want {
				t.Fatalf("%q on %q: %v, want %v", pattern, text, got, want)
			}
		}
	}
	for pattern, says := range map[string]string{"(": "missing", "(?=a)b": "invalid", `(a)\1`: "invalid",
		`a\b`: "not supported", "a^b": "not supported", strings.Repeat("a", 20000): "at most"} {
		if _, err := Regex(pattern); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.20q: %v, want %q", pattern, err, says)
		}
	}
}

// TestRunes: a range of characters matches their encodings and nothing else.
func TestRunes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	edges := []rune{0, 0x41, 0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x10ffff}
	for range 300 {
		low, high := edges[r.IntN(len(edges))]+rune(r.IntN(300)), edges[r.IntN(len(edges))]+rune(r.IntN(300))
		low, high = min(low, high, utf8.MaxRune), min(max(low, high), utf8.MaxRune)
		b := newBuilder()
		p := b.runes(low, high)
		b.nodes[p.out].end = true
		g := b.grammar(p.in)
		for range 200 {
			c := edges[r.IntN(len(edges))] + rune(r.IntN(600)) - 300
			if r.IntN(2) == 0 {
				c = low + rune(r.IntN(int(high-low)+1))
			}
			if !utf8.ValidRune(c) {
				continue
			}
			if got, want := accepts(g, string(c)), low <= c && c <= high; got != want {
				t.Fatalf("%U in %U–%U: %v", c, low, high, got)
			}
		}
		for _, bad := range []string{"", "\x80", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff", "\xe2\x82"} {
			if accepts(g, bad) {
				t.Fatalf("%U–%U takes %q", low, high, bad)
			}
		}
	}
}

// vocabulary has all bytes and some longer tokens; the first token is excluded.
func vocabulary() *Vocabulary {
	tokens := []string{"<|end|>"}
	for b := range 256 {
		tokens = append(tokens, string([]byte{byte(b)}))
	}
	tokens = append(tokens, `{"`, `"}`, `": `, `":`, `", "`, `",`, `[]`, `{}`, `null`, `true`, `fal`, `se`, `12`, `-1`,
		`0.`, `e-`, `\"`, `\n`, "é", "\xf0\x9f", "\x98\x80", `ab`, `abc`, `]}`, `}]`, `}}`, ` {`, `  `)
	return NewVocabulary(len(tokens), func(id int) []byte {
		if id == 0 {
			return nil
		}
		return []byte(tokens[id])
	})
}

// random generates a schema of supported keywords.
func random(r *rand.Rand, depth int) map[string]any {
	kind := r.IntN(11)
	if depth == 0 {
		kind = 3 + r.IntN(8)
	}
	schemas := func() (list []any) {
		for range 1 + r.IntN(3) {
			list = append(list, random(r, depth-1))
		}
		return list
	}
	switch kind {
	case 0:
		properties, required := map[string]any{}, []any{}
		for i := range r.IntN(5) {
			name := fmt.Sprintf("p\"%d/é", i)
			properties[name] = random(r, depth-1)
			if r.IntN(2) == 0 {
				required = append(required, name)
			}
		}
		return map[string]any{"type": "object", "properties": properties, "required": required,
			"additionalProperties": false,
			"title":                "x"}
	case 1:
		least := r.IntN(3)
		return map[string]any{"type": "array", "items": random(r, depth-1), "minItems": least,
			"maxItems": least + r.IntN(3)}
	case 2:
		return map[string]any{"anyOf": schemas()}
	case 3:
		least := r.IntN(3)
		return map[string]any{"type": "string", "minLength": least, "maxLength": least + r.IntN(5)}
	case 4:
		return map[string]any{"type": "string",
			"pattern": []string{"^[a-f]{2,4}$", "x", `^"\\*$`, "^(foo|bar)"}[r.IntN(4)]}
	case 5:
		return map[string]any{"type": []string{"integer", "null"}}
	case 6:
		return map[string]any{"type": []string{"number", "boolean", "string"}[r.IntN(3)]}
	case 7:
		return map[string]any{"enum": []any{"a\n\"b", 5, nil, true, 1.25, "<é>"}}
	case 8:
		return map[string]any{"const": "only \u2028"}
	case 9:
		return map[string]any{"type": "string", "format": []string{"date", "time", "date-time", "uuid"}[r.IntN(4)]}
	}
	return map[string]any{"type": "object", "additionalProperties": random(r, 0)}
}

// walk generates a random allowed text, with a preference for tokens that close something.
func walk(r *rand.Rand, g *Grammar, v *Vocabulary) (text string, ended bool) {
	at := g.NewText(v)
	for range 3000 {
		mask, end := at.Allowed()
		if end && (mask.count == 0 || r.IntN(3) == 0) {
			return text, true
		}
		var ids []int
		for id := range v.size {
			if mask.Has(id) {
				ids = append(ids, id)
				if strings.ContainsAny(string(v.bytes(id)), `"]}`) {
					ids = append(ids, id, id, id, id, id, id, id)
				}
			}
		}
		id := ids[r.IntN(len(ids))]
		if !at.Accept(id) {
			panic("a token of the mask is not accepted")
		}
		text += string(v.bytes(id))
	}
	return "", false
}

// TestSchema: an independent validator accepts the result of every random walk through a schema.
func TestSchema(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	v := vocabulary()
	ended := 0
	for range 250 {
		text, _ := json.Marshal(random(r, 3))
		g, err := Schema(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		judge := compile(t, text)
		for range 6 {
			out, ok := walk(r, g, v)
			if !ok {
				continue
			}
			ended++
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(out))
			if err != nil {
				t.Fatalf("%s: %q: %v", text, out, err)
			}
			if err := judge.Validate(value); err != nil {
				t.Fatalf("%s: %q: %v", text, out, err)
			}
		}
	}
	if ended < 1000 {
		t.Errorf("only %d walks came to an end", ended)
	}
}

func compile(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.AddResource("test.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("test.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestTexts: texts inside and outside the language of a schema.
func TestTexts(t *testing.T) {
	const tree = `{"$defs": {"n": {"type": "object", "properties": {"v": {"type": "integer"},
		"k": {"type": "array", "items": {"$ref": "#/$defs/n"}}}, "required": ["v"], "additionalProperties": false}},
		"$ref": "#/$defs/n"}`
	for _, c := range []struct {
		schema  string
		yes, no []string
	}{
		{`{"type": "object"}`, []string{`{}`, `{"a":1}`, `{"a": [1, {"b":null}], "c":"\"\u0001é"}`},
			[]string{``, `[]`, `{"a":1,}`, `{ }`, `{"a":01}`, "{\"a\":\"\n\"}", `{"a":"\x"}`}},
		{tree, []string{`{"v":1}`, `{"v": -3, "k": [{"v":2},{"v":0,"k":[]}]}`},
			[]string{`{}`, `{"k":[]}`, `{"k":[],"v":1}`, `{"v":1,"v":1}`, `{"v":1.5}`}},
		{`{"type": "object", "properties": {"a": {}, "b": {"type": "null"}}}`,
			[]string{`{}`, `{"a":[]}`, `{"b":null}`, `{"a":"x","b":null}`},
			[]string{`{,"b":null}`, `{"a":1"b":null}`, `{"c":1}`}},
		{`{"type": "string", "maxLength": 2}`, []string{`""`, `"é\n"`, `"😀\""`}, []string{`"abc"`, `"\"`}},
		{`{"type": "integer"}`, []string{`0`, `-12`}, []string{`-`, `00`, `1.0`, `+1`}},
		{`true`, []string{`null`, `[{"a":{}}]`}, []string{`nul`, `[}`}},
	} {
		g, err := Schema([]byte(c.schema))
		if err != nil {
			t.Fatal(c.schema, err)
		}
		for _, text := range c.yes {
			if !accepts(g, text) && !strings.Contains(text, `\u0001`) {
				t.Errorf("%s refuses %s", c.schema, text)
			}
		}
		for _, text := range c.no {
			if accepts(g, text) {
				t.Errorf("%s takes %s", c.schema, text)
			}
		}
	}
}

// TestRefused: an unsupported keyword is rejected with its name and place; so is a schema without a finite text.
func TestRefused(t *testing.T) {
	for schema, says := range map[string]string{
		`{"type": "integer", "minimum": 3}`:                                       `#: keyword "minimum" is not supported`,
		`{"type": "object", "properties": {"a": {"oneOf": []}}}`:                  `#/properties/a: keyword "oneOf"`,
		`{"type": "object", "minProperties": 1}`:                                  `"minProperties"`,
		`{"type": "array", "uniqueItems": true}`:                                  `"uniqueItems"`,
		`{"type": "array", "prefixItems": []}`:                                    `"prefixItems"`,
		`{"not": {}}`:                                                             `"not"`,
		`{"type": "string", "pattern": "(?=a)"}`:                                  `#/pattern: `,
		`{"type": "string", "format": "email"}`:                                   `#/format: "email"`,
		`{"type": "string", "minLength": 5, "maxLength": 4}`:                      `minLength is above maxLength`,
		`{"type": "string", "maxLength": 1000000}`:                                `between 0 and 4096`,
		`{"type": "text"}`:                                                        `must be one of object`,
		`{"type": []}`:                                                            `want a string or a list`,
		`{"properties": {}}`:                                                      `needs "type"`,
		`{"type": "string", "properties": {}}`:                                    `applies to type object`,
		`{"$ref": "#/$defs/none"}`:                                                `not a part of this schema`,
		`{"$ref": "http://example.test/s"}`:                                       `not a part of this schema`,
		`{"anyOf": [{}], "type": "string"}`:                                       `together with "anyOf"`,
		`{"allOf": [{}, {}]}`:                                                     `exactly one schema`,
		`{"enum": [[1]]}`:                                                         `as a constant is not supported`,
		`{"type": "object", "properties": {"a": {}}, "required": ["b"]}`:          `"b" is not one of the properties`,
		`{"type": "object", "properties": {"a": {}}, "additionalProperties": {}}`: `a schema together with properties`,
		`{"$defs": {"a": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"]}}, ` +
			`"$ref": "#/$defs/a"}`: `no text of finite length`,
		`{"$ref": "#"}`: `no text of finite length`,
		`false`:         `want a schema`,
		`[]`:            `want a schema`,
		`{`:             ``,
	} {
		if _, err := Schema([]byte(schema)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", schema, err, says)
		}
	}
}

// TestMask compares the mask with a token-by-token search, also after the cache was reset.
func TestMask(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	v := vocabulary()
	for _, schema := range []string{`{"type": "object"}`, `{"type": "string", "maxLength": 25}`,
		`{"type": "string", "pattern": "^[a-m]*é?[a-z ]{3,9}$"}`,
		`{"type": "string", "pattern": "^[^n]*(n.{0,2})?$"}`} {
		g, err := Schema([]byte(schema))
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			at, past := g.NewText(v), ""
			for range 60 {
				mask, end := at.Allowed()
				if end {
					break
				}
				var ids []int
				for id := range v.size {
					s := g.first()
					for _, b := range []byte(past + string(v.bytes(id))) {
						if s != nil {
							s = g.step(s, b)
						}
					}
					if want := s != nil && len(v.bytes(id)) > 0; mask.Has(id) != want {
						t.Fatalf("behind %q token %q: %v", past, v.bytes(id), mask.Has(id))
					} else if want {
						ids = append(ids, id)
					}
				}
				if len(ids) != mask.count {
					t.Fatalf("behind %q: %d tokens are counted, not %d", past, mask.count, len(ids))
				}
				id := ids[r.IntN(len(ids))]
				at.Accept(id)
				past += string(v.bytes(id))
				if r.IntN(10) == 0 {
					g.reset()
				}
			}
		}
	}
}

// TestForgotten: after a cache reset a text continues from its state without being read again.
func TestForgotten(t *testing.T) {
	v := vocabulary()
	for _, make := range []func() (*Grammar, error){
		Object,
		func() (*Grammar, error) { return GBNF("root ::= e\ne ::= \"x\" e \"y\" | \"x\" e \"z\" | [a-w]*") },
		func() (*Grammar, error) { return Regex("[a-z]{0,900}") },
		func() (*Grammar, error) { return Regex("([a-z][0-9a-f])*") },
	} {
		kept, err := make()
		if err != nil {
			t.Fatal(err)
		}
		lost, _ := make()
		r := rand.New(rand.NewPCG(6, 6))
		a, b := kept.NewText(v), lost.NewText(v)
		for n := range 200 {
			if n%2 == 0 {
				lost.reset()
			}
			want, end := a.Allowed()
			got, ended := b.Allowed()
			if !slices.Equal(got.bits, want.bits) || ended != end {
				t.Fatalf("token %d: %d tokens, end %v; want %d, %v", n, got.count, ended, want.count, end)
			}
			if want.count == 0 {
				break
			}
			id := r.IntN(v.size)
			for !want.Has(id) {
				id = r.IntN(v.size)
			}
			lost.reset()
			if a.Accept(id) != b.Accept(id) {
				t.Fatalf("token %d: not both accept %q", n, v.bytes(id))
			}
			if most := 1 + len(v.bytes(id)); len(lost.states) > most {
				t.Fatalf("token %d: %d states for %d bytes", n, len(lost.states), most-1)
			}
		}
	}
}

// TestDead: a vocabulary that cannot express the grammar is detected.
func TestDead(t *testing.T) {
	g, err := Choice([]string{"ab", "ac"})
	if err != nil {
		t.Fatal(err)
	}
	v := NewVocabulary(2, func(id int) []byte { return []byte{"ax"[id]} })
	at := g.NewText(v)
	if mask, end := at.Allowed(); end || !mask.Has(0) || mask.Has(1) {
		t.Error("wrong tokens at the start")
	}
	at.Accept(0)
	if _, end := at.Allowed(); !end || !at.Dead() {
		t.Error("a dead end is not noticed")
	}
}

// TestTooLarge: choices that are too long in total are rejected before nodes are allocated for all of them.
func TestTooLarge(t *testing.T) {
	texts := make([]string, 1000)
	for i := range texts {
		texts[i] = strings.Repeat("x", 8000)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Choice(texts)
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "too large") {
		t.Error(err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 256<<20 {
		t.Errorf("%d MiB for 8 MB of texts", n>>20)
	}
}
