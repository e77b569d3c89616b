package grammar

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestRuns: far from the end of a counted repetition a state uses the mask of its representative, which equals its own.
// Tokens have all lengths around maxShort.
func TestRuns(t *testing.T) {
	tokens := []string{" ", `"`, `",`, `","`, `["`, `"]`, "é", "\xc3", "\xa9", "\xa9a", "ab", "aé", "x", "xx", "\\",
		`\u00`, "e9"}
	for n := 1; n <= maxShort+3; n++ {
		tokens = append(tokens, strings.Repeat("a", n), strings.Repeat("é", n)[:n], strings.Repeat("a", n-1)+"x")
	}
	v := NewVocabulary(len(tokens), func(id int) []byte { return []byte(tokens[id]) })
	gbnf := func(text string) func() (*Grammar, error) { return func() (*Grammar, error) { return GBNF(text) } }
	schema := func(text string) func() (*Grammar, error) {
		return func() (*Grammar, error) { return Schema([]byte(text)) }
	}
	for name, c := range map[string]struct {
		make func() (*Grammar, error)
		runs int
	}{
		"string":    {schema(`{"type": "string", "maxLength": 200}`), 1},
		"both ends": {schema(`{"type": "string", "minLength": 90, "maxLength": 180}`), 2},
		"list": {schema(`{"type": "array", "minItems": 70, "maxItems": 90,
			"items": {"type": "string", "enum": ["a", "é"]}}`), 1},
		"nested":    {schema(`{"type": "array", "maxItems": 3, "items": {"type": "string", "maxLength": 100}}`), 1},
		"pattern":   {schema(`{"type": "string", "pattern": "^[a-dé ]{2,150}x?$"}`), 1},
		"ambiguous": {gbnf(`root ::= ("a" | "aa" | "é"){0,150}`), 1},
		"again":     {gbnf(`root ::= (("a" | "é"){0,120} "x")*`), 1},
		"within":    {gbnf("root ::= c{0,120}\nc ::= \"a\" | \"é\" c{0,70} \"x\""), 2},
		"short":     {schema(`{"type": "string", "maxLength": 60}`), 0},
		"empty":     {gbnf(`root ::= ("a"? "é"?){0,150}`), 0},
		"empties":   {gbnf("root ::= b{0,150}\nb ::= \"a\"*"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := c.make()
			if err != nil {
				t.Fatal(err)
			}
			if len(g.runs) != c.runs {
				t.Errorf("%d runs, want %d", len(g.runs), c.runs)
			}
			r := rand.New(rand.NewPCG(5, 5))
			shared := 0
			for range 10 {
				at := g.NewText(v)
				for range 50 {
					mask, _ := at.Allowed()
					if at.at == nil || mask.count == 0 {
						break
					}
					if g.like(at.at) != at.at {
						shared++
					}
					if want := v.mask(g, at.at); !slices.Equal(mask.bits, want.bits) || mask.count != want.count {
						t.Fatalf("%d tokens, want %d", mask.count, want.count)
					}
					id := r.IntN(len(tokens))
					for !mask.Has(id) || len(tokens[id]) > 8 && r.IntN(8) > 0 {
						id = r.IntN(len(tokens))
					}
					if !at.Accept(id) {
						t.Fatalf("%q is not accepted", tokens[id])
					}
				}
			}
			if (shared > 0) != (c.runs > 0) {
				t.Errorf("%d states are like others", shared)
			}
		})
	}
}
