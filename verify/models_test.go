package verify

import (
	"bytes"
	"path/filepath"
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

// TestFamilies does the same with a miniature of every family, of every kind of weights and of every rotary embedding, as they
// come: --quant auto.
func TestFamilies(t *testing.T) {
	for _, name := range race.Few(4, []string{
		"bitnet-2b4t", "bitnet-2b4t-bf16", "bitnet-xl", "llama3-8b", "trilm-190m",
		"paretoq-125m-1bit", "paretoq-125m-1.58bit", "paretoq-125m-2bit", "paretoq-125m-3bit", "paretoq-125m-4bit",
		"llama-3.1-8b", "mobilellm-125m", "mobilellm-125m-layer-share", "mistral-7b-v0.1", "qwen2.5-1.5b-yarn", "qwen3-0.6b",
		"phi-3-mini-4k", "phi-3-mini-128k", "gemma-2b", "gemma-2-2b", "gemma-3-1b",
	}) {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), name)
			tinymodel.Miniature(t, name, dir)
			if bad := failed(run(t, tinymodel.Converted(t, dir, packed.Recipe{}), Options{Source: dir})); len(bad) > 0 {
				t.Errorf("%v", bad)
			}
		})
	}
}
