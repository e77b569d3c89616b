package lint

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/long"
)

// TestOutside: the examples of the documentation are programs that another module can contain. They name no internal
// package; and in a module of their own, where LOWPACK_LONG asks for it, go vet finds nothing in them.
func TestOutside(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	examples := examplesOf(t)
	if len(examples) < 7 {
		t.Errorf("examples in %v alone", examples)
	}
	for i, from := range examples {
		text, err := os.ReadFile(filepath.Join(root, from))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "/internal/") {
			t.Errorf("%s imports an internal package, as no reader of it can", from)
		}
		write(t, filepath.Join(outside, fmt.Sprintf("example%d", i), "example_test.go"), string(text))
	}
	long.Only(t) // the module is compiled once more
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	_, needs, _ := strings.Cut(string(mod), "\n") // the same versions, so that nothing is fetched
	write(t, filepath.Join(outside, "go.mod"), fmt.Sprintf(
		"module example.org/outside\n%s\nrequire %s v0.0.0\n\nreplace %s => %s\n", needs, modulePath, modulePath, root))
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(outside, "go.sum"), string(sums))

	vet := exec.Command("go", "vet", "./...")
	vet.Dir, vet.Env = outside, append(os.Environ(), "GOPROXY=off", "GOWORK=off")
	if out, err := vet.CombinedOutput(); err != nil {
		t.Errorf("go vet of examples outside the module: %v\n%s", err, out)
	}
}

// examplesOf are the files of examples in public packages.
func examplesOf(t *testing.T) (files []string) {
	t.Helper()
	for _, line := range goList(t, "-f", "{{.ImportPath}}\t{{range .XTestGoFiles}}{{.}} {{end}}") {
		name, all, _ := strings.Cut(line, "\t")
		folder := strings.TrimPrefix(strings.TrimPrefix(name, modulePath), "/")
		if !internal(name) && strings.Contains(" "+all, " example_test.go ") {
			files = append(files, filepath.Join(folder, "example_test.go"))
		}
	}
	return files
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
