package synth

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// stage is a directory that is being written: hidden beside its target until commit renames it.
type stage struct {
	path, target string
	lock         *os.File // the directory itself
	done         bool
}

// newStage makes the hidden directory. One that a crashed process left behind is removed first; one that a living process
// writes is an error.
func newStage(target string) (*stage, error) {
	if _, err := os.Lstat(target); err == nil {
		return nil, fmt.Errorf("%s exists already; remove it or name another directory", target)
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	s := &stage{target: target, path: filepath.Join(filepath.Dir(target), "."+filepath.Base(target)+".partial")}
	for {
		err := os.Mkdir(s.path, 0o777)
		if err == nil {
			switch err = s.hold(); {
			case err == nil:
				return s, nil
			case errors.Is(err, errHeld), errors.Is(err, os.ErrNotExist):
				continue // another process took the new directory for a stale one
			}
			os.Remove(s.path)
			return nil, err
		}
		if !errors.Is(err, os.ErrExist) {
			return nil, err
		}
		if err := s.clear(); err != nil {
			return nil, err
		}
	}
}

// hold locks the directory that now has the path.
func (s *stage) hold() error {
	dir, err := os.Open(s.path)
	if err != nil {
		return err
	}
	if err := tryLock(dir); err != nil {
		dir.Close()
		return err
	}
	ours, err := dir.Stat()
	if err == nil {
		var now os.FileInfo
		if now, err = os.Lstat(s.path); err == nil && !os.SameFile(ours, now) {
			err = os.ErrNotExist
		}
	}
	if err != nil {
		dir.Close()
		return err
	}
	s.lock = dir
	return nil
}

// clear removes a stale directory.
func (s *stage) clear() error {
	err := s.hold()
	switch {
	case errors.Is(err, errHeld):
		return fmt.Errorf("another process is writing %s (it holds %s)", s.target, s.path)
	case errors.Is(err, os.ErrNotExist):
		return nil // gone meanwhile
	case err != nil:
		return err
	}
	defer s.lock.Close()
	return os.RemoveAll(s.path)
}

// commit gives the directory its name, durably.
func (s *stage) commit() error {
	if err := syncDir(s.path); err != nil {
		return err
	}
	if runtime.GOOS == "windows" { // no open directory can be renamed there; elsewhere the lock is held to the end
		s.lock.Close()
	}
	if err := os.Rename(s.path, s.target); err != nil {
		return err
	}
	s.done = true
	s.lock.Close()
	return syncDir(filepath.Dir(s.target))
}

// abort removes everything. After commit it does nothing.
func (s *stage) abort() {
	if !s.done {
		os.RemoveAll(s.path) // while locked, so that no other process takes it for stale
		s.lock.Close()
	}
}
