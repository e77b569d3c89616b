package signing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/lowpack/lowpack/pack"
)

// TestChanged: a model with another byte, or with a file more or less, is not the signed one, and the error says which.
func TestChanged(t *testing.T) {
	rename := func(from, to string) func(string) error {
		return func(dir string) error { return os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)) }
	}
	write := func(name, text string) func(string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600) }
	}
	for _, c := range []struct {
		change func(dir string) error
		says   string // "" = accepted
	}{
		{func(string) error { return nil }, ""},
		{func(dir string) error { return os.Mkdir(filepath.Join(dir, "empty"), 0o755) }, ""},
		{write("skip", "x"), ""},
		{write("a/skip", "x"), "a/skip is not in the signature"},
		{write("model.bin", "Weights"), "SHA-256 of model.bin is"},
		{write("model.bin", "weight"), "SHA-256 of model.bin is"},
		{write("z", "x"), "SHA-256 of z is"},
		{write("more", ""), "more is not in the signature"},
		{func(dir string) error { return os.Remove(filepath.Join(dir, "z")) }, "z is in the signature, but not"},
		{rename("z", "y"), "y is not in the signature"},
		{rename("a/b/c", "a/b/d"), "a/b/d is not in the signature"},
		{func(dir string) error {
			return errors.Join(rename("a.b", "t")(dir), rename("model.bin", "a.b")(dir), rename("t", "model.bin")(dir))
		}, "SHA-256 of a.b is"},
		{func(dir string) error {
			return errors.Join(rename("z", "skip")(dir), os.Symlink("skip", filepath.Join(dir, "z")))
		}, "z is not a regular file"},
		{func(dir string) error { return os.Symlink("a", filepath.Join(dir, "skip")) }, ""},
		{func(dir string) error { return os.Symlink(os.TempDir(), filepath.Join(dir, "away")) },
			"away is not a regular file"},
		{func(dir string) error { return os.WriteFile(filepath.Join(dir, `a\b`), nil, 0o600) }, "invalid name"},
	} {
		_, dir := models(t)
		m := list(t, dir)
		m.Ignore = []string{"skip"}
		if err := c.change(dir); err != nil {
			t.Fatal(err)
		}
		err := m.Check(t.Context(), dir, nil)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%v; want %q", err, c.says)
		}
	}
}

// TestOneFile: every byte of a model that is one file is signed, its name is not, and a directory is another model.
func TestOneFile(t *testing.T) {
	file, dir := models(t)
	m, several := list(t, file), list(t, dir)
	text := "some bytes"
	for i := range len(text) {
		put(t, file, text[:i]+string(text[i]^1)+text[i+1:])
		if err := m.Check(t.Context(), file, nil); !errors.Is(err, pack.ErrCorrupt) ||
			!strings.Contains(err.Error(), file+": ") {
			t.Errorf("byte %d: %v", i, err)
		}
	}
	for _, wrong := range []string{text[1:], text + "s", ""} {
		put(t, file, wrong)
		if err := m.Check(t.Context(), file, nil); !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	other := filepath.Join(t.TempDir(), "renamed")
	put(t, other, text)
	if err := m.Check(t.Context(), other, nil); err != nil {
		t.Error(err)
	}
	if err := m.CheckFile(t.Context(), strings.NewReader(text), int64(len(text)), nil); err != nil {
		t.Error(err)
	}
	if err := m.CheckFile(t.Context(), strings.NewReader(text+"x"), int64(len(text)), nil); err == nil ||
		!strings.Contains(err.Error(), "changed while it was read") {
		t.Errorf("a file that grows: %v", err)
	}
	if err := m.Check(t.Context(), dir, nil); err == nil || !strings.Contains(err.Error(), "is of one file") {
		t.Error(err)
	}
	if err := several.Check(t.Context(), other, nil); err == nil || !strings.Contains(err.Error(), "of a directory") {
		t.Error(err)
	}
	if err := m.Check(t.Context(), os.DevNull, nil); !errors.Is(err, pack.ErrUnsupported) {
		t.Errorf("a device: %v", err)
	}
}

// TestList: what cannot be signed is refused, and a signal ends the work.
func TestList(t *testing.T) {
	file, _ := models(t)
	if _, err := List(t.Context(), t.TempDir(), nil); !errors.Is(err, pack.ErrUnsupported) {
		t.Errorf("an empty directory: %v", err)
	}
	many := fstest.MapFS{}
	for i := range maxFiles {
		many[fmt.Sprint(i)] = &fstest.MapFile{}
	}
	if list, err := (&model{tree: many}).files(nil); err != nil || len(list) != maxFiles {
		t.Errorf("%d of %d files: %v", len(list), maxFiles, err)
	}
	many["more"] = &fstest.MapFile{}
	if _, err := (&model{tree: many}).files(nil); !errors.Is(err, pack.ErrLimit) {
		t.Errorf("%d files: %v", len(many), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := List(ctx, file, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	var done, total int64
	_, err := List(t.Context(), file, func(d, n int64) { done, total = d, n })
	if err != nil || done != 10 || total != 10 {
		t.Error(done, total, err)
	}
}
