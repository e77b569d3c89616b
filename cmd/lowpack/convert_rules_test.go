package main

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
)

// TestRulesText: rules that are written as a recipe are read as they were, whatever the names of tensors.
func TestRulesText(t *testing.T) {
	rules := []packed.Rule{{Match: "model.layers.0.*", Quant: "int4", Scale: "group:32", Layout: "vnni4i-64",
		Params: map[string]int{"b": 2, "a": -1}}, {Match: "lm_head", Keep: true},
		{Match: "long." + strings.Repeat("x ", 300)}}
	for _, name := range []string{"*.weight", "it's", `"quoted"`, "a: b", "a #b", "- a", "{a}", "[a], b", "&a", "!a", "|",
		">", "%a", "@a", "`a`", "?", "~", "null", "true", "yes", "1", "1e3", "0x1f", "2001-01-01", "", " a ", `a\b`, "a\tb",
		"a\nb", "\x00\x1b", "\u0085\u2028\ufeff", "日本語", "🙂"} {
		rules = append(rules, packed.Rule{Match: name, Quant: "int4"})
	}
	text := rulesText(rules)
	if first := "rules:\n    - {match: model.layers.0.*, quant: int4, layout: vnni4i-64, " +
		"params: {a: -1, b: 2}, scale: 'group:32'}\n"; !strings.HasPrefix(text, first) {
		t.Errorf("%.200s\nwant %s", text, first)
	}
	if lines := strings.Count(text, "\n"); lines != 1+len(rules) {
		t.Errorf("%d lines for %d rules", lines, len(rules))
	}
	path := filepath.Join(t.TempDir(), "recipe.yaml")
	write(t, path, text)
	got, err := readRules(path)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for i, want := range rules {
		if i >= len(got) || !reflect.DeepEqual(got[i], want) {
			t.Fatalf("rule %d: %+v, want %+v\n%s", i, got[min(i, len(got)-1)], want, text)
		}
	}
}

// TestRecipeText: a report names the flags that are not as usual.
func TestRecipeText(t *testing.T) {
	all := packed.Recipe{Layout: "vnni4", Params: map[string]int{"b": 2, "a": 1}, Quant: "int8", Scale: "row",
		Head: packed.HeadInt4, Activation: "token16", Golden: packed.GoldenNone, Include: []string{"x*"},
		AllowLossy: true, Rules: []packed.Rule{{}}}
	for want, r := range map[string]packed.Recipe{
		"--layout vnni4i": {Layout: "vnni4i", Quant: "auto", Golden: packed.GoldenFull},
		"--layout vnni4 --param a=1 --param b=2 --quant int8 --scale row --head int4 --activation token16 " +
			"--golden none --include 'x*' --allow-lossy --recipe with 1 rules": all,
	} {
		if got := recipeText(&r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
