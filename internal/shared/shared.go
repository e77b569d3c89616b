// Package shared finds the reference data that lie beside a checkout of the project, for tests only.
package shared

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Path returns the path of a file or folder of the reference data. Without the data it skips the test and says so, unless
// LOWPACK_REQUIRE_SHARED is set (as in CI): then the test fails.
func Path(t testing.TB, name string) string {
	t.Helper()
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		t.Fatal("the source file of this helper is unknown")
	}
	root := filepath.Join(filepath.Dir(file), "..", "..", "..", "shared")
	if dir := os.Getenv("LOWPACK_SHARED"); dir != "" {
		root = dir
	}
	path := filepath.Join(root, filepath.FromSlash(name))
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("LOWPACK_REQUIRE_SHARED") != "" {
			t.Fatalf("reference data are required but absent: %v", err)
		}
		t.Skipf("reference data beside the checkout are absent: %v", err)
	}
	return path
}

// Testdata returns the path of a file below testdata at the root of the module.
func Testdata(t testing.TB, name string) string {
	t.Helper()
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		t.Fatal("the source file of this helper is unknown")
	}
	return filepath.Join(filepath.Dir(file), "..", "..", "testdata", filepath.FromSlash(name))
}
