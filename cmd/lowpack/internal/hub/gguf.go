package hub

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/pack"
)

// ggufFile matches the name of a GGUF file of a model, or its end as in llama.cpp, such as Q4_0.
var ggufFile = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9 ._/+-]{0,253}[A-Za-z0-9])?$`)

func checkFile(text, file string) error {
	if !ggufFile.MatchString(file) || !filepath.IsLocal(file) || path.Clean(file) != file {
		return fmt.Errorf("%w: %q: %q is neither a GGUF file of a model nor the end of its name, such as Q4_0",
			pack.ErrUnsupported, text, file)
	}
	return nil
}

// chooseGGUF returns all parts of the GGUF model that n selects among the files: the named one, or the only one. nil =
// n names none and there is none.
func (n Name) chooseGGUF(files []string) ([]string, error) {
	var all, chosen []string // first parts
	for _, name := range files {
		if _, err := gguf.SplitNames(name); err != nil || !isModelGGUF(name) {
			continue // a later part, or not a language model
		}
		all = append(all, name)
		if n.File == "" || n.File == name || endsIn(name, n.File) {
			chosen = append(chosen, name)
		}
	}
	if i := slices.Index(chosen, n.File); i >= 0 {
		chosen = chosen[i:][:1]
	}
	switch {
	case len(all) == 0 && n.File == "":
		return nil, nil
	case len(chosen) == 0:
		return nil, fmt.Errorf("%s: %w: no GGUF file with that name%s", n, fs.ErrNotExist, listed(all))
	case len(chosen) > 1:
		return nil, fmt.Errorf("%w: %s matches %d GGUF files; name one, as in %s:%s%s", pack.ErrUnsupported, n,
			len(chosen),
			n.ID(), chosen[0], listed(chosen))
	}
	parts, err := gguf.SplitNames(chosen[0])
	for _, part := range parts {
		if err == nil && !slices.Contains(files, part) {
			err = fmt.Errorf("%w: %s: %s is missing beside %s", pack.ErrCorrupt, n, part, chosen[0])
		}
	}
	return parts, err
}

// isModelGGUF tells a language model from other files by its name.
func isModelGGUF(name string) bool {
	return strings.HasSuffix(name, ".gguf") && !strings.HasPrefix(path.Base(name), "mmproj")
}

var partOf = regexp.MustCompile(`-\d{5}-of-\d{5}$`)

// endsIn reports whether a file name, without suffix and part number, ends with word at a word boundary.
func endsIn(name, word string) bool {
	stem := partOf.ReplaceAllString(strings.TrimSuffix(path.Base(name), ".gguf"), "")
	rest, ok := strings.CutSuffix(strings.ToLower(stem), strings.ToLower(word))
	return ok && (rest == "" || strings.ContainsRune("-._", rune(rest[len(rest)-1])))
}

// listed describes which files exist; of many, only the first ones.
func listed(names []string) string {
	const most = 12
	switch {
	case len(names) == 0:
		return "; it has none"
	case len(names) > most:
		return fmt.Sprintf("; there are %s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return "; there are " + strings.Join(names, ", ")
}

// snapshotFiles returns the names of all files in a snapshot.
func snapshotFiles(dir string) (names []string, err error) {
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if _, err := os.Stat(p); err != nil {
			return nil // dangling link
		}
		name, err := filepath.Rel(dir, p)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	return names, err
}
