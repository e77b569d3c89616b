package checkpoint

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/gguf/hf"
	"github.com/lowpack/lowpack/pack"
)

// TestBlocks: stored rows equal the file's, in the checkpoint's order, read whole or in pieces.
func TestBlocks(t *testing.T) {
	c, err := openGGUFFile(t, ggufModel(t, nil,
		gguf.TensorInfo{Name: "output.weight", Shape: []int64{8, 128}, Type: gguf.I2_S}))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		rows, heads int
		scale       float32
	}{
		"model.layers.0.self_attn.q_proj.weight": {32, 8, 1}, "model.layers.0.mlp.gate_proj.weight": {64, 0, 2},
	} {
		x, _ := c.Lookup(name)
		b, ok := c.Blocks(x)
		if !ok || b.Type != gguf.Q8_0 || b.Scale(want.rows-1) != want.scale || b.Stored.Begin != x.Begin ||
			b.Stored.Size != int64(34*want.rows) {
			t.Fatalf("%s: %+v, %t", name, b, ok)
		}
		for _, piece := range []int{1 << 20, 50} {
			data := make([]byte, b.Stored.Size)
			for off := 0; off < len(data); off += piece {
				if err := c.ReadAt(b.Stored, data[off:min(off+piece, len(data))], int64(off)); err != nil {
					t.Fatal(err)
				}
			}
			for m := range want.rows {
				row := append([]byte{0, 0x3c}, bytes.Repeat([]byte{byte(hf.RowIn(m, want.rows, want.heads))}, 32)...)
				if !bytes.Equal(data[34*m:][:34], row) {
					t.Fatalf("%s in pieces of %d: row %d: %x", name, piece, m, data[34*m:][:34])
				}
			}
		}
	}
	for _, name := range []string{"model.embed_tokens.weight", "model.norm.weight",
		"model.layers.0.self_attn.v_proj.weight", "lm_head.weight"} {
		x, found := c.Lookup(name)
		if _, ok := c.Blocks(x); ok || !found {
			t.Errorf("%s: found %t, in blocks %t", name, found, ok)
		}
	}
}

// TestBlocksShortened: truncation of the open file is an error.
func TestBlocksShortened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, ggufModel(t, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := os.Truncate(path, 2000); err != nil {
		t.Skip(err)
	}
	x, _ := c.Lookup("model.layers.0.mlp.down_proj.weight")
	b, _ := c.Blocks(x)
	if err := c.ReadAt(b.Stored, make([]byte, b.Stored.Size), 0); !errors.Is(err, pack.ErrCorrupt) {
		t.Error(err)
	}
}
