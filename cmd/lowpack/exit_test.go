package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/shared"
)

// TestExitCodes: whose fault a failure is decides the exit code.
func TestExitCodes(t *testing.T) {
	model, dir := shared.Testdata(t, "tiny-bitnet"), t.TempDir()
	nowhere := filepath.Join(dir, "missing", "target")
	packed := filepath.Join(dir, "packed")
	for _, c := range []struct {
		code int
		args []string
		says string
	}{
		{0, []string{"convert", model, "--golden", "none", "-o", packed}, "tensors packed"},
		{1, []string{"convert", filepath.Join(dir, "none"), "-o", packed}, "none"},
		{1, []string{"verify", filepath.Join(model, "config.json")}, "FAIL"},
		{2, []string{"convert", model, "--scale", "column", "-o", packed}, `invalid --scale "column": must be one of tensor, row, group:N`},
		{2, []string{"convert", model, "--scale", "group:0", "-o", packed}, `invalid --scale "group:0"`},
		{2, []string{"bench", "kernls"}, "did you mean kernels?"},
		{3, []string{"convert", model, "-o", nowhere}, "missing"},
		{3, []string{"convert", model, "--resume", "-o", nowhere}, "missing"},
		{3, []string{"repack", packed, "--layout", "i2", "-o", nowhere}, "missing"},
		{3, []string{"unpack", packed, "-o", nowhere}, "missing"},
		{3, []string{"synth", "--like", "bitnet-2b4t", "--mini", "-o", nowhere}, "missing"},
		{3, []string{"run", packed, "-p", "a", "-n", "1", "--logits", nowhere}, "missing"},
	} {
		if o := command(t, c.args...); o.code != c.code || !strings.Contains(o.out, c.says) {
			t.Errorf("%q: exit code %d, want %d and %q\n%s", c.args, o.code, c.code, c.says, o.out)
		}
	}
}
