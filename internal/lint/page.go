package lint

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	page        = "ARCHITECTURE.md"
	pictureFile = "docs/architecture.svg"
	tableBegins = "<!-- Written by make generate from the comments of the packages. -->\n"
	tableEnds   = "<!-- End -->\n"
)

// pageFiles returns ARCHITECTURE.md with its table of packages, and its picture.
func pageFiles(root string) (map[string]string, error) {
	h, err := newHouse(root)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		return nil, err
	}
	before, rest, found := strings.Cut(string(text), tableBegins)
	_, after, ended := strings.Cut(rest, tableEnds)
	if !found || !ended {
		return nil, fmt.Errorf("%s has no place for the table of packages, between %q and %q",
			page, tableBegins, tableEnds)
	}
	table, err := packageTable(root)
	if err != nil {
		return nil, err
	}
	return map[string]string{pictureFile: h.picture(), page: before + tableBegins + table + tableEnds + after}, nil
}

// packageTable has a line for the program and for each public package, by floor: what the first sentence of its comment
// says. It is a page's table: parts of a package, in folders below it, are in the picture alone.
func packageTable(root string) (string, error) {
	lines, err := list(root, "-f", "{{.ImportPath}}\t{{.Doc}}")
	if err != nil {
		return "", err
	}
	lines = slices.DeleteFunc(lines, func(line string) bool {
		name, _, _ := strings.Cut(line, "\t")
		return !told(short(name)) || internal(name) || strings.Count(short(name), "/") > 1
	})
	slices.SortFunc(lines, func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b))
	})
	b := &strings.Builder{}
	fmt.Fprint(b, "| Package | What it does |\n|---|---|\n")
	for _, line := range lines {
		name, doc, _ := strings.Cut(line, "\t")
		fmt.Fprintf(b, "| `%s` | %s |\n", short(name), summary(doc, 120-len("| `` |  |")-len(short(name))))
	}
	return b.String(), nil
}

// rank orders the lines of packages by group.
func rank(line string) int {
	name, _, _ := strings.Cut(line, "\t")
	n := 0
	for _, list := range groups {
		for _, g := range list {
			if below(short(name), []string{g.name}) {
				return n
			}
			n++
		}
	}
	return n
}

// summary is the first clause of a sentence about a package, without its subject, and shorter where it is too long.
func summary(doc string, most int) string {
	words := strings.Fields(doc)
	if len(words) < 3 {
		return doc
	}
	text := strings.Join(words[2:], " ") // Package NAME, Command NAME
	for _, end := range []string{": ", "; ", ". "} {
		text, _, _ = strings.Cut(text, end)
	}
	text = strings.TrimSuffix(text, ".")
	for len([]rune(text)) > most && strings.Contains(text, ", ") {
		text = text[:strings.LastIndex(text, ", ")]
	}
	return text
}

// sortedPairs are the keys of a set of pairs, in order.
func sortedPairs(set map[[2]string]bool) [][2]string {
	list := make([][2]string, 0, len(set))
	for pair := range set {
		list = append(list, pair)
	}
	slices.SortFunc(list, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	return list
}
