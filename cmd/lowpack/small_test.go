package main

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/hostile"
)

// small makes a checkpoint of one block, for tests of errors about other files, and a packed file of it.
func small(t testing.TB) (checkpoint, packed string) {
	t.Helper()
	dir := t.TempDir()
	packed = filepath.Join(dir, "packed.safetensors")
	checkpoint, err := smallCheckpoint(dir)
	data, failed := smallPacked()
	if err = errors.Join(err, failed, os.WriteFile(packed, data, 0o644)); err != nil {
		t.Fatal(err)
	}
	return checkpoint, packed
}

func smallCheckpoint(dir string) (string, error) {
	dir = filepath.Join(dir, "checkpoint")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	return hostile.Base(dir)
}

// smallPacked is the packed file, which is made once.
var smallPacked = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "lowpack")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	checkpoint, err := smallCheckpoint(dir)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "packed")
	if code, said := inPlace("convert", checkpoint, "--golden", "none", "-o", path); code != 0 {
		return nil, errors.New(said)
	}
	return os.ReadFile(path)
})
