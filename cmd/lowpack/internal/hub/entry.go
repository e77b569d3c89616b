package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/pack"
)

// entry is the folder of a model in the cache. Nothing is written outside of it, whatever links it contains. Names are
// relative to it, with slashes. The folder itself may be a link, for instance to another disk.
type entry struct {
	*os.Root
	cache string
}

func (c *Client) entry(n Name) (*entry, error) {
	path := filepath.Join(c.Cache, n.folder())
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &entry{root, c.Cache}, nil
}

// path returns the full path of a file in the entry.
func (e *entry) path(name string) string { return filepath.Join(e.Name(), filepath.FromSlash(name)) }

// folder creates a folder.
func (e *entry) folder(name string) error {
	return confined(e.path(name), e.MkdirAll(filepath.FromSlash(name), 0o755))
}

// confined explains os.Root's error for a link out of its folder.
func confined(path string, err error) error {
	if filerr.Escapes(err) {
		return fmt.Errorf("%w: %s is, or is below, a link out of the cache; remove the link",
			pack.ErrUnsupported, path)
	}
	return err
}

// has reports whether a regular file with this name and size exists. It may be a link, also to the blobs shared by
// several models of the cache (huggingface_hub 2.4.0, _shared_blobs.py), but not out of the cache.
func (e *entry) has(name string, size int64) (bool, error) {
	info, err := e.Stat(filepath.FromSlash(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		info, err = e.elsewhere(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Mode().IsRegular() && info.Size() == size, err
}

// elsewhere examines the target of a link that leaves the entry.
func (e *entry) elsewhere(name string) (fs.FileInfo, error) {
	cache, err := filepath.EvalSymlinks(e.cache)
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(e.path(name))
	if err != nil {
		return nil, err
	}
	if inside, err := filepath.Rel(cache, real); err != nil || !filepath.IsLocal(inside) {
		return nil, fmt.Errorf("%w: %s leads to %s, out of the cache %s; remove the link",
			pack.ErrUnsupported, e.path(name), real, e.cache)
	}
	return os.Stat(real)
}

// enter links a name in the snapshot to a blob; if the system allows no links, it moves the file there, like
// huggingface_hub.
func (e *entry) enter(blob, link string) error {
	if err := e.folder(path.Dir(link)); err != nil {
		return err
	}
	relative, err := filepath.Rel(filepath.FromSlash(path.Dir(link)), filepath.FromSlash(blob))
	if err != nil {
		return err
	}
	if err := e.Remove(filepath.FromSlash(link)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return confined(e.path(link), err)
	}
	err = e.Symlink(relative, filepath.FromSlash(link))
	if err == nil || errors.Is(err, os.ErrExist) { // another process was faster
		return nil
	}
	return e.Rename(filepath.FromSlash(blob), filepath.FromSlash(link))
}

// note records the commit of a branch or tag.
func (e *entry) note(revision, commit string) error {
	ref := filepath.Join("refs", filepath.FromSlash(revision))
	if text, err := e.ReadFile(ref); err == nil && strings.TrimSpace(string(text)) == commit {
		return nil
	}
	folder := filepath.Dir(ref)
	if err := e.folder(filepath.ToSlash(folder)); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(e.path(folder), ".ref-*")
	if err != nil {
		return err
	}
	_, err = temporary.WriteString(commit)
	err = errors.Join(err, temporary.Chmod(0o644), temporary.Close())
	if err == nil {
		err = e.Rename(filepath.Join(folder, filepath.Base(temporary.Name())), ref)
	}
	if err != nil {
		os.Remove(temporary.Name())
	}
	return confined(e.path(ref), err)
}

// lock waits until no other process downloads the blob.
func (c *Client) lock(ctx context.Context, n Name, blob string) (*flock.Flock, error) {
	root, err := os.OpenRoot(c.Cache)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	folder := filepath.Join(".locks", n.folder())
	name := filepath.Join(folder, blob+".lock")
	path := filepath.Join(c.Cache, name)
	if err := root.MkdirAll(folder, 0o755); err != nil {
		return nil, confined(path, err)
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_RDONLY, 0o644) // before flock does, which would follow links
	if err != nil {
		return nil, confined(path, err)
	}
	f.Close()
	lock := flock.New(path)
	if ok, err := lock.TryLockContext(ctx, 200*time.Millisecond); err != nil || !ok {
		return nil, fmt.Errorf("cannot lock the cache: %w", errors.Join(err, ctx.Err()))
	}
	return lock, nil
}
