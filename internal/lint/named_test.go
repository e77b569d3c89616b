package lint

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z]\w*)\(`)
	quoted    = regexp.MustCompile("`([^`\n]+)`")
	testName  = regexp.MustCompile(`^((?:Test|Fuzz|Benchmark)[A-Z]\w*)(…?)$`)
	paragraph = regexp.MustCompile(`\n(?:[ \t]*\n|[*|#])`)
)

// TestNamedTests: every test that a document names exists, in the package that the document names after it: a promise
// whose test was renamed or moved is a promise that nobody can check. A name that ends in … stands for all that begin
// so.
func TestNamedTests(t *testing.T) {
	tests := testsOf(t)
	for _, document := range textFiles(t) {
		if !strings.HasSuffix(document, ".md") {
			continue
		}
		text, err := os.ReadFile(filepath.Join("../..", document))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paragraph.Split(string(text), -1) {
			for _, missing := range missingTests(p, tests) {
				t.Errorf("%s: %s", document, missing)
			}
		}
	}
}

// TestMissingTests: the check finds what it looks for.
func TestMissingTests(t *testing.T) {
	tests := map[string][]string{"a": {"TestOne", "TestTwo"}, "b/c": {"TestThree"}}
	for _, c := range []struct{ text, want string }{
		{"`TestOne` and `TestTwo` (both in `a`), `TestThree` (`b/c`)", ""},
		{"`TestOne`, `TestT…`", ""},
		{"`TestOne` tests `x`", ""},
		{"`TestFour`", "no test TestFour"},
		{"`TestOne`, `TestThree` (`a`)", "no test TestThree in a"},
		{"`TestOne` (`b/c`)", "no test TestOne in b/c"},
		{"`TestX…` (`a`)", "no test TestX… in a"},
	} {
		if got := strings.Join(missingTests(c.text, tests), "; "); got != c.want {
			t.Errorf("%s: %q, want %q", c.text, got, c.want)
		}
	}
}

// missingTests returns what a paragraph says wrongly. The package of a test is the first that is named after it.
func missingTests(text string, tests map[string][]string) (missing []string) {
	words := quoted.FindAllStringSubmatch(text, -1)
	for i, w := range words {
		name := testName.FindStringSubmatch(w[1])
		if name == nil {
			continue
		}
		at := slices.IndexFunc(words[i:], func(w []string) bool { return tests[w[1]] != nil })
		where, in := slices.Concat(slices.Collect(maps.Values(tests))...), ""
		if at >= 0 {
			pkg := words[i+at][1]
			where, in = tests[pkg], " in "+pkg
		}
		if !slices.ContainsFunc(where,
			func(s string) bool { return s == name[1] || name[2] != "" && strings.HasPrefix(s, name[1]) }) {
			missing = append(missing, "no test "+name[0]+in)
		}
	}
	return missing
}

// testsOf returns the tests of every folder.
func testsOf(t *testing.T) map[string][]string {
	tests := map[string][]string{}
	for _, name := range textFiles(t) {
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range testFunc.FindAllSubmatch(text, -1) {
			tests[path.Dir(name)] = append(tests[path.Dir(name)], string(f[1]))
		}
	}
	return tests
}
