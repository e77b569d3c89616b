package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/pack"
)

// maxText is the longest text that a command takes, in bytes: some million tokens, far more than any context holds.
const maxText = 16 << 20

// textLimit is maxText as the help tells it.
const textLimit = "16 MiB"

// maxWritten bounds files that people write by hand: a recipe, a configuration, a chat template.
const maxWritten = 1 << 20

// openRegular opens a file unless it is a directory, a device or a pipe, which might never answer.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
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

// readAll reads at most most bytes, of a file that is longer none.
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

// readText reads a text from a file, or from standard input for no name.
func readText(c *cli.Context, path string) (string, error) {
	what, in := path, c.App.Reader
	if path == "" {
		what = "standard input"
	} else {
		f, err := openRegular(path)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	text, err := readAll(in, maxText)
	switch {
	case errors.Is(err, pack.ErrLimit):
		return "", usagef("%s is longer than %s, the most that a text can have", what, textLimit)
	case err != nil:
		return "", filerr.Named(what, err)
	}
	return string(text), nil
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
