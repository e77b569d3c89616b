package verify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// mixtures have experts in tensors of their own, with a shared one, and all in one tensor.
var mixtures = []string{"qwen1.5-moe-a2.7b", "mixtral-8x7b-v0.1", "granite-3.1-1b-a400m"}

// TestExperts: experts that are quantized pass every level: codes, scales and digests of [E, M, K], the kernels, source
// and logits.
func TestExperts(t *testing.T) {
	for _, like := range mixtures {
		for _, c := range []struct {
			weights synth.Weights
			recipe  packed.Recipe
			exact   bool
		}{
			{synth.Normal, packed.Recipe{Quant: "int8", Layout: "vnni4"}, false},
			{synth.Normal, packed.Recipe{Quant: "int4", Scale: "group:32", AllowLossy: true}, false},
			{synth.Ternary, packed.Recipe{}, true},
		} {
			dir := miniature(t, like, c.weights)
			path := tinymodel.Converted(t, dir, c.recipe)
			if bad := failed(run(t, path, Options{Source: dir})); len(bad) > 0 {
				t.Errorf("%s, %s %s: %v", like, c.weights, c.recipe.Quant, bad)
			}
			checkExperts(t, path)
		}
	}
}

// checkExperts demands that the experts of a file are entries of matrices, with a scale per row at least.
func checkExperts(t *testing.T, path string) {
	t.Helper()
	f, err := packed.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for _, e := range f.Manifest().Packed {
		if len(e.Shape) == 3 {
			n++
			if e.Shape[0] != 6 || e.Scale.Kind == packed.ScaleTensor {
				t.Errorf("%s: shape %v, a scale per %s", e.Name, e.Shape, e.Scale.Kind)
			}
		}
	}
	if n < 4 {
		t.Errorf("%d entries of experts", n)
	}
}

func miniature(t *testing.T, like string, w synth.Weights) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	tinymodel.MiniatureWith(t, like, dir, func(o *synth.Options) { o.Weights = w })
	return dir
}

// TestExpertsDiffer: a weight of one expert that is another one in the checkpoint is found in the entry of all.
func TestExpertsDiffer(t *testing.T) {
	dir := miniature(t, "olmoe-1b-7b", synth.Normal)
	path := tinymodel.Converted(t, dir, packed.Recipe{Quant: "int8", Layout: "vnni4", Golden: "none"})
	weights := filepath.Join(dir, "model.safetensors")
	data, err := os.ReadFile(weights)
	if err != nil {
		t.Fatal(err)
	}
	const name = "model.layers.0.mlp.experts.4.up_proj.weight"
	text := string(data)
	swap := strings.NewReplacer(name, "model.layers.0.mlp.experts.5.up_proj.weight",
		"model.layers.0.mlp.experts.5.up_proj.weight", name)
	if !strings.Contains(text, name) {
		t.Fatal("the checkpoint has no such tensor")
	}
	if err := os.WriteFile(weights, []byte(swap.Replace(text)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range run(t, path, Options{Source: dir}).Checks {
		if c.Verdict == Fail && c.Name == "model.layers.0.mlp.experts.up_proj.weight" {
			return
		}
	}
	t.Error("experts that changed places were not noticed")
}

// TestExpertsRefused: what cannot be done with experts is refused with the reason.
func TestExpertsRefused(t *testing.T) {
	dir := miniature(t, "olmoe-1b-7b", synth.Normal)
	_, err := convert.NewPlan(t.Context(), dir,
		convert.Options{Recipe: packed.Recipe{Quant: "absmean", Scale: "tensor", AllowLossy: true}})
	if err == nil || !strings.Contains(err.Error(), "--scale row") {
		t.Error(err)
	}
	path := tinymodel.Converted(t, dir, packed.Recipe{Quant: "int8", Layout: "vnni4", Golden: "none"})
	_, err = convert.Unpack(t.Context(), path, filepath.Join(t.TempDir(), "out"),
		convert.UnpackOptions{Form: convert.FormF32})
	if err == nil || !strings.Contains(err.Error(), "tensors of single experts") {
		t.Error(err)
	}
}
