package convert

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// TestConfigs: the quantization config of a GPTQ checkpoint is honoured in either file, contradicting configs are
// refused, and unknown keys of config.json appear in a note.
func TestConfigs(t *testing.T) {
	path := mini(t, "qwen3-8b-gptq", nil)
	config, quantization := filepath.Join(path, "config.json"), filepath.Join(path, "quantize_config.json")
	whole := newPlan(t, path, plain(packed.Recipe{}))

	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil {
		t.Fatal(err)
	}
	put := func(path string, text []byte) {
		t.Helper()
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put(quantization, keys["quantization_config"])
	newPlan(t, path, plain(packed.Recipe{})) // both agree
	var other map[string]any
	if err := json.Unmarshal(keys["quantization_config"], &other); err != nil {
		t.Fatal(err)
	}
	other["bits"] = 8
	if text, err = json.Marshal(other); err != nil {
		t.Fatal(err)
	}
	put(quantization, text)
	_, err = NewPlan(t.Context(), path, plain(packed.Recipe{}))
	if !errors.Is(err, pack.ErrCorrupt) || !strings.Contains(err.Error(), "quantize_config.json") ||
		!strings.Contains(err.Error(), "config.json: ") {
		t.Errorf("%v", err)
	}
	put(quantization, keys["quantization_config"])
	delete(keys, "quantization_config")
	keys["warp_scale"] = json.RawMessage("2")
	if text, err = json.Marshal(keys); err != nil {
		t.Fatal(err)
	}
	put(config, text)
	old := newPlan(t, path, plain(packed.Recipe{}))
	if len(old.contents.Manifest.Packed) != len(whole.contents.Manifest.Packed) {
		t.Errorf("%d and %d tensors are packed", len(old.contents.Manifest.Packed), len(whole.contents.Manifest.Packed))
	}
	if notes := strings.Join(old.Notes, "\n"); strings.Count(notes, `["warp_scale"]`) != 1 {
		t.Errorf("notes: %s", notes)
	}
	if notes := strings.Join(whole.Notes, "\n"); strings.Contains(notes, "does not know") {
		t.Errorf("notes: %s", notes)
	}
}
