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
