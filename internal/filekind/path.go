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

// Missing explains the error of a path that cannot be opened: links of a download cache lead to files that an
// unfinished download does not have. Other errors are returned as they are.
func Missing(path string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	to, linkErr := os.Readlink(path)
	if linkErr != nil {
		return err
	}
	return fmt.Errorf("%w: unfinished download: %s leads to %s, which is not there; download it again",
		pack.ErrCorrupt, path, to)
}

// Head reads the first bytes of a file.
func Head(r io.ReaderAt) ([]byte, error) {
	head := make([]byte, HeadSize)
	n, err := r.ReadAt(head, 0)
	if err == io.EOF {
		err = nil
	}
	return head[:n], err
}

// HeadOf is Head of the regular file at path; of what is not one, it opens and reads nothing.
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

// maxSnapshots bounds how many snapshots are looked at.
const maxSnapshots = 1000

// CacheRoot returns an error for the folder of a model in the download cache, models--ORG--NAME: the model lies in one
// of its snapshots.
func CacheRoot(dir string) error {
	snapshots := filepath.Join(dir, "snapshots")
	if info, err := os.Stat(snapshots); err != nil || !info.IsDir() {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(dir, "config.json")); err == nil {
		return nil // a model beside a folder of that name
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
		return fmt.Errorf("%w: %s is a model's folder in the download cache, and has no snapshot: download the model again",
			pack.ErrCorrupt, dir)
	}
	slices.Sort(names)
	return fmt.Errorf("%w: %s is a model's folder in the download cache: take its snapshot, %s", pack.ErrUnsupported, dir,
		filepath.Join(snapshots, current(dir, names)))
}

// current is the snapshot that the branch main stands for, or the first one.
func current(dir string, snapshots []string) string {
	main, _ := HeadOf(filepath.Join(dir, "refs", "main"))
	if name := strings.TrimSpace(string(main)); slices.Contains(snapshots, name) {
		return name
	}
	return snapshots[0]
}
