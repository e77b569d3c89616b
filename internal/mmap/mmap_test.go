package mmap

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func mapped(t *testing.T, data []byte) (path string, view []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() // the map outlives it
	if view, err = Map(f, int64(len(data))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Unmap(view) })
	return path, view
}

// TestGuard: a page that is gone is an error, and no other panic is swallowed.
func TestGuard(t *testing.T) {
	data := bytes.Repeat([]byte("lowpack "), 1<<14)
	path, view := mapped(t, data)
	sum := 0
	read := func() { sum += int(view[len(view)-1]) }
	if err := Guard(read); err != nil || sum != ' ' {
		t.Fatal(err, sum)
	}
	if err := os.Truncate(path, 4096); err != nil {
		t.Skip(err) // Windows does not truncate what is mapped
	}
	if err := Guard(read); !errors.Is(err, ErrFault) {
		t.Errorf("a truncated file: %v", err)
	}
	defer func() {
		if recover() != "other" {
			t.Error("another panic was swallowed")
		}
	}()
	Guard(func() { panic("other") })
}

// TestRelease: released pages are read again, whatever the alignment of the part.
func TestRelease(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	_, view := mapped(t, data)
	for _, part := range [][]byte{nil, view, view[:1], view[4095:4097], view[5000:], view[len(view):]} {
		Release(part)
		if !bytes.Equal(view, data) {
			t.Fatal("the data are others")
		}
	}
}
