package convert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// TestUnpack goes from a checkpoint to a packed file, back to a checkpoint of each form, and to a packed file again:
// codes are the same, and scales as far as the form can represent them.
func TestUnpack(t *testing.T) {
	shards := func(o *synth.Options) { o.Weights = synth.TernaryShards }
	for _, c := range []struct {
		path          string
		recipe        packed.Recipe
		u8            bool // the form is possible
		masterWeights bool // floats are master weights: their scale is a mean, and not exact even from F32
	}{
		{path: mini(t, "bitnet-2b4t-bf16", nil), masterWeights: true, u8: true},
		{path: mini(t, "bitnet-2b4t", nil), u8: true},
		{path: mini(t, "llama3-8b", nil), u8: true},
		{path: mini(t, "bitnet-large", nil), masterWeights: true, u8: true},
		{path: mini(t, "trilm-99m", nil), u8: true},
		{path: mini(t, "trilm-99m", nil), recipe: packed.Recipe{Head: "int8"}, u8: true},
		{path: mini(t, "trilm-190m", shards)},
		{path: mini(t, "llama-3.2-1b", nil), u8: true},
		{path: mini(t, "qwen2.5-0.5b", func(o *synth.Options) { o.Weights = synth.Ternary })}, // with biases
		{path: mini(t, "paretoq-125m-1bit", nil)},
		{path: mini(t, "paretoq-125m-1.58bit", nil)},
		{path: mini(t, "paretoq-125m-2bit", nil)},
		{path: mini(t, "paretoq-125m-3bit", nil)},
		{path: mini(t, "paretoq-125m-4bit", nil)},
	} {
		c.recipe.Golden = "none"
		path := converted(t, c.path, c.recipe)
		first, err := packed.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { first.Close() })
		for _, form := range Forms() {
			name := fmt.Sprintf("%s as %s", filepath.Base(c.path), form)
			dir := filepath.Join(t.TempDir(), "unpacked")
			_, err := Unpack(context.Background(), path, dir, UnpackOptions{Form: form})
			if form == FormU8 && !c.u8 {
				if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), "form") {
					t.Errorf("%s: %v", name, err)
				}
				if _, err := os.Stat(dir); err == nil {
					t.Errorf("%s: a directory is left behind", name)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			second := convertTo(t, dir, plain(packed.Recipe{Head: c.recipe.Head}))
			tolerance := 0.0
			if form == FormBF16 || c.masterWeights && form == FormF32 {
				tolerance = 0x1p-8
			}
			sameWeights(t, name, first, second, tolerance)
		}
	}
}

// sameWeights compares codes exactly and scales with a relative tolerance.
func sameWeights(t *testing.T, name string, a, b *packed.File, tolerance float64) {
	t.Helper()
	if len(a.Manifest().Packed) != len(b.Manifest().Packed) {
		t.Errorf("%s: %d packed tensors became %d", name, len(a.Manifest().Packed), len(b.Manifest().Packed))
		return
	}
	for i, e := range a.Manifest().Packed {
		f := b.Manifest().Packed[i]
		if e.Name != f.Name || e.CodesSHA != f.CodesSHA {
			t.Errorf("%s: %s: codes differ", name, e.Name)
			continue
		}
		x, _ := packed.Scales(a, &e)
		y, _ := packed.Scales(b, &f)
		if !slices.EqualFunc(x, y, func(x, y float32) bool {
			return math.Abs(float64(x)-float64(y)) <= tolerance*float64(x)
		}) {
			t.Errorf("%s: %s: scales %v became %v", name, e.Name, x[:min(4, len(x))], y[:min(4, len(y))])
		}
	}
	for i, p := range a.Manifest().Plain {
		q := b.Manifest().Plain[i]
		if p.Name != q.Name || p.SHA256 != q.SHA256 && p.Name != packed.FilePrefix+configFile {
			t.Errorf("%s: %s differs", name, p.Name)
		}
	}
}

// TestUnpackGivesBack: floats that were imported as codes are restored bit for bit.
func TestUnpackGivesBack(t *testing.T) {
	for _, like := range []string{"paretoq-125m-1bit", "paretoq-125m-1.58bit", "paretoq-125m-2bit", "paretoq-125m-3bit",
		"paretoq-125m-4bit"} {
		dir, from := filepath.Join(t.TempDir(), "unpacked"), mini(t, like, nil)
		_, err := Unpack(context.Background(), converted(t, from, packed.Recipe{Golden: "none"}), dir,
			UnpackOptions{Form: FormBF16})
		if err != nil {
			t.Fatal(err)
		}
		want, got := readWeights(t, from), readWeights(t, dir)
		for name, w := range want {
			if !bytes.Equal(got[name].data, w.data) {
				t.Errorf("%s: %s differs", like, name)
			}
		}
	}
}

// TestUnpackConfig: config.json declares the form of the weights next to it.
func TestUnpackConfig(t *testing.T) {
	for _, c := range []struct {
		like string
		form Form
		want string // in config.json; "" = no quantization_config
	}{
		{"bitnet-2b4t", FormU8, "offline"},
		{"bitnet-2b4t", FormBF16, ""},
		{"bitnet-2b4t-bf16", FormU8, "offline"},
		{"bitnet-2b4t-bf16", FormF32, "online"},
		{"llama3-8b", FormU8, "autobitlinear"},
		{"trilm-99m", FormU8, "offline"},
		{"trilm-99m", FormBF16, ""},
	} {
		dir := filepath.Join(t.TempDir(), "unpacked")
		from := converted(t, mini(t, c.like, nil), packed.Recipe{Golden: "none"})
		if _, err := Unpack(context.Background(), from, dir, UnpackOptions{Form: c.form}); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dir, configFile))
		declared := strings.Contains(string(b), "quantization_config")
		if err != nil || declared != (c.want != "") || !strings.Contains(string(b), c.want) ||
			!strings.Contains(string(b), "hidden_size") {
			t.Errorf("%s as %s: %v\n%s", c.like, c.form, err, b)
		}
	}
}

// TestUnpackMLX: floats that were codes of MLX are not declared to be codes, under neither of the keys.
func TestUnpackMLX(t *testing.T) {
	from := converted(t, shared.Path(t, "data/packed/mlx-b3-g64"), packed.Recipe{Golden: "none"})
	dir := filepath.Join(t.TempDir(), "unpacked")
	if _, err := Unpack(context.Background(), from, dir, UnpackOptions{Form: FormF32}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, configFile))
	if err != nil || strings.Contains(string(b), "quantization") || !strings.Contains(string(b), "hidden_size") {
		t.Errorf("%v\n%s", err, b)
	}
}

// TestUnpackMixed: linear layers that are not packed are declared to transformers, which would otherwise look for their
// weight_scale.
func TestUnpackMixed(t *testing.T) {
	from := converted(t, mini(t, "trilm-99m", nil),
		packed.Recipe{Golden: "none", Rules: []packed.Rule{{Match: down, Keep: true}}})
	dir := filepath.Join(t.TempDir(), "unpacked")
	if _, err := Unpack(context.Background(), from, dir, UnpackOptions{Form: FormU8}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, configFile))
	if err != nil {
		t.Fatal(err)
	}
	d, err := model.Parse(b, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range d.Tensors() {
		if floats := n.Name == down || n.Name == d.Head; n.Linear && d.Quant.Keeps(n.Name) != floats {
			t.Errorf("%s stays in floats: %v\n%s", n.Name, !floats, b)
		}
	}
}

// TestUnpackBare unpacks weights without a model.
func TestUnpackBare(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weights.safetensors")
	writeWeights(t, path, map[string]raw{
		"w":     bf16([]int64{3, 2}, 0.5, 0, -0.5, 0.5, 0, 0),
		"zeros": bf16([]int64{2, 2}, 0, 0, 0, 0),
		"v":     bf16([]int64{2}, 1, 2),
	})
	from := converted(t, path, packed.Recipe{})
	for _, form := range Forms() {
		dir := filepath.Join(t.TempDir(), "unpacked")
		_, err := Unpack(context.Background(), from, dir, UnpackOptions{Form: form})
		if form == FormU8 {
			if !errors.Is(err, pack.ErrUnsupported) {
				t.Errorf("u8 without a model: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		again := convertTo(t, filepath.Join(dir, "model.safetensors"), plain(packed.Recipe{}))
		first, err := packed.Open(from)
		if err != nil {
			t.Fatal(err)
		}
		sameWeights(t, string(form), first, again, 0)
		first.Close()
	}
}

// TestUnpackRefusals: a damaged file, an existing directory, cancellation.
func TestUnpackRefusals(t *testing.T) {
	from := converted(t, mini(t, "bitnet-2b4t", nil), packed.Recipe{Golden: "none"})
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] ^= 1 // in the last plain tensor
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, b, 0o644); err != nil {
		t.Fatal(err)
	}
	parent := t.TempDir()
	dir := filepath.Join(parent, "unpacked")
	if _, err := Unpack(context.Background(), broken, dir, UnpackOptions{Form: FormBF16}); !errors.Is(err,
		pack.ErrCorrupt) {
		t.Errorf("damaged: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	o := UnpackOptions{Form: FormBF16, Progress: func(string, int64, int64) { cancel() }}
	_, err = Unpack(ctx, from, dir, o)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := Unpack(context.Background(), from, dir, UnpackOptions{Form: "f8"}); !errors.Is(err,
		pack.ErrUnsupported) {
		t.Errorf("unknown form: %v", err)
	}
	if left, _ := os.ReadDir(parent); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := Unpack(context.Background(), from, parent, UnpackOptions{Form: FormBF16}); err == nil {
		t.Error("an existing directory is written over")
	}
}
