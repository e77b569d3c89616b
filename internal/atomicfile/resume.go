package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Resume starts or continues a file that outlives Abort and crashes: hidden beside its target under a name of its own,
// .NAME.resume, until Commit. What it holds after an interruption is for the caller to find out. Two processes cannot
// work on the same one.
func Resume(fs FS, target string) (*File, error) {
	if err := checkTarget(target); err != nil {
		return nil, err
	}
	f := &File{fs: fs, dir: filepath.Dir(target), name: filepath.Base(target), keep: true}
	f.temp = ResumePath(target)
	h, err := fs.Open(f.temp)
	if err != nil {
		return nil, Failed(err)
	}
	f.Handle = h
	if err := f.lock(h); err != nil {
		h.Close()
		if errors.Is(err, errLocked) {
			return nil, fmt.Errorf("%s: another process is writing it (%s)", target, f.temp)
		}
		return nil, err
	}
	return f, nil
}

// DropResume removes the unfinished file of a target, if there is one and nobody works on it, and says whether it did.
func DropResume(target string) bool {
	path := ResumePath(target)
	if _, err := os.Lstat(path); err != nil {
		return false
	}
	removeStale(path)
	_, err := os.Lstat(path)
	return errors.Is(err, os.ErrNotExist)
}

// ResumePath is where the unfinished file of a target is kept.
func ResumePath(target string) string {
	return filepath.Join(filepath.Dir(target), hiddenPrefix(filepath.Base(target))+".resume")
}
