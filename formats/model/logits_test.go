package model_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// TestInteropLogits: miniatures of families in the forms of their config.json, old and new, give the logits that
// transformers computes from the same files in float64.
func TestInteropLogits(t *testing.T) {
	root := t.TempDir()
	var names []string
	answer := interop.Python(t, "transformers", shared.Testdata(t, "transformers/forms.py"), root)
	if err := json.Unmarshal(answer, &names); err != nil {
		t.Fatal(err)
	}
	if len(names) < 230 {
		t.Errorf("only %d forms", len(names))
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(root, name)
			config, err := os.ReadFile(filepath.Join(dir, "config.json"))
			if err != nil {
				t.Fatal(err)
			}
			if d, err := model.Parse(config, nil, nil); err != nil || len(d.Unread) > 0 {
				t.Fatalf("keys that are not known: %+v, %v", d, err)
			}
			transformersLogits(t, dir)
		})
	}
	recordComparisons(t)
}
