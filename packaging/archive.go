package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"slices"
	"strings"
	"time"
)

// archiveName is that of an archive, and of the folder in it, without its ending.
func (r *release) archiveName(b build) string {
	return fmt.Sprintf("%s_%s_%s_%s", b.name, r.version, b.os, b.arch)
}

// archiveFile is the name of an archive.
func (r *release) archiveFile(b build) string {
	if b.os == "windows" {
		return r.archiveName(b) + ".zip"
	}
	return r.archiveName(b) + ".tar.gz"
}

// archives have one folder, which is a prefix: tar -C /usr/local --strip-components 1 installs it.
func archives(r *release) error {
	for _, b := range builds() {
		if err := r.archive(b); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) archive(b build) error {
	files, err := r.tree(b)
	if err != nil {
		return err
	}
	pack := tarGzipOf
	if b.os == "windows" {
		pack = zipOf
	}
	data, err := pack(below(r.archiveName(b)+"/", files), r.date)
	if err != nil {
		return err
	}
	return r.write(r.archiveFile(b), data)
}

func tarGzipOf(files []file, t time.Time) ([]byte, error) {
	data, err := tarOf(files, t, 0)
	if err != nil {
		return nil, err
	}
	return gzipOf(data)
}

// sorted returns files in the order of their names.
func sorted(files []file) []file {
	return slices.SortedFunc(slices.Values(files), func(a, b file) int { return cmp.Compare(a.name, b.name) })
}

// tarOf is a tar of files that belong to a user and a group of one number.
func tarOf(files []file, t time.Time, owner int) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range sorted(files) {
		h := tar.Header{Name: f.name, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: t, Uid: owner, Gid: owner}
		h.Typeflag = tar.TypeReg
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// gzipOf compresses as well as gzip can, which Debian asks of documents.
func gzipOf(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

func zipOf(files []file, t time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range sorted(files) {
		h := zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: t}
		h.SetMode(f.mode)
		entry, err := w.CreateHeader(&h)
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}
