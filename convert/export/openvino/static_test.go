package openvino

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/exports"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// staticOf writes a directory of static shapes and verifies it.
func staticOf(t *testing.T, source string, s Static) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	summary, err := ExportStatic(t.Context(), source, dir, "", s, nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := Verify(t.Context(), dir, source)
	if err != nil {
		t.Fatal(err)
	}
	if v.Tensors != summary.Tensors {
		t.Fatalf("%d of %d tensors compared", v.Tensors, summary.Tensors)
	}
	return dir
}

// ports lists the inputs, outputs and states of a model, with their shapes.
func ports(t *testing.T, dir, name string) string {
	t.Helper()
	n, err := readXML(dir, name)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, l := range n.find("layers").nodes {
		switch l.value("type") {
		case "Parameter":
			list = append(list, l.value("name")+" "+l.find("data").value("shape"))
		case "ReadValue":
			list = append(list, "state "+l.find("data").value("variable_id")+" "+l.find("data").value("variable_shape"))
		case "Result":
			list = append(list, "out "+strings.TrimSuffix(l.value("name"), "/sink_port_0"))
		}
	}
	return strings.Join(list, "; ")
}

// TestStatic: files, names and shapes match NITRO's, for both kinds of cache.
func TestStatic(t *testing.T) {
	source := tiny(t)
	for cache, want := range map[Cache]map[string]string{
		States: {
			"model/0.xml": "token 1,1; out x", "prefill_model/0.xml": "token 1,16; out x",
			"model/2.xml": "x 1,1,256; mask 1,1,1,128; freqs_cis 1,16,2; state cache_k_5 1,2,128,32; state cache_v_5 " +
				"1,2,128,32; out x_out",
			"model/3.xml": "x 1,1,256; out logits",
			"prefill_model/2.xml": "x 1,16,256; mask 1,1,16,128; freqs_cis 16,16,2; state cache_k_5 1,2,128,32; " +
				"state cache_v_5 1,2,128,32; out x_out",
			"model/rotary.xml": "position 1; out freqs_cis", "prefill_model/rotary.xml": "position 16; out freqs_cis",
		},
		Inputs: {
			"model/2.xml": "x 1,1,256; mask 1,1,1,129; freqs_cis 1,16,2; cache_k_5 1,2,128,32; cache_v_5 1,2,128,32; " +
				"out x_out; out cache_k_5_out; out cache_v_5_out",
			"prefill_model/2.xml": "x 1,16,256; mask 1,1,16,144; freqs_cis 16,16,2; cache_k_5 1,2,128,32; cache_v_5 " +
				"1,2,128,32; out x_out; out cache_k_5_out; out cache_v_5_out",
		},
	} {
		s := Static{Cache: cache, Context: 128, Prefill: 16, Layers: 5}
		dir := staticOf(t, source, s)
		for name, shapes := range want {
			if got := ports(t, dir, name); got != shapes {
				t.Errorf("%s, %s: %s", cache, name, got)
			}
		}
		files := exports.Contents(t, dir)
		var models []string
		for name := range maps.Keys(files) {
			if strings.HasPrefix(name, "model/") || strings.HasPrefix(name, "prefill_model/") {
				models = append(models, name)
			}
		}
		slices.Sort(models)
		if got := strings.Join(models,
			" "); got != "model/0.bin model/0.xml model/1.bin model/1.xml model/2.bin model/2.xml model/3.bin "+
			"model/3.xml model/rotary.bin model/rotary.xml prefill_model/0.xml prefill_model/1.xml "+
			"prefill_model/2.xml prefill_model/rotary.xml" {
			t.Errorf("%s: files %s", cache, got)
		}
		if again := exports.Contents(t, staticOf(t, source, s)); !maps.Equal(files, again) {
			t.Errorf("%s: the same file gave other bytes", cache)
		}
	}
}

// TestStaticBits: codes have at least the requested bits, and rows of 4 bits a multiple of 64 columns.
func TestStaticBits(t *testing.T) {
	source := exports.Packed(t, exports.Small(t), packed.Recipe{})
	for bits, want := range map[int]string{2: "u2 256, 344", 0: "i4 256, 384", 4: "i4 256, 384", 8: "i8 256, 344"} {
		n, err := readXML(staticOf(t, source, Static{Cache: States, Bits: bits}), "model/1.xml")
		if err != nil {
			t.Fatal(err)
		}
		d := n.layerOf(t, "self.model.layers.0.mlp.down_proj.weight_compressed").find("data")
		if got := d.value("element_type") + " " + d.value("shape"); got != want {
			t.Errorf("%d bits: %s; want %s", bits, got, want)
		}
	}
}

// TestStaticLocal: windows and rotations of local layers are inputs of the models that have such layers, and only of
// these.
func TestStaticLocal(t *testing.T) {
	dir := shared.Path(t, "data/transformers/gemma3")
	source := exports.Packed(t, dir, exports.AsFloats)
	f, err := packed.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	description, err := packed.Describe(f)
	if err != nil {
		t.Fatal(err)
	}
	out := staticOf(t, source, Static{Cache: Inputs, Context: 64, Prefill: 1, Layers: 1})
	for i, b := range description.Blocks {
		got := ports(t, out, filepath.Join("model", string(rune('1'+i))+".xml"))
		if local := strings.Contains(got, "mask_local "); local != b.Local ||
			strings.Contains(got, "freqs_cis_local ") != local || strings.Contains(got, "mask ") == local {
			t.Errorf("layer %d, local %t: %s", i, b.Local, got)
		}
	}
	if got := ports(t, out, "model/rotary.xml"); got != "position 1; out freqs_cis; out freqs_cis_local" {
		t.Errorf("rotations %s", got)
	}
}

// TestStaticRefused: options that no model can have are refused, and nothing is left behind.
func TestStaticRefused(t *testing.T) {
	source := tiny(t)
	exports.Refused(t, source, func(ctx context.Context, path, dir string) error {
		_, err := ExportStatic(ctx, path, dir, export.Exact, Static{Cache: States}, nil)
		return err
	})
	for _, s := range []Static{
		{}, {Cache: "heap"}, {Cache: States, Context: 1}, {Cache: States, Context: 1 << 40},
		{Cache: States, Context: 64,
			Prefill: 65}, {Cache: States, Prefill: -1},
		{Cache: States, Layers: -1}, {Cache: States, Bits: 3},
	} {
		dir := filepath.Join(t.TempDir(), "model")
		if _, err := ExportStatic(t.Context(), source, dir, "", s, nil); !errors.Is(err, pack.ErrLimit) &&
			!errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%+v: %v", s, err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%+v: left behind: %v", s, err)
		}
	}
}

// TestStaticTold: the Static that the first model declares is checked against all models, and bounded.
func TestStaticTold(t *testing.T) {
	source := tiny(t)
	dir := staticOf(t, source, Static{Cache: States, Context: 64, Prefill: 8})
	path := filepath.Join(dir, firstStatic)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{
		{`<kv_cache value="states"/>`, `<kv_cache value="inputs"/>`}, {`<kv_cache value="states"/>`,
			`<kv_cache value="heap"/>`}, {`<kv_cache value="states"/>`, ``},
		{`<context value="64"/>`, `<context value="65"/>`}, {`<context value="64"/>`, `<context value="99999999999"/>`},
		{`<context value="64"/>`, `<context value="0"/>`},
		{`<prefill value="8"/>`, `<prefill value="1"/>`},
		{`<prefill value="8"/>`, `<prefill value="99999999999999999999"/>`},
		{`<layers value="16"/>`, `<layers value="1"/>`}, {`<layers value="16"/>`, `<layers value="x"/>`},
		{`<bits value="4"/>`, `<bits value="2"/>`}, {`<bits value="4"/>`, `<bits value="5"/>`},
		{`<arithmetic value="exact"/>`, `<arithmetic value="plain"/>`},
	} {
		bad := strings.Replace(string(text), c[0], c[1], 1)
		if bad == string(text) {
			t.Fatalf("no %s", c[0])
		}
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(t.Context(), dir, source); err == nil {
			t.Errorf("%s passes for %s", c[1], c[0])
		}
	}
}
