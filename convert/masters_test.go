package convert

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/pack"
)

// TestMasters: floats that training quantizes before each product are refused, unless they hold what that gives, or the
// user decides.
func TestMasters(t *testing.T) {
	for _, c := range []struct {
		like   string // its weights: floats, or ternary values
		recipe packed.Recipe
		want   string // "" = accepted
	}{
		{"qwen3-0.6b", packed.Recipe{}, `w_bits is 0 and quant_method "sherry"`},
		{"qwen3-0.6b", packed.Recipe{Quant: QuantNone}, ""},
		{"qwen3-0.6b", packed.Recipe{Quant: "absmean", AllowLossy: true}, ""},
		{"trilm-99m", packed.Recipe{}, ""},
	} {
		dir := mini(t, c.like, func(o *synth.Options) {
			o.Config = []byte(strings.Replace(string(o.Config), "{", `{"w_bits":0,"quant_method":"sherry",`, 1))
		})
		p, err := NewPlan(context.Background(), dir, plain(c.recipe))
		if err == nil {
			p.Close()
		}
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, pack.ErrUnsupported) ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, %+v: %v, want %q", c.like, c.recipe, err, c.want)
		}
	}
}
