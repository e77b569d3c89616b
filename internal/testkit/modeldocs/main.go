// Command modeldocs writes the table of families of docs/MODELS.md (make generate): their names from the registry of
// formats/model, what comparisons of logits, tokenizers, chat templates and tool calls have recorded, and what their
// miniatures are exported to.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/lowpack/lowpack/formats/model"
)

const (
	begin = "<!-- families: made by make generate -->\n"
	end   = "<!-- families: end -->\n"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: modeldocs MODELS.md RECORDS")
	}
	compared, err := comparisons(filepath.Join(os.Args[2], "compared.json"))
	if err != nil {
		log.Fatal(err)
	}
	read, err := readings(filepath.Join(os.Args[2], "texts.json"))
	if err != nil {
		log.Fatal(err)
	}
	to, err := exports(context.Background())
	if err != nil {
		log.Fatal(err)
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
	text = bytes.Join([][]byte{before, []byte(begin + table(compared, read, to) + end), after}, nil)
	if err := os.WriteFile(os.Args[1], text, 0o644); err != nil {
		log.Fatal(err)
	}
}

// comparison is what formats/model records of a family: the number of forms of its configuration, and the largest
// median and maximum of |Δ| of logits over their standard deviation.
type comparison struct {
	Forms  int
	Median float64
	Most   float64
}

// comparisons reads those of all tests, by family.
func comparisons(path string) (map[string]comparison, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var tests map[string]map[string]comparison
	if err := json.Unmarshal(text, &tests); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	all := map[string]comparison{}
	for _, test := range tests {
		for family, c := range test {
			old := all[family]
			all[family] = comparison{old.Forms + c.Forms, max(old.Median, c.Median), max(old.Most, c.Most)}
		}
	}
	return all, nil
}

func table(compared map[string]comparison, read map[string]reading, to map[string]string) string {
	var b strings.Builder
	b.WriteString("| `architectures` in config.json | `model_type` | Models | " +
		"Forms compared | Median | Most | Texts | Conversations | Tools | Export |\n" +
		strings.Repeat("|---", 10) + "|\n")
	for _, f := range model.Families() {
		cells := "– | – | –"
		if c := compared[f.Name]; c.Forms > 0 {
			cells = fmt.Sprintf("%d | %s | %s", c.Forms, short(c.Median), short(c.Most))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", code(f.Architectures), code(f.Types), f.Models, cells,
			read[f.Name].cells(), cmp.Or(to[f.Name], "–"))
	}
	return b.String()
}

// short is a number with one digit, rounded up: 2e-7.
func short(x float64) string {
	unit := math.Pow(10, math.Floor(math.Log10(x)))
	return strings.Replace(fmt.Sprintf("%.0e", math.Ceil(x/unit*(1-1e-9))*unit), "e-0", "e-", 1)
}

func code(names []string) string {
	if len(names) == 0 {
		return "–"
	}
	return "`" + strings.Join(names, "`, `") + "`"
}
