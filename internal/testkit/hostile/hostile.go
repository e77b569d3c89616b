// Package hostile holds the files that an attacker, a broken disk or a careless tool would hand to this program: one
// failure per case, each with the verdict that is right. Tests run every case through every command.
//
// Small ones are kept in testdata/hostile, with a list of all, for other programs to try.
//
// The files are written with nothing but the standard library, never with the writers of this module, which refuse to
// write them.
package hostile

//go:generate go run ./generate -o ../../../testdata/hostile

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
)

// Class is the verdict on a case.
type Class string

// The classes. Accept means that the case is legal and must be read; everything else must be refused.
const (
	Accept      Class = "accept"
	Limit       Class = "limit"       // pack.ErrLimit
	Syntax      Class = "syntax"      // pack.ErrCorrupt
	Structure   Class = "structure"   // pack.ErrCorrupt
	Path        Class = "path"        // pack.ErrCorrupt: a name that leads, or could lead, out of the directory
	Digest      Class = "digest"      // pack.ErrCorrupt: bytes that changed
	Unsupported Class = "unsupported" // pack.ErrUnsupported
)

// Group says which reader must find the failure.
type Group string

// The groups, in the order in which a command meets them.
const (
	Container Group = "safetensors" // a bare .safetensors file
	Directory Group = "directory"   // a model directory whose files are at fault
	Config    Group = "config"      // a model directory whose config.json is at fault
	Tokenizer Group = "tokenizer"   // a model directory whose tokenizer.json is at fault
	Packed    Group = "packed"      // a packed file
)

// Case is one failure.
type Case struct {
	ID    string // rule, and a letter where a rule has several cases: "S21c"
	Group Group
	Class Class
	Note  string   // what is wrong, or why it is right
	Table []string // of an accepted Container: "name dtype [shape] [begin, end)" per tensor, by offset
	Rule  string   // of docs/FORMAT.md, which a Packed breaks; "" = it breaks none, what it holds is at fault
	Big   bool     // too large to be kept as a file

	// build writes the case below dir, which exists and is empty, and returns the path to hand to a command.
	build func(dir string) (string, error)
	// During, if set, is what happens to the files (at the path that Build returned) while they are read.
	During func(path string) error
}

// Build writes the case below dir, which exists and is empty, and returns the path to hand to a command.
func (c *Case) Build(dir string) (string, error) { return c.build(dir) }

// Cases returns all cases by ID.
func Cases() []Case {
	all := slices.Concat(containers(), directories(), configs(), tokenizers(), packedFiles())
	slices.SortFunc(all, func(a, b Case) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// In returns the cases of one group.
func In(g Group) []Case {
	return slices.DeleteFunc(Cases(), func(c Case) bool { return c.Group != g })
}

func write(dir, name string, data []byte) error {
	return os.WriteFile(filepath.Join(dir, name), data, 0o644)
}
