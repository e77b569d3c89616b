// Package lint holds tests about the module as a whole: which package may import which, which types its APIs may
// mention, and which words its text avoids; it also generates the documents about the whole: the API (docs/api), the
// table of packages and the picture of ARCHITECTURE.md.
package lint

//go:generate go run ./generate ../..

import (
	"cmp"
	"maps"
	"os/exec"
	"strings"
)

const (
	modulePath = "github.com/lowpack/lowpack"
	module     = modulePath + "/"
)

// Generated returns the files that are written from the packages of the module in a folder, by path below it.
func Generated(root string) (map[string]string, error) {
	files := map[string]string{}
	for _, write := range []func(string) (map[string]string, error){apiFiles, pageFiles} {
		some, err := write(root)
		if err != nil {
			return nil, err
		}
		maps.Copy(files, some)
	}
	return files, nil
}

// list runs go list on all packages of the module in a folder.
func list(root string, flags ...string) ([]string, error) {
	cmd := exec.Command("go", append(append([]string{"list"}, flags...), "./...")...)
	cmd.Dir = root
	out, err := cmd.Output()
	return strings.Split(strings.TrimSpace(string(out)), "\n"), err
}

// short is the path of a package within the module; that of its root is lowpack.
func short(importPath string) string {
	name, _ := strings.CutPrefix(importPath, module)
	if importPath == modulePath {
		name = "lowpack"
	}
	return cmp.Or(name, importPath)
}
