package verify

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// TestEmbeddedLeftOut: a packed file without a small file that the checkpoint has would run with other stops, another
// sampling or another template; whatever the manifest says was read, level source names the file.
func TestEmbeddedLeftOut(t *testing.T) {
	const name = "generation_config.json"
	dir := copyDir(t, shared.Testdata(t, "tiny-bitnet"))
	text := read(t, filepath.Join(dir, name))
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	path := tinymodel.Converted(t, dir, packed.Recipe{Golden: "none"})
	write(t, filepath.Join(dir, name), text)
	bad := failed(run(t, path, Options{Source: dir}))
	if !slices.ContainsFunc(bad, func(c Check) bool {
		return c.Group == "embedded files" && c.Name == name && c.Rule == "F7"
	}) {
		t.Errorf("%v", bad)
	}
}
