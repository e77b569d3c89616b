package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// twoShards writes an indexed checkpoint: tensors a and b in one file, c in another, of four bytes each.
func twoShards(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	put := func(name, header, data string) {
		b := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
		if err := os.WriteFile(filepath.Join(dir, name), append(b, data...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("x.safetensors",
		`{"__metadata__":{"k":"1","same":"s"},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}`,
		"aaaabbbb")
	put("y.safetensors", `{"__metadata__":{"same":"s","k":"2"},"c":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}`, "cccc")
	index := `{"weight_map":{"a":"x.safetensors","b":"x.safetensors","c":"y.safetensors"}}`
	if err := os.WriteFile(filepath.Join(dir, indexFile), []byte(index), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestMetadata: values under one key of several files are listed once each.
func TestMetadata(t *testing.T) {
	c, err := Open(twoShards(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for key, want := range map[string][]string{"k": {"1", "2"}, "same": {"s"}, "other": nil} {
		if got := c.Metadata(key); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

// TestReadAt: a tensor returns its own bytes; other ranges are errors.
func TestReadAt(t *testing.T) {
	c, err := Open(twoShards(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, x := range c.Tensors() {
		p := make([]byte, 4)
		if err := c.ReadAt(x, p, 0); err != nil || string(p) != strings.Repeat(x.Name, 4) {
			t.Errorf("%s: %q, %v", x.Name, p, err)
		}
		for _, off := range []int64{-1, 1, 4, 5} {
			if err := c.ReadAt(x, p, off); err == nil {
				t.Errorf("%s: 4 of 4 bytes from %d on: %q", x.Name, off, p)
			}
		}
	}
}

// TestUnchanged: a change of any shard is detected, even with the same time or size.
func TestUnchanged(t *testing.T) {
	for _, name := range []string{"x.safetensors", "y.safetensors"} {
		for what, change := range map[string]func(path string, info os.FileInfo) error{
			"size": func(path string, info os.FileInfo) error {
				return errors.Join(os.Truncate(path, info.Size()-1), os.Chtimes(path, info.ModTime(), info.ModTime()))
			},
			"time": func(path string, info os.FileInfo) error {
				return os.Chtimes(path, info.ModTime(), info.ModTime().Add(1e9))
			},
			"file": func(path string, info os.FileInfo) error {
				b, err := os.ReadFile(path)
				return errors.Join(err, os.WriteFile(path+".new", b, 0o600), os.Rename(path+".new", path))
			},
		} {
			dir := twoShards(t)
			c, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, name)
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(c.Unchanged(), change(path, info)); err != nil {
				t.Fatal(err)
			}
			if err := c.Unchanged(); !errors.Is(err, pack.ErrCorrupt) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s of %s: %v", what, name, err)
			}
			c.Close()
		}
	}
}

// TestIndexIsIgnored: with both model.safetensors and an index, a warning says which one is used.
func TestIndexIsIgnored(t *testing.T) {
	dir := twoShards(t)
	if err := os.Rename(filepath.Join(dir, "y.safetensors"), filepath.Join(dir, single)); err != nil {
		t.Fatal(err)
	}
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if len(c.Tensors()) != 1 || len(c.Warnings()) != 1 || !strings.Contains(c.Warnings()[0], "the index is ignored") {
		t.Errorf("%d tensors, warnings %q", len(c.Tensors()), c.Warnings())
	}
}

func TestShardNames(t *testing.T) {
	for _, name := range []string{"a\x01.safetensors", "a\x7f.safetensors", "a\n.safetensors", "\xff.safetensors"} {
		if err := plainName(name); !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := plainName("model-00001-of-00002.safetensors"); err != nil {
		t.Error(err)
	}
}

// TestParseSize: sizes spelled as floats are accepted, fractions of a byte are not.
func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{"12": 12, "1.2e1": 12, "12.0": 12, "1.5": -2, "-1": -2,
		"1e300": -2, "x": -2} {
		if got := parseSize(text); got != want {
			t.Error(fmt.Sprint(text, ": ", got))
		}
	}
}
