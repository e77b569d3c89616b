package verify

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// TestOtherForms: checkpoints whose weights become floats, and those with codes in groups of 16, with minima, or in
// AWQ's GEMV layout, pass all levels; what they were made of is compared too.
func TestOtherForms(t *testing.T) {
	for sample, c := range map[string]struct {
		recipe packed.Recipe
		packed int // tensors
		scale  string
	}{
		"ct-float-fp8-block": {packed.Recipe{}, 0, ""},
		"bnb-nf4":            {packed.Recipe{Quant: "int8"}, 14, "row"},
		"bnb-nf4-double":     {packed.Recipe{Quant: "int4", AllowLossy: true}, 14, "row"},
		"ct-nvfp4-w4a16":     {packed.Recipe{}, 14, "group:16"},
		"mlx-nvfp4":          {packed.Recipe{}, 16, "group:16"},
		"awq-gemv-g128":      {packed.Recipe{}, 14, ""},
		"mlx-b1-g128":        {packed.Recipe{}, 16, "group:128"},
		"mlx-b3-g64":         {packed.Recipe{}, 16, "group:64"},
		"mlx-mixed_2_6":      {packed.Recipe{}, 16, "group:64"},
	} {
		t.Run(sample, func(t *testing.T) {
			source := shared.Path(t, "data/packed/"+sample)
			path := tinymodel.Converted(t, source, c.recipe)
			if bad := failed(run(t, path, Options{Source: source})); len(bad) > 0 {
				t.Fatal(bad)
			}
			m := openPacked(t, path).Manifest()
			if len(m.Packed) != c.packed {
				t.Errorf("%d tensors are packed, want %d", len(m.Packed), c.packed)
			}
			for _, e := range m.Packed {
				if c.scale != "" && e.Scale.String() != c.scale {
					t.Errorf("%s has scales of %s, want %s", e.Name, e.Scale, c.scale)
				}
			}
		})
	}
}

// TestOtherChangedForms: a change of the tensors that a weight was made of is found by its name.
func TestOtherChangedForms(t *testing.T) {
	const module = "model.layers.1.mlp.up_proj"
	for sample, suffixes := range map[string][]string{
		"ct-float-fp8-block": {".weight", ".weight_scale"},
		"bnb-nf4-double":     {".weight", ".weight.absmax", ".weight.nested_absmax"},
		"ct-nvfp4-w4a16":     {".weight_packed", ".weight_scale", ".weight_global_scale"},
		"awq-gemv-g128":      {".qweight", ".qzeros", ".scales"},
		"mlx-b4-g64":         {".weight", ".scales", ".biases"},
	} {
		config, tensors := readStored(t, sample)
		source := writeSample(t, config, tensors)
		path := tinymodel.Converted(t, source, packed.Recipe{Golden: "none"})
		if bad := failed(run(t, path, Options{Source: source})); len(bad) > 0 {
			t.Fatal(sample, bad)
		}
		for _, suffix := range suffixes {
			other := maps.Clone(tensors)
			x := other[module+suffix]
			x.data = slices.Clone(x.data)
			at := 0
			if x.DType == safetensors.F32 {
				at = 2 // lower bits are rounded off
			}
			x.data[at] ^= 1
			other[module+suffix] = x
			bad := failed(run(t, path, Options{Source: writeSample(t, config, other)}))
			if !slices.ContainsFunc(bad, func(c Check) bool {
				return c.Level == Source && c.Group != "source files" && strings.HasPrefix(c.Name, module)
			}) {
				t.Errorf("%s: a change of %s is not found: %v", sample, suffix, bad)
			}
		}
	}
}

// readStored is readSample with the tensors as they are stored.
func readStored(t *testing.T, name string) (config map[string]any, tensors map[string]sampleTensor) {
	t.Helper()
	config, tensors = readSample(t, name)
	_, stored := readFolder(t, shared.Path(t, "data/packed/"+name), (*checkpoint.Checkpoint).Stored)
	maps.Copy(tensors, stored)
	return config, tensors
}

// TestSecondReaderOfValues: weights that become floats are made of what the second reader reads. The first one, whose
// magnitudes are off by one element here, is not asked.
func TestSecondReaderOfValues(t *testing.T) {
	source := shared.Path(t, "data/packed/bnb-nf4")
	path := tinymodel.Converted(t, source, packed.Recipe{Golden: "none"})
	changed := 0
	r := against(t, path, source, func(c *checkpoint.Checkpoint) {
		for i := range c.Stored() {
			if x := &c.Stored()[i]; strings.HasSuffix(x.Name, ".absmax") {
				x.Begin += 4
				changed++
			}
		}
	})
	if changed != 14 || len(failed(r)) > 0 {
		t.Errorf("%d changed: %v", changed, failed(r))
	}
}
