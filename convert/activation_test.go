package convert

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// TestActivationOf: models trained with quantization keep the per-token scale; other models get the smallest group size
// of their weights; the candidate filter does not count, and an explicit choice has priority.
func TestActivationOf(t *testing.T) {
	entry := func(quantizer string, a pack.Alphabet, group int) packed.Entry {
		e := packed.Entry{Name: "w", Quantizer: quantizer, Layout: pack.Spec{Alphabet: a.Name},
			Scale: packed.Scale{Kind: packed.ScaleRow}}
		if group > 0 {
			e.Scale = packed.Scale{Kind: packed.ScaleGroup, Group: group}
		}
		return e
	}
	row, g32, g64, g128 := entry("int8", pack.Int8, 0), entry("int4", pack.Int4, 32), entry("int4", pack.Int4,
		64), entry("int4", pack.Int4, 128)
	screen, head := entry("int8", pack.Int8, 0), entry("int6", pack.Int6, 64)
	screen.Name, head.Name = packed.ScreenName, packed.HeadName
	ofVocabulary := func(name string) bool { return name == packed.HeadName }
	for _, c := range []struct {
		asked   string
		entries []packed.Entry
		want    string
	}{
		{"", nil, "token"},
		{"", []packed.Entry{screen}, "token"},
		{"", []packed.Entry{screen, g64}, "group:64"},
		{"", []packed.Entry{row}, "group:32"},
		{"", []packed.Entry{g32}, "group:32"},
		{"", []packed.Entry{g64}, "group:64"},
		{"", []packed.Entry{g128}, "group:64"},
		{"", []packed.Entry{g64, row}, "group:64"},
		{"", []packed.Entry{head}, "group:64"},
		{"", []packed.Entry{row, head}, "group:32"},
		{"", []packed.Entry{g128, head}, "group:64"},
		{"", []packed.Entry{g32, head}, "group:32"},
		{"", []packed.Entry{g128, g32, g64}, "group:32"},
		{"", []packed.Entry{entry("absmax", pack.Ternary, 0)}, "group:32"},
		{"", []packed.Entry{entry(importCodes, pack.Int4, 128)}, "group:64"},
		{"", []packed.Entry{entry(importCodes, pack.Int8, 0)}, "group:32"},
		{"", []packed.Entry{entry(importCodes, pack.Ternary, 128)}, "token"},
		{"", []packed.Entry{entry(importCodes, pack.Int1, 0)}, "token"},
		{"", []packed.Entry{row, entry("absmean", pack.Ternary, 0)}, "token"},
		{"", []packed.Entry{entry(quantize.ImportU8, pack.Ternary, 0)}, "token"},
		{"", []packed.Entry{entry("sign", pack.Int1, 0)}, "token"},
		{"", []packed.Entry{entry("int4-values", pack.Int4, 0)}, "token"},
		{"", []packed.Entry{entry("int2-elastic", pack.Int2Odd, 0)}, "token"},
		{"token", []packed.Entry{g32}, "token"},
		{"group:128", []packed.Entry{g32}, "group:128"},
		{"token16", []packed.Entry{g32}, "token16"},
		{"group16:64", []packed.Entry{row}, "group16:64"},
		{"group:32", []packed.Entry{entry("absmean", pack.Ternary, 0)}, "group:32"},
	} {
		a := activationOf(&packed.Recipe{Activation: c.asked}, c.entries, ofVocabulary)
		if a.String() != c.want || a.Check() != nil {
			t.Errorf("%q with %+v: %v, want %s", c.asked, c.entries, a, c.want)
		}
	}
}

// TestActivation: the manifest agrees with the plan, in a file that verifies and can be run.
func TestActivation(t *testing.T) {
	for _, c := range []struct {
		path   string
		recipe packed.Recipe
		want   string
	}{
		{shared.Testdata(t, "tiny-bitnet"), packed.Recipe{Head: packed.HeadInt8}, "token"},
		{mini(t, "llama-3.2-1b", nil), packed.Recipe{Quant: "int8", Activation: ActivationAuto}, "group:32"},
		{mini(t, "llama-3.2-1b", nil),
			packed.Recipe{Quant: "int4", Scale: "group:64", AllowLossy: true, Golden: "kernel"},
			"group:64"},
		{mini(t, "llama-3.2-1b", nil), packed.Recipe{Quant: "int8", Activation: "group:128"}, "group:128"},
		{mini(t, "llama-3.2-1b", nil), packed.Recipe{Quant: "int8", Activation: "token16"}, "token16"},
		{mini(t, "llama-3.2-1b", nil),
			packed.Recipe{Quant: "int4", Scale: "group:64", AllowLossy: true, Activation: "group16:32"}, "group16:32"},
		{mini(t, "llama-3.2-1b", nil), packed.Recipe{Quant: QuantNone}, "token"},
	} {
		p := newPlan(t, c.path, Options{Recipe: c.recipe})
		f := convertTo(t, c.path, Options{Recipe: c.recipe})
		if m := f.Manifest(); p.Activation != c.want || m.Activation.String() != c.want ||
			c.recipe.Activation == ActivationAuto && m.Recipe.Activation != "" {
			t.Errorf("%+v: planned %s, written %v, recipe %+v", c.recipe, p.Activation, m.Activation, m.Recipe)
		}
	}
	for _, word := range []string{"row", "group", "group:16", "group:32,", "Token", "token:16", "token16:32",
		"group16"} {
		_, err := NewPlan(context.Background(), shared.Testdata(t, "tiny-bitnet"),
			Options{Recipe: packed.Recipe{Activation: word}})
		if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), "group:128") {
			t.Errorf("activation %q: %v", word, err)
		}
	}
}

// TestLayoutOfInt8: 8-bit codes go to a layout that holds them, unless the user names one.
func TestLayoutOfInt8(t *testing.T) {
	path := mini(t, "llama-3.2-1b", nil)
	if p := newPlan(t, path, Options{Recipe: packed.Recipe{Quant: "int8"}}); p.Recipe.Layout != "vnni4" ||
		!strings.Contains(layoutsOf(p), "vnni4") {
		t.Errorf("recipe %+v, layouts %s", p.Recipe, layoutsOf(p))
	}
	_, err := NewPlan(context.Background(), path, Options{Recipe: packed.Recipe{Quant: "int8", Layout: DefaultLayout}})
	if !errors.Is(err, pack.ErrUnsupported) {
		t.Errorf("8-bit codes in %s: %v", DefaultLayout, err)
	}
}

func layoutsOf(p *Plan) string {
	seen := map[string]bool{}
	list := ""
	for _, r := range p.Tensors {
		if !seen[r.Layout] {
			seen[r.Layout], list = true, list+r.Layout+" "
		}
	}
	return list
}
