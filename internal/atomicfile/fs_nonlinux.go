//go:build !linux

package atomicfile

import "errors"

func (osFS) CreateUnnamed(string) (Handle, error) { return nil, errors.ErrUnsupported }
func (osFS) Link(Handle, string) error            { return errors.ErrUnsupported }
