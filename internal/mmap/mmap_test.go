package mmap

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/pack"
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
	defer f.Close() // the mapping outlives it
	if view, err = Map(f, path, int64(len(data))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Unmap(view) })
	return path, view
}

var sink byte

// TestGuard: an access to a missing page is an error with the file name, in Go, in the runtime's copy and in assembly.
func TestGuard(t *testing.T) {
	page := os.Getpagesize()
	path, view := mapped(t, bytes.Repeat([]byte("lowpack "), page/2))
	reads := map[string]func(){
		"load":   func() { sink = view[2*page] },
		"copy":   func() { copy(make([]byte, 2*page), view[page:]) },
		"equal":  func() { bytes.Equal(view[page:], make([]byte, 3*page)) },
		"digest": func() { sha256.Sum256(view) },
	}
	guarded := func(read func()) error { return Guard(func() error { read(); return nil }) }
	for name, read := range reads {
		if err := guarded(read); err != nil {
			t.Errorf("%s of a whole file: %v", name, err)
		}
	}
	if err := os.Truncate(path, int64(page)); err != nil {
		t.Skip(err) // Windows cannot truncate a mapped file
	}
	for name, read := range reads {
		err := guarded(read)
		var fault *Fault
		if !errors.As(err, &fault) || !errors.Is(err, pack.ErrCorrupt) ||
			!strings.HasPrefix(err.Error(), path+": changed or truncated while in use") {
			t.Errorf("%s: %v", name, err)
		}
	}
	closing := func() { defer forget(view); reads["load"]() }
	if err := guarded(closing); err == nil {
		t.Error("a fault got lost on its way through Close")
	}
	closed = nil
	if panics(func() { guarded(reads["load"]) }) == nil {
		t.Error("a fault in memory that is not mapped became an error")
	}
}

// TestOtherPanics: other panics propagate, and f's error is returned unchanged.
func TestOtherPanics(t *testing.T) {
	other := errors.New("other")
	if err := Guard(func() error { return other }); err != other {
		t.Error(err)
	}
	if err := Guard(func() error { return nil }); err != nil {
		t.Error(err)
	}
	if p := panics(func() { Guard(func() error { panic(other) }) }); p != any(other) {
		t.Errorf("%v", p)
	}
	var nowhere *[4]byte
	if panics(func() { Guard(func() error { sink = nowhere[1]; return nil }) }) == nil {
		t.Error("a nil pointer became an error")
	}
	if err := Guard(func() error { panic(&Fault{"handed on"}) }); err == nil {
		t.Error("a fault of another goroutine got lost")
	}
}

func panics(f func()) (p any) {
	defer func() { p = recover() }()
	f()
	return nil
}
