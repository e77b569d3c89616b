package hub

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDrop: incomplete blobs are removed, and a folder that has no snapshots; snapshots stay, also without weights, and
// links in place of them, into the cache and out of it.
func TestDrop(t *testing.T) {
	const half, bare, named, linked = "models--acme--half/", "models--acme--bare/", "models--acme--named/",
		"models--acme--linked/"
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "config.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	files := twoSnapshots()
	maps.Copy(files, map[string]string{
		half + "blobs/aa":                                    "config",
		half + "blobs/bb.incomplete":                         "1234567",
		half + "blobs/cc.0123.incomplete":                    "12",
		half + "snapshots/" + first + "/config.json":         "-> ../../blobs/aa",
		half + "snapshots/" + first + "/gone.json":           "-> ../../blobs/gone",
		bare + "blobs/aa":                                    "config",
		bare + "blobs/bb.incomplete":                         "123",
		".locks/" + bare + "bb.lock":                         "",
		named + "blobs/bb.incomplete":                        "1",
		named + "refs/main":                                  first,
		named + "snapshots/" + first + "/config.json":        "{}",
		linked + "blobs/bb.incomplete":                       "12345",
		linked + "snapshots/" + first:                        "-> ../../" + named + "snapshots/" + first,
		linked + "snapshots/" + second:                       "-> " + outside,
		"models--acme--whole/blobs/bb":                       "complete",
		"models--acme--whole/snapshots/" + first + "/a.json": "-> ../../blobs/bb",
	})
	c := cacheOf(t, files)
	before := everything(t, c.Cache)
	list, err := c.Unfinished()
	if err != nil {
		t.Fatal(err)
	}
	freed := map[string]int64{}
	for i := range list {
		u := &list[i]
		if freed[u.ID()], err = c.Drop(u); err != nil {
			t.Error(err)
		}
		if n, err := c.Drop(u); n != 0 || err != nil {
			t.Errorf("%s, once more: %d, %v", u.ID(), n, err)
		}
	}
	if want := map[string]int64{"acme/half": 7 + 2, "acme/loose": 4, "acme/bare": 6 + 3, "acme/named": 1,
		"acme/linked": 5}; !maps.Equal(freed, want) {
		t.Errorf("%v, want %v", freed, want)
	}
	gone := []string{half + "blobs/bb.incomplete", half + "blobs/cc.0123.incomplete", bare, ".locks/" + bare,
		"models--acme--loose/blobs/half.incomplete", named + "blobs/bb.incomplete", linked + "blobs/bb.incomplete"}
	want := slices.DeleteFunc(before, func(name string) bool {
		return slices.ContainsFunc(gone, func(one string) bool { return strings.HasPrefix(name, one) })
	})
	if got := everything(t, c.Cache); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if _, err := os.Stat(filepath.Join(outside, "config.json")); err != nil {
		t.Error(err)
	}
}
