package hub

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// TestTraps: a link, a hard link or a foreign file in place of a file that Pull writes, and links out of the cache in
// place of folders or finished files, are rejected and left unchanged.
func TestTraps(t *testing.T) {
	const model = "models--acme--tiny-model"
	data := oneFile()["model.safetensors"]
	blob := filepath.Join(model, "blobs", blobOf(data))
	snapshot := filepath.Join(model, "snapshots", strings.Repeat("c0ffee0000", 4))
	foreign := func(_, path string) error {
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			return err
		}
		return os.Chown(path, 12345, 12345) // requires root
	}
	folder := func(_, path string) error { return os.Mkdir(path, 0o755) }
	dangling := func(victim, path string) error { return os.Symlink(victim+".new", path) }
	for what, c := range map[string]struct {
		at  string
		set func(victim, path string) error
		dir bool // the victim is a directory
	}{
		"unfinished, symbolic link": {blob + ".incomplete", os.Symlink, false},
		"unfinished, dangling link": {blob + ".incomplete", dangling, false},
		"unfinished, hard link":     {blob + ".incomplete", os.Link, false},
		"unfinished, directory":     {blob + ".incomplete", folder, false},
		"unfinished, of another":    {blob + ".incomplete", foreign, false},
		"blob":                      {blob, os.Symlink, false},
		"blobs":                     {filepath.Dir(blob), os.Symlink, true},
		"name in the snapshot":      {filepath.Join(snapshot, "model.safetensors"), os.Symlink, false},
		"snapshot":                  {snapshot, os.Symlink, true},
		"snapshots":                 {filepath.Dir(snapshot), os.Symlink, true},
		"ref":                       {filepath.Join(model, "refs"), os.Symlink, true},
		"folder of the locks":       {filepath.Join(".locks", model), os.Symlink, true},
		"locks":                     {".locks", os.Symlink, true},
		"lock":                      {filepath.Join(".locks", model, blobOf(data)+".lock"), dangling, false},
		"lock, of a file":           {filepath.Join(".locks", model, blobOf(data)+".lock"), os.Symlink, false},
	} {
		t.Run(what, func(t *testing.T) {
			h := newHub(t, &fakeHub{files: oneFile()})
			c0 := h.client()
			victims := t.TempDir()
			victim := filepath.Join(victims, "victim")
			kept := victim
			if c.dir {
				os.Mkdir(victim, 0o755)
				kept = filepath.Join(victim, "file")
			}
			precious := []byte(strings.Repeat("precious", len(data)/8)) // of the expected size
			os.WriteFile(kept, precious, 0o644)
			trap := filepath.Join(c0.Cache, c.at)
			os.MkdirAll(filepath.Dir(trap), 0o755)
			if err := c.set(victim, trap); err != nil {
				t.Skip(err)
			}
			_, err := c0.Pull(t.Context(), name(t, h.id), nil)
			refusal{class: pack.ErrUnsupported}.check(t, err, c.at, "remove")
			if text, err := os.ReadFile(kept); string(text) != string(precious) {
				t.Errorf("the victim has %d bytes, %v", len(text), err)
			}
			for _, dir := range []string{victims, filepath.Dir(kept)} {
				if entries, err := os.ReadDir(dir); len(entries) != 1 {
					t.Errorf("beside the victim: %v, %v", entries, err)
				}
			}
		})
	}
}

// TestReplaced: a dangling link in place of a blob or of a name in the snapshot is replaced, not followed.
func TestReplaced(t *testing.T) {
	h := newHub(t, &fakeHub{files: oneFile()})
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	for _, at := range []string{
		filepath.Join("blobs", blobOf(h.files["model.safetensors"])),
		filepath.Join("snapshots", h.commit, "model.safetensors"),
	} {
		c := h.client()
		trap := filepath.Join(c.Cache, "models--acme--tiny-model", at)
		os.MkdirAll(filepath.Dir(trap), 0o755)
		if err := os.Symlink(nowhere, trap); err != nil {
			t.Skip(err)
		}
		r, err := c.Pull(t.Context(), name(t, h.id), nil)
		if err != nil {
			t.Fatal(err)
		}
		h.holds(r.Path)
		if _, err := os.Lstat(nowhere); err == nil {
			t.Errorf("%s: the link was followed", at)
		}
	}
}

// TestMoved: the folder of the cache or of a model may be a link to another disk, and a blob a link to a shared one.
func TestMoved(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links take rights")
	}
	h := newHub(t, &fakeHub{files: oneFile()})
	data := h.files["model.safetensors"]
	for what, set := range map[string]func(cache string) error{
		"cache": func(cache string) error {
			if err := os.Remove(cache); err != nil {
				return err
			}
			return os.Symlink(t.TempDir(), cache)
		},
		"model": func(cache string) error {
			return os.Symlink(t.TempDir(), filepath.Join(cache, "models--acme--tiny-model"))
		},
		"shared blobs": func(cache string) error {
			shared := filepath.Join(cache, "blobs", "ab", strings.Repeat("ab", 32))
			blobs := filepath.Join(cache, "models--acme--tiny-model", "blobs")
			for _, dir := range []string{filepath.Dir(shared), blobs} {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					return err
				}
			}
			return errors.Join(os.WriteFile(shared, data, 0o644),
				os.Symlink(filepath.Join("..", "..", "blobs", "ab", filepath.Base(shared)),
					filepath.Join(blobs, blobOf(data))))
		},
	} {
		t.Run(what, func(t *testing.T) {
			c := h.client()
			if err := set(c.Cache); err != nil {
				t.Fatal(err)
			}
			before := len(h.requests)
			for range 2 {
				r, err := c.Pull(t.Context(), name(t, h.id), nil)
				if err != nil {
					t.Fatal(err)
				}
				h.holds(r.Path)
			}
			want := 1 // download
			if what == "shared blobs" {
				want = 0
			}
			if n := len(h.requests) - before; n != want {
				t.Errorf("%d downloads, want %d", n, want)
			}
		})
	}
}
