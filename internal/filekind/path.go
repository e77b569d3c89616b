package filekind

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/pack"
)

// Missing explains why a path cannot be opened if it is a dangling link of the download cache, left by an unfinished
// download. It returns other errors unchanged.
func Missing(path string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	to, linkErr := os.Readlink(path)
	if linkErr != nil {
		return err
	}
	return fmt.Errorf("%w: unfinished download: %s leads to %s, which does not exist; download it again",
		pack.ErrCorrupt, path, to)
}

// Head reads the first HeadSize bytes of a file.
func Head(r io.ReaderAt) ([]byte, error) {
	head := make([]byte, HeadSize)
	n, err := r.ReadAt(head, 0)
	if err == io.EOF {
		err = nil
	}
	return head[:n], err
}

// HeadOf is Head of the regular file at path; for anything else it returns nil without opening it.
func HeadOf(path string) ([]byte, error) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Head(f)
}

// maxSnapshots limits the snapshots that are listed.
const maxSnapshots = 1000

// CacheRoot returns an error for a model's folder in the download cache, models--ORG--NAME, which names the snapshot to
// use.
func CacheRoot(dir string) error {
	snapshots := filepath.Join(dir, "snapshots")
	if info, err := os.Stat(snapshots); err != nil || !info.IsDir() {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(dir, "config.json")); err == nil {
		return nil // a model that happens to contain a folder of that name
	}
	f, err := os.Open(snapshots)
	if err != nil {
		return err
	}
	defer f.Close()
	names, err := f.Readdirnames(maxSnapshots)
	switch {
	case err != nil && err != io.EOF:
		return err
	case len(names) == 0:
		return fmt.Errorf("%w: %s is a model's folder in the download cache and has no snapshot: "+
			"download the model again",
			pack.ErrCorrupt, dir)
	}
	slices.Sort(names)
	return fmt.Errorf("%w: %s is a model's folder in the download cache: use its snapshot, %s",
		pack.ErrUnsupported, dir,
		filepath.Join(snapshots, current(dir, names)))
}

// current returns the snapshot of branch main, or the first one.
func current(dir string, snapshots []string) string {
	main, _ := HeadOf(filepath.Join(dir, "refs", "main"))
	if name := strings.TrimSpace(string(main)); slices.Contains(snapshots, name) {
		return name
	}
	return snapshots[0]
}
