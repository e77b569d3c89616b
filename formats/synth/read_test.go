package synth

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/quantized"
	"github.com/lowpack/lowpack/formats/safetensors"
)

// TestReadBack opens the written files the way convert does, for one and for several weight files.
func TestReadBack(t *testing.T) {
	seen := map[string]bool{}
	for i, l := range Likes() {
		c := plan(t, l.Name, mini)
		if key := c.Description.Family + string(c.Weights); seen[key] {
			continue // these differ in sizes only
		} else {
			seen[key] = true
		}
		readBack(t, l.Name, c)
		experts := func(b model.Block) bool { return b.Experts != nil }
		// the codes of these are never packed four to a byte
		if i%2 == 0 || slices.ContainsFunc(c.Description.Blocks, experts) || c.Weights == GPTQ {
			readBack(t, l.Name, plan(t, l.Name, func(o *Options) { o.Mini, o.Shards = true, 3 }))
		} else {
			readBack(t, l.Name, plan(t, l.Name,
				func(o *Options) { o.Mini, o.Weights, o.ShardSize = true, Codes, 50_000 }))
		}
	}
}

func readBack(t *testing.T, like string, c *Checkpoint) {
	t.Helper()
	dir := write(t, c)
	ck, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatalf("%s: %v", like, err)
	}
	defer ck.Close()
	if got := len(ck.Tensors()); got != c.Tensors() {
		t.Errorf("%s: %d tensors read, %d written", like, got, c.Tensors())
	}
	generation, _ := ck.File("generation_config.json")
	scheme, err := quantized.Parse(ck.Config(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = model.Parse(ck.Config(), generation, scheme.Shapes(func(name string) (quantized.Tensor, bool) {
		x, ok := ck.Lookup(name)
		return quantized.Tensor{Name: x.Name, DType: x.DType, Shape: x.Shape}, ok
	}))
	if err != nil {
		t.Errorf("%s: %v", like, err)
	}
	for _, x := range ck.Tensors() {
		got := make([]byte, x.Size)
		if err := ck.ReadAt(x, got, 0); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, c.tensor(x.Name).all()) {
			t.Fatalf("%s: %s reads back otherwise", like, x.Name)
		}
	}
	for _, name := range c.Files() {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if beside := names(t, filepath.Dir(dir)); len(beside) != 1 {
		t.Errorf("beside the checkpoint: %v", beside)
	}
}

func TestShards(t *testing.T) {
	for n := 1; n <= 24; n++ {
		c := plan(t, "bitnet-2b4t", func(o *Options) { o.Mini, o.Shards = true, n })
		if len(c.shards) != n {
			t.Errorf("%d weight files, want %d", len(c.shards), n)
		}
	}
	const most = 500_000_000
	for _, s := range plan(t, "llama-3-8b", func(o *Options) { o.ShardSize = most }).shards {
		if s.size() > most+int64(len(s.header)) && len(s.tensors) > 1 {
			t.Errorf("%s has %d bytes", s.name, s.size())
		}
	}
}

// TestPieces: a tensor is the same regardless of the pieces in which it is made.
func TestPieces(t *testing.T) {
	s := newStream(7, "x")
	perRow, _ := Levels2.quantized(0.4, 90)
	perRow.stream, perRow.scales, perRow.dtype, perRow.k, perRow.base = s, newStream(7, "y"), safetensors.BF16, 37, 1
	wide := perRow
	wide.dtype = safetensors.F32
	for name, f := range map[string]filler{
		"bf16": newTable(s, safetensors.BF16, normal(), 0, 1), "f32": newTable(s, safetensors.F32, normal(), 0, 1),
		"levels": &perRow, "levels f32": &wide, "codes": newCodes(s, 90, 37, 0.4),
	} {
		size := 23 * 37 // rows·k of the codes
		if name != "codes" {
			size = 90 * 37 * 2
		}
		if strings.HasSuffix(name, "32") {
			size *= 2
		}
		whole := make([]byte, size)
		f.fill(whole, 0)
		for from := 0; from < size; from += chunkUnit {
			for _, n := range []int{chunkUnit, size} {
				part := make([]byte, min(n, size-from))
				f.fill(part, int64(from))
				if !bytes.Equal(part, whole[from:from+len(part)]) {
					t.Fatalf("%s: the piece [%d, +%d) differs", name, from, len(part))
				}
			}
		}
	}
}

// TestMemory: a checkpoint ten times as large allocates no more.
func TestMemory(t *testing.T) {
	allocated := func(layers string) uint64 {
		c, err := New(Options{Config: []byte(large(layers))})
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := c.Write(context.Background(), filepath.Join(t.TempDir(), "model"), nil); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	small, big := allocated("1"), allocated("4")
	t.Logf("%d and %d bytes allocated", small, big)
	// Each goroutine has a piece; header and tables of weights take a little more than another one.
	if most := uint64(piece * (runtime.GOMAXPROCS(0) + 2)); small > most || big > small+1<<20 {
		t.Errorf("%d and %d bytes allocated for 1 and 4 layers, at most %d expected", small, big, most)
	}
}

func large(layers string) string {
	return `{"architectures":["LlamaForCausalLM"],"hidden_size":1024,"intermediate_size":2048,"num_hidden_layers":` +
		layers +
		`,"num_attention_heads":8,"vocab_size":300,"max_position_embeddings":128,"rms_norm_eps":1e-6,"hidden_act":"silu"}`
}
