package faultfs

import (
	"errors"

	"github.com/lowpack/lowpack/internal/atomicfile"
)

// Named is a file system that knows no unnamed files, like all but those of Linux.
type Named struct{ atomicfile.FS }

// CreateUnnamed is not supported.
func (Named) CreateUnnamed(string) (atomicfile.Handle, error) { return nil, errors.ErrUnsupported }
