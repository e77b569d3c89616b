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

// required says that the compiler of matrices and a device that has them are there: .ci/steps/deep/vulkan sees to it.
var required = os.Getenv("LOWPACK_REQUIRE_MATRICES") != ""

// absent skips a test for want of what is not there, or fails it where that is required.
func absent(t *testing.T, format string, args ...any) {
	t.Helper()
	if required {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// TestShadersAreCompiled compiles the shaders of _gpu/vulkan where their compiler is installed, and compares: what
// runs is what can be read. Those of cooperative matrices have a newer compiler than the others; where it is required,
// what it makes is compared whatever its version.
func TestShadersAreCompiled(t *testing.T) {
	here, err := exec.Command("glslc", "--version").Output()
	if err != nil {
		absent(t, "glslc is not installed")
	}
	stored, _ := filepath.Glob("spirv/*.spv")
	ofMatrices := func(path string) bool { return strings.HasSuffix(path, "_matrix.spv") }
	t.Run("shaders", func(t *testing.T) {
		skipOthers(t, here, "compiler.txt")
		compareCompiled(t, slices.DeleteFunc(slices.Clone(stored), ofMatrices))
	})
	t.Run("matrices", func(t *testing.T) {
		others := func(path string) bool { return !ofMatrices(path) }
		if !required {
			skipOthers(t, here, "matrices.txt")
		}
		compareCompiled(t, slices.DeleteFunc(stored, others), "matrices")
	})
}

// skipOthers skips a test unless the compiler is the one that has made the stored modules.
func skipOthers(t *testing.T, here []byte, version string) {
	t.Helper()
	then, err := os.ReadFile(filepath.Join("spirv", version))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(here, then) {
		t.Skipf("the shaders were compiled by another version than this glslc:\n%s", then)
	}
}

// compareCompiled compares stored modules with what the compiler makes of their sources.
func compareCompiled(t *testing.T, stored []string, which ...string) {
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
			t.Errorf("spirv/%s is not what _gpu/vulkan/compile makes of its source, run it: %v", filepath.Base(path),
				err)
		}
	}
}
