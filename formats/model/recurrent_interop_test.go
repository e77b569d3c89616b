package model_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// TestInteropRecurrent: families with recurrent layers give the logits of transformers for every form of config.json
// that recurrent.py lists.
func TestInteropRecurrent(t *testing.T) {
	root := t.TempDir()
	interop.Python(t, "transformers", shared.Testdata(t, "transformers/recurrent.py"), root)
	dirs, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range dirs {
		t.Run(e.Name(), func(t *testing.T) { transformersLogits(t, filepath.Join(root, e.Name())) })
	}
	if len(dirs) < 105 {
		t.Errorf("%d forms", len(dirs))
	}
	recordComparisons(t)
}
