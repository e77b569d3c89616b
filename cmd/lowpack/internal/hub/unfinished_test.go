package hub

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

const third = "3333333333333333333333333333333333333333"

// TestDrop: what an interrupted download has left is removed, and nothing that may be of use: models that are listed,
// snapshots that a branch refers to, and those with files that are not downloaded here.
func TestDrop(t *testing.T) {
	const half, torch, named = "models--acme--half/", "models--acme--torch/", "models--acme--named/"
	files := twoSnapshots()
	maps.Copy(files, map[string]string{
		half + "blobs/aa":                                    "config",
		half + "blobs/bb.incomplete":                         "1234567",
		half + "blobs/cc.0123.incomplete":                    "12",
		half + "snapshots/" + first + "/config.json":         "-> ../../blobs/aa",
		".locks/" + half + "bb.lock":                         "",
		torch + "blobs/bb.incomplete":                        "123",
		torch + "snapshots/" + first + "/pytorch_model.bin":  "weights",
		torch + "snapshots/" + first + "/config.json":        "{}",
		named + "blobs/bb.incomplete":                        "1",
		named + "refs/main":                                  first,
		named + "snapshots/" + first + "/config.json":        "{}",
		named + "snapshots/" + second + "/config.json":       "{ }",
		named + "snapshots/" + third + "/m.safetensors":      "weights",
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
	if want := map[string]int64{"acme/half": 6 + 7 + 2, "acme/loose": 4, "acme/torch": 3,
		"acme/named": 1 + 3}; !maps.Equal(freed, want) {
		t.Errorf("%v, want %v", freed, want)
	}
	gone := []string{half, ".locks/" + half, "models--acme--loose/blobs/half.incomplete", torch + "blobs/bb.incomplete",
		named + "blobs/bb.incomplete", named + "snapshots/" + second + "/config.json"}
	want := slices.DeleteFunc(before, func(name string) bool {
		return slices.ContainsFunc(gone, func(one string) bool { return strings.HasPrefix(name, one) })
	})
	if got := everything(t, c.Cache); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}
