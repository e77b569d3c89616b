package main

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/internal/testkit/long"
)

// module writes a module with one package, its tests and a list of mutants.
func module(t *testing.T, list string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.org/sums\n\ngo 1.26\n",
		"p/sum.go": "package p\n\nfunc Sum(n int) (s int) {\n\tfor i := 0; i < n; i++ {\n\t\ts += i\n\t}\n\treturn " +
			"s\n}\n\nfunc Twice(n int) int { return n * 2 }\n",
		"p/sum_test.go": `package p

import "testing"

func TestSum(t *testing.T) {
	if Sum(4) != 6 {
		t.Error(Sum(4))
	}
}

func TestTwice(t *testing.T) {
	if Twice(2) != 4 {
		t.Error(Twice(2))
	}
}
`,
		".ci/mutants/p.txt": list,
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestHold: a mutant that a test notices is killed, by a failure or by a timeout; one that none notices survives, and
// one that does not compile is an error. No file of the module is touched.
func TestHold(t *testing.T) {
	list := `# sums
file p/sum.go
test ./p -test.run=^TestSum$
mutant one number too many
- i < n;
+ i <= n;
mutant nothing is added
- 		s += i
+ 
file p/sum.go
test ./p
mutant a square
- n * 2 }
+ n * n }
mutant no result
- 	return s
- }
+ 	return
+ }
mutant a text
- n * 2 }
+ "n" }
`
	root := module(t, list)
	source := filepath.Join(root, "p", "sum.go")
	before, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = hold(context.Background(), &out, root, 0, "", nil)
	if err == nil || !strings.HasPrefix(err.Error(), "3 mutants were not killed:") {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, says := range []string{
		"SURVIVED  p/sum.go: a square (p.txt:12)", "SURVIVED  p/sum.go: no result (p.txt:15)",
		"ERROR  p/sum.go: a text (p.txt:20)",
	} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%q is missing in\n%v", says, err)
		}
	}
	for _, says := range []string{"p/sum.go: one number too many  [TestSum]", "p/sum.go: nothing is added  [TestSum]",
		"2 killed"} {
		if !strings.Contains(out.String(), says) {
			t.Errorf("%q is missing in\n%s", says, &out)
		}
	}
	if after, err := os.ReadFile(source); err != nil || !bytes.Equal(before, after) {
		t.Error("the file was changed")
	}
}

// TestStale: a list that does not fit the program is an error, whichever mutants are asked for.
func TestStale(t *testing.T) {
	for list, says := range map[string]string{
		"file p/sum.go\ntest ./p\nmutant gone\n- n * 3\n+ n\n": "p.txt:3: p/sum.go holds the old " +
			"text 0 times",
		"file p/sum.go\ntest ./p\nmutant twice\n- int\n+ uint\n":                     "holds the old text 4 times",
		"file p/sum.go\ntest ./p\nmutant empty\n+ n\n":                               "holds the old text",
		"file p/sum.go\ntest ./p\nmutant same\n- n * 2\n+ n * 2\n":                   "nothing is changed",
		"file p/no.go\ntest ./p\nmutant file\n- n\n+ m\n":                            "p.txt:3: open",
		"file p/sum.go\nmutant without tests\n- n * 2\n+ n\n":                        "p.txt:2:",
		"file p/sum.go\ntest ./p\nmutant line\n- n * 2\n* n\n":                       "p.txt:5:",
		"file p/sum.go\ntest ./p -test.run=TestNone\nmutant no test\n- n * 2\n+ n\n": "no tests to run",
		"": "no mutants",
	} {
		err := hold(context.Background(), new(bytes.Buffer), module(t, list), 0, "", []string{"p"})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", list, err)
		}
	}
}

// TestFailingTests: tests that fail without a mutant would kill every one.
func TestFailingTests(t *testing.T) {
	root := module(t, "file p/sum.go\ntest ./p\nmutant square\n- n * 2\n+ n * n\n")
	wrong := filepath.Join(root, "p", "wrong_test.go")
	if err := os.WriteFile(wrong,
		[]byte("package p\n\nimport \"testing\"\n\nfunc TestWrong(t *testing.T) { t.Error() }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := hold(context.Background(), new(bytes.Buffer), root, 0, "", nil)
	if err == nil || !strings.Contains(err.Error(), "./p fails without a mutant: TestWrong") {
		t.Error(err)
	}
}

// TestChoose: a seed always gives the same sample, and all mutants come up in time.
func TestChoose(t *testing.T) {
	var all []mutant
	for _, at := range strings.Split("abcdefghij", "") {
		all = append(all, mutant{file: "p/" + at})
	}
	if got := choose(all, 0, "x", []string{"p/a", "p/j"}); len(got) != 2 || got[1].file != "p/j" {
		t.Errorf("%v", got)
	}
	seen := map[string]bool{}
	for _, seed := range strings.Split("the quick brown fox jumps over the lazy dog", " ") {
		a, b := choose(all, 4, seed, nil), choose(all, 4, seed, nil)
		if len(a) != 4 || !slices.EqualFunc(a, b, func(x, y mutant) bool { return x.file == y.file }) {
			t.Errorf("%s: %v, %v", seed, a, b)
		}
		for _, m := range a {
			seen[m.file] = true
		}
	}
	if len(seen) != len(all) {
		t.Errorf("only %v came up", slices.Sorted(maps.Keys(seen)))
	}
}

// TestList: the list of this module fits its code, and every mutant compiles. A change of the code changes the mutants
// of it.
func TestList(t *testing.T) {
	long.Only(t)
	root := filepath.Join("..", "..", "..")
	all, err := readList(filepath.Join(root, ".ci", "mutants"))
	if err != nil || len(all) < 200 {
		t.Fatalf("%d mutants, %v", len(all), err)
	}
	packages := listPackages(t, root)
	err = parallel.Each(context.Background(), 0, len(all), func(_, i int) error {
		if err := packages.check(root, &all[i]); err != nil {
			t.Error(err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
