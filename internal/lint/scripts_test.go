package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFuzzFewerThanSeeds: .ci/fuzz with fewer executions than a target has seeds says how many of them ran.
func TestFuzzFewerThanSeeds(t *testing.T) {
	for _, tool := range []string{"bash", "git"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	script, err := os.ReadFile("../../.ci/fuzz")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for name, text := range map[string]string{
		".ci/fuzz": string(script),
		"go.mod":   "module example.org/few\n\ngo 1.26\n",
		"few_test.go": `package few

import "testing"

func FuzzFew(f *testing.F) {
	for i := range 9 {
		f.Add(i)
	}
	f.Fuzz(func(*testing.T, int) {})
}
`,
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command := func(name string, args ...string) string {
		cmd := exec.Command(name, args...)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	command("git", "init", "-q")
	command("git", "add", ".")
	table := command("bash", ".ci/fuzz", "2x")
	last := strings.Fields(table[strings.LastIndex(strings.TrimSpace(table), "\n")+1:])
	if len(last) != 6 || last[1] != "FuzzFew" || last[5] != "9" {
		t.Errorf("%q\n%s", last, table)
	}
}
