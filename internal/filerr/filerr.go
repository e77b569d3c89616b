// Package filerr adds the name of a file to errors about it.
package filerr

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Named adds the path to an error, unless it has been added before or the error is one of the operating system about
// that file, or about one in that directory. An error may tell its file by a method File() string; "" = it is about no
// file that was read, and gets no name.
func Named(path string, err error) error {
	if err == nil || tells(err, path) {
		return err
	}
	return &named{path, err}
}

// Escapes reports whether an error of os.Root is about a link that leads out of it. That error has no exported value.
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

// tells reports whether the text of an error has the path already.
func tells(err error, path string) bool {
	var (
		before interface{ File() string } // as *named has it, and a fault of a memory map
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

// below reports whether a path is dir or lies in it.
func below(path, dir string) bool {
	path, dir = filepath.Clean(path), filepath.Clean(dir)
	return path == dir || strings.HasPrefix(path, dir+string(filepath.Separator))
}
