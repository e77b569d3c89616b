// Command generate writes testdata/hostile from the cases of internal/testkit/hostile.
package main

import (
	"flag"
	"log"
	"os"
	"path/filepath"

	"github.com/lowpack/lowpack/internal/testkit/hostile"
)

func main() {
	out := flag.String("o", "", "folder to write to; what it held is removed")
	flag.Parse()
	if *out == "" {
		log.Fatal("-o: name a folder")
	}
	if err := generate(*out); err != nil {
		log.Fatal(err)
	}
}

func generate(out string) error {
	work, err := os.MkdirTemp("", "hostile")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	files, err := hostile.Files(work)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	for name, data := range files {
		path := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
