package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lowpack/lowpack/internal/filekind"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/pack"
)

// dir is a directory whose files are opened by name and cannot be outside of it.
type dir struct {
	root *os.Root
	sub  string // path of the checkpoint below root
}

// place is the target of a path on the command line.
type place struct {
	dir  *dir
	bare string // name of a bare file in dir; "" = the directory itself
}

// resolve opens the directory of a checkpoint. Symbolic links in the path itself are the user's and are followed.
func resolve(path string) (place, error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		if kind := filekind.Missing(path, err); kind != err {
			return place{}, kind
		}
		return place{}, fmt.Errorf("%w: a checkpoint is a directory, a .safetensors or .gguf file, or ORG/NAME of a "+
			"model on the hub", err)
	}
	if err != nil {
		return place{}, err
	}
	info, err := os.Stat(real)
	if err != nil {
		return place{}, err
	}
	if info.IsDir() {
		if err := filekind.CacheRoot(real); err != nil {
			return place{}, err
		}
		d, err := openDir(real)
		return place{dir: d}, err
	}
	if !strings.HasSuffix(path, ".safetensors") && !IsGGUF(path) {
		if err := weightsAt(real); err != nil {
			return place{}, filerr.Named(path, err)
		}
		return place{}, filerr.Named(path,
			fmt.Errorf("%w: a checkpoint is a directory, or a .safetensors or .gguf file", pack.ErrUnsupported))
	}
	d, err := openDir(filepath.Dir(real))
	return place{dir: d, bare: filepath.Base(real)}, err
}

// weightsAt returns an error that names the kind of a file in another weight format.
func weightsAt(path string) error {
	head, err := filekind.HeadOf(path)
	if err != nil || head == nil {
		return err
	}
	return filekind.Weights(head)
}

// openDir opens a directory. A snapshot of the download cache, models--X--Y/snapshots/REV, holds symbolic links into
// models--X--Y/blobs, so the root is the cache entry. Blobs may in turn be links to blobs shared by all models of the
// cache (huggingface_hub 2.4), in a directory next to the entries; then the root is the cache.
func openDir(path string) (*dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	rootPath, sub := abs, "."
	if snapshots := filepath.Dir(abs); filepath.Base(snapshots) == "snapshots" {
		entry := filepath.Dir(snapshots)
		cache := filepath.Dir(entry)
		switch below := filepath.Join("snapshots", filepath.Base(abs)); {
		case !isDir(filepath.Join(entry, "blobs")):
		case strings.HasPrefix(filepath.Base(entry), "models--") && isDir(filepath.Join(cache, "blobs")):
			rootPath, sub = cache, filepath.Join(filepath.Base(entry), below)
		default:
			rootPath, sub = entry, below
		}
	}
	root, err := os.OpenRoot(rootPath)
	if err != nil {
		return nil, err
	}
	return &dir{root, sub}, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// has reports whether an entry of any kind exists; a plain file has none below it.
func (d *dir) has(name string) (bool, error) {
	_, err := d.root.Lstat(filepath.Join(d.sub, name))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	return err == nil, err
}

// names lists at most limit entries of the directory.
func (d *dir) names(limit int) ([]string, error) {
	f, err := d.root.Open(d.sub)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(limit)
	if err == io.EOF {
		err = nil
	}
	return names, err
}

// file is an open regular file of a checkpoint.
type file struct {
	*os.File
	name string // in messages and in the manifest
	path string // relative to dir.root
	dir  *dir
	info fs.FileInfo
	size int64
}

// openFile opens a regular file below d. It checks the kind before opening, since a pipe must not be opened, and again
// afterwards, since the file may have been exchanged; O_NONBLOCK keeps an exchanged pipe from blocking.
func openFile(d *dir, name string) (*file, error) {
	path := filepath.Join(d.sub, name)
	before, err := d.root.Stat(path)
	if err != nil {
		if kind := d.dangling(path); kind != nil {
			return nil, kind
		}
		return nil, confined(name, err)
	}
	if err := regular(name, before); err != nil {
		return nil, err
	}
	f, err := d.root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, confined(name, err)
	}
	info, err := f.Stat()
	if err == nil {
		err = regular(name, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &file{File: f, name: name, path: path, dir: d, info: info, size: info.Size()}, nil
}

// dangling returns an error for a symbolic link without a target.
func (d *dir) dangling(path string) error {
	path = filepath.Join(d.root.Name(), path)
	_, err := os.Stat(path)
	if kind := filekind.Missing(path, err); kind != err {
		return kind
	}
	return nil
}

func regular(name string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return fmt.Errorf("%w: %s is not a regular file (%s)", pack.ErrCorrupt, name, info.Mode().Type())
}

// confined explains os.Root's error for a link that leaves the directory.
func confined(name string, err error) error {
	if filerr.Escapes(err) {
		return fmt.Errorf("%w: %s is a symbolic link out of the checkpoint's directory; replace it by the file, or "+
			"name the directory of the file", pack.ErrCorrupt, name)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// unchanged compares the open file, and the file that its name refers to now, with the file at Open.
func (f *file) unchanged() error {
	now, err := f.Stat()
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	if now.Size() != f.size || !now.ModTime().Equal(f.info.ModTime()) {
		return fmt.Errorf("%w: %s was changed while it was read (%d bytes then, %d now)", pack.ErrCorrupt,
			f.name, f.size,
			now.Size())
	}
	named, err := f.dir.root.Stat(f.path)
	if err != nil || !os.SameFile(named, f.info) {
		return fmt.Errorf("%w: %s was replaced while it was read", pack.ErrCorrupt, f.name)
	}
	return nil
}
