//go:build unix

package kernel

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/mmap"
	"github.com/lowpack/lowpack/pack"
)

// TestPoolHandsFaultsOn multiplies by weights in a file that is truncated: the fault in a worker's assembly, or in the
// caller's, leaves Run as an error that names the file, and the pool keeps working.
func TestPoolHandsFaultsOn(t *testing.T) {
	shape := pack.Shape{M: 4096, K: 256}
	layout, err := pack.Open(pack.Spec{Name: "vnni4i", Alphabet: pack.Ternary.Name})
	if err != nil {
		t.Fatal(err)
	}
	size, err := layout.PackedSize(shape)
	if err != nil {
		t.Fatal(err)
	}
	packed := make([]byte, size)
	if err := layout.Pack(packed, pack.NewMatrix(shape, pack.Ternary)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "weights")
	if err := os.WriteFile(path, packed, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := mmap.Map(f, path, int64(size))
	if err != nil {
		t.Fatal(err)
	}
	defer mmap.Unmap(data)
	w, err := Bind(layout, shape, data, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if memory := w.Memory(); len(memory) > 0 && &memory[0] != &data[0] {
		t.Skip("the weights are not multiplied where they lie")
	}
	x := NewActivations(1, shape.K)
	x.Reset(1)
	x.FinishRow(0)
	task := &mulTask{w, x, make([]int32, shape.M)}
	for _, threads := range []int{1, 2, 5} {
		p := NewPool(threads)
		run := func() error {
			return mmap.Guard(func() error { p.Run(w.Panels(), 1, task); return nil })
		}
		os.Truncate(path, int64(size))
		if err := run(); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, int64(size/2)); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if err := run(); err == nil || !strings.HasPrefix(err.Error(), path+": changed or truncated") {
				t.Fatalf("%d threads: %v", threads, err)
			}
		}
		p.Close()
	}
}

type mulTask struct {
	w *Weights
	x *Activations
	y []int32
}

func (k *mulTask) Do(from, to int) { k.w.Mul(k.y, len(k.y), k.x, from, to) }
