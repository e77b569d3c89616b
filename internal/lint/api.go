package lint

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"slices"
	"strings"
)

// apiFolder has a file for each package that other modules can import.
const apiFolder = "docs/api/"

// apiFiles lists what each public package exports: a declaration per line, so that a change of the API is a changed
// line.
func apiFiles(root string) (map[string]string, error) {
	all, imp, err := load(root, token.NewFileSet())
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, p := range all {
		if !public(p) {
			continue
		}
		pkg, err := imp.Import(p.path)
		if err != nil {
			return nil, err
		}
		name := strings.ReplaceAll(short(p.path), "/", ".")
		files[apiFolder+name+".txt"] = strings.Join(declarations(pkg), "\n") + "\n"
	}
	return files, nil
}

// public reports whether programs outside the module can import a package.
func public(p builtPackage) bool {
	ours := p.path == modulePath || strings.HasPrefix(p.path, module)
	return ours && p.name != "main" && !internal(p.path)
}

// internal reports whether only the module can import a path.
func internal(importPath string) bool {
	return slices.Contains(strings.Split(importPath, "/"), "internal")
}

// builtPackage is a package with its files.
type builtPackage struct {
	path, name, dir string
	names           []string
}

// load lists the packages of the module and what they import, which an importer reads.
func load(root string, files *token.FileSet) (all []builtPackage, imp types.Importer, err error) {
	exports := map[string]string{}
	const format = "{{.ImportPath}}\t{{.Export}}\t{{.Name}}\t{{.Dir}}\t{{join .GoFiles \" \"}}"
	lines, err := list(root, "-export", "-deps", "-f", format)
	if err != nil {
		return nil, nil, err
	}
	for _, line := range lines {
		f := strings.Split(line, "\t")
		exports[f[0]] = f[1]
		all = append(all, builtPackage{f[0], f[2], f[3], strings.Fields(f[4])})
	}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	return all, importer.ForCompiler(files, "gc", lookup), nil
}

// declarations are the lines of a package.
func declarations(pkg *types.Package) []string {
	l := &lines{qualify: func(other *types.Package) string {
		if other == pkg {
			return ""
		}
		return other.Name()
	}}
	for _, name := range pkg.Scope().Names() {
		if o := pkg.Scope().Lookup(name); o.Exported() {
			l.declare(o)
		}
	}
	slices.Sort(l.text)
	return slices.Compact(l.text)
}

// lines are declarations of a package.
type lines struct {
	qualify types.Qualifier
	text    []string
}

func (l *lines) add(format string, a ...any) { l.text = append(l.text, fmt.Sprintf(format, a...)) }

func (l *lines) typeOf(t types.Type) string { return types.TypeString(t, l.qualify) }

func (l *lines) declare(o types.Object) {
	switch o := o.(type) {
	case *types.Const:
		l.add("const %s %s = %s", o.Name(), l.typeOf(o.Type()), o.Val().ExactString())
	case *types.TypeName:
		l.declareType(o)
	default: // variables and functions
		l.add("%s", types.ObjectString(o, l.qualify))
	}
}

// declareType lists a type with its fields and methods.
func (l *lines) declareType(o *types.TypeName) {
	name := l.typeOf(o.Type()) // with its parameters
	if o.IsAlias() {
		name = o.Name()
		l.add("type %s = %s", name, l.typeOf(types.Unalias(o.Type())))
		return
	}
	switch t := o.Type().Underlying().(type) {
	case *types.Struct:
		l.add("type %s struct", name)
		l.fields(name, t)
	case *types.Interface:
		l.add("type %s interface", name)
		l.interfaceOf(name, t)
		return
	default:
		l.add("type %s %s", name, l.typeOf(t))
	}
	l.methods(o.Type())
}

// fields lists the fields that a user sees, also of structs that are embedded under an unexported name.
func (l *lines) fields(name string, t *types.Struct) {
	for i := range t.NumFields() {
		f := t.Field(i)
		inner, embeds := f.Type().Underlying().(*types.Struct)
		switch {
		case f.Exported():
			tag := ""
			if t.Tag(i) != "" {
				tag = " `" + t.Tag(i) + "`"
			}
			l.add("type %s struct, %s %s%s", name, f.Name(), l.typeOf(f.Type()), tag)
		case f.Embedded() && embeds:
			l.fields(name, inner)
		}
	}
}

// interfaceOf lists the methods that an implementation has; only the package itself can implement unexported ones.
func (l *lines) interfaceOf(name string, t *types.Interface) {
	for m := range t.Methods() {
		if !m.Exported() {
			l.add("type %s interface, with methods that are not exported", name)
			continue
		}
		l.add("type %s interface, %s%s", name, m.Name(), strings.TrimPrefix(l.typeOf(m.Type()), "func"))
	}
}

// methods lists the methods of values and of pointers.
func (l *lines) methods(t types.Type) {
	values := types.NewMethodSet(t)
	for m := range types.NewMethodSet(types.NewPointer(t)).Methods() {
		f := m.Obj()
		if !f.Exported() {
			continue
		}
		receiver := "*" + l.typeOf(t)
		if values.Lookup(f.Pkg(), f.Name()) != nil {
			receiver = l.typeOf(t)
		}
		l.add("func (%s) %s%s", receiver, f.Name(), strings.TrimPrefix(l.typeOf(f.Type()), "func"))
	}
}
