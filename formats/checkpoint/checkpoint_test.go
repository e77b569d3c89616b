package checkpoint

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/lowpack/lowpack/internal/shared"
)

// TestBundledModels reads every tensor of the bundled models and compares them with the file's bytes.
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
			if !bytes.Equal(p, whole[x.begin:x.begin+x.Size]) {
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
