//go:build !linux

package mmap

import "errors"

// ReadHuge does nothing: Linux alone takes such advice.
func ReadHuge([]byte) {}

// Huge reports false.
func Huge(interface{ Fd() uintptr }) bool { return false }

// Populate does nothing.
func Populate(interface{ Fd() uintptr }, int64) error { return errors.ErrUnsupported }
