package lint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// groups are the parts of the module that the picture shows, by floor: a package imports what is below it, and on the
// same floor what is to its right.
var groups = [][]group{
	{{"cmd/lowpack", "flags, progress, signals: a file per command", 1}},
	{{"lowpack", "what a Go program imports first", 1}},
	{
		{"convert", "checkpoint ↔ packed file", 0.41},
		{"verify", "is it what it says?", 0.2},
		{"runtime", "packed file → tokens", 0.39},
	},
	{{"formats", "files as they are stored", 1}},
	{{"pack", "codes ↔ bytes of a layout", 1}},
	{{"internal", "imports nothing of the module", 1}},
}

// group is a folder of packages.
type group struct {
	name, what string
	share      float64 // of the width of its floor
}

// house is what the picture shows: the packages of each group; packages that no other module can import, next to the
// floor that they stand on; and which group imports which.
type house struct {
	rooms   map[string][]string // by group: paths below it
	beside  [][]string          // by floor: packages of the folder internal that import one of it, and none above
	stand   map[string]bool     // the groups that these import
	imports map[[2]string]bool  // from a group to another one
}

// newHouse reads the imports of one system, so that the picture is the same on all.
func newHouse(root string) (*house, error) {
	lines, err := list(root, "-f", "{{.ImportPath}}\t{{join .Imports \" \"}}")
	if err != nil {
		return nil, err
	}
	imports := map[string][]string{}
	for _, line := range lines {
		name, all, _ := strings.Cut(line, "\t")
		if !told(short(name)) {
			continue
		}
		imports[short(name)] = nil
		for _, other := range strings.Fields(all) {
			if other == modulePath || strings.HasPrefix(other, module) {
				imports[short(name)] = append(imports[short(name)], short(other))
			}
		}
	}
	h := &house{
		rooms: map[string][]string{}, beside: make([][]string, len(groups)),
		stand: map[string]bool{}, imports: map[[2]string]bool{},
	}
	for _, name := range slices.Sorted(maps.Keys(imports)) {
		h.place(name, imports)
	}
	for _, names := range h.rooms {
		slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(hidden(a), hidden(b)) })
	}
	return h, h.check()
}

// hidden is 1 for a package below a group that no other module can import.
func hidden(name string) int { return strings.Count("/"+name, "/internal/") }

// told reports whether the picture and the table include a package: tools of the project and of tests are left out.
func told(name string) bool {
	return !below(name, []string{"internal/testkit", "internal/lint", "internal/release", "verify/internal/sample"}) &&
		name != "pack/internal/layoutdocs" && name != "cmd/lowpack/internal/manifest"
}

// place enters a package.
func (h *house) place(name string, imports map[string][]string) {
	if below(name, []string{"internal"}) {
		floor, on := len(groups)-1, ""
		for _, other := range reached(name, imports) {
			if f, g := find(other); f >= 0 && f < floor {
				floor, on = f, g
			}
		}
		h.beside[floor] = append(h.beside[floor], strings.TrimPrefix(name, "internal/"))
		h.stand[on] = true
		return
	}
	_, g := find(name)
	if name != g {
		h.rooms[g] = append(h.rooms[g], strings.TrimPrefix(name, g+"/"))
	}
	for _, other := range imports[name] {
		if _, to := find(other); to != g && to != "internal" {
			h.imports[[2]string{g, to}] = true
		}
	}
}

// reached returns all packages that one depends on.
func reached(name string, imports map[string][]string) (all []string) {
	seen, todo := map[string]bool{}, []string{name}
	for len(todo) > 0 {
		next := todo[0]
		todo = todo[1:]
		for _, other := range imports[next] {
			if !seen[other] {
				seen[other] = true
				todo, all = append(todo, other), append(all, other)
			}
		}
	}
	return all
}

// find returns the floor and the name of the group of a package.
func find(name string) (floor int, group string) {
	for floor, list := range groups {
		for _, g := range list {
			if below(name, []string{g.name}) {
				return floor, g.name
			}
		}
	}
	return -1, ""
}

// below reports whether a package is one of some folders, or in one.
func below(name string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return name == f || strings.HasPrefix(name, f+"/") })
}

// check refuses imports that the picture would show pointing up or to the left.
func (h *house) check() error {
	order := map[string]int{}
	for _, list := range groups {
		for _, g := range list {
			order[g.name] = len(order)
		}
	}
	for i := range h.imports {
		if order[i[0]] > order[i[1]] {
			return fmt.Errorf("%s imports %s: it must be the other way round (groups in internal/lint/house.go)",
				i[0], i[1])
		}
	}
	return nil
}
