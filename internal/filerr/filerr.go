// Package filerr adds file names to errors.
package filerr

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Named prefixes an error with path, unless the error already names that file, or a file below that directory: as a
// named error or one of the operating system. An error can report its file with a method File() string; "" means that
// it concerns no file and gets no name.
func Named(path string, err error) error {
	if err == nil || tells(err, path) {
		return err
	}
	return &named{path, err}
}

// Escapes reports whether err is os.Root's error for a link that leaves the root, which has no exported value.
func Escapes(err error) bool {
	return err != nil && strings.Contains(err.Error(), "escapes from parent")
}

// named is an error about the file at path.
type named struct {
	path string
	err  error
}

func (n *named) Error() string { return n.path + ": " + n.err.Error() }
func (n *named) File() string  { return n.path }
func (n *named) Unwrap() error { return n.err }

// tells reports whether an error already names the path.
func tells(err error, path string) bool {
	var (
		before interface{ File() string } // a *named, or a fault of a memory map
		open   *fs.PathError
		rename *os.LinkError
	)
	switch {
	case errors.As(err, &before):
		return before.File() == "" || below(before.File(), path)
	case errors.As(err, &open):
		return below(open.Path, path)
	case errors.As(err, &rename):
		return below(rename.Old, path) || below(rename.New, path)
	}
	return false
}

// below reports whether path is dir or inside it.
func below(path, dir string) bool {
	path, dir = filepath.Clean(path), filepath.Clean(dir)
	return path == dir || strings.HasPrefix(path, dir+string(filepath.Separator))
}
