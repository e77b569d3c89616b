package hub

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"github.com/lowpack/lowpack/pack"
)

// Remove removes a model that List listed: its files, the blobs that no other snapshot of the model needs, and, with
// the last model of a snapshot, the snapshot and the branches that refer to it. It returns the number of bytes freed.
// Links are removed, but never their targets outside of the folder of the model; blobs shared by several models stay.
func (c *Client) Remove(l *Local) (freed int64, err error) {
	return c.removeFrom(l.Name, func(r *removal) error {
		if err := r.model(l); err != nil {
			return fmt.Errorf("%s: %w", l, err)
		}
		return nil
	})
}

// removeFrom removes files of a model and, if no snapshot is left, all of its folder.
func (c *Client) removeFrom(n Name, remove func(*removal) error) (freed int64, err error) {
	if err := c.idle(n); err != nil {
		return 0, err
	}
	cache, err := os.OpenRoot(c.Cache)
	if err != nil {
		return 0, err
	}
	defer cache.Close()
	folder := n.folder()
	info, err := cache.Lstat(folder)
	if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if !info.IsDir() {
		return 0, fmt.Errorf("%w: %s is a link out of the cache; remove what it leads to, and the link",
			pack.ErrUnsupported, filepath.Join(c.Cache, folder))
	}
	e, err := cache.OpenRoot(folder)
	if err != nil {
		return 0, err
	}
	defer e.Close()
	r := &removal{Root: e}
	if err := remove(r); err != nil {
		return r.freed, err
	}
	if empty, err := r.empty("snapshots"); !empty {
		return r.freed, err
	}
	err = errors.Join(r.walk(".", r.remove), cache.RemoveAll(folder), cache.RemoveAll(filepath.Join(".locks", folder)))
	return r.freed, err
}

// idle refuses a model that a process downloads just now: it holds the lock of a blob.
func (c *Client) idle(n Name) error {
	locks, _ := filepath.Glob(filepath.Join(c.Cache, ".locks", n.folder(), "*.lock"))
	for _, path := range locks {
		lock := flock.New(path)
		ok, err := lock.TryLock()
		if err == nil && !ok {
			return fmt.Errorf("%s is being downloaded; wait for the download, or end it", n)
		}
		lock.Close()
	}
	return nil
}

// removal removes below the folder of a model.
type removal struct {
	*os.Root
	freed int64
}

// model removes the files of one model, and what nothing else needs afterwards.
func (r *removal) model(l *Local) error {
	snapshot := path.Join("snapshots", filepath.Base(l.snapshot))
	var blobs []string
	for _, name := range l.files {
		link := path.Join(snapshot, name)
		if blob := r.blob(link); blob != "" {
			blobs = append(blobs, blob)
		}
		if err := r.remove(link); err != nil {
			return err
		}
	}
	needed := map[string]bool{}
	err := r.walk("snapshots", func(name string) error { needed[r.blob(name)] = true; return nil })
	for _, blob := range blobs {
		if err == nil && !needed[blob] {
			err = r.remove(blob)
		}
	}
	if err != nil {
		return err
	}
	if empty, err := r.empty(snapshot); !empty {
		return err
	}
	return errors.Join(r.forget(path.Base(snapshot)), r.RemoveAll(filepath.FromSlash(snapshot)))
}

// remove removes a file or a link.
func (r *removal) remove(name string) error {
	info, err := r.Lstat(filepath.FromSlash(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = r.Remove(filepath.FromSlash(name))
	}
	if err == nil && info.Mode().IsRegular() {
		r.freed += info.Size()
	}
	return err
}

// blob returns the blob of this model that a snapshot's file links to; "" if there is none.
func (r *removal) blob(link string) string {
	to, err := r.Readlink(filepath.FromSlash(link))
	to = filepath.ToSlash(to)
	if err != nil || path.IsAbs(to) {
		return ""
	}
	if to = path.Join(path.Dir(link), to); path.Dir(to) != "blobs" {
		return ""
	}
	return to
}

// empty reports whether no file lies below a folder.
func (r *removal) empty(folder string) (bool, error) {
	empty := true
	err := r.walk(folder, func(string) error { empty = false; return fs.SkipAll })
	return empty && err == nil, err
}

// forget removes the branches and tags of a commit.
func (r *removal) forget(commit string) error {
	return r.walk("refs", func(name string) error {
		text, err := r.ReadFile(filepath.FromSlash(name))
		if err == nil && strings.TrimSpace(string(text)) == commit {
			err = r.remove(name)
		}
		return err
	})
}

// walk visits the files and links below a folder, if there is one, and follows none.
func (r *removal) walk(folder string, visit func(name string) error) error {
	if info, err := r.Lstat(filepath.FromSlash(folder)); err != nil || !info.IsDir() {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return cmp.Or(err, fmt.Errorf("%w: %s is not a folder", pack.ErrUnsupported, folder))
	}
	return fs.WalkDir(r.FS(), folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return visit(name)
	})
}
