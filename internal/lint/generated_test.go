package lint

import (
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestGenerated: the lists of the API, the table of packages and the picture match the current packages, and there is
// no list of a removed package.
func TestGenerated(t *testing.T) {
	files, err := Generated("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join("../..", name)); err != nil || string(got) != want {
			t.Errorf("%s is not what the packages say; after a change that is meant: go generate ./internal/lint (%v)",
				name,
				err)
		}
	}
	there, err := filepath.Glob("../../" + apiFolder + "*")
	if err != nil || len(there) < 20 {
		t.Fatal(there, err)
	}
	for _, path := range there {
		if name := apiFolder + filepath.Base(path); files[name] == "" {
			t.Errorf("%s is about no package", name)
		}
	}
}

// TestDeclarations: every kind of declaration that a program can use has a line, and others have none.
func TestDeclarations(t *testing.T) {
	pkg := checked(t, nil, `package api
type Reader interface { Read(p []byte) (n int, err error) }
const Number, Text, hidden = 1 << 3, "a", 2
type Kind string
const KindA Kind = "a"
var Err error
var other int
type base struct { Inner int; own int }
func (base) Value() {}
func (*base) Pointer() int { return 0 }
type Outer struct { base; Reader; Tagged []Kind `+"`json:\"tagged\"`"+`; hidden int }
func (o Outer) unseen() {}
type List[T any] []T
type Same = map[string]Outer
type Sealed interface { Do(a int) error; mark() }
func Call(r Reader, list ...Kind) (n int, err error) { return }
`)
	got := declarations(pkg)
	want := []string{
		"const KindA Kind = \"a\"", "const Number untyped int = 8", "const Text untyped string = \"a\"",
		"func (*Outer) Pointer() int", "func (Outer) Read(p []byte) (n int, err error)", "func (Outer) Value()",
		"func Call(r Reader, list ...Kind) (n int, err error)", "type Kind string", "type List[T any] []T",
		"type Outer struct",
		"type Outer struct, Inner int", "type Outer struct, Reader Reader",
		"type Outer struct, Tagged []Kind `json:\"tagged\"`", "type Reader interface",
		"type Reader interface, Read(p []byte) (n int, err error)", "type Same = map[string]Outer",
		"type Sealed interface",
		"type Sealed interface, Do(a int) error", "type Sealed interface, with methods that are not exported",
		"var Err error",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestNoExportedVariables: nothing that a program imports is there for it to change. Errors are compared, not assigned.
func TestNoExportedVariables(t *testing.T) {
	known := map[string]string{
		"pack.Ternary": alphabets, "pack.Int1": alphabets, "pack.Int2": alphabets, "pack.Int2Odd": alphabets,
		"pack.Int2Q": alphabets, "pack.Int4": alphabets, "pack.Int8": alphabets, "pack.E2M1": alphabets,
		"pack.IQ4NL": alphabets, "pack.Int4Odd": alphabets, "pack.IQ2": alphabets, "pack.IQ3XXS": alphabets,
		"pack.Int3": alphabets, "pack.Int5": alphabets, "pack.Int6": alphabets,
	}
	all, imp := built(t, token.NewFileSet())
	for _, p := range all {
		if !public(p) {
			continue
		}
		pkg, err := imp.Import(p.path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range variables(pkg) {
			if name = short(p.path) + "." + name; known[name] == "" {
				t.Errorf("%s is a variable that a program can change: make it a function, or a constant", name)
			}
			delete(known, name)
		}
	}
	for name := range known {
		t.Errorf("%s is no variable any more", name)
	}
}

const alphabets = "constants in all but the language; see package pack"

// variables lists the exported variables of a package, except errors.
func variables(pkg *types.Package) (names []string) {
	for _, name := range pkg.Scope().Names() {
		v, ok := pkg.Scope().Lookup(name).(*types.Var)
		if ok && v.Exported() && !types.Identical(v.Type(), types.Universe.Lookup("error").Type()) {
			names = append(names, name)
		}
	}
	return names
}

// TestVariables: variables are distinguished from errors, constants and unexported names.
func TestVariables(t *testing.T) {
	got := variables(checked(t, nil,
		"package api\nvar List, hidden []int\nvar Err error\nconst Number = 1\nfunc F() {}"))
	if !slices.Equal(got, []string{"List"}) {
		t.Error(got)
	}
}

// TestWays: ARCHITECTURE.md is one page, names files that exist, and ten for each way through the house.
func TestWays(t *testing.T) {
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) > 120 {
		t.Errorf("%d lines; a page has 120", len(lines))
	}
	ways, way := map[string]int{}, ""
	for i, line := range lines {
		if n := len([]rune(line)); n > 120 {
			t.Errorf("line %d has %d columns", i+1, n)
		}
		if name := regexp.MustCompile(`^\*\*(\w+)\*\*: `).FindStringSubmatch(line); name != nil {
			way = name[1]
		}
		if file := regexp.MustCompile("^[0-9]+\\. `([^`]+\\.go)` [a-z]").FindStringSubmatch(line); file != nil {
			ways[way]++
			if _, err := os.Stat("../../" + file[1]); err != nil {
				t.Errorf("line %d: %v", i+1, err)
			}
		}
	}
	want := map[string]int{"Convert": 10, "Verify": 10, "Run": 10, "Serve": 10, "Export": 10}
	if !maps.Equal(ways, want) {
		t.Errorf("files of each way: %v", ways)
	}
}

// TestHouse: a package of the folder internal stands on the floor of what it imports, others in the room of their
// folder, and an import against the order is an error.
func TestHouse(t *testing.T) {
	h := &house{
		rooms: map[string][]string{}, beside: make([][]string, len(groups)),
		stand: map[string]bool{}, imports: map[[2]string]bool{},
	}
	imports := map[string][]string{
		"internal/deep": {"internal/mid"}, "internal/mid": {"formats/packed"}, "internal/leaf": nil,
		"formats/packed": {"pack", "internal/leaf"}, "pack": nil, "convert": {"formats/packed"},
	}
	for _, name := range slices.Sorted(maps.Keys(imports)) {
		h.place(name, imports)
	}
	formats, _ := find("formats")
	if got := h.beside[formats]; !slices.Equal(got, []string{"deep", "mid"}) ||
		!slices.Equal(h.beside[len(groups)-1], []string{"leaf"}) {
		t.Error(h.beside)
	}
	if got := h.rooms["formats"]; !slices.Equal(got, []string{"packed"}) || h.standOn(formats) != "formats" {
		t.Error(h.rooms, h.stand)
	}
	want := [][2]string{{"convert", "formats"}, {"formats", "pack"}}
	if got := sortedPairs(h.imports); !slices.Equal(got, want) || h.check() != nil {
		t.Error(got, h.check())
	}
	h.place("pack", map[string][]string{"pack": {"formats/packed"}})
	if h.check() == nil {
		t.Error("pack imports formats")
	}
}
