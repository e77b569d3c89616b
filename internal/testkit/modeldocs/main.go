// Command modeldocs writes the table of families of docs/MODELS.md from the registry of formats/model (make generate).
package main

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/lowpack/lowpack/formats/model"
)

const (
	begin = "<!-- families: made by make generate -->\n"
	end   = "<!-- families: end -->\n"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: modeldocs MODELS.md")
	}
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	before, rest, ok := bytes.Cut(text, []byte(begin))
	_, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		log.Fatalf("%s has no place for the families", os.Args[1])
	}
	text = bytes.Join([][]byte{before, []byte(begin + table() + end), after}, nil)
	if err := os.WriteFile(os.Args[1], text, 0o644); err != nil {
		log.Fatal(err)
	}
}

func table() string {
	var b strings.Builder
	b.WriteString("| `architectures` in config.json | `model_type` | Models |\n|---|---|---|\n")
	for _, f := range model.Families() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", code(f.Architectures), code(f.Types), f.Models)
	}
	return b.String()
}

func code(names []string) string {
	if len(names) == 0 {
		return "–"
	}
	return "`" + strings.Join(names, "`, `") + "`"
}
