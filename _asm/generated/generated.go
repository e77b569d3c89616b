// Package generated writes the files that the programs of this module make.
package generated

import (
	"flag"
	"log"
	"os"
	"path/filepath"
)

// Write writes texts to files below dir, or below the folder given by the flag -o, by their names. It exits the program
// on failure.
func Write(dir string, texts map[string]string) {
	out := flag.String("o", dir, "directory to write to")
	flag.Parse()
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(*out, name), []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
