package quantize

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestGenerated: the assembly is the generator's current output.
func TestGenerated(t *testing.T) {
	dir := t.TempDir()
	run := exec.Command("go", "run", "./quantize", "-o", dir)
	run.Dir = "../../_asm"
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"zz_generated_rows_avx2_amd64.s", "zz_generated_rows_avx512_amd64.s",
		"zz_generated_stored_amd64.s"} {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what _asm/quantize writes: run go generate ./convert/quantize (%v)", name, err)
		}
	}
}
