package convert

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
		{ternary, []packed.Rule{rule("*", "", "vnni4i-64", ""), rule(embed, "int8", "vnni4", "")}, 0, ""},
		{ternary, []packed.Rule{rule(embed, "int8", "vnni4", ""), rule("*", "", "vnni4i-64", "")}, 0, ""},
		{own, []packed.Rule{{Match: "*", Keep: true}, rule("lm_head.weight", "int8", "", "")}, 0, ""},
		{own, []packed.Rule{rule("lm_head.weight", "int8", "", ""), {Match: "*", Keep: true}}, 0, ""},
		{own, []packed.Rule{rule("*", "", "vnni4", ""), rule("lm_head.weight", "int8", "", "")}, 1,
			"names a quantizer"},
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

// TestRuledImports: codes that are taken over have the layout that a rule names, which is refused if it does not hold
// them; one that is the recipe's leaves them another one.
func TestRuledImports(t *testing.T) {
	source := mini(t, "qwen3-8b-gptq", nil)
	rule := func(layout string) []packed.Rule { return []packed.Rule{{Match: "*", Layout: layout}} }
	for _, c := range []struct {
		recipe packed.Recipe
		want   string // "" = refused
	}{
		{packed.Recipe{}, "vnni4i"},
		{packed.Recipe{Layout: "i2"}, "vnni4i"},
		{packed.Recipe{Rules: rule("vnni4i-64")}, "vnni4i-64"},
		{packed.Recipe{Layout: "i2", Rules: rule("vnni4i-64")}, "vnni4i-64"},
		{packed.Recipe{Rules: rule("i2")}, ""},
		{packed.Recipe{Layout: "vnni4i-64", Rules: rule("vnni4")}, ""},
	} {
		p, err := NewPlan(t.Context(), source, plain(c.recipe))
		if c.want == "" {
			if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), `holds no "int4" codes`) ||
				!strings.Contains(err.Error(), `rule 1 of the recipe (match: "*")`) {
				t.Errorf("%+v: %v", c.recipe, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%+v: %v", c.recipe, err)
		}
		for _, e := range p.contents.Manifest.Packed {
			if e.Quantizer != importCodes || e.Layout.Name != c.want {
				t.Errorf("%+v: %s has %s in %s", c.recipe, e.Name, e.Quantizer, e.Layout.Name)
			}
		}
		p.Close()
	}
}

// TestRuledLayouts: codes made of floats have the layout that a rule names, with its parameters, the head and the
// embedding too; a rule whose layout cannot have them is refused, with its number and the tensor.
func TestRuledLayouts(t *testing.T) {
	source, head, embed := mini(t, "mistral-7b-v0.1", nil), "lm_head.weight", "model.embed_tokens.weight"
	params := map[string]int{"panel": 16}
	for _, c := range []struct {
		rule   packed.Rule
		recipe packed.Recipe
		want   string // "" = refused
		words  string
	}{
		{packed.Rule{Match: head, Quant: "int8"}, packed.Recipe{}, "vnni4", ""},
		{packed.Rule{Match: head, Quant: "int8", Layout: "vnni4"}, packed.Recipe{}, "vnni4", ""},
		{packed.Rule{Match: head, Quant: "int8", Layout: "vnni4i"}, packed.Recipe{}, "", `holds no "int8" codes`},
		{packed.Rule{Match: head, Quant: "int4", Layout: "vnni4i-64"}, packed.Recipe{}, "vnni4i-64", ""},
		{packed.Rule{Match: head, Layout: "vnni4i-64"}, packed.Recipe{Head: "int4"}, "vnni4i-64", ""},
		{packed.Rule{Match: head, Layout: "vnni4i"}, packed.Recipe{Head: "int8"}, "", `holds no "int8" codes`},
		{packed.Rule{Match: head, Quant: "int8", Params: params}, packed.Recipe{}, "", `holds no "int8" codes`},
		{packed.Rule{Match: embed, Quant: "int8", Layout: "vnni4"}, packed.Recipe{}, "vnni4", ""},
		{packed.Rule{Match: embed, Quant: "int8"}, packed.Recipe{}, "vnni4", ""},
		{packed.Rule{Match: embed, Quant: "absmean", Layout: "i2"}, packed.Recipe{}, "", "no row panels"},
		{packed.Rule{Match: embed, Quant: "absmean"}, packed.Recipe{Layout: "i2"}, "vnni4i", ""},
		{packed.Rule{Match: "*q_proj*", Quant: "int5", Layout: "vnni4i"}, packed.Recipe{}, "", `holds no "int5" codes`},
	} {
		c.recipe.AllowLossy, c.recipe.Rules = true, []packed.Rule{{Match: "*norm*", Keep: true}, c.rule}
		if c.want == "" {
			refusedRule(t, source, plain(c.recipe), 2, c.words)
			continue
		}
		p := newPlan(t, source, plain(c.recipe))
		if s := p.step(c.rule.Match); s.row.Layout != c.want {
			t.Errorf("%+v with %+v: %+v", c.rule, c.recipe, s.row)
		}
	}
}

// TestRuledValues: values of an embedding are taken over by the widest codes that the layout of a rule holds, where it
// does not hold those that would do.
func TestRuledValues(t *testing.T) {
	source, name := mini(t, "mistral-7b-v0.1", nil), "model.embed_tokens.weight"
	path := filepath.Join(source, "model.safetensors")
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var tensors map[string]struct {
		Offsets [2]int `json:"data_offsets"`
	}
	start := 8 + int(binary.LittleEndian.Uint64(file))
	if err := json.Unmarshal(file[8:start], &tensors); err != nil {
		t.Fatal(err)
	}
	at := tensors[name].Offsets
	for i := start + at[0]; i < start+at[1]; i += 2 { // BF16
		binary.LittleEndian.PutUint16(file[i:], []uint16{0x3f80, 0xbf80, 0}[i/2%3])
	}
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	for layout, rule := range map[string]string{"vnni4i": "ternary-values", "vnni4p": "int3-values"} {
		p := newPlan(t, source, plain(packed.Recipe{Rules: []packed.Rule{{Match: name, Layout: layout}}}))
		if s := p.step(name); s.row.Rule != rule || s.row.Layout != layout {
			t.Errorf("%s: %+v", layout, s.row)
		}
	}
}
