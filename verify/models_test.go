package verify

import (
	"bytes"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/race"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// TestModels converts models and verifies them at every level.
func TestModels(t *testing.T) {
	type good struct {
		name   string
		find   func(testing.TB, string) string
		path   string
		recipe packed.Recipe
	}
	for _, c := range race.Few(2, []good{
		{"tiny-bitnet", shared.Testdata, "tiny-bitnet", packed.Recipe{}},
		{"tiny-bitnet, int8 head", shared.Testdata, "tiny-bitnet", packed.Recipe{Head: "int8", Layout: "i2"}},
		{"tiny-bitnet, int6 head", shared.Testdata, "tiny-bitnet", packed.Recipe{Head: "int6", Layout: "i2"}},
		{"tiny-bitnet-packed", shared.Testdata, "tiny-bitnet-packed", packed.Recipe{Layout: "i1"}},
		{"stories260k", shared.Path, "data/models/stories260k/hf-F32", packed.Recipe{}},
		{"bitllama2-3m", shared.Path, "data/models/bitllama2-3m/packed-auto", packed.Recipe{Golden: "none"}},
		{"bitllama2-3m as floats", shared.Path, "data/models/bitllama2-3m/fake-f32", packed.Recipe{Golden: "kernel"}},
	}) {
		t.Run(c.name, func(t *testing.T) {
			dir := c.find(t, c.path)
			r := run(t, tinymodel.Converted(t, dir, c.recipe), Options{Source: dir})
			var text bytes.Buffer
			r.Text(&text)
			t.Logf("\n%s", text.String())
			if !r.OK {
				t.Error("a good file fails")
			}
		})
	}
}
