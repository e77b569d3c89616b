package hub

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/gguf"
)

// Local is a model in the cache: a snapshot with weights in safetensors files, or a GGUF in one.
type Local struct {
	Name
	Path     string // path to open: the snapshot, or the first part of the GGUF
	snapshot string
	files    []string // of the model, below the snapshot
}

// Files are the paths of its files, which are links in most caches.
func (l *Local) Files() (list []string) {
	for _, name := range l.files {
		list = append(list, filepath.Join(l.snapshot, filepath.FromSlash(name)))
	}
	return list
}

// List lists the models of the cache by name, without opening their files. A revision is the branch or tag of the
// snapshot, or its commit if there is none.
func (c *Client) List() ([]Local, error) {
	names, err := c.names()
	if err != nil {
		return nil, err
	}
	var list []Local
	for _, n := range names {
		models, err := c.localOf(n)
		if err != nil {
			return nil, err
		}
		list = append(list, models...)
	}
	slices.SortFunc(list, func(a, b Local) int { return cmp.Compare(a.String(), b.String()) })
	return list, nil
}

// names returns the models that have a folder in the cache.
func (c *Client) names() (list []Name, err error) {
	folders, err := os.ReadDir(c.Cache)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, f := range folders {
		id, isModel := strings.CutPrefix(f.Name(), "models--")
		n, err := ParseName(strings.Replace(id, "--", "/", 1))
		if isModel && err == nil && isDir(filepath.Join(c.Cache, f.Name())) {
			list = append(list, n)
		}
	}
	return list, nil
}

// localOf lists the snapshots of a model.
func (c *Client) localOf(n Name) (list []Local, err error) {
	folder := filepath.Join(c.Cache, n.folder())
	snapshots, err := os.ReadDir(filepath.Join(folder, "snapshots"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	revisions := revisionsOf(folder)
	for _, s := range snapshots {
		n.Revision = cmp.Or(revisions[s.Name()], s.Name())
		if commit.MatchString(s.Name()) {
			list = append(list, inSnapshot(n, filepath.Join(folder, "snapshots", s.Name()))...)
		}
	}
	return list, err
}

// revisionsOf returns the branches and tags of a model, by commit; main before others.
func revisionsOf(folder string) map[string]string {
	list := map[string]string{}
	refs := os.DirFS(filepath.Join(folder, "refs"))
	_ = fs.WalkDir(refs, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // a folder that cannot be read names nothing
		}
		text, _ := fs.ReadFile(refs, name)
		if id := strings.TrimSpace(string(text)); list[id] != "main" {
			list[id] = name
		}
		return nil
	})
	return list
}

// filesIn returns the files below a snapshot.
func filesIn(dir string) (names []string) {
	_ = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() { // dangling links too, which an unfinished download leaves
			names = append(names, name)
		}
		return nil
	})
	return names
}

// inSnapshot lists each GGUF of a snapshot, and the snapshot itself if it has safetensors files; all other files belong
// to the latter.
func inSnapshot(n Name, dir string) (list []Local) {
	names := filesIn(dir)
	var taken []string
	for _, name := range names {
		parts, err := gguf.SplitNames(name)
		if err != nil || !isModelGGUF(name) {
			continue
		}
		one := Local{Name: n, Path: filepath.Join(dir, filepath.FromSlash(name)), snapshot: dir, files: parts}
		one.File = name
		taken, list = append(taken, parts...), append(list, one)
	}
	rest := slices.DeleteFunc(names, func(name string) bool { return slices.Contains(taken, name) })
	if slices.ContainsFunc(rest, func(name string) bool { return path.Ext(name) == ".safetensors" }) {
		list = append(list, Local{Name: n, Path: dir, snapshot: dir, files: rest})
	}
	return list
}
