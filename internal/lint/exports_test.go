package lint

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// TestNoExportedInternalTypes: a program that imports a package can name every type in the signatures of its API. The
// export data of the compiler tell what they are.
func TestNoExportedInternalTypes(t *testing.T) {
	all, imp := built(t, token.NewFileSet())
	var found []use
	for _, p := range all {
		if !public(p) {
			continue
		}
		pkg, err := imp.Import(p.path)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, internalTypes(pkg)...)
	}
	for _, use := range found {
		t.Errorf("%s mentions %s: no other module can name that type", use.place, use.name)
	}
}

// use is a type of an internal package, and the exported name that mentions it.
type use struct{ place, name string }

// internalTypes lists where the API of a package mentions types of internal packages.
func internalTypes(pkg *types.Package) []use {
	w := &walk{pkg: pkg, seen: map[types.Type]bool{}}
	for _, name := range pkg.Scope().Names() {
		if o := pkg.Scope().Lookup(name); o.Exported() {
			w.visit(strings.TrimPrefix(pkg.Path(), module)+"."+name, o.Type())
		}
	}
	return w.found
}

// walk goes through the types of an API.
type walk struct {
	pkg   *types.Package
	seen  map[types.Type]bool // which may refer to themselves
	found []use
}

// visit looks at a type, which stands at a place of the API, and at all that a user of it sees.
func (w *walk) visit(place string, t types.Type) {
	switch t := t.(type) {
	case *types.Alias:
		if w.own(place, t.Obj()) {
			w.visit(place, types.Unalias(t))
		}
		w.list(place, t.TypeArgs())
	case *types.Named:
		if w.own(place, t.Obj()) && !w.seen[t] {
			w.seen[t] = true
			w.visit(place, t.Underlying())
			for m := range t.Methods() {
				w.member(place, m)
			}
		}
		w.list(place, t.TypeArgs())
	case *types.TypeParam:
		if !w.seen[t] {
			w.seen[t] = true
			w.visit(place, t.Constraint())
		}
	case *types.Signature:
		w.visit(place, t.Params())
		w.visit(place, t.Results())
		for p := range t.TypeParams().TypeParams() {
			w.visit(place, p)
		}
	case *types.Tuple:
		for v := range t.Variables() {
			w.visit(place, v.Type())
		}
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() || f.Embedded() { // what is embedded lends its methods
				w.visit(place+"."+f.Name(), f.Type())
			}
		}
	case *types.Interface:
		for m := range t.Methods() {
			w.member(place, m)
		}
		for e := range t.EmbeddedTypes() {
			w.visit(place, e)
		}
	case *types.Union:
		for e := range t.Terms() {
			w.visit(place, e.Type())
		}
	case *types.Map:
		w.visit(place, t.Key())
		w.visit(place, t.Elem())
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
		w.visit(place, t.Elem())
	}
}

func (w *walk) member(place string, m *types.Func) {
	if m.Exported() {
		w.visit(place+"."+m.Name(), m.Type())
	}
}

func (w *walk) list(place string, args *types.TypeList) {
	for t := range args.Types() {
		w.visit(place, t)
	}
}

// own reports whether a name belongs to the package itself, so that its definition is part of the API, and notes it if
// it belongs to an internal package of the module.
func (w *walk) own(place string, name *types.TypeName) bool {
	switch pkg := name.Pkg(); {
	case pkg == nil: // error
		return false
	case strings.HasPrefix(pkg.Path(), module) && internal(pkg.Path()):
		w.found = append(w.found, use{place, pkg.Path() + "." + name.Name()})
		return false
	default:
		return pkg == w.pkg
	}
}

// TestInternalTypes: the places where a type can hide in an API are looked at, and others are not.
func TestInternalTypes(t *testing.T) {
	secret := types.NewPackage(module+"internal/secret", "secret")
	source := `package api
import "` + secret.Path() + `"
type (
	Alias = []secret.T
	Field struct { Inner struct{ X map[string]*secret.T }; hidden secret.T }
	Embeds struct { base }
	base struct { List []Embeds; T secret.T }
	Fits interface { ~[]int; Same() chan secret.T }
	Opaque struct { t *secret.T }
	List[T any] []T
)
func (Opaque) Method(func(...secret.T)) {}
func (Opaque) method(secret.T) {}
func Generic[P ~[]secret.T](p P) {}
func Instance() List[secret.T] { return nil }
func hidden(secret.T) {}
var Value [2]secret.T
const Number = int(secret.N)
`
	name := types.NewTypeName(token.NoPos, secret, "T", nil)
	types.NewNamed(name, types.NewStruct(nil, nil), nil)
	secret.Scope().Insert(name)
	secret.Scope().Insert(types.NewConst(token.NoPos, secret, "N", types.Typ[types.Int], constant.MakeInt64(1)))
	secret.MarkComplete()
	var got []string
	for _, u := range internalTypes(checked(t, only{secret}, source)) {
		got = append(got, u.place)
	}
	want := []string{"api.Alias", "api.Embeds.base.T", "api.Field.Inner.X", "api.Fits.Same", "api.Generic",
		"api.Instance",
		"api.Opaque.Method", "api.Value"}
	if got = slices.Compact(got); !slices.Equal(got, want) { // an instance leads there twice
		t.Errorf("%q, want %q", got, want)
	}
}

// checked is a package of the source of one file.
func checked(t *testing.T, imp types.Importer, source string) *types.Package {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "api.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := types.Config{Importer: imp}
	pkg, err := c.Check(module+"api", files, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pkg
}

// only imports one package.
type only struct{ *types.Package }

func (o only) Import(string) (*types.Package, error) { return o.Package, nil }
