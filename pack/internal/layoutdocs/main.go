// Command layoutdocs writes docs/LAYOUTS.md and its pictures into the folder given.
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/lowpack/lowpack/pack/explain"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: layoutdocs DOCS_FOLDER")
	}
	pages, err := explain.Pages()
	if err != nil {
		log.Fatal(err)
	}
	for name, text := range pages {
		path := filepath.Join(os.Args[1], filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
