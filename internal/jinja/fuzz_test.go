package jinja

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/jsonread"
)

// grammar are the productions of templates. A word that is a key stands for one of its productions; bytes of the fuzzer
// choose which. Blind changes of text hardly ever give a second statement that fits the first.
var grammar = map[string][]string{
	"BODY": {"text", "BODY BODY", "{{ E }}", "{{- E -}}", "{# no #}",
		"{% if E %} BODY {% elif E %} BODY {% else %} BODY {% endif %}",
		"{% for V in E %} BODY {% else %} BODY {% endfor %}", "{%- for V , V in E if E -%} BODY {%- endfor -%}",
		"{% for V in E recursive %} BODY {{ loop ( E ) }} {% endfor %}",
		"{% for V in E %} {% if E %} {% break %} {% else %} {% continue %} {% endif %} {% endfor %}",
		"{% set V = E %} BODY", "{% set V , V = E %} BODY", "{% set V | F %} BODY {% endset %} BODY",
		"{% set ns = namespace( a = E ) %} BODY", "{% set ns.a = E %} BODY",
		"{% macro f ( V , V = E ) %} BODY {% endmacro %} BODY", "{% call( V ) f ( E ) %} BODY {% endcall %}",
		"{{ f ( E , V = E ) }}", "{{ caller ( E ) }}",
		"{% filter F %} BODY {% endfilter %}", "{% with V = E %} BODY {% endwith %}",
		"{% generation %} BODY {% endgeneration %}",
		"{% raw %} {{ E }} {% endraw %}", "RAW"},
	"E": {"V", "0", "-1", "7", "2.5", "1e308", "9223372036854775807", "'a'", "'ab' 'c'", "true", "none", "[]", "{}",
		"[ E , E ]", "{ E : E }", "( E , )",
		"E O E", "E O E", "not E", "- E", "( E )", "E | F", "E | F", "E is T", "E is not T", "E if E else E", "E if E",
		"E [ E ]", "E [ E : E : E ]", "E . V",
		"E . M", "range( E )", "dict( a = E )", "loop . L", "namespace( a = E ) . a", "raise_exception ( E )",
		"strftime_now ( '%Y' )"},
	"O": {"+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "and", "or", "in", "not in"},
	"V": {"l", "d", "s", "n", "t", "messages", "nothing", "names", "people", "x", "y", "loop", "ns"},
	"L": {"index", "index0", "revindex", "first", "last", "length", "depth", "previtem", "nextitem", "cycle( E , E )",
		"changed( E )"},
	"T": {"divisibleby( E )", "sameas( E )", "in( E )", "eq( E )"},
	"F": {"join( E )", "map( attribute = E )", "map( E )", "selectattr( E , E )", "replace( E , E )", "default( E )",
		"tojson( indent = E )", "round( E )", "indent( E )", "sort( attribute = E )"},
	"M": {"split( E )", "replace( E , E )", "strip( E )", "get( E , E )", "find( E )", "join( E )"},
}

func init() {
	for name := range filters {
		grammar["F"] = append(grammar["F"], name)
	}
	for name := range comparisonTests {
		grammar["T"] = append(grammar["T"], name+"( E )")
	}
	for name := range simpleTests {
		grammar["T"] = append(grammar["T"], name)
	}
	for _, names := range [][]string{slices.Collect(maps.Keys(stringMethods)), slices.Collect(maps.Keys(dictMethods)),
		slices.Collect(maps.Keys(listMethods))} {
		for _, name := range names {
			grammar["M"] = append(grammar["M"], name+"()", name+"( E )")
		}
	}
	for _, key := range []string{"F", "T", "M"} { // the same choices in every process
		slices.Sort(grammar[key])
	}
}

// template makes a template of choices. When none is left, the first production of a word is taken, which ends it. The
// word RAW stands for text that the fuzzer made up.
func template(choices []byte, raw string) string {
	var b strings.Builder
	todo := []string{"BODY"}
	for len(todo) > 0 {
		word := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		productions, ok := grammar[word]
		switch {
		case word == "RAW":
			b.WriteString(raw)
		case !ok:
			b.WriteString(word + " ")
		default:
			n := 0
			if len(choices) > 0 {
				n, choices = int(choices[0])%len(productions), choices[1:]
			}
			words := strings.Fields(productions[n])
			slices.Reverse(words)
			todo = append(todo, words...)
		}
	}
	return b.String()
}

// FuzzTemplate renders templates that the grammar makes of choices or, without any, that the fuzzer makes up: twice the
// same, and without a panic.
func FuzzTemplate(f *testing.F) {
	data, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		f.Fatal(err)
	}
	v, err := jsonread.Parse(data, 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	vars := FromJSON(v.Get("variables")).(*Dict)
	for _, c := range v.Get("cases").Items {
		f.Add(c.Get("template").Text, []byte{})
	}
	for i := range grammar["BODY"] {
		for j := range grammar["E"] {
			f.Add("{{ l }}", []byte{1, byte(i), byte(j), byte(i + j), byte(i * j), 2, byte(j), byte(i), 3, byte(j)})
		}
	}
	f.Fuzz(func(t *testing.T, source string, choices []byte) {
		if len(choices) > 0 {
			source = template(choices, source)
		}
		first, err := render(source, vars)
		second, again := render(source, vars)
		if first != second || (err == nil) != (again == nil) {
			t.Errorf("%q rendered %q, then %q: %v, then %v", source, first, second, err, again)
		}
	})
}

// TestGrammar: most of what the grammar makes is parsed, and a good part of it renders.
func TestGrammar(t *testing.T) {
	const n = 2000
	parsed, rendered := 0, 0
	for i := range n {
		choices := make([]byte, 40)
		for j := range choices {
			choices[j] = byte((i + 1) * (2*j + 3) * 37 >> (j % 5))
		}
		if _, err := Parse(template(choices, "")); err == nil {
			parsed++
		}
		if _, err := render(template(choices, ""), &Dict{}); err == nil {
			rendered++
		}
	}
	t.Logf("of %d templates %d are parsed and %d render", n, parsed, rendered)
	if parsed < n/2 || rendered < n/20 {
		t.Errorf("of %d templates %d are parsed and %d render", n, parsed, rendered)
	}
}
