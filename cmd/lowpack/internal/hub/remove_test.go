package hub

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	first  = "1111111111111111111111111111111111111111"
	second = "2222222222222222222222222222222222222222"
)

// cacheOf makes a cache. Values that begin with "-> " are links.
func cacheOf(t *testing.T, files map[string]string) *Client {
	t.Helper()
	dir := t.TempDir()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if to, link := strings.CutPrefix(files[name], "-> "); err == nil && link {
			err = os.Symlink(filepath.FromSlash(to), path)
		} else if err == nil {
			err = os.WriteFile(path, []byte(files[name]), 0o644)
		}
		if err != nil {
			t.Skip(err)
		}
	}
	return &Client{Cache: dir}
}

// everything lists the files and links below a folder.
func everything(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(dir, path)
			list = append(list, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func twoSnapshots() map[string]string {
	return map[string]string{
		"models--acme--tiny/blobs/aa":                                      "shared by both",
		"models--acme--tiny/blobs/bb":                                      "12345",
		"models--acme--tiny/blobs/cc":                                      "1234567",
		"models--acme--tiny/blobs/dd":                                      "123456789",
		"models--acme--tiny/refs/main":                                     second,
		"models--acme--tiny/refs/old":                                      first,
		"models--acme--tiny/snapshots/" + first + "/config.json":           "-> ../../blobs/aa",
		"models--acme--tiny/snapshots/" + first + "/m.safetensors":         "-> ../../blobs/bb",
		"models--acme--tiny/snapshots/" + second + "/config.json":          "-> ../../blobs/aa",
		"models--acme--tiny/snapshots/" + second + "/m.safetensors":        "-> ../../blobs/cc",
		"models--acme--tiny/snapshots/" + second + "/tiny-Q4_0.gguf":       "-> ../../blobs/dd",
		"models--acme--tiny/snapshots/" + second + "/mmproj-f16.gguf":      "-> ../../blobs/aa",
		"datasets--acme--tiny/snapshots/" + first + "/data.safetensors":    "no model",
		"models--acme--words/snapshots/" + first + "/tokenizer.json":       "no weights",
		"models--acme--taken/snapshots/not-a-commit/m.safetensors":         "no snapshot",
		".locks/models--acme--tiny/cc.lock":                                "",
		"models--acme--loose/snapshots/" + second + "/m.safetensors":       "123",
		"models--acme--loose/snapshots/" + second + "/gone.safetensors":    "-> ../../blobs/gone",
		"models--acme--loose/snapshots/" + second + "/sub/x-Q8_0.gguf":     "12",
		"models--acme--loose/blobs/half.incomplete":                        "1234",
		"models--acme--loose/snapshots/" + second + "/outside.safetensors": "-> ../../../outside",
		"outside": "stays",
	}
}

func TestList(t *testing.T) {
	c := cacheOf(t, twoSnapshots())
	list, err := c.List()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range list {
		got = append(got, l.String())
	}
	want := []string{"acme/loose@" + second, "acme/loose@" + second + ":sub/x-Q8_0.gguf", "acme/tiny",
		"acme/tiny:tiny-Q4_0.gguf", "acme/tiny@old"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if none, err := (&Client{Cache: filepath.Join(c.Cache, "none")}).List(); err != nil || len(none) > 0 {
		t.Error(none, err)
	}
}

// TestRemove: a model is removed with everything that only it needs, and without link targets outside of its folder.
func TestRemove(t *testing.T) {
	tiny := "models--acme--tiny/"
	for _, test := range []struct {
		names []string
		freed int64
		gone  []string
	}{
		{[]string{"acme/tiny@old"}, 5 + 40, []string{
			tiny + "blobs/bb", tiny + "refs/old", tiny + "snapshots/" + first + "/config.json",
			tiny + "snapshots/" + first + "/m.safetensors"}},
		{[]string{"acme/tiny:tiny-Q4_0.gguf"}, 9,
			[]string{tiny + "blobs/dd", tiny + "snapshots/" + second + "/tiny-Q4_0.gguf"}},
		{[]string{"acme/tiny"}, 7, []string{tiny + "blobs/cc", tiny + "snapshots/" + second + "/config.json",
			tiny + "snapshots/" + second + "/m.safetensors", tiny + "snapshots/" + second + "/mmproj-f16.gguf"}},
		{[]string{"acme/tiny", "acme/tiny:tiny-Q4_0.gguf", "acme/tiny@old"}, 14 + 5 + 7 + 9 + 2*40,
			[]string{tiny, ".locks/" + tiny}},
		{[]string{"acme/loose@" + second, "acme/loose@" + second + ":sub/x-Q8_0.gguf"}, 3 + 2 + 4,
			[]string{"models--acme--loose/"}},
	} {
		c := cacheOf(t, twoSnapshots())
		before := everything(t, c.Cache)
		var freed int64
		for _, name := range test.names {
			list, err := c.List()
			at := slices.IndexFunc(list, func(l Local) bool { return l.String() == name })
			if err != nil || at < 0 {
				t.Fatal(name, err)
			}
			n, err := c.Remove(&list[at])
			if err != nil {
				t.Fatal(err)
			}
			freed += n
		}
		want := slices.DeleteFunc(before, func(name string) bool {
			return slices.ContainsFunc(test.gone, func(gone string) bool {
				return name == gone || strings.HasSuffix(gone, "/") && strings.HasPrefix(name, gone)
			})
		})
		if got := everything(t, c.Cache); !slices.Equal(got, want) {
			t.Errorf("%q leaves\n%q, want\n%q", test.names, got, want)
		}
		if freed != test.freed {
			t.Errorf("%q: %d bytes freed, want %d", test.names, freed, test.freed)
		}
	}
}

// TestRemoveRefuses: models that another process is downloading, and folders outside of the cache, are not removed.
func TestRemoveRefuses(t *testing.T) {
	c := cacheOf(t, twoSnapshots())
	lock, err := c.lock(t.Context(), Name{Org: "acme", Model: "tiny"}, "cc")
	if err != nil {
		t.Fatal(err)
	}
	l := Local{Name: Name{Org: "acme", Model: "tiny", Revision: "main"}}
	if _, err := c.Remove(&l); err == nil || !strings.Contains(err.Error(), "acme/tiny is being downloaded") {
		t.Error(err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(c.Cache, "models--acme--tiny"), filepath.Join(c.Cache, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("elsewhere", filepath.Join(c.Cache, "models--acme--tiny")); err != nil {
		t.Skip(err)
	}
	before := everything(t, c.Cache)
	if _, err := c.Remove(&l); err == nil || !strings.Contains(err.Error(), "is a link out of the cache") {
		t.Error(err)
	}
	if got := everything(t, c.Cache); !slices.Equal(got, before) {
		t.Errorf("%q, want %q", got, before)
	}
}
