package main

import (
	"bytes"
	"io"

	"github.com/lowpack/lowpack/internal/atomicfile"
)

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
