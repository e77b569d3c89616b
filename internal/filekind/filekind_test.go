package filekind_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/filekind"
	"github.com/lowpack/lowpack/pack"
)

// archive returns a zip archive with one file.
func archive(t *testing.T, name string) string {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.Create(name)
	if err == nil {
		_, err = f.Write([]byte("x"))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// shortest returns a safetensors file without tensors and with a header of n bytes.
func shortest(n uint64) string {
	return string(binary.LittleEndian.AppendUint64(nil, n)) + "{}" + strings.Repeat(" ", int(n)-2)
}

const (
	texts    = 1 << iota // rejected as text
	weights              // rejected as safetensors
	anything = texts | weights
)

func TestKinds(t *testing.T) {
	for _, c := range []struct {
		head  string
		words string
		in    int // where it is rejected
	}{
		{"", "corrupt: the file is empty", anything},
		{"<!doctype html>", "corrupt: an HTML page", anything},
		{"\xef\xbb\xbf\r\n <HTML lang=en>", "corrupt: an HTML page", anything},
		{"<htmlx>", "unsupported: a text, not weights", weights},
		{"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9085657\n",
			"corrupt: a Git LFS pointer, which stands for a file of 9085657 bytes", anything},
		{"version https://git-lfs.github.com/spec/v1\nsize x\n", "stands for a file: git lfs pull", anything},
		{"version 2", "unsupported: a text", weights},
		{"GGUF\x03\x00\x00\x00", "unsupported: a GGUF model", anything},
		{archive(t, "archive/data.pkl"), "unsupported: a PyTorch archive of Python pickles", anything},
		{archive(t, "data.pkl.txt"), "unsupported: a zip archive", anything},
		{"PK\x05\x06" + strings.Repeat("\x00", 18), "unsupported: a zip archive", anything},
		{"PK\x03\x04", "unsupported: a zip archive", anything},
		{"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", "unsupported: one of Python's pickles", anything},
		{"\x80\x04\x95\x1e\x00\x00\x00\x00\x00\x00\x00}", "unsupported: one of Python's pickles", anything},
		{"\x80\x01q", "", 0},
		{"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", "unsupported: gzip data", anything},
		{"\x08\x07\x12\x07pytorch\x1a\x052.1.0:", "unsupported: an ONNX model", anything},
		{"\x08\x07\x12\x07pytorch\x99", "", 0},
		{"\x08\x07\x12\x07pyt\x00rch\x1a", "", 0},
		{"\x08\x07\x12\x7f", "", 0},
		{"\x7fELF\x02", "unsupported: a program", weights},
		{"MZ\x90\x00", "unsupported: a program", weights},
		{"%PDF-1.7\n", "unsupported: a PDF document", weights},
		{"\x89PNG\r\n", "unsupported: a picture", weights},
		{"\x93NUMPY\x01", "unsupported: a NumPy array", weights},
		{"\x89HDF\r\n", "unsupported: an HDF5 file", weights},
		{"\x28\xb5\x2f\xfd", "unsupported: compressed data", weights},
		{strings.Repeat("\x00", 257) + "ustar\x00", "unsupported: a tar archive", weights},
		{strings.Repeat("x", filekind.HeadSize-1) + "é", "unsupported: a text", weights},
		{"# Größe\x1b[1m\n", "unsupported: a text", weights},
		{"# Größe\x00\n", "", 0},
		{"text\xff", "", 0},
		{"\n{\"a\": 1}", "unsupported: JSON text", weights},
		{shortest(2), "", 0},
		{shortest(0x8b1f | 8<<16), "", 0},                        // starts like gzip
		{shortest(0x0280 | 1<<16), "", 0},                        // starts like a pickle
		{"\x0a\x0d\x0a\x05<unk>", "", 0},                         // a SentencePiece model
		{"IQ== 0\n", "unsupported: a text", weights},             // a tiktoken file
		{"#version: 0.2\nh e\n", "unsupported: a text", weights}, // merges.txt
	} {
		for _, where := range []struct {
			bit  int
			look func([]byte) error
		}{{texts, filekind.Text}, {weights, filekind.Weights}} {
			err := where.look([]byte(c.head))
			if refused := c.in&where.bit != 0; refused != (err != nil) ||
				refused && !strings.Contains(err.Error(), c.words) {
				t.Errorf("%.40q in place %d: %v, want %q", c.head, where.bit, err, c.words)
			}
		}
	}
}

func TestExplain(t *testing.T) {
	before := errors.New("bad")
	if err := filekind.Explain(nil, nil); err != nil {
		t.Error(err)
	}
	if err := filekind.Explain(before, []byte("{"), []byte("x")); err != before {
		t.Error(err)
	}
	if err := filekind.Explain(before, []byte("{"), []byte("<html>")); !errors.Is(err, pack.ErrCorrupt) ||
		!strings.Contains(err.Error(), "HTML") {
		t.Error(err)
	}
}

func TestMissing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.safetensors")
	_, absent := os.Stat(path)
	if err := filekind.Missing(path, absent); err != absent || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	if err := os.Symlink("../blobs/ab", path); err != nil {
		t.Skip(err)
	}
	_, absent = os.Stat(path)
	if err := filekind.Missing(path, absent); !errors.Is(err, pack.ErrCorrupt) ||
		!strings.Contains(err.Error(), "unfinished download: "+path+" leads to ../blobs/ab") {
		t.Errorf("dangling: %v", err)
	}
	if err := filekind.Missing(path, fs.ErrPermission); err != fs.ErrPermission {
		t.Error(err)
	}
}

func TestCacheRoot(t *testing.T) {
	root := filepath.Join(t.TempDir(), "models--acme--tiny")
	write := func(name, text string) {
		path := filepath.Join(root, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
	want := func(words string) {
		t.Helper()
		switch err := filekind.CacheRoot(root); {
		case words == "" && err != nil, words != "" && (err == nil || !strings.HasSuffix(err.Error(), words)):
			t.Errorf("%v, want %q", err, words)
		}
	}
	want("")
	if err := os.MkdirAll(filepath.Join(root, "snapshots"), 0o755); err != nil {
		t.Fatal(err)
	}
	want("has no snapshot: download the model again")
	write("snapshots/a/config.json", "")
	write("snapshots/b/config.json", "")
	want(filepath.Join("snapshots", "a"))
	write("refs/main", "b\n")
	want(filepath.Join("snapshots", "b"))
	write("refs/main", "../../elsewhere")
	want(filepath.Join("snapshots", "a"))
	write("config.json", "{}")
	want("")
}
