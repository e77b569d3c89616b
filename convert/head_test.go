package convert

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// TestHeadScales: an int4 head has groups of 32 columns, or 64 if a rule asks for it, and never one scale per row or
// tensor; an int6 head has groups of 64 columns, and an int8 head a scale per row, or what a rule asks for.
func TestHeadScales(t *testing.T) {
	path := mini(t, "llama3-8b", nil)
	head := func(head packed.Head) packed.Recipe { return packed.Recipe{Head: head} }
	rule := func(quant, scale string) packed.Recipe {
		return packed.Recipe{AllowLossy: true,
			Rules: []packed.Rule{{Match: packed.HeadName, Quant: quant, Scale: scale}}}
	}
	for _, c := range []struct {
		recipe packed.Recipe
		want   string // "" = refused
		dtype  packed.ScaleType
		bits   float64 // at most
	}{
		{head(packed.HeadInt4), "group:32", packed.ScaleF16, 4.6},
		{rule("int4", ""), "group:32", packed.ScaleF16, 4.6},
		{rule("int4", "group:32"), "group:32", packed.ScaleF16, 4.6},
		{rule("int4", "group:64"), "group:64", packed.ScaleF16, 4.3},
		{recipe: rule("int4", "row")}, {recipe: rule("int4", "tensor")}, {recipe: rule("int4", "group:128")},
		{head(packed.HeadInt6), "group:64", packed.ScaleF16, 6.25},
		{rule("int6", ""), "group:64", packed.ScaleF16, 6.25},
		{rule("int6", "group:32"), "group:32", packed.ScaleF16, 6.5},
		{rule("int6", "row"), "row", packed.ScaleF32, 6.5},
		{head(packed.HeadInt8), "row", packed.ScaleF32, 8.5},
		{rule("int8", "group:64"), "group:64", packed.ScaleF16, 8.25},
	} {
		p, err := NewPlan(context.Background(), path, plain(c.recipe))
		if c.want == "" {
			if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), "group:32 or group:64") {
				t.Errorf("%+v: %v", c.recipe, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		e, ok := p.contents.Manifest.Entry(packed.HeadName)
		if !ok || e.Scale.String() != c.want || e.Scale.DType != c.dtype || e.Scale.Signed == (e.Quantizer == "int8") ||
			e.Bits() > c.bits {
			t.Errorf("%+v: %+v", c.recipe, e)
		}
		p.Close()
	}
}

// TestNamedTables: rules quantize the embedding and the head by their names alone: patterns, and rules that keep, leave
// their floats. One that has no other effect is refused.
func TestNamedTables(t *testing.T) {
	for family, tables := range map[string][]string{"llama-3.2-1b": {"model.embed_tokens.weight"},
		"mistral-7b-v0.1": {"model.embed_tokens.weight", "lm_head.weight"}} {
		source := mini(t, family, nil)
		for _, name := range tables {
			for match, want := range map[string]string{name: "int4", name + "*": ruleKeep, "*": ruleKeep} {
				rules := []packed.Rule{{Match: match, Quant: "int4", Scale: "group:32"}}
				o := plain(packed.Recipe{Quant: "none", AllowLossy: true, Rules: rules})
				if match == name+"*" {
					refusedRule(t, source, o, 1, match)
					continue
				}
				p := newPlan(t, source, o)
				for _, other := range tables {
					expect := ruleKeep
					if other == name {
						expect = want
					}
					if s := p.step(other); s.row.Rule != expect {
						t.Errorf("%s: %s with a rule for %q: %+v", family, other, match, s.row)
					}
				}
			}
			keep := newPlan(t, source, plain(packed.Recipe{Rules: []packed.Rule{{Match: name, Keep: true}}}))
			if s := keep.step(name); s.row.Rule != ruleKeep {
				t.Errorf("%s: %+v", family, s.row)
			}
		}
	}
}

// TestTakesOver: codes with one scale are taken over alone, and the error names what asks for something else.
func TestTakesOver(t *testing.T) {
	one := func(r packed.Rule) []packed.Rule { r.Match = "*.q_proj.weight"; return []packed.Rule{r} }
	const rule = "the rule for it, or --size, --bits or --min-quality, which make rules"
	for _, c := range []struct {
		r     packed.Recipe
		words string // "" = accepted
	}{
		{packed.Recipe{}, ""},
		{packed.Recipe{Scale: "tensor"}, ""},
		{packed.Recipe{Quant: "int4", Rules: []packed.Rule{{Match: "*", Quant: "auto"}}}, ""},
		{packed.Recipe{Quant: "int4"}, "--quant int4"},
		{packed.Recipe{Quant: "none"}, "--quant none"},
		{packed.Recipe{Scale: "row"}, "--scale row"},
		{packed.Recipe{Quant: "int8", Scale: "group:32"}, "--quant int8 and --scale group:32"},
		{packed.Recipe{Rules: one(packed.Rule{Keep: true})}, rule},
		{packed.Recipe{Rules: one(packed.Rule{Quant: "int8"})}, rule},
		{packed.Recipe{Rules: one(packed.Rule{Scale: "row"})}, rule},
		{packed.Recipe{Quant: "int4", Rules: one(packed.Rule{Keep: true})}, "--quant int4 and " + rule},
	} {
		_, err := NewPlan(t.Context(), shared.Testdata(t, "tiny-bitnet-packed"), plain(c.r))
		switch {
		case c.words == "" && err != nil:
			t.Errorf("%+v: %v", c.r, err)
		case c.words != "" && (!errors.Is(err, pack.ErrUnsupported) ||
			!strings.HasSuffix(err.Error(), "(--quant auto); leave out "+c.words)):
			t.Errorf("%+v: %v", c.r, err)
		}
	}
}

// TestHeadConflicts: a rule or an include that leaves floats of the head that the recipe has quantized is refused, and
// the error names both; a rule that names the head without a pattern chooses its quantizer.
func TestHeadConflicts(t *testing.T) {
	tied, own := mini(t, "llama-3.2-1b", nil), mini(t, "mistral-7b-v0.1", nil)
	keep := func(match string) packed.Rule { return packed.Rule{Match: match, Keep: true} }
	quant := func(match, quant string) packed.Rule { return packed.Rule{Match: match, Quant: quant} }
	for _, c := range []struct {
		source  string
		head    packed.Head
		rule    packed.Rule
		include string
		words   string // "" = accepted
	}{
		{own, "int8", keep("lm_*"), "", `--head int8 quantizes "lm_head.weight", for which a rule decides only if`},
		{own, "int6", keep("lm_*"), "", `--head int6 quantizes "lm_head.weight"`},
		{own, "int4", keep("lm_*"), "", `--head int4 quantizes "lm_head.weight"`},
		{tied, "int8", keep("lm_*"), "", `--head int8 quantizes "lm_head.weight"`},
		{tied, "screen", keep("lm_*"), "", `--head screen quantizes "lm_head.screen"`},
		{own, "int8", quant("lm_*", "int4"), "", `--head int8 quantizes "lm_head.weight"`},
		{own, "int4", packed.Rule{Match: "lm_*", Layout: "vnni4i-64"}, "", `--head int4 quantizes "lm_head.weight"`},
		{own, "int8", keep("lm_head.weight"), "", `leaves the floats that --head int8 quantizes`},
		{tied, "int8", keep("lm_head.weight"), "", `leaves the floats that --head int8 quantizes`},
		{own, "int8", quant("lm_head.weight", "none"), "", `leaves the floats that --head int8 quantizes`},
		{tied, "int4", quant("lm_head.weight", "auto"), "", `are already (quant: auto), and --head int4 quantizes them`},
		{own, "screen", keep("lm_head.screen"), "", `leaves the floats that --head screen quantizes`},
		{own, "int8", keep("*"), "*q_proj*", `quantizes "lm_head.weight", which --include leaves out`},
		{tied, "screen", keep("*"), "*q_proj*", `quantizes "lm_head.screen", which --include leaves out`},
		{own, "screen", keep("lm_*"), "", ""},
		{own, "int8", keep("*"), "", ""},
		{tied, "int8", keep("model.embed_tokens.weight"), "", ""},
		{own, "int8", quant("lm_head.weight", "int4"), "", ""},
		{tied, "int4", quant("lm_head.weight", "int8"), "", ""},
		{tied, "int6", quant("lm_head.weight", "int4"), "", ""},
		{tied, "int6", keep("model.embed_tokens.weight"), "", ""},
		{own, "int8", keep("*"), "lm_*", ""},
	} {
		o := plain(packed.Recipe{Head: c.head, AllowLossy: true, Rules: []packed.Rule{c.rule}})
		if c.include != "" {
			o.Recipe.Include = []string{c.include}
		}
		p, err := NewPlan(t.Context(), c.source, o)
		if c.words != "" {
			if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), c.words) {
				t.Errorf("%s %+v %q: %v", c.head, c.rule, c.include, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s %+v %q: %v", c.head, c.rule, c.include, err)
			continue
		}
		name, want := packed.HeadName, cmp.Or(c.rule.Quant, string(c.head))
		if c.head == packed.HeadScreen {
			name, want = packed.ScreenName, string(packed.HeadInt8)
		}
		if s := p.step(name); s.row.Rule != want {
			t.Errorf("%s %+v: %+v", c.head, c.rule, s.row)
		}
		p.Close()
	}
}

// TestCodesOfHead: codes of the head that are taken over, or that a rule asks for, have no other form beside them.
func TestCodesOfHead(t *testing.T) {
	gptq := mini(t, "qwen3-8b-gptq", func(o *synth.Options) {
		o.Config = bytes.Replace(o.Config, []byte(`"lm_head": false`), []byte(`"lm_head": true`), 1)
	})
	edit(t, gptq, func(tensors map[string]raw) {
		head := tensors["lm_head.weight"].shape
		delete(tensors, "lm_head.weight")
		add := func(name string, dtype safetensors.DType, size int64, shape ...int64) {
			data := bytes.Repeat([]byte{0x77}, int(shape[0]*shape[1]*size)) // the zero points of version 1
			tensors["lm_head."+name] = raw{dtype, shape, data}
		}
		add("qweight", "I32", 4, head[1]/8, head[0])
		add("qzeros", "I32", 4, 1, head[0]/8)
		add("scales", safetensors.F16, 2, 1, head[0])
	})
	float := packed.Recipe{AllowLossy: true, Rules: []packed.Rule{{Match: packed.HeadName, Quant: "int4"}}}
	for _, c := range []struct {
		source string
		recipe packed.Recipe
		head   packed.Head
		words  string // "" = accepted
	}{
		{gptq, packed.Recipe{}, "", ""},
		{gptq, packed.Recipe{}, "int8", `--head int8 is made of floats, and "lm_head.weight" has codes (import-codes)`},
		{gptq, packed.Recipe{}, "screen", "--head screen is made of floats"},
		{mini(t, "mistral-7b-v0.1", nil), float, "screen", `"lm_head.weight" has codes (int4)`},
	} {
		c.recipe.Head = c.head
		p, err := NewPlan(t.Context(), c.source, plain(c.recipe))
		if err == nil {
			p.Close()
		}
		if (err == nil) != (c.words == "") || c.words != "" && !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", c.head, err)
		}
	}
}
