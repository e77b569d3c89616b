// Command generate writes what package lint tells of the module in a folder: docs/api, and table and picture of
// ARCHITECTURE.md.
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/lowpack/lowpack/internal/lint"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("name the folder of the module")
	}
	if err := generate(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func generate(root string) error {
	files, err := lint.Generated(root)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(root, "docs/api")); err != nil { // packages that are gone
		return err
	}
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
