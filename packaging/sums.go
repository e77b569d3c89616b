package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
)

const sumsFile = "SHA256SUMS"

// digest is the SHA-256 of a file, in hexadecimal.
type digest struct{ name, sum string }

// published lists the files of the release with their digests, in the order of their names.
func (r *release) published() (list []digest, err error) {
	entries, err := os.ReadDir(r.dist)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(r.dist, e.Name()))
		if err != nil {
			return nil, err
		}
		list = append(list, digest{e.Name(), fmt.Sprintf("%x", sha256.Sum256(data))})
	}
	return list, nil
}

// digests writes those of all files, in the form of sha256sum.
func digests(r *release) error {
	list, err := r.published()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for _, d := range list {
		fmt.Fprintf(&b, "%s  %s\n", d.sum, d.name)
	}
	return r.write(sumsFile, b.Bytes())
}
