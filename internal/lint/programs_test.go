package lint

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestPrograms: no package but the measurement beside other runtimes starts programs (SECURITY G7).
func TestPrograms(t *testing.T) {
	starts := []string{"cmd/lowpack", "cmd/lowpack/internal/bench"}
	for _, line := range goList(t, "-f", "{{.ImportPath}}: {{join .Imports \" \"}}") {
		path, imports, _ := strings.Cut(line, ": ")
		pkg := strings.TrimPrefix(path, module)
		test := below(pkg, []string{"internal/testkit", "internal/lint"})
		if slices.Contains(strings.Fields(imports), "os/exec") && !test && !slices.Contains(starts, pkg) {
			t.Errorf("%s starts programs", pkg)
		}
	}
	files := goList(t, "-f", `{{if eq .ImportPath "`+module+`cmd/lowpack"}}{{join .GoFiles " "}}{{end}}`)
	for _, file := range strings.Fields(strings.Join(files, " ")) {
		text, err := os.ReadFile("../../cmd/lowpack/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if file != "bench_models.go" && strings.Contains(string(text), `"os/exec"`) {
			t.Errorf("cmd/lowpack/%s starts programs", file)
		}
	}
}
