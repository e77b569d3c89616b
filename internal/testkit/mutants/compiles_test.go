package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"testing"
)

// listed is a package as go list describes it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
}

// modulePackages are the packages of a module, with all that they import.
type modulePackages struct {
	byFolder map[string]*listed // relative to the module, with slashes
	exports  map[string]string  // file with the types of a package, by its path
}

func listPackages(t *testing.T, root string) *modulePackages {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,DepOnly", "./...")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	root, err = filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	m := &modulePackages{byFolder: map[string]*listed{}, exports: map[string]string{}}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(listed)
		if err := d.Decode(p); err == io.EOF {
			return m
		} else if err != nil {
			t.Fatal(err)
		}
		m.exports[p.ImportPath] = p.Export
		if folder, err := filepath.Rel(root, p.Dir); err == nil && !p.DepOnly {
			m.byFolder[filepath.ToSlash(folder)] = p
		}
	}
}

// check returns what the compiler would say of a mutant. One of a file that is not compiled on this machine passes.
func (m *modulePackages) check(root string, mutant *mutant) error {
	text, err := mutant.apply(root)
	if err != nil {
		return err
	}
	p := m.byFolder[path.Dir(mutant.file)]
	if p == nil {
		return fmt.Errorf("%s: %s is in no package", mutant.at, mutant.file)
	}
	if !slices.Contains(p.GoFiles, path.Base(mutant.file)) {
		return nil
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		var source any
		if name == path.Base(mutant.file) {
			source = text
		}
		f, err := parser.ParseFile(set, filepath.Join(p.Dir, name), source, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("%s: %w", mutant.at, err)
		}
		files = append(files, f)
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(m.exports[path]) }
	config := types.Config{Importer: importer.ForCompiler(set, "gc", open)}
	if _, err := config.Check(p.ImportPath, set, files, nil); err != nil {
		return fmt.Errorf("%s: %w", mutant.at, err)
	}
	return nil
}
