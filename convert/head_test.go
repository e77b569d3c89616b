package convert

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// TestInt4Head: an int4 head has groups of 32 columns, or 64 if a rule asks for it, and never one scale per row or
// tensor.
func TestInt4Head(t *testing.T) {
	path := mini(t, "llama3-8b", nil)
	rule := func(scale string) packed.Recipe {
		return packed.Recipe{AllowLossy: true,
			Rules: []packed.Rule{{Match: packed.HeadName, Quant: "int4", Scale: scale}}}
	}
	for _, c := range []struct {
		recipe packed.Recipe
		want   string // "" = refused
	}{
		{packed.Recipe{Head: packed.HeadInt4}, "group:32"},
		{rule(""), "group:32"}, {rule("group:32"), "group:32"}, {rule("group:64"), "group:64"},
		{rule("row"), ""}, {rule("tensor"), ""}, {rule("group:128"), ""},
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
		if !ok || e.Scale.String() != c.want || e.Scale.DType != packed.ScaleF16 || !e.Scale.Signed || e.Bits() > 4.6 {
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
