package convert

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// refusedRule fails unless a recipe is refused for its rule of that number, with some words.
func refusedRule(t *testing.T, source string, o Options, number int, words string) {
	t.Helper()
	p, err := NewPlan(t.Context(), source, o)
	if err == nil {
		p.Close()
	}
	says := fmt.Sprintf("rule %d of the recipe", number)
	if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), says) ||
		!strings.Contains(err.Error(), words) {
		t.Errorf("%+v: %v", o.Recipe.Rules, err)
	}
}

// TestRulesFollowed: a rule without any effect is refused; one that says what is the case anyway is not.
func TestRulesFollowed(t *testing.T) {
	tied, own := mini(t, "llama-3.2-1b", nil), mini(t, "mistral-7b-v0.1", nil)
	ternary, embed := mini(t, "bitnet-2b4t-bf16", nil), "model.embed_tokens.weight"
	rule := func(match, quant, layout, scale string) packed.Rule {
		return packed.Rule{Match: match, Quant: quant, Layout: layout, Scale: scale}
	}
	for _, c := range []struct {
		source string
		rules  []packed.Rule
		number int // of the refused one; 0 = none
		words  string
	}{
		{own, []packed.Rule{rule(embed, "", "", "group:32")}, 1, "names a quantizer"},
		{own, []packed.Rule{rule(embed, "", "vnni4", "")}, 1, "names a quantizer"},
		{own, []packed.Rule{rule("lm_head.weight", "", "", "row")}, 1, "names a quantizer"},
		{own, []packed.Rule{rule("*", "", "vnni4", "")}, 1, "names a quantizer"},
		{own, []packed.Rule{{Match: embed, Params: map[string]int{"panel": 32}}}, 1, "names a quantizer"},
		{own, []packed.Rule{rule(embed, "int8", "vnni4", "")}, 0, ""},
		{own, []packed.Rule{rule("lm_head.weight", "int8", "vnni4", "")}, 0, ""},
		{own, []packed.Rule{{Match: embed, Keep: true}, {Match: "*norm*", Keep: true}}, 0, ""},
		{own, []packed.Rule{rule("lm_head.weight", "none", "", ""), rule("*", "auto", "", "")}, 0, ""},
		{own, []packed.Rule{rule("*", "none", "", "row")}, 1, "kept has no quantizer"},
		{own, []packed.Rule{rule("*", "int8", "vnni4", ""), rule("*q_proj*", "int4", "", "")}, 2, "no tensor matches"},
		{own, []packed.Rule{rule("*norm*", "int8", "vnni4", "")}, 1, "none of the matrices"},
		{own, []packed.Rule{rule("*embed_token*", "int8", "vnni4", "")}, 1, "without a pattern"},
		{tied, []packed.Rule{rule("lm_head.weight", "int8", "vnni4", "")}, 1, "no tensor matches"},
		{tied, []packed.Rule{rule("*q_projection*", "int8", "vnni4", "")}, 1, "no tensor matches"},
		{ternary, []packed.Rule{rule("*.mlp.*", "", "i2", ""), rule("*", "", "vnni4i-64", "")}, 0, ""},
	} {
		o := plain(packed.Recipe{AllowLossy: true, Rules: c.rules})
		if c.number > 0 {
			refusedRule(t, c.source, o, c.number, c.words)
			continue
		}
		newPlan(t, c.source, o)
	}
	experts := mini(t, "qwen1.5-moe-a2.7b", nil)
	newPlan(t, experts, plain(packed.Recipe{Rules: []packed.Rule{
		{Match: "model.layers.0.mlp.experts.up_proj.weight", Keep: true}}}))
	o := plain(packed.Recipe{AllowLossy: true, Include: []string{"*q_proj*"},
		Rules: []packed.Rule{rule("*k_proj*", "int8", "vnni4", "")}})
	refusedRule(t, own, o, 1, "none of the matrices")
}
