// Package waiting finds the tests that wait for something, or look at a clock or at the scheduler.
package waiting

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// waits are imports whose use makes a test wait, or look at a clock or at what the scheduler does.
var waits = []string{
	"net", "net/http", "net/http/httptest", "os/exec", "os/signal", "testing/synctest", "time",
	"github.com/creack/pty", "github.com/rogpeppe/go-internal/testscript", "golang.org/x/sync/errgroup",
	module + "internal/parallel", testkit + "cpu",
}

// starts are names of other packages whose use does so too.
var starts = []string{
	"Cond", "GOMAXPROCS", "Kill", "NewPool", "NumGoroutine", "WaitGroup", "WithCancel", "WithCancelCause",
	"WithDeadline", "WithTimeout",
}

const (
	module  = "github.com/lowpack/lowpack/"
	testkit = module + "internal/testkit/"
	outside = "_test" // ends the name of a package of tests outside the one that they test
)

// name is a declaration at the top of a package.
type name struct{ pkg, ident string }

// graph is which declarations use which, and which wait themselves.
type graph struct {
	root  string // of the module
	read  map[string]bool
	uses  map[name]map[name]bool
	waits map[name]bool
}

// Tests returns for each test, example and fuzz target of a folder, which is relative to the root of the module,
// whether it waits: whether it reaches, through test files of the folder and packages of internal/testkit, a goroutine,
// a channel, one of the packages of waits or one of the names of starts. Other code is not followed: that it computes
// on several threads makes no test wait.
func Tests(root, folder string) (map[string]bool, error) {
	g := graph{root, map[string]bool{}, map[name]map[name]bool{}, map[name]bool{}}
	p, err := build.ImportDir(filepath.Join(root, folder), 0)
	if err != nil {
		return nil, err
	}
	if err := g.add(folder, folder, slices.Concat(p.GoFiles, p.TestGoFiles)); err != nil {
		return nil, err
	}
	if err := g.add(folder, folder+outside, p.XTestGoFiles); err != nil {
		return nil, err
	}
	tests := map[string]bool{}
	for n := range g.uses {
		if (n.pkg == folder || n.pkg == folder+outside) && isTest(n.ident) {
			tests[n.ident] = g.reaches(n, map[name]bool{})
		}
	}
	return tests, nil
}

func isTest(ident string) bool {
	begins := func(prefix string) bool { return strings.HasPrefix(ident, prefix) }
	return ident != "TestMain" && slices.ContainsFunc([]string{"Test", "Example", "Fuzz"}, begins)
}

// reaches reports whether a declaration waits, or uses one that does.
func (g *graph) reaches(n name, seen map[name]bool) bool {
	if seen[n] {
		return false
	}
	seen[n] = true
	if g.waits[n] {
		return true
	}
	for next := range g.uses[n] {
		if g.reaches(next, seen) {
			return true
		}
	}
	return false
}

// addKit reads a package for tests.
func (g *graph) addKit(folder string) error {
	if g.read[folder] {
		return nil
	}
	g.read[folder] = true
	p, err := build.ImportDir(filepath.Join(g.root, folder), 0)
	if err != nil {
		return err
	}
	return g.add(folder, folder, p.GoFiles)
}

// add reads the files of a package, and the packages for tests that they import. Files that are no test's are read for
// their types alone.
func (g *graph) add(folder, pkg string, names []string) error {
	fset, files := token.NewFileSet(), []*ast.File(nil)
	for _, file := range names {
		f, err := parser.ParseFile(fset, filepath.Join(g.root, folder, file), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	// Imports are empty, so that there are errors, but which names are local and which are not is as in the program.
	config := types.Config{Importer: empty{}, Error: func(error) {}, FakeImportC: true}
	_, _ = config.Check(pkg, fset, files, &info)
	for i, f := range files {
		if !strings.HasSuffix(names[i], "_test.go") && !strings.HasPrefix(module+folder, testkit) {
			continue
		}
		for _, d := range f.Decls {
			for _, n := range declared(pkg, d) {
				g.note(n, d, &info)
			}
		}
		for _, i := range f.Imports {
			if inner, ok := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), testkit); ok {
				if err := g.addKit("internal/testkit/" + inner); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// empty imports packages without looking for them.
type empty struct{}

func (empty) Import(p string) (*types.Package, error) {
	pkg := types.NewPackage(p, path.Base(p))
	pkg.MarkComplete()
	return pkg, nil
}

// declared are the names of a declaration; that of a method is the one of its type.
func declared(pkg string, d ast.Decl) (names []name) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		ident := d.Name
		if d.Recv != nil {
			ident = typeOf(d.Recv.List[0].Type)
		}
		names = append(names, name{pkg, ident.Name})
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, name{pkg, s.Name.Name})
			case *ast.ValueSpec:
				for _, id := range s.Names {
					names = append(names, name{pkg, id.Name})
				}
			}
		}
	}
	return names
}

// typeOf is the name of the type of a receiver.
func typeOf(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeOf(e.X)
	case *ast.IndexExpr:
		return typeOf(e.X)
	case *ast.IndexListExpr:
		return typeOf(e.X)
	}
	return e.(*ast.Ident)
}

// note takes down what a declaration uses.
func (g *graph) note(of name, d ast.Node, info *types.Info) {
	if g.uses[of] == nil {
		g.uses[of] = map[name]bool{}
	}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt, *ast.ChanType, *ast.SendStmt, *ast.SelectStmt:
			g.waits[of] = true
		case *ast.UnaryExpr:
			g.waits[of] = g.waits[of] || n.Op == token.ARROW
		case *ast.SelectorExpr:
			g.selected(of, n, info)
		case *ast.Ident:
			g.waits[of] = g.waits[of] || slices.Contains(starts, n.Name)
			if o := info.Uses[n]; o != nil && o.Pkg() != nil && o.Parent() == o.Pkg().Scope() {
				g.uses[of][name{of.pkg, n.Name}] = true
			}
		}
		return true
	})
}

// selected takes down the use of a name of another package.
func (g *graph) selected(of name, s *ast.SelectorExpr, info *types.Info) {
	id, _ := s.X.(*ast.Ident)
	pkg, _ := info.Uses[id].(*types.PkgName)
	if pkg == nil {
		return
	}
	imported := pkg.Imported().Path()
	g.waits[of] = g.waits[of] || slices.Contains(waits, imported)
	if own := strings.TrimSuffix(of.pkg, outside); imported == path.Join(module, own) {
		g.uses[of][name{own, s.Sel.Name}] = true
	} else if strings.HasPrefix(imported, testkit) {
		g.uses[of][name{strings.TrimPrefix(imported, module), s.Sel.Name}] = true
	}
}
