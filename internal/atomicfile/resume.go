package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Resume starts or continues a file that survives Abort and crashes: .NAME.resume, hidden next to its target until
// Commit. The caller must find out what it contains after an interruption. Two processes cannot use the same file.
func Resume(fs FS, target string) (*File, error) {
	if err := checkTarget(target); err != nil {
		return nil, err
	}
	f := &File{fs: fs, dir: filepath.Dir(target), name: filepath.Base(target), keep: true}
	f.temp = ResumePath(target)
	var err error
	if f.Handle, _, err = take(fs, f.temp); err != nil {
		return nil, busy(target, f.temp, err)
	}
	return f, nil
}

// take opens and locks the file at path and creates it if necessary; held is false on file systems without locks.
func take(fs FS, path string) (h Handle, held bool, err error) {
	for range tries {
		if h, err = fs.Open(path); err != nil {
			return nil, false, err
		}
		same, held, err := hold(fs, h, path)
		if same {
			return h, held, nil
		}
		h.Close()
		if err != nil {
			return nil, false, err
		}
	}
	return nil, false, restless(path)
}

// hold locks an open file and reports whether path still refers to it: before the lock, another process may have
// committed or swept it.
func hold(fs FS, h Handle, path string) (same, held bool, err error) {
	if held, err = lock(fs, h); err != nil {
		return false, false, err
	}
	ours, err := h.Stat()
	if err != nil {
		return false, held, err
	}
	now, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, held, nil
	}
	return err == nil && os.SameFile(ours, now), held, err
}

// busy is the error of a target whose hidden file cannot be taken.
func busy(target, path string, err error) error {
	if errors.Is(err, errLocked) {
		err = fmt.Errorf("another process is writing %s (it holds %s)", target, path)
	}
	return Failed(err)
}

// DropResume removes the unfinished file of a target unless a process uses it, and reports whether it did.
func DropResume(target string) bool {
	path := ResumePath(target)
	if _, err := os.Lstat(path); err != nil {
		return false
	}
	removeStale(path)
	_, err := os.Lstat(path)
	return errors.Is(err, os.ErrNotExist)
}

// ResumePath returns the path of the unfinished file of a target.
func ResumePath(target string) string {
	return filepath.Join(filepath.Dir(target), hiddenPrefix(filepath.Base(target))+".resume")
}
