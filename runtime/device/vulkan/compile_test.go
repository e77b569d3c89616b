package vulkan

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestShadersAreCompiled compiles the shaders of _gpu/vulkan where their compiler is installed, and compares: what
// runs is what can be read.
func TestShadersAreCompiled(t *testing.T) {
	if _, err := exec.LookPath("glslc"); err != nil {
		t.Skip("glslc is not installed")
	}
	dir := t.TempDir()
	if out, err := exec.Command("../../../_gpu/vulkan/compile", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const version = "compiler.txt"
	here, err := os.ReadFile(filepath.Join(dir, version))
	if err != nil {
		t.Fatal(err)
	}
	if then, err := os.ReadFile(filepath.Join("spirv", version)); err != nil || !bytes.Equal(here, then) {
		t.Skipf("the shaders were compiled by another version: %v\n%s", err, then)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.spv"))
	if err != nil {
		t.Fatal(err)
	}
	stored, _ := filepath.Glob("spirv/*.spv")
	if len(paths) != len(stored) || len(paths) == 0 {
		t.Errorf("%d shaders are compiled, %d are stored", len(paths), len(stored))
	}
	for _, path := range paths {
		fresh, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := os.ReadFile(filepath.Join("spirv", filepath.Base(path)))
		if err != nil || !bytes.Equal(fresh, kept) {
			t.Errorf("spirv/%s is not what _gpu/vulkan/compile makes of its source: %v", filepath.Base(path), err)
		}
	}
}
