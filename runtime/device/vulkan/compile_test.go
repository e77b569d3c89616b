package vulkan

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestShadersAreCompiled compiles the shaders of _gpu/vulkan where their compiler is installed, and compares: what
// runs is what can be read. Those of cooperative matrices have a newer compiler than the others.
func TestShadersAreCompiled(t *testing.T) {
	here, err := exec.Command("glslc", "--version").Output()
	if err != nil {
		t.Skip("glslc is not installed")
	}
	stored, _ := filepath.Glob("spirv/*.spv")
	ofMatrices := func(path string) bool { return strings.HasSuffix(path, "_matrix.spv") }
	t.Run("shaders", func(t *testing.T) {
		compareCompiled(t, here, "compiler.txt", slices.DeleteFunc(slices.Clone(stored), ofMatrices))
	})
	t.Run("matrices", func(t *testing.T) {
		others := func(path string) bool { return !ofMatrices(path) }
		compareCompiled(t, here, "matrices.txt", slices.DeleteFunc(stored, others), "matrices")
	})
}

// compareCompiled compares stored modules with what the compiler makes of their sources, if it is the version of then.
func compareCompiled(t *testing.T, here []byte, version string, stored []string, which ...string) {
	then, err := os.ReadFile(filepath.Join("spirv", version))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(here, then) {
		t.Skipf("the shaders were compiled by another version than this glslc:\n%s", then)
	}
	dir := t.TempDir()
	compile := exec.Command("../../../_gpu/vulkan/compile", append([]string{dir}, which...)...)
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.spv"))
	if err != nil {
		t.Fatal(err)
	}
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
