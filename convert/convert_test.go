package convert

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/modelfile"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// newPlan makes a plan that is closed at the end of the test.
func newPlan(t testing.TB, path string, o Options) *Plan {
	t.Helper()
	p, err := NewPlan(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// convertTo converts and opens the result.
func convertTo(t testing.TB, path string, o Options) *packed.File {
	t.Helper()
	target := filepath.Join(t.TempDir(), "out.safetensors")
	if _, err := newPlan(t, path, o).Run(context.Background(), target); err != nil {
		t.Fatal(err)
	}
	f, err := packed.Open(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	checkDigests(t, f)
	return f
}

// without golden outputs, which have separate tests.
func plain(r packed.Recipe) Options {
	r.Golden = "none"
	return Options{Recipe: r}
}

// checkDigests recomputes every digest of a packed file.
func checkDigests(t testing.TB, f *packed.File) {
	t.Helper()
	sum := func(name string) string {
		s, err := f.Section(name)
		if err != nil {
			t.Fatal(err)
		}
		h := sha256.New()
		if _, err := io.Copy(h, s); err != nil {
			t.Fatal(err)
		}
		return hex.EncodeToString(h.Sum(nil))
	}
	for _, e := range f.Manifest().Packed {
		m := &pack.Matrix{Shape: pack.Shape{M: e.Rows(), K: e.MatrixShape().K}}
		for expert := range e.Experts() {
			one, err := packed.Codes(f, &e, expert)
			if err != nil {
				t.Fatal(err)
			}
			m.Alphabet, m.Codes = one.Alphabet, append(m.Codes, one.Codes...)
		}
		if sum(e.Name+packed.PackedSuffix) != e.SHA256 || sum(e.Name+packed.ScaleSuffix) != e.ScaleSHA ||
			packed.CodesDigest(m) != e.CodesSHA {
			t.Errorf("%s: a digest is wrong", e.Name)
		}
		if _, err := packed.Scales(f, &e); err != nil {
			t.Error(err)
		}
	}
	for _, p := range f.Manifest().Plain {
		if sum(p.Name) != p.SHA256 {
			t.Errorf("%s: wrong digest", p.Name)
		}
	}
}

// checkSources compares the recorded sources with the files themselves.
func checkSources(t *testing.T, f *packed.File, dir string) {
	t.Helper()
	for _, s := range f.Manifest().Sources {
		b, err := os.ReadFile(filepath.Join(dir, s.Name))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != s.SHA256 || int64(len(b)) != s.Size {
			t.Errorf("source %s: wrong digest or size", s.Name)
		}
	}
}

type ternary struct {
	Scale             float64
	Minus, Zero, Plus int
}

// goldenTernary are scales and code counts of tiny-bitnet from an independent program.
func goldenTernary(t *testing.T, name string) map[string]ternary {
	t.Helper()
	b, err := os.ReadFile(shared.Testdata(t, "tiny-bitnet-golden/"+name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var g struct{ Ternary map[string]ternary }
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Ternary) != 42 {
		t.Fatalf("%d golden tensors instead of 42", len(g.Ternary))
	}
	return g.Ternary
}

func TestTinyBitnet(t *testing.T) {
	var digests []string
	for _, name := range []string{"tiny-bitnet", "tiny-bitnet-packed"} {
		for _, layout := range []string{"vnni4i", "vnni4i-64", "i1", "i2", "blocked"} {
			f := convertTo(t, shared.Testdata(t, name), plain(packed.Recipe{Layout: layout}))
			m := f.Manifest()
			if m.Family != "bitnet" || len(m.Packed) != 42 {
				t.Fatalf("%s: family %q, %d packed tensors", name, m.Family, len(m.Packed))
			}
			checkTernary(t, f, name)
			checkSources(t, f, shared.Testdata(t, name))
			checkKept(t, f, shared.Testdata(t, name), 26)
			codes := ""
			for _, e := range m.Packed {
				codes += e.CodesSHA
			}
			digests = append(digests, codes)
			if _, err := packed.Describe(f); err != nil {
				t.Error(err)
			}
		}
	}
	if len(slices.Compact(digests)) != 1 {
		t.Error("digests of codes differ between layouts, or between master and packed form")
	}
}

func checkTernary(t *testing.T, f *packed.File, golden string) {
	t.Helper()
	for name, want := range goldenTernary(t, golden) {
		e, ok := f.Manifest().Entry(name)
		if !ok {
			t.Fatalf("%s is not packed", name)
		}
		m, err := packed.Codes(f, e, 0)
		if err != nil {
			t.Fatal(err)
		}
		var counts [3]int
		for _, c := range m.Codes {
			counts[c+1]++
		}
		if counts != [3]int{want.Minus, want.Zero, want.Plus} {
			t.Errorf("%s: codes %v, want %+v", name, counts, want)
		}
		s, err := packed.Scales(f, e)
		if err != nil || len(s) != 1 || math.Abs(float64(s[0])/want.Scale-1) > 1e-6 {
			t.Errorf("%s: scales %v, want %v; %v", name, s, want.Scale, err)
		}
	}
}

// checkKept compares passthrough tensors with the tensors of the checkpoint.
func checkKept(t *testing.T, f *packed.File, path string, want int) {
	t.Helper()
	c, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	kept := 0
	for _, p := range f.Manifest().Plain {
		if name, ok := strings.CutPrefix(p.Name, packed.FilePrefix); ok {
			got, _ := f.Embedded(name)
			if want, ok := c.File(name); !ok || !bytes.Equal(got, want) {
				t.Errorf("embedded %s differs", name)
			}
			continue
		}
		kept++
		from, ok := c.Lookup(p.Name)
		if !ok {
			t.Fatalf("%s is not in the checkpoint", p.Name)
		}
		b := make([]byte, from.Size)
		if err := c.ReadAt(from, b, 0); err != nil {
			t.Fatal(err)
		}
		got, err := f.Tensor(p.Name)
		if err != nil || !bytes.Equal(got.Data, b) || !slices.Equal(got.Shape, from.Shape) || got.DType != from.DType {
			t.Errorf("%s: %s %v differs from the checkpoint; %v", p.Name, got.DType, got.Shape, err)
		}
	}
	if kept != want {
		t.Errorf("%d tensors are kept, want %d", kept, want)
	}
}

// TestBitllama converts the packed form and the form with scales multiplied into the weights; codes and scales agree.
func TestBitllama(t *testing.T) {
	a := convertTo(t, shared.Path(t, "data/models/bitllama2-3m/packed-auto"), plain(packed.Recipe{}))
	b := convertTo(t, shared.Path(t, "data/models/bitllama2-3m/fake-f32"), plain(packed.Recipe{}))
	if n := len(a.Manifest().Packed); n != 56 || len(b.Manifest().Packed) != n {
		t.Fatalf("%d and %d packed tensors, want 56", n, len(b.Manifest().Packed))
	}
	for i, e := range a.Manifest().Packed {
		f := b.Manifest().Packed[i]
		if e.Quantizer != "import-u8" || f.Quantizer != "ternary-values" {
			t.Errorf("%s: quantizers %s and %s", e.Name, e.Quantizer, f.Quantizer)
		}
		if e.Name != f.Name || e.CodesSHA != f.CodesSHA || e.SHA256 != f.SHA256 {
			t.Errorf("%s: codes differ", e.Name)
		}
		x, _ := packed.Scales(a, &e)
		y, _ := packed.Scales(b, &f)
		if len(x) != 1 || !slices.Equal(x, y) {
			t.Errorf("%s: scales %v and %v", e.Name, x, y)
		}
	}
}

// TestStories keeps the floats of a model that declares nothing.
func TestStories(t *testing.T) {
	for _, name := range []string{"hf-F32", "hf-BF16"} {
		path := shared.Path(t, "data/models/stories260k/"+name)
		f := convertTo(t, path, plain(packed.Recipe{}))
		if len(f.Manifest().Packed) != 0 {
			t.Errorf("%s: %d tensors are packed", name, len(f.Manifest().Packed))
		}
		checkKept(t, f, path, 47)
	}
}

// TestSameBytes converts with different numbers of goroutines.
func TestSameBytes(t *testing.T) {
	for _, path := range []string{shared.Testdata(t, "tiny-bitnet"), shared.Testdata(t, "tiny-bitnet-packed")} {
		for _, layout := range []string{"vnni4i", "tl1"} {
			var first [32]byte
			for i, threads := range []int{1, 2, 7, 1} {
				o := plain(packed.Recipe{Layout: layout})
				o.Threads = threads
				target := filepath.Join(t.TempDir(), "out.safetensors")
				if _, err := newPlan(t, path, o).Run(context.Background(), target); err != nil {
					t.Fatal(err)
				}
				b, err := os.ReadFile(target)
				if err != nil {
					t.Fatal(err)
				}
				sum := sha256.Sum256(b)
				if i == 0 {
					first = sum
				}
				if sum != first {
					t.Errorf("%s, %s: %d threads give other bytes", path, layout, threads)
				}
			}
		}
	}
}

// TestEmptyTensors: zero-byte tensors pass through like others, wherever they lie and however the work is divided
// (hostile case S25).
func TestEmptyTensors(t *testing.T) {
	for _, weights := range []map[string]raw{
		{"a": bf16([]int64{0, 3})},
		{"a": bf16([]int64{0}), "v": bf16([]int64{2}, 1, 2), "z": bf16([]int64{3, 0})},
	} {
		path := filepath.Join(t.TempDir(), "weights.safetensors")
		writeWeights(t, path, weights)
		if f := convertTo(t, path, plain(packed.Recipe{})); len(f.Manifest().Plain) != len(weights) {
			t.Errorf("%d of %d tensors are kept", len(f.Manifest().Plain), len(weights))
		}
		at := newPlace(t, "")
		_, err := Merge(context.Background(), parts(t, path, plain(packed.Recipe{}), 3), at.target, MergeOptions{})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestEmbeddable: every small file of a checkpoint may be embedded, and nothing else: unpack writes files by these
// names (hostile cases P17).
func TestEmbeddable(t *testing.T) {
	size := func(name string, dtype safetensors.DType, shape ...int) error {
		c := packed.Contents{Manifest: packed.Manifest{Plain: []packed.Plain{{Name: packed.FilePrefix + name,
			DType: dtype,
			Shape: shape}}}}
		_, err := c.Size()
		return err
	}
	for _, name := range modelfile.Names() {
		if err := size(name, "U8", 9); err != nil {
			t.Error(err)
		}
	}
	for _, err := range []error{
		size("../config.json", "U8", 9), size("/config.json", "U8", 9), size("", "U8", 9),
		size("x/../config.json", "U8", 9),
		size("golden", "U8", 9),
		size("model.safetensors", "U8", 9), size("config.json", "F32", 9), size("config.json", "U8", 3, 3),
	} {
		if !errors.Is(err, pack.ErrCorrupt) || !strings.Contains(err.Error(), "F7") {
			t.Errorf("accepted, or another error: %v", err)
		}
	}
}
