package signing

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/pack"
)

// Progress is told how many bytes of the model are hashed.
type Progress func(done, total int64)

// List makes the manifest of a model that is a regular file or a directory. A directory must hold directories and
// regular files alone: what a symbolic link leads to is not part of it.
func List(ctx context.Context, path string, progress Progress) (*Manifest, error) {
	model, err := open(path)
	if err != nil {
		return nil, err
	}
	defer model.end.Close()
	m := &Manifest{Name: filepath.Base(path)}
	if name, err := filepath.Abs(path); err == nil {
		m.Name = filepath.Base(name)
	}
	if m.Files, err = model.files(nil); err == nil {
		err = model.hash(ctx, m.Files, progress)
	}
	if err != nil {
		return nil, filerr.Named(path, err)
	}
	return m, nil
}

// Check compares a model with a signed manifest: the same files, no more and no less, with the same bytes.
func (m *Manifest) Check(ctx context.Context, path string, progress Progress) error {
	model, err := open(path)
	if err != nil {
		return err
	}
	defer model.end.Close()
	return filerr.Named(path, m.check(ctx, model, progress))
}

// CheckFile is Check for a model that is one open file of a given size.
func (m *Manifest) CheckFile(ctx context.Context, file io.Reader, size int64, progress Progress) error {
	return m.check(ctx, &model{file: file, size: size}, progress)
}

func (m *Manifest) check(ctx context.Context, model *model, progress Progress) error {
	switch isFile := model.tree == nil; {
	case isFile && !m.isFile():
		return fmt.Errorf("%w: the signature is of a directory, %.100q with %d files, not of one file",
			pack.ErrCorrupt, m.Name, len(m.Files))
	case !isFile && m.isFile():
		return fmt.Errorf("%w: the signature is of one file, %.100q, not of a directory", pack.ErrCorrupt, m.Name)
	}
	found, err := model.files(m.Ignore)
	if err != nil {
		return err
	}
	if err := sameNames(m.Files, found); err != nil {
		return err
	}
	if err := model.hash(ctx, found, progress); err != nil {
		return err
	}
	signed := byName(m.Files)
	for i := range found {
		if f := &found[i]; signed[f.Name] != f.SHA256 {
			return fmt.Errorf("%w: SHA-256 of %s is %x, the signature is for %x", pack.ErrCorrupt, shown(f.Name),
				f.SHA256, signed[f.Name])
		}
	}
	return nil
}

// sameNames refuses files that are not signed, and signed files that are not there.
func sameNames(signed, found []File) error {
	want, have := byName(signed), byName(found)
	for i := range found {
		if _, ok := want[found[i].Name]; !ok {
			return fmt.Errorf("%w: %s is not in the signature", pack.ErrCorrupt, shown(found[i].Name))
		}
	}
	for i := range signed {
		if _, ok := have[signed[i].Name]; !ok {
			return fmt.Errorf("%w: %s is in the signature, but not in the directory", pack.ErrCorrupt,
				shown(signed[i].Name))
		}
	}
	return nil
}

func byName(files []File) map[string][sha256.Size]byte {
	m := make(map[string][sha256.Size]byte, len(files))
	for i := range files {
		m[files[i].Name] = files[i].SHA256
	}
	return m
}

// shown is the name of a file in messages.
func shown(name string) string {
	if name == whole {
		return "the file"
	}
	return name
}

// model is an open model: a file, or a directory that nothing is read outside of.
type model struct {
	file io.Reader
	tree fs.FS // nil: a file
	size int64

	sizes map[string]int64 // of the files of a directory
	end   io.Closer
}

func open(path string) (*model, error) {
	info, err := os.Stat(path) // an argument may be a link
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		root, err := os.OpenRoot(path)
		if err != nil {
			return nil, err
		}
		return &model{tree: root.FS(), end: root}, nil
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: %s is neither a regular file nor a directory", pack.ErrUnsupported, path)
	}
	f, err := os.Open(path)
	return &model{file: f, size: info.Size(), end: f}, err
}

// files lists the files without their digests, sorted by the parts of their names, as the format asks.
func (m *model) files(ignore []string) (list []File, err error) {
	if m.tree == nil {
		return []File{{Name: whole}}, nil
	}
	m.sizes, m.size = map[string]int64{}, 0
	err = fs.WalkDir(m.tree, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case slices.Contains(ignore, name) && e.IsDir():
			return fs.SkipDir
		case slices.Contains(ignore, name) || e.IsDir():
			return nil
		case !e.Type().IsRegular():
			return fmt.Errorf("%w: %s is not a regular file; a signed directory holds nothing else",
				pack.ErrUnsupported, name)
		case len(list) == maxFiles:
			return fmt.Errorf("%w: more than %d files", pack.ErrLimit, maxFiles)
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		m.sizes[name] = info.Size()
		m.size += info.Size()
		list = append(list, File{Name: name})
		return checkName(name)
	})
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%w: the directory holds no file", pack.ErrUnsupported)
	}
	slices.SortFunc(list, func(a, b File) int {
		return slices.Compare(strings.Split(a.Name, "/"), strings.Split(b.Name, "/"))
	})
	return list, err
}

// hash fills in the digests.
func (m *model) hash(ctx context.Context, files []File, progress Progress) error {
	done := int64(0)
	for i := range files {
		if err := m.hashOne(ctx, &files[i], &done, progress); err != nil {
			return err
		}
	}
	return nil
}

func (m *model) hashOne(ctx context.Context, f *File, done *int64, progress Progress) error {
	r, want := m.file, m.size
	if m.tree != nil {
		file, err := m.tree.Open(f.Name)
		if err != nil {
			return err
		}
		defer file.Close()
		r, want = file, m.sizes[f.Name]
	}
	h := sha256.New()
	n, err := io.Copy(h, &meter{ctx, io.LimitReader(r, want+1), done, m.size, progress})
	if err == nil && n != want {
		err = fmt.Errorf("%w: %s changed while it was read", pack.ErrCorrupt, shown(f.Name))
	}
	f.SHA256 = [sha256.Size]byte(h.Sum(nil))
	return err
}

// meter is a reader that ends with its context.
type meter struct {
	ctx      context.Context
	r        io.Reader
	done     *int64
	total    int64
	progress Progress
}

func (m *meter) Read(p []byte) (int, error) {
	if err := m.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := m.r.Read(p)
	if *m.done += int64(n); m.progress != nil {
		m.progress(*m.done, m.total)
	}
	return n, err
}
