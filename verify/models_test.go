package verify

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/shared"
)

func converted(t testing.TB, dir string, recipe packed.Recipe) string {
	t.Helper()
	p, err := convert.NewPlan(context.Background(), dir, convert.Options{Recipe: recipe})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if _, err := p.Run(context.Background(), path, nil); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestModels converts models and verifies them at every level.
func TestModels(t *testing.T) {
	for _, c := range []struct {
		name   string
		dir    func() string
		recipe packed.Recipe
	}{
		{"tiny-bitnet", func() string { return shared.Testdata(t, "tiny-bitnet") }, packed.Recipe{}},
		{"tiny-bitnet, int8 head", func() string { return shared.Testdata(t, "tiny-bitnet") }, packed.Recipe{Head: "int8", Layout: "i2"}},
		{"tiny-bitnet-packed", func() string { return shared.Testdata(t, "tiny-bitnet-packed") }, packed.Recipe{Layout: "i1"}},
		{"stories260k", func() string { return shared.Path(t, "data/models/stories260k/hf-F32") }, packed.Recipe{}},
		{"bitllama2-3m", func() string { return shared.Path(t, "data/models/bitllama2-3m/packed-auto") }, packed.Recipe{Golden: "none"}},
		{"bitllama2-3m as floats", func() string { return shared.Path(t, "data/models/bitllama2-3m/fake-f32") }, packed.Recipe{Golden: "kernel"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := c.dir()
			r := run(t, converted(t, dir, c.recipe), Options{Source: dir})
			var text bytes.Buffer
			r.Text(&text)
			t.Logf("\n%s", text.String())
			if !r.OK {
				t.Error("a good file fails")
			}
		})
	}
}
