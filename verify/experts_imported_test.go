package verify

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
)

// gptqMiniature is a checkpoint whose experts hold codes of GPTQ, each in tensors of its own.
func gptqMiniature(t *testing.T, like string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	tinymodel.MiniatureWith(t, like, dir, func(o *synth.Options) {
		const declared = `"quantization_config":{"quant_method":"gptq","bits":4,"group_size":128,"sym":true},`
		o.Config = []byte(strings.Replace(string(o.Config), "{", "{"+declared, 1))
	})
	return dir
}

// TestExpertsOfGPTQ: the codes of each expert match its module, and pass every level.
func TestExpertsOfGPTQ(t *testing.T) {
	for like, experts := range map[string]string{"qwen3-30b-a3b": "model.layers.1.mlp.experts.*.up_proj",
		"mixtral-8x7b-v0.1": "model.layers.1.block_sparse_moe.experts.*.w3"} {
		dir := gptqMiniature(t, like)
		path := tinymodel.Converted(t, dir, packed.Recipe{})
		if bad := failed(run(t, path, Options{Source: dir})); len(bad) > 0 {
			t.Errorf("%s: %v", like, bad)
		}
		checkExperts(t, path)
		compareGPTQ(t, dir, path, experts)
	}
}

// compareGPTQ opens the words of an expert as GPTQ defines them: code k of a row in bits 4·(k mod 8) of word k/8 of its
// column.
func compareGPTQ(t *testing.T, dir, path, experts string) {
	t.Helper()
	f, err := packed.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const expert = 4
	e, ok := f.Manifest().Entry(strings.Replace(experts, ".*", "", 1) + ".weight")
	words, found := c.Lookup(strings.Replace(experts, "*", "4", 1) + ".qweight")
	if !ok || !found {
		t.Fatalf("%s: packed %t, stored %t", experts, ok, found)
	}
	b := make([]byte, words.Size)
	if err := c.ReadAt(words, b, 0); err != nil {
		t.Fatal(err)
	}
	m, err := packed.Codes(f, e, expert)
	if err != nil {
		t.Fatal(err)
	}
	scales, err := packed.ScalesOf(f, e, expert)
	if err != nil {
		t.Fatal(err)
	}
	stored, _ := c.Lookup(strings.Replace(experts, "*", "4", 1) + ".scales")
	halves := make([]byte, stored.Size)
	if err := c.ReadAt(stored, halves, 0); err != nil {
		t.Fatal(err)
	}
	for i, s := range scales { // [rows][groups] here, [groups][rows] there
		at := i%e.Groups()*m.M + i/e.Groups()
		if want := float16.Widen(binary.LittleEndian.Uint16(halves[2*at:])); s != want {
			t.Fatalf("%s: scale %d is %v, not %v", e.Name, i, s, want)
		}
	}
	for i, code := range m.Codes {
		row, k := i/m.K, i%m.K
		if want := int8(b[(k/8*m.M+row)*4+k%8/2]>>(4*(k%2))&15) - 8; code != want {
			t.Fatalf("%s: row %d, column %d: code %d, not %d", e.Name, row, k, code, want)
		}
	}
}

// TestExpertsOfGPTQDiffer: experts that changed places, and others whose form differs or that are floats, are noticed
// by name.
func TestExpertsOfGPTQDiffer(t *testing.T) {
	dir := gptqMiniature(t, "qwen3-30b-a3b")
	path := tinymodel.Converted(t, dir, packed.Recipe{Golden: "none"})
	weights := filepath.Join(dir, "model.safetensors")
	data, err := os.ReadFile(weights)
	if err != nil {
		t.Fatal(err)
	}
	const name, other = "model.layers.0.mlp.experts.4.up_proj.qweight", "model.layers.0.mlp.experts.5.up_proj.qweight"
	swapped := strings.NewReplacer(name, other, other, name).Replace(string(data))
	if err := os.WriteFile(weights, []byte(swapped), 0o600); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, c := range run(t, path, Options{Source: dir}).Checks {
		found = found || c.Verdict == Fail && c.Name == "model.layers.0.mlp.experts.up_proj.weight" &&
			strings.Contains(c.Reason, "experts.4.up_proj")
	}
	if !found {
		t.Error("experts that changed places were not noticed")
	}
	lost := strings.ReplaceAll(string(data), name, "model.layers.0.mlp.experts.4.up_proj.q_eight")
	if err := os.WriteFile(weights, []byte(lost), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := convert.NewPlan(t.Context(), dir, convert.Options{}); err == nil ||
		!strings.Contains(err.Error(), "experts.4.up_proj") {
		t.Errorf("an expert without codes: %v", err)
	}
}

// TestUnpackExpertsOfMXFP4: experts of gpt-oss are imported and pass every level, and unpack refuses them: it would
// write them transposed.
func TestUnpackExpertsOfMXFP4(t *testing.T) {
	dir := miniature(t, "gpt-oss-20b", "")
	path := tinymodel.Converted(t, dir, packed.Recipe{})
	if bad := failed(run(t, path, Options{Source: dir})); len(bad) > 0 {
		t.Error(bad)
	}
	_, err := convert.Unpack(t.Context(), path, filepath.Join(t.TempDir(), "out"),
		convert.UnpackOptions{Form: convert.FormF32})
	if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), "turned") {
		t.Errorf("unpack: %v", err)
	}
}
