package checkpoint

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// TestBundledModels compares every tensor of the bundled models with the file's bytes.
func TestBundledModels(t *testing.T) {
	for name, tensors := range map[string]int{"tiny-bitnet": 68, "tiny-bitnet-packed": 110} {
		path := shared.Testdata(t, name)
		c, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Tensors()) != tensors || len(c.Warnings()) != 0 {
			t.Errorf("%s: %d tensors, want %d; warnings %q", name, len(c.Tensors()), tensors, c.Warnings())
		}
		whole, err := os.ReadFile(path + "/model.safetensors")
		if err != nil {
			t.Fatal(err)
		}
		total := int64(0)
		for _, x := range c.Tensors() {
			p := make([]byte, x.Size)
			if err := c.ReadAt(x, p, 0); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(p, whole[x.Begin:x.Begin+x.Size]) {
				t.Errorf("%s: wrong bytes", x.Name)
			}
			total += x.Size
		}
		if total == 0 || total >= int64(len(whole)) {
			t.Errorf("%s: %d bytes of tensors in a file of %d", name, total, len(whole))
		}
		for _, s := range c.Sources() {
			r, err := c.OpenSource(s.Name)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			want, errFile := os.ReadFile(path + "/" + s.Name)
			if err != nil || errFile != nil || !bytes.Equal(got, want) || int64(len(got)) != s.Size {
				t.Errorf("%s: source differs from the file: %v, %v", s.Name, err, errFile)
			}
		}
		if err := c.Unchanged(); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// TestWhatIsThere: the error names what a directory contains instead of a checkpoint.
func TestWhatIsThere(t *testing.T) {
	weights, err := os.ReadFile(shared.Testdata(t, "tiny-bitnet/model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		files []string
		want  error
		says  string
	}{
		{nil, pack.ErrUnsupported, "the directory is empty"},
		{[]string{"README.md"}, pack.ErrUnsupported, "no safetensors file"},
		{[]string{"model.ckpt"}, pack.ErrUnsupported,
			"no safetensors file in the directory (model.ckpt is of no known kind)"},
		{[]string{"model-00001-of-00002.safetensors"}, pack.ErrCorrupt, "index.json is missing"},
		{[]string{"a.safetensors", "b.safetensors"}, pack.ErrCorrupt, "index.json is missing"},
		{[]string{"weights.safetensors"}, nil, ""},
		{[]string{"weights.safetensors", "1_Pooling"}, nil, ""}, // a file, where others have a directory
		{[]string{"model-00001-of-00001.safetensors"}, nil, ""},
	} {
		dir := t.TempDir()
		for _, name := range c.files {
			if err := os.WriteFile(filepath.Join(dir, name), weights, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		x, err := Open(dir)
		if err == nil {
			x.Close()
		}
		if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %v that says %q", c.files, err, c.want, c.says)
		}
	}
	for _, path := range []string{filepath.Join(t.TempDir(), "none"), filepath.Join(t.TempDir(), "none.safetensors")} {
		if _, err := Open(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
	pickle := filepath.Join(t.TempDir(), "model.bin")
	if err := os.WriteFile(pickle, []byte("\x80\x02}q\x00(X"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(pickle); !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), "run code") {
		t.Errorf("%v", err)
	}
}

// TestRanges: reading outside a tensor is an error.
func TestRanges(t *testing.T) {
	c, err := Open(shared.Testdata(t, "tiny-bitnet"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	x, ok := c.Lookup("model.norm.weight")
	if !ok || x.Size != 512 {
		t.Fatalf("%v, %v", x, ok)
	}
	if _, ok := c.Lookup("model.norm"); ok {
		t.Error("a tensor that is not there was found")
	}
	for _, r := range []struct {
		n   int
		off int64
	}{{513, 0}, {1, 512}, {0, 513}, {1, -1}, {512, 1}} {
		if c.ReadAt(x, make([]byte, r.n), r.off) == nil {
			t.Errorf("%d bytes from %d on were read of a tensor of 512", r.n, r.off)
		}
	}
	if err := c.ReadAt(x, make([]byte, 12), 500); err != nil {
		t.Error(err)
	}
}
