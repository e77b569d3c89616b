//go:build !unix

package atomicfile

import (
	"errors"
	"os"
)

// Lock is not needed: here an open file cannot be removed.
func (osFS) Lock(Handle) error { return errors.ErrUnsupported }

// SyncDir has no counterpart here: the journal of the file system orders the rename after the data.
func (osFS) SyncDir(string) error { return nil }

func removeStale(path string) { os.Remove(path) }
