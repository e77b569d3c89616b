package tensor

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestGenerated: the generated files are what the generator writes.
func TestGenerated(t *testing.T) {
	dir := t.TempDir()
	run := exec.Command("go", "run", "./tensor", "-o", dir)
	run.Dir = "../../_asm"
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	fresh, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(fresh) == 0 {
		t.Fatalf("the generator wrote %d files: %v", len(fresh), err)
	}
	for _, name := range fresh {
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Base(name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what _asm/tensor writes: run go generate ./internal/tensor (%v)",
				filepath.Base(name), err)
		}
	}
}
