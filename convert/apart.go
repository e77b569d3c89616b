package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/pack"
)

// apart refuses a target that is the source or lies in it: a weight file, under any name or link, or an entry of the
// checkpoint directory, where it would be mistaken for a part of the model.
func apart(target, source string) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return otherFile(target, source)
	}
	entries, err := os.ReadDir(source)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := otherFile(target, filepath.Join(source, e.Name())); err != nil {
			return err
		}
	}
	return outside(target, source)
}

// otherFile refuses a target that is the same file, also by a hard or symbolic link.
func otherFile(target, source string) error {
	t, err := os.Stat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return atomicfile.Failed(err)
	}
	if s, err := os.Stat(source); err == nil && os.SameFile(s, t) {
		return fmt.Errorf("%w: %s is the same file as %s, which is read; choose another target", pack.ErrUnsupported,
			target, source)
	}
	return nil
}

// outside refuses a target below a directory.
func outside(target, dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	if real, err = filepath.Abs(real); err != nil {
		return err
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(target))
	if err != nil {
		return atomicfile.Failed(err)
	}
	if parent, err = filepath.Abs(parent); err != nil {
		return err
	}
	rel, err := filepath.Rel(real, parent)
	if err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return fmt.Errorf("%w: %s lies in the checkpoint %s, where it would be taken for a part of the model; choose "+
			"a target elsewhere", pack.ErrUnsupported, target, dir)
	}
	return nil
}
