package interop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestInteropPins: what is imported is what the requirements files name, whatever was installed before.
func TestInteropPins(t *testing.T) {
	files, err := filepath.Glob("../../../.ci/interop/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no requirements: %v", err)
	}
	script := filepath.Join(t.TempDir(), "versions.py")
	if err := os.WriteFile(script,
		[]byte("import sys\nfrom importlib.metadata import version\nfor p in sys.argv[1:]: print(version(p))\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		packages, versions := pins(t, file)
		tool := strings.TrimSuffix(filepath.Base(file), ".txt")
		got := strings.Fields(string(Python(t, tool, script, packages...)))
		for i, p := range packages {
			if got[i] != versions[i] {
				t.Errorf("%s: %s %s is installed, %s is pinned", tool, p, got[i], versions[i])
			}
		}
	}
}

// pins reads lines PACKAGE==VERSION.
func pins(t *testing.T, file string) (packages, versions []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		p, v, ok := strings.Cut(line, "==")
		if !ok {
			t.Fatalf("%s: %q is not pinned", file, line)
		}
		p, _, _ = strings.Cut(p, "[") // extras have no version
		packages, versions = append(packages, p), append(versions, v)
	}
	return packages, versions
}
