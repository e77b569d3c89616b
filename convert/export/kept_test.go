package export

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// TestKeptCodes: where a checkpoint has codes, a file for a size keeps those of all layers if it can, and of the layers
// that need them most if not; the others are smaller. Its rules make the file that is promised.
func TestKeptCodes(t *testing.T) {
	blocks, err := pack.OpenBlocks("q4_0")
	if err != nil {
		t.Fatal(err)
	}
	source, _ := inBlocks(t, llamaFile(t), gguf.Q4_0, func(values []float32, s pack.Shape) []byte {
		return quantized(t, blocks, values, s)
	})
	o := convert.Options{Calibration: []convert.Document{{Text: strings.Repeat("The lantern went out. ", 80)}},
		Method: packed.GPTQ, Threads: 2}
	plan, err := convert.NewPlan(t.Context(), source, convert.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close()
	dir := t.TempDir()
	file := func(b convert.Budget) *convert.Allocation {
		t.Helper()
		path := filepath.Join(dir, "model")
		a, err := convert.Allocate(t.Context(), source, o, b, path)
		if err != nil {
			t.Fatal(err)
		}
		p, err := convert.NewPlan(t.Context(), source, a.Apply(o))
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if _, err := p.Run(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		if i, err := os.Stat(path); err != nil || i.Size() != a.Bytes || b.Bytes > 0 && a.Bytes > b.Bytes {
			t.Errorf("%+v: a file of %v; %d bytes were promised: %v", b, i, a.Bytes, err)
		}
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
		return a
	}
	kept := func(a *convert.Allocation) convert.FormShare { return a.Forms[len(a.Forms)-1] }
	for _, b := range []convert.Budget{{Bytes: plan.Bytes + 4<<10}, {Ratio: 1.0001}} {
		if a := file(b); kept(a).Weights != a.Weights || len(a.Rules) > 0 || a.Apply(o).Calibration != nil {
			t.Errorf("%+v, with room for the codes, %d bytes: %+v", b, plan.Bytes, a)
		}
	}
	some := file(convert.Budget{Bytes: plan.Bytes - plan.Bytes/40})
	if k := kept(some); k.Name != "kept codes" || k.Weights == 0 || k.Weights == some.Weights ||
		some.Divergence <= k.Divergence || k.Bytes < plan.Bytes {
		t.Errorf("with room for a part of the codes: %+v", some)
	}
}
