package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	mdLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mdCode    = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	mdHeading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// TestLinks: links of documents to files of the repository, and to headings in them, lead somewhere.
func TestLinks(t *testing.T) {
	links := 0
	for _, name := range textFiles(t) {
		if !strings.HasSuffix(name, ".md") || strings.Contains(name, "/testdata/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range mdLink.FindAllStringSubmatch(mdCode.ReplaceAllString(string(text), ""), -1) {
			path, heading, _ := strings.Cut(link[1], "#")
			if strings.Contains(path, ":") {
				continue // a page of others
			}
			links++
			target := filepath.Join("../..", name)
			if path != "" {
				target = filepath.Join(filepath.Dir(target), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s leads nowhere", name, link[1])
			} else if heading != "" && !headings(t, target)[heading] {
				t.Errorf("%s: %s: no such heading", name, link[1])
			}
		}
	}
	if links < 100 {
		t.Errorf("only %d links are found", links)
	}
}

// headings of a Markdown file, as GitHub writes them into addresses.
func headings(t *testing.T, path string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]bool{}
	for _, h := range mdHeading.FindAllStringSubmatch(string(text), -1) {
		plain := mdLink.ReplaceAllString(h[1], "")
		list[strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(plain), ""), " ", "-")] = true
	}
	return list
}
