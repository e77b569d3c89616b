package pack

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Info describes a layout for people and for programs that offer a choice.
type Info struct {
	Name      string
	Version   int
	Source    string     // whose definition it is
	Summary   string     // one sentence: what it is for
	Alphabets []Alphabet // the first one is the default
	Params    []Param    // block factors that the user may choose
	Block     int        // of an exchange format: weights that share a scale inside the bytes; 0 if scales are separate

	Let     []string // definitions that all rules of the address formula share
	Address []Rule
	Stored  string // how the sum of digits becomes a byte, if it is not stored as it is
	Note    string // what else a reader of the bytes must know
	Example Shape  // a matrix small enough for a picture of the layout
}

// Param is a number that the user of a layout may choose.
type Param struct {
	Name    string
	Default int
	Doc     string
}

// definition is an entry of the list of layouts.
type definition struct {
	Info
	open   func(Spec) (Layout, error) // of a completed Spec; nil for exchange formats
	blocks func(Spec) Blocks          // of an exchange format
}

//go:generate go run ./internal/layoutdocs ../docs

// definitions is the list of all layouts, in the order in which people read about them. It is built once, as opening
// many small tensors would otherwise spend its time here.
var definitions = sync.OnceValue(func() []definition {
	return slices.Concat(vnni4iLayouts(), vnni4pLayouts(), vnni4tLayouts(), vnni4Layouts(), blockedLayouts(),
		vecLUTLayouts(), i2sLayouts(), tl1Layouts(), tl2Layouts(), w2a8Layouts(), tmacLayouts(), hfLayouts(),
		ggmlLayouts())
})

// Layouts lists all layouts.
func Layouts() []Info {
	var list []Info
	for _, d := range definitions() {
		list = append(list, d.Info)
	}
	return list
}

// FindLayout returns the description of a layout.
func FindLayout(name string) (Info, error) {
	d, err := find(name)
	return d.Info, err
}

// Open returns the layout that a Spec names. Version 0 means the current one, an empty Alphabet the layout's default,
// and a missing parameter its default; Spec of the result is complete.
func Open(s Spec) (Layout, error) {
	d, err := find(s.Name)
	if err != nil {
		return nil, err
	}
	if d.open == nil {
		return nil, fmt.Errorf("%w: %s keeps scales inside its blocks: it is a format to exchange models in, not a "+
			"layout to run with", ErrUnsupported, s.Name)
	}
	if s.Version == 0 {
		s.Version = d.Version
	}
	if s.Version != d.Version {
		return nil, fmt.Errorf("%w: layout %s version %d; this program knows version %d",
			ErrUnsupported, s.Name, s.Version, d.Version)
	}
	if s.Alphabet == "" {
		s.Alphabet = d.Alphabets[0].Name
	}
	if !slices.Contains(d.AlphabetNames(), s.Alphabet) {
		return nil, fmt.Errorf("%w: layout %s holds no %q codes; it holds %s", ErrUnsupported, s.Name, s.Alphabet,
			strings.Join(d.AlphabetNames(), ", "))
	}
	if s.Params, err = d.complete(s.Params); err != nil {
		return nil, err
	}
	return d.open(s)
}

// AlphabetNames returns the names of the alphabets that the layout holds.
func (i Info) AlphabetNames() []string {
	var names []string
	for _, a := range i.Alphabets {
		names = append(names, a.Name)
	}
	return names
}

// complete adds the defaults to the parameters given, and refuses unknown ones.
func (i Info) complete(given map[string]int) (map[string]int, error) {
	if len(i.Params) == 0 && len(given) == 0 {
		return nil, nil
	}
	all := map[string]int{}
	for _, p := range i.Params {
		all[p.Name] = p.Default
	}
	for name, v := range given {
		if _, ok := all[name]; !ok {
			return nil, fmt.Errorf("%w: layout %s has no parameter %q; it has %s", ErrUnsupported, i.Name, name,
				cmp.Or(strings.Join(slices.Sorted(maps.Keys(all)), ", "), "none"))
		}
		all[name] = v
	}
	return all, nil
}

func find(name string) (definition, error) {
	var names []string
	for _, d := range definitions() {
		if d.Name == name {
			return d, nil
		}
		names = append(names, d.Name)
	}
	return definition{}, fmt.Errorf("%w: layout %q; there are %s", ErrUnsupported, name, strings.Join(names, ", "))
}

// Padded returns the shape that the packed bytes of a matrix of shape s really hold: s with the rows and columns of
// weight zero that the layout adds. Kernels run over it.
func Padded(l Layout, s Shape) (Shape, error) {
	if p, ok := l.(interface{ Padded(Shape) (Shape, error) }); ok {
		return p.Padded(s)
	}
	return s, s.Check()
}

func cloneSpec(s Spec) Spec {
	s.Params = maps.Clone(s.Params)
	return s
}

// param checks a parameter against its bounds and the number that it must be a multiple of.
func param(s Spec, name string, multiple, most int) (int, error) {
	v := s.Params[name]
	if v < 1 || v > most || v%multiple != 0 {
		return 0, fmt.Errorf("%w: layout %s: parameter %s = %d must be a multiple of %d in %d..%d",
			ErrUnsupported, s.Name,
			name, v, multiple, multiple, most)
	}
	return v, nil
}
