package bench

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/plot"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/runtime/engine"
)

// tiny converts the bundled model, with a form of the output head.
func tiny(t *testing.T, head packed.Head) string {
	t.Helper()
	return tinymodel.Converted(t, shared.Testdata(t, "tiny-bitnet-packed"), packed.Recipe{Golden: "none", Head: head})
}

func quickModel() ModelOptions {
	return ModelOptions{Meter: quick(), Prompts: []int{9, 100_000}, Generate: 6, Batches: []int{1, 3},
		Threads: []int{1, 2}, Contexts: []int{20},
		Peak: func() int64 { return 12345 }}
}

// TestScalesCount: per step, an int4 head reads half a byte per weight, and a scale per 32 weights, as kernels read it:
// in 16 bits on AVX-512, else in float32.
func TestScalesCount(t *testing.T) {
	read := func(head packed.Head) int {
		f, err := packed.Open(tiny(t, head))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		e, err := engine.New(f, engine.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		return e.WeightBytes()
	}
	const weights = 2560 * 256
	size := 4
	if best := kernel.Best(); best == kernel.AVX512VNNI || best == kernel.AMX {
		size = 2
	}
	if got, want := read("int8")-read("int4"), weights-(weights/2+size*weights/32); got != want {
		t.Errorf("an int8 head has %d bytes more than an int4 head; want %d", got, want)
	}
}

func TestModel(t *testing.T) {
	path := tiny(t, "")
	r, err := Model(context.Background(), path, quickModel())
	if err != nil {
		t.Fatal(err)
	}
	if r.Family != "bitnet" || r.FileBytes == 0 || r.WeightBytes == 0 || len(r.Layouts) != 1 ||
		r.FirstToken.PeakBytes != 12345 || r.FirstToken.Seconds.Median <= 0 {
		t.Errorf("%+v", r)
	}
	var got []string
	for i := range r.Rows {
		row := &r.Rows[i]
		label := row.Label() + ", " + Threads(row.Threads)
		if row.Refused != "" {
			label += ": refused"
			if !strings.Contains(row.Refused, "positions") || row.Turns != 0 {
				t.Errorf("%s: %+v", label, row)
			}
		} else if row.TokensPerSec <= 0 || row.Fraction.Median <= 0 || row.Turns < fewestTurns {
			t.Errorf("%s: %+v", label, row)
		}
		got = append(got, label)
	}
	want := `prompt of 9, 1 thread
prompt of 100000, 1 thread: refused
generate 6, 1 thread
generate 3 × 6, 1 thread
prompt of 9, 2 threads
prompt of 100000, 2 threads: refused
generate 6, 2 threads
generate 3 × 6, 2 threads
generate after 20, 2 threads`
	if strings.Join(got, "\n") != want {
		t.Errorf("rows\n%s\ninstead of\n%s", strings.Join(got, "\n"), want)
	}
	// Three sequences share the weights that one step reads. Each has KV of 4 positions, in the middle.
	position := func(n int) float64 { return cacheBytes(t, path, n) }
	weights := float64(r.WeightBytes)
	if one, three, behind := r.Rows[2].BytesPerToken, r.Rows[3].BytesPerToken, r.Rows[8].BytesPerToken; one != weights+
		position(4) || three != weights/3+position(4) || behind != weights+position(36) {
		t.Errorf("%v, %v and %v bytes per token; a step reads %v of weights and %v of each position", one,
			three, behind,
			weights, position(1))
	}
	var svg strings.Builder
	if err := plot.SVG(&svg, r.Plot()); err != nil || !strings.Contains(svg.String(), "generate 3 × 6") ||
		!strings.Contains(svg.String(), "1 thread") {
		t.Errorf("%v: %.300s", err, svg.String())
	}
}

// TestModelNoise measures everything again, as often as is allowed.
func TestModelNoise(t *testing.T) {
	unsteady(t)
	o := quickModel()
	o.Prompts, o.Threads = []int{9}, []int{1}
	r, err := Model(context.Background(), tiny(t, ""), o)
	if !errors.Is(err, ErrNoise) || r == nil || len(r.Rows) != 4 {
		t.Fatalf("%v, %+v", err, r)
	}
	for i := range r.Rows {
		if row := &r.Rows[i]; !row.Noise || row.TokensPerSec <= 0 {
			t.Errorf("%+v", row)
		}
	}
}

// cacheBytes of n positions of a model, from its description.
func cacheBytes(t *testing.T, path string, n int) float64 {
	t.Helper()
	_, d := tinymodel.Open(t, path)
	return float64(2 * 4 * d.Layers * d.KVHeads * d.HeadDim * n)
}

// TestCacheType: a step reads half as many bytes of a KV cache in f16.
func TestCacheType(t *testing.T) {
	o, path := quickModel(), tiny(t, "")
	o.Prompts, o.Batches, o.Threads, o.Cache = []int{4}, []int{1}, []int{1}, engine.CacheF16
	r, err := Model(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := r.Rows[2].BytesPerToken, float64(r.WeightBytes)+cacheBytes(t, path, 36)/2; got != want ||
		r.KVCacheType != engine.CacheF16 {
		t.Errorf("%v bytes per token instead of %v; KV cache in %s", got, want, r.KVCacheType)
	}
}

// TestScreenedHead: a model with a candidate filter reads fewer bytes per token.
func TestScreenedHead(t *testing.T) {
	o := quickModel()
	o.Prompts, o.Batches, o.Threads = []int{4}, []int{1, 32}, []int{1}
	screened, err := Model(context.Background(), tiny(t, "screen"), o)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := Model(context.Background(), tiny(t, ""), o)
	if err != nil {
		t.Fatal(err)
	}
	if screened.WeightBytes >= plain.WeightBytes || screened.Rows[1].BytesPerToken >= plain.Rows[1].BytesPerToken ||
		screened.Rows[2].BytesPerToken >= plain.Rows[2].BytesPerToken {
		t.Errorf("screened: %d bytes per step, rows %+v; plain: %d, %+v", screened.WeightBytes, screened.Rows,
			plain.WeightBytes, plain.Rows)
	}
}

// TestOperations compares the operation count of a model with one made by hand: with a head of floats, of codes, and
// with a screen.
func TestOperations(t *testing.T) {
	f, d := tinymodel.Open(t, tiny(t, ""))
	q, kv := d.Heads*d.HeadDim, d.KVHeads*d.HeadDim
	layers := 2 * d.Layers * (2*d.Hidden*q + 2*d.Hidden*kv + 3*d.Hidden*d.Intermediate)
	head := 2 * d.Vocab * d.Hidden
	wide := *f.Manifest()
	wide.Activation = packed.Activation{Kind: packed.ActivationToken16}
	int8Head, codes := tinymodel.Open(t, tiny(t, packed.HeadInt8))
	screen, screened := tinymodel.Open(t, tiny(t, packed.HeadScreen))
	for _, c := range []struct {
		name string
		d    *model.Description
		m    *packed.Manifest
		want operations
	}{
		{"head of floats", d, f.Manifest(), operations{layers: layers}},
		{"activations of 16 bits", d, &wide, operations{layers: 2 * layers}},
		{"int8 head", codes, int8Head.Manifest(), operations{layers: layers, head: head}},
		{"screen", screened, screen.Manifest(), operations{layers: layers, screen: 2 * head}},
	} {
		if got := countOperations(c.d, c.m); got != c.want {
			t.Errorf("%s: %+v operations instead of %+v", c.name, got, c.want)
		}
	}
}

// TestOperationsOfWork counts the head once for a prompt, and once for each sequence of a step.
func TestOperationsOfWork(t *testing.T) {
	n := operations{layers: 1000, head: 10, screen: 1}
	for _, c := range []struct {
		work     Work
		screened bool
		want     int
	}{
		{Work{What: Prompt, Tokens: 7, Batch: 1}, false, 7010},
		{Work{What: Generate, Tokens: 7, Batch: 8}, false, 8080},
		{Work{What: Generate, Tokens: 7, Batch: 8}, true, 8008},
		{Work{What: Context, Tokens: 7, Batch: 1}, false, 1010},
	} {
		if got := n.of(&c.work, c.screened); got != c.want {
			t.Errorf("%+v, screened %v: %d operations instead of %d", c.work, c.screened, got, c.want)
		}
	}
}

func TestModelRefuses(t *testing.T) {
	path := tiny(t, "")
	for name, change := range map[string]func(*ModelOptions){
		"batch":    func(o *ModelOptions) { o.Batches = []int{0} },
		"prompt":   func(o *ModelOptions) { o.Prompts = []int{-1} },
		"generate": func(o *ModelOptions) { o.Generate = 0 },
		"spread":   func(o *ModelOptions) { o.MaxSpread = 0 },
		"threads":  func(o *ModelOptions) { o.Threads = nil },
	} {
		o := quickModel()
		change(&o)
		if r, err := Model(context.Background(), path, o); err == nil || r != nil {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	if _, err := Model(context.Background(), filepath.Join(t.TempDir(), "none"), quickModel()); err == nil {
		t.Error("a file that does not exist was measured")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if r, err := Model(ctx, path, quickModel()); !errors.Is(err, context.Canceled) || r != nil {
		t.Errorf("cancelled: %v, %v", r, err)
	}
}
