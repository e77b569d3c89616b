package grammar

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/cpu"
)

// TestGBNF: texts inside and outside the language of a grammar.
func TestGBNF(t *testing.T) {
	for _, c := range []struct {
		grammar string
		yes, no []string
	}{
		{`root ::= "yes" | "no"`, []string{"yes", "no"}, []string{"", "y", "yesno"}},
		{"root ::= [a-c]+ \"-\"? # comment\n", []string{"a", "abc-"}, []string{"", "d", "-"}},
		{"root ::= x{2} y{1,2} z{2,}\nx ::= \"x\"\ny ::= \"y\"\nz ::= \"z\"", []string{"xxyzz", "xxyyzzz"},
			[]string{"xyzz", "xxyz", "xxyyyzz"}},
		{"root ::=\n  (\"a\"\n | \"b\" |\n \"c\" )*", []string{"", "abc"}, []string{"d"}},
		{`root ::= [^"\\\x00-\x1F]* "\u00e9" "\U0001F600"`, []string{"é😀", "aéé😀"}, []string{`"é😀`, "é", `\é😀`}},
		{`root ::= . [\]\[\-x]`, []string{"é]", "\n-"}, []string{"]", "ab"}},
		{"root ::= s\ns ::= \"(\" s \")\" s | \"\"", []string{"", "()", "(())()"}, []string{"(", ")(", "(()"}},
		// tail recursion does not deepen the stack
		{"root ::= ws \"x\"\nws ::= ([ \\t] ws)?", []string{"x", strings.Repeat(" ", 2000) + "x"}, []string{" "}},
		{"root ::= (\"a\"* | \"b\"?)* \"c\"", []string{"c", "aabac"}, []string{"a"}}, // ambiguous
		{"root ::= e\ne ::= \"x\" e \"y\" | \"x\" e \"z\" | \"\"", []string{"xxyz", "xxxzzy"}, []string{"xxy"}},
	} {
		g, err := GBNF(c.grammar)
		if err != nil {
			t.Errorf("%s: %v", c.grammar, err)
			continue
		}
		for i, text := range append(c.yes, c.no...) {
			if got, want := accepts(g, text), i < len(c.yes); got != want {
				t.Errorf("%s: %.40q: %v", c.grammar, text, got)
			}
		}
	}
}

// TestGBNFRules: the largest sets of rules that can start with one another are compiled or rejected quickly, in any
// order.
func TestGBNFRules(t *testing.T) {
	const n = 3500
	for _, step := range []int{1, n} {
		var text strings.Builder
		for i := 0; i <= n; i += 500 {
			fmt.Fprintf(&text, "r%d::=a%x\n", i, i)
		}
		text.WriteString("root ::= a0")
		for i := range n {
			fmt.Fprintf(&text, "\na%x::=a%x?", i, (i+step)%(n+1))
		}
		for last, refused := range map[string]bool{`"x"`: false, fmt.Sprintf(`a%x? "x"`, (n+step)%(n+1)): true} {
			var err error
			source := fmt.Sprintf("%s\na%x ::= %s", text.String(), n, last)
			cpu.Within(t, 20*time.Second, fmt.Sprintf("%d bytes", len(source)), func() { _, err = GBNF(source) })
			if refused && (err == nil || !strings.Contains(err.Error(), "left recursion")) ||
				!refused && err != nil && !errors.Is(err, errCrowded) {
				t.Errorf("%s: %v", last, err)
			}
		}
	}
}

// TestGBNFRefused: unsupported syntax is rejected with its name and line.
func TestGBNFRefused(t *testing.T) {
	for grammar, says := range map[string]string{
		"":                               "rule root is missing",
		"a ::= \"x\"":                    "rule root is missing",
		"root ::= a":                     `rule "a" is not defined`,
		"root ::= \"a\"\nroot ::= \"b\"": `line 2: rule "root" is defined twice`,
		"root ::= root \"a\" | \"b\"":    `rule "root" begins with itself`,
		"root ::= a\na ::= b? \"x\"\nb ::= a c\nc ::= \"\"": "left recursion",
		"root ::= a* root \"x\"\na ::= \"a\"":               "left recursion",
		"root ::= n root \"x\" | \"z\"\nn ::= \"y\"?":       "left recursion",
		"root ::= <think>":                                  "tokens are not supported",
		"root ::= \"a":                                      "unterminated literal",
		"root ::= [a":                                       "unterminated literal or character class",
		"root ::= []":                                       "empty character class",
		"root ::= [b-a]":                                    "is empty",
		"root ::= (\"a\"":                                   "want )",
		"root ::= *":                                        "needs an item before it",
		"root ::= \"a\"{5,2}":                               "want a number from 5",
		"root ::= \"a\"{99999}":                             "want a number up to",
		"root ::= ((\"a\"{4000}){4000}){4000}":              "too large",
		"root ::= \"\\q\"":                                  "unknown escape",
		"root ::= \"\\uD800\"":                              "is not a character",
		"root = \"a\"":                                      "want ::=",
		"root ::= \"a\" )":                                  "end of the line",
		"root ::= a\na ::= \"x\" a":                         "no text of finite length",
		strings.Repeat("(", 1000):                           "want the name",
		"root ::= " + strings.Repeat("(", 1000):             "groups nested deeper",
		strings.Repeat("#", maxGBNF+1):                      "at most",
	} {
		if _, err := GBNF(grammar); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60q: %v, want %q", grammar, err, says)
		}
	}
}

// TestAmbiguous: a grammar with exponentially many derivations stays within its limits, and still allows only texts of
// its language.
func TestAmbiguous(t *testing.T) {
	g, err := GBNF("root ::= e\ne ::= \"x\" e \"y\" | \"x\" e \"z\" | \"w\"")
	if err != nil {
		t.Fatal(err)
	}
	v := vocabulary()
	at := g.NewText(v)
	n := 0
	for ; n < 100; n++ {
		mask, _ := at.Allowed()
		if !mask.Has(1 + 'x') {
			break
		}
		at.Accept(1 + 'x')
	}
	if n < 5 || n > 10 {
		t.Fatalf("%d times x", n) // more would exceed maxPlaces
	}
	at.Accept(1 + 'w')
	for range n {
		if mask, _ := at.Allowed(); !mask.Has(1+'y') || !mask.Has(1+'z') || mask.count != 2 {
			t.Fatalf("%d tokens", mask.count)
		}
		at.Accept(1 + 'z')
	}
	if mask, end := at.Allowed(); !end || mask.count != 0 || at.Dead() {
		t.Error("the text does not end")
	}
}

// TestCrowded: if each token leads to thousands of places, the allowed tokens are not searched for: the text ends
// quickly, with little memory, whatever is cached.
func TestCrowded(t *testing.T) {
	g, err := Regex("[a-z]*[a-m][a-z]{1000}[a-z]{1000}[a-z]{1000}")
	if err != nil {
		t.Fatal(err)
	}
	v := NewVocabulary(26*26*26+26, func(id int) []byte {
		if id < 26 {
			return []byte{byte('a' + id)}
		}
		id -= 26
		return []byte{byte('a' + id%26), byte('a' + id/26%26), byte('a' + id/26/26)}
	})
	for range 2 {
		at := g.NewText(v)
		if mask, _ := at.Allowed(); mask.count != 26*26*26+26 || at.Dead() {
			t.Fatalf("%d tokens at the beginning", mask.count)
		}
		for i := range 2000 {
			if !at.Accept(i * 7 % 26) {
				t.Fatalf("letter %d is refused", i)
			}
		}
		if mask, end := at.Allowed(); !end || mask.count != 0 || !at.Dead() {
			t.Errorf("%d tokens behind 2,000 letters", mask.count)
		}
		if g.held > maxHeld+2*maxWork {
			t.Errorf("%d positions are held", g.held)
		}
	}
	g.NewText(v).Allowed()
	if g.held > maxHeld {
		t.Errorf("%d positions are held by a text that begins", g.held)
	}
}

// TestMixed: calls inside free text satisfy the schemas of strict functions.
func TestMixed(t *testing.T) {
	functions := []Function{
		{Name: "add",
			Parameters: []byte(`{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}`)},
		{Name: "say", Free: true},
	}
	hermes := CallForm{First: "<tool_call>\n", Open: "\n<tool_call>\n", Close: "\n</tool_call>", Key: "arguments",
		Several: true}
	hermes.Open = "<tool_call>\n"
	for _, c := range []struct {
		form    CallForm
		opening string
		yes, no []string
	}{
		{hermes, "<tool_call>", []string{
			"", "Hello <tool", "<<tool_cal l>{",
			"a<tool_call>\n{\"name\":\"add\", \"arguments\": {\"n\": 5}}\n</tool_call> b " +
				"<tool_call>\n{\"name\":\"say\",\"arguments\":{\"x\":[]}}\n</tool_call>",
		}, []string{"<tool_call>", "a <tool_call>b",
			"<tool_call>\n{\"name\":\"add\", \"arguments\": {\"n\": \"5\"}}\n</tool_call>",
			"<tool_call>\n{\"name\":\"none\""}},
		{CallForm{Key: "parameters"}, "", []string{"", "Hi {", " \n", "{\"name\":\"add\",\"parameters\":{\"n\":1}}"},
			[]string{"{", " {a", "{\"name\":\"add\",\"parameters\":{}}"}},
		{CallForm{First: "[TOOL_CALLS][", Open: ", ", End: "]", Key: "arguments", Several: true}, "[TOOL_CALLS]",
			[]string{"[", "[TOOL_CALLS][{\"name\":\"add\",\"arguments\":{\"n\":1}}, " +
				"{\"name\":\"say\",\"arguments\":{}}]"},
			[]string{"[TOOL_CALLS]", "x[TOOL_CALLS][]", "[TOOL_CALLS][{\"name\":\"say\",\"arguments\":1}]"}},
	} {
		g, err := Mixed(c.form, c.opening, functions)
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range append(c.yes, c.no...) {
			if got, want := accepts(g, text), i < len(c.yes); got != want {
				t.Errorf("%q: %q: %v", c.opening, text, got)
			}
		}
	}
}

// BenchmarkConstrain measures the cost per token of constrained text with 128,256 tokens: the mask and its application
// to the logits. A string of bounded length has a new mask at every token; "first" has an empty cache.
func BenchmarkConstrain(b *testing.B) {
	r := rand.New(rand.NewPCG(7, 7))
	seen, tokens := map[string]bool{}, []string{}
	for c := range 256 {
		tokens = append(tokens, string([]byte{byte(c)}))
	}
	tokens = append(tokens, `{"`, `": `, `", "`, `"}`, `":`, `},`, ` {"`, `true`, `false`, `null`)
	alphabets := [][]rune{[]rune("etaoinshrdlucmfwypvbgkjqxz"), []rune("etaoinshrdlucmfwypvbgkjqxz"),
		[]rune("оеаинтсрвлкмдпуяыьгзбчйхжш")}
	for len(tokens) < 128256 {
		var w strings.Builder
		if r.IntN(2) == 0 {
			w.WriteByte(' ')
		}
		letters := alphabets[len(tokens)%len(alphabets)]
		for range 2 + r.IntN(8) {
			w.WriteRune(letters[min(r.IntN(26), r.IntN(26))])
		}
		if !seen[w.String()] {
			seen[w.String()] = true
			tokens = append(tokens, w.String())
		}
	}
	v := NewVocabulary(len(tokens), func(id int) []byte { return []byte(tokens[id]) })
	const schema = `{"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"},
		"tags": {"type": "array", "items": {"type": "string"}, "minItems": 3}, "ok": {"type": "boolean"}},
		"required": ["name", "age", "tags", "ok"], "additionalProperties": false}`
	logits := make([]float32, v.size)
	for name, make := range map[string]func() (*Grammar, error){
		"schema":  func() (*Grammar, error) { return Schema([]byte(schema)) },
		"object":  Object,
		"bounded": func() (*Grammar, error) { return Schema([]byte(`{"type": "string", "maxLength": 2000}`)) },
		"gbnf": func() (*Grammar, error) {
			return GBNF("root ::= \"[\" item (\", \" item)* \"]\"\nitem ::= [a-z ]+ | \"(\" item \")\"")
		},
	} {
		for _, state := range []string{"first", "again"} {
			b.Run(fmt.Sprint(name, "/", state), func(b *testing.B) {
				g, err := make()
				if err != nil {
					b.Fatal(err)
				}
				read := 0
				for i := 0; i < b.N; i++ {
					b.StopTimer()
					if state == "first" {
						g.reset()
					}
					r := rand.New(rand.NewPCG(1, 1))
					at := g.NewText(v)
					var ids []int
					for n := 0; n < 60; n++ { // at most 60 tokens
						b.StartTimer()
						mask, _ := at.Allowed()
						mask.Restrict(logits)
						b.StopTimer()
						if ids = ids[:0]; mask.count == 0 {
							break
						}
						for id := range v.size {
							if mask.Has(id) {
								ids = append(ids, id)
							}
						}
						id := ids[r.IntN(len(ids))]
						b.StartTimer()
						at.Accept(id)
						b.StopTimer()
						read++
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(read), "µs/token")
			})
		}
	}
}
