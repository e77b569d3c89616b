// Package shared finds the reference data that lie beside a checkout of the project, for tests only.
package shared

import (
	"os"
	"path/filepath"
	"testing"
)

// Path returns the path of a file or folder of the reference data. Without the data it skips the test and says so,
// unless LOWPACK_REQUIRE_SHARED is set (as in CI): then the test fails.
func Path(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("LOWPACK_SHARED")
	if dir == "" {
		dir = filepath.Join(root(t), "..", "shared")
	}
	path := filepath.Join(dir, filepath.FromSlash(name))
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("LOWPACK_REQUIRE_SHARED") != "" {
			t.Fatalf("reference data are required but absent: %v", err)
		}
		t.Skip("no reference data beside the checkout")
	}
	return path
}

// Testdata returns the path of a file below testdata at the root of the module.
func Testdata(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(root(t), "testdata", filepath.FromSlash(name))
}

// root finds the root of the module above the folder of the package, in which tests start. The file names that a binary
// knows would not do: -trimpath shortens them.
func root(t testing.TB) string {
	t.Helper()
	if started.err != nil {
		t.Fatal(started.err)
	}
	for dir := started.dir; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatalf("no go.mod in or above %s", started.dir)
		}
	}
}

// started is where the test began, before it may have changed to another folder.
var started = func() (s struct {
	dir string
	err error
}) {
	s.dir, s.err = os.Getwd()
	return s
}()
