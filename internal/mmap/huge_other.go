//go:build !linux

package mmap

import "errors"

// ReadHuge does nothing: only Linux has this advice.
func ReadHuge([]byte) {}

// Huge reports false.
func Huge(interface{ Fd() uintptr }) bool { return false }

// Populate returns errors.ErrUnsupported.
func Populate(interface{ Fd() uintptr }, int64) error { return errors.ErrUnsupported }

func populate([]byte) error { return errors.ErrUnsupported }
