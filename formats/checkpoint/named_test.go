package checkpoint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNamedOnce: an error about a single-file checkpoint contains its name once.
func TestNamedOnce(t *testing.T) {
	for _, name := range []string{"cut.safetensors", "cut.gguf"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte("GGUF\x03\x00\x00\x00"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(path)
		if err == nil || !strings.HasPrefix(err.Error(), path+": ") || strings.Count(err.Error(), name) != 1 {
			t.Errorf("%v", err)
		}
	}
}
