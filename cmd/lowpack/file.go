package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/pack"
)

// maxWritten bounds files that people write by hand: a recipe, a configuration, a chat template.
const maxWritten = 1 << 20

// openRegular opens a file unless it is a directory, a device or a pipe, on which a read might block forever.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) { // in words that are the same on every system
		return nil, fmt.Errorf("%s: %w", path, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not a regular file", pack.ErrUnsupported, path)
	}
	return os.Open(path)
}

// readSmall reads a regular file of at most most bytes.
func readSmall(path string, most int64) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := readAll(f, most)
	if err != nil {
		return nil, filerr.Named(path, err)
	}
	return data, nil
}

// readAll reads a whole file of at most most bytes; a longer one is refused.
func readAll(r io.Reader, most int64) ([]byte, error) {
	tooLong := fmt.Errorf("%w: more than %d bytes", pack.ErrLimit, most)
	if f, ok := r.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > most {
			return nil, tooLong
		}
	}
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(data)) > most {
		err = tooLong
	}
	return data, err
}

// writeFile writes a small file that appears whole or not at all.
func writeFile(path string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	f, err := atomicfile.Create(atomicfile.OS, path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.WriteAt(b.Bytes(), 0); err != nil {
		return err
	}
	return f.Commit()
}
