package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/signing"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/server"
)

// replace puts a copy of a file in the place of another one by renaming.
func replace(t *testing.T, path, with string) {
	t.Helper()
	data, err := os.ReadFile(with)
	if err != nil {
		t.Fatal(err)
	}
	next := filepath.Join(t.TempDir(), "next")
	write(t, next, string(data))
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

// TestServeFolder: the packed files of a folder are served while they are replaced, added and removed, and no request
// for one that is there is refused; a file that is no good is told once.
func TestServeFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := []string{tinymodel.WithTemplate(t, "Once {{ messages[0].content }}"),
		tinymodel.WithTemplate(t, "The {{ messages[0].content }}")}
	first, second := filepath.Join(dir, "first.safetensors"), filepath.Join(dir, "second.safetensors")
	write(t, filepath.Join(dir, ".second.safetensors"), "unfinished")
	write(t, filepath.Join(dir, "README.md"), "models")
	s := serveFile(t, "", dir, "--threads", "1", "--memory", "1GB")
	replace(t, first, files[0])
	write(t, filepath.Join(dir, "broken.safetensors"), "no model")
	greet := func(name string) string {
		return s.ask("/v1/chat/completions", `{"model": "`+name+
			`", "messages": [{"role": "user", "content": "river"}], "max_tokens": 5, "seed": 1}`)
	}
	answers := []string{greet("first")}
	replace(t, first, files[1])
	if answers = append(answers, greet("first")); answers[0] == answers[1] {
		t.Fatal("both files answer the same")
	}
	var wait sync.WaitGroup
	done := make(chan struct{})
	for range 3 {
		wait.Go(func() {
			for {
				if got := greet("first"); !slices.Contains(answers, got) {
					t.Errorf("%s", got)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := range 4 {
		replace(t, first, files[i%2])
		if got := greet("first"); got != answers[i%2] {
			t.Errorf("%s, want %s", got, answers[i%2])
		}
	}
	close(done)
	wait.Wait()
	replace(t, second, files[0])
	if got := servedNames(t, s); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("%q", got)
	}
	if got := greet("second"); strings.Replace(got, `"model":"second"`, `"model":"first"`, 1) != answers[0] {
		t.Errorf("%s, want %s", got, answers[0])
	}
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	if got := servedNames(t, s); !slices.Equal(got, []string{"second"}) {
		t.Errorf("%q", got)
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-s.end
	log := s.log.String()
	if strings.Count(log, "broken is not served") != 1 || !strings.Contains(log, "holds no packed file yet") ||
		strings.Contains(log, ".second") || strings.Contains(log, "README") ||
		!strings.Contains(log, "unloaded first") {
		t.Errorf("%s", log)
	}
}

// servedNames returns the names in /v1/models.
func servedNames(t *testing.T, s *served) (names []string) {
	t.Helper()
	status, text := s.send(http.MethodGet, "/v1/models", "", nil)
	var list struct{ Data []struct{ ID string } }
	if err := json.Unmarshal(text, &list); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s: %v", status, text, err)
	}
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	return names
}

// TestModelFolder: a file has another version when it is another one, also of the same size and time, when its size
// changes and when its time does, and after it was removed; others keep theirs. Hidden files are left out, and a
// dangling link is not.
func TestModelFolder(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"b.safetensors", "a.safetensors", ".c.safetensors", "d.gguf"} {
		write(t, path(name), name)
	}
	write(t, path("folder/e.safetensors"), "below")
	f := &modelFolder{dir: dir}
	versions := func(names ...string) (list []uint64) {
		t.Helper()
		entries, err := f.models()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range entries {
			got, list = append(got, e.ID), append(list, e.Version)
		}
		if !slices.Equal(got, names) {
			t.Errorf("%q, want %q", got, names)
		}
		return list
	}
	last := versions("a", "b")
	if again := versions("a", "b"); !slices.Equal(last, again) {
		t.Errorf("%v and %v of the same files", last, again)
	}
	info, err := os.Stat(path("a.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) {
		if err := os.Chtimes(path(name), info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
	for what, change := range map[string]func(){
		"another file of the same size and time": func() {
			write(t, path("next"), "A.safetensors")
			at("next")
			if err := os.Rename(path("next"), path("a.safetensors")); err != nil {
				t.Fatal(err)
			}
		},
		"another size": func() {
			write(t, path("a.safetensors"), "more")
			at("a.safetensors")
		},
		"another time": func() {
			later := info.ModTime().AddDate(1, 0, 0)
			if err := os.Chtimes(path("a.safetensors"), later, later); err != nil {
				t.Fatal(err)
			}
		},
	} {
		write(t, path("a.safetensors"), "a.safetensors")
		at("a.safetensors")
		last = versions("a", "b")
		change()
		now := versions("a", "b")
		if now[0] == last[0] || now[1] != last[1] {
			t.Errorf("%s: %v after %v", what, now, last)
		}
	}
	if err := os.Remove(path("a.safetensors")); err != nil {
		t.Fatal(err)
	}
	versions("b")
	if err := os.Symlink(path("none"), path("a.safetensors")); err != nil {
		t.Skip(err)
	}
	versions("a", "b")
}

// TestModelFolderNames: names are those of the files, so that no file changes the name of another one; names that
// cannot be printed are left out and told once while they are there.
func TestModelFolderNames(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"tiny", "models--acme--tiny", "models--evil--tiny", "models--acme--", "größe"} {
		write(t, filepath.Join(dir, name+".safetensors"), name)
	}
	bad := []string{"a\nb", "a\x1bb", "a\u202eb"}
	if runtime.GOOS == "linux" {
		bad = append(bad, "a\xffb")
	}
	for _, name := range bad {
		if err := os.WriteFile(filepath.Join(dir, name+".safetensors"), nil, 0o600); err != nil {
			t.Skip(err) // not on this file system
		}
	}
	var notes []string
	f := &modelFolder{dir: dir, note: func(text string) { notes = append(notes, text) }}
	for _, want := range [][]string{
		{"größe", "models--acme--", "models--acme--tiny", "models--evil--tiny", "tiny"},
		{"größe", "models--acme--", "models--evil--tiny", "tiny"},
	} {
		entries, err := f.models()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.ID)
		}
		if !slices.Equal(names, want) {
			t.Errorf("%q, want %q", names, want)
		}
		os.Remove(filepath.Join(dir, "models--acme--tiny.safetensors"))
	}
	if len(notes) != len(bad) || !strings.HasPrefix(notes[0], `a\nb.safetensors is not served`) {
		t.Errorf("%q", notes)
	}
}

// TestModelFolderAgain: a file that could not be opened for a reason that may pass is opened again.
func TestModelFolderAgain(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.safetensors"), "a")
	var refuse error
	f := &modelFolder{dir: dir, open: func(string, string) (m server.Model, err error) { return m, refuse }}
	var last uint64
	for _, c := range []struct {
		err   error
		again bool
	}{{syscall.EMFILE, false}, {syscall.EACCES, true}, {pack.ErrCorrupt, true}, {nil, false}} {
		entries, err := f.models()
		if err != nil {
			t.Fatal(err)
		}
		if again := entries[0].Version != last && last != 0; again != c.again {
			t.Errorf("before %v: another version: %t", c.err, again)
		}
		last, refuse = entries[0].Version, c.err
		if _, err := entries[0].Open(); err != refuse {
			t.Error(err)
		}
	}
}

// TestModelFolderSigned: a signature that comes later opens a file that was refused, and one that changes does nothing
// to a file that is open.
func TestModelFolderSigned(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.safetensors")
	write(t, path, "a")
	var refuse error
	f := &modelFolder{dir: dir, trust: &signing.Trust{},
		open: func(string, string) (m server.Model, err error) { return m, refuse }}
	version := func(open bool) uint64 {
		t.Helper()
		entries, err := f.models()
		if err != nil || len(entries) != 1 {
			t.Fatalf("%v: %v", entries, err)
		}
		if open {
			if _, err := entries[0].Open(); err != refuse {
				t.Fatal(err)
			}
		}
		return entries[0].Version
	}
	refuse = os.ErrNotExist
	last := version(true)
	if version(false) != last {
		t.Error("another version of the same")
	}
	write(t, signatureOf(path), "signature")
	refuse = nil
	now := version(true)
	if now == last {
		t.Error("the signature is not seen")
	}
	write(t, signatureOf(path), "of the next file")
	if version(false) != now {
		t.Error("a file that was checked has another version")
	}
}
