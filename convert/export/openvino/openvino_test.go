package openvino

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/convert/export/internal/folder"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/exports"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
)

// exportedOf writes a directory and verifies it.
func exportedOf(t *testing.T, source string, a export.Arithmetic) (string, *export.Summary) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	s, err := Export(t.Context(), source, dir, a, nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := Verify(t.Context(), dir, source)
	if err != nil {
		t.Fatal(err)
	}
	if v.Tensors != s.Tensors {
		t.Fatalf("%d of %d tensors compared", v.Tensors, s.Tensors)
	}
	return dir, s
}

// written is the directory of a plan.
func written(t *testing.T, m *exported) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	if _, err := folder.Write(t.Context(), dir, m.files(), nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

func tiny(t *testing.T) string {
	return exports.Packed(t, shared.Testdata(t, "tiny-bitnet"), packed.Recipe{})
}

// graphOf is the graph of a directory.
func graphOf(t *testing.T, dir string) *node {
	t.Helper()
	n, err := readXML(dir, modelFile)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// layerOf is a layer by its name.
func (n *node) layerOf(t *testing.T, name string) *node {
	t.Helper()
	layers := n.find("layers").nodes
	for i := range layers {
		if layers[i].value("name") == name {
			return &layers[i]
		}
	}
	t.Fatalf("no layer %q", name)
	return nil
}

// TestExport: the same file gives the same directory, and the summary has the size of its files.
func TestExport(t *testing.T) {
	source := tiny(t)
	dir, s := exportedOf(t, source, "")
	one := exports.Contents(t, dir)
	again, _ := exportedOf(t, source, export.Exact)
	total := 0
	for name, text := range exports.Contents(t, again) {
		total += len(text)
		if one[name] != text {
			t.Errorf("%s: the same file gave other bytes", name)
		}
	}
	if int64(total) != s.Bytes || one["config.json"] == "" || one["generation_config.json"] == "" ||
		one[configFile] == "" || one[modelFile] == "" {
		t.Errorf("%d files of %d bytes, the summary says %d", len(one), total, s.Bytes)
	}
}

// TestConventions: names, states and options match the conventions of OpenVINO GenAI, optimum-intel and NNCF.
func TestConventions(t *testing.T) {
	dir, _ := exportedOf(t, tiny(t), export.Exact)
	n := graphOf(t, dir)
	var inputs, outputs []string
	for _, l := range n.find("layers").nodes {
		switch l.value("type") {
		case "Parameter":
			inputs = append(inputs, l.value("name")+" "+l.find("data").value("shape")+" "+
				l.find("data").value("element_type"))
		case "Result":
			outputs = append(outputs, l.value("name"))
		}
	}
	if got := strings.Join(inputs,
		"; "); got != "input_ids ?,? i64; attention_mask ?,? i64; position_ids ?,? i64; beam_idx ? i32" {
		t.Errorf("inputs %s", got)
	}
	if got := strings.Join(outputs, "; "); got != "logits/sink_port_0" {
		t.Errorf("outputs %s", got)
	}
	state := n.layerOf(t, "past_key_values.5.value").find("data")
	if state.value("variable_id") != "past_key_values.5.valuepresent.5.value" ||
		state.value("variable_type") != "f32" ||
		state.value("variable_shape") != "?,2,?,32" {
		t.Errorf("state %v", state)
	}
	w := "self.model.layers.0.mlp.down_proj.weight"
	if d := n.layerOf(t, w+"_compressed").find("data"); d.value("element_type") != "u2" ||
		d.value("shape") != "256, 688" || d.value("size") != "44032" {
		t.Errorf("weights %v", d)
	}
	if mark := n.layerOf(t, w).find("rt_info", "attribute"); mark == nil || mark.value("name") != "decompression" {
		t.Error("weights without the mark of decompression")
	}
	options := n.find("rt_info", "runtime_options")
	if options.find("DYNAMIC_QUANTIZATION_GROUP_SIZE").value("value") != "0" ||
		options.find("KV_CACHE_PRECISION").value("value") != "f32" {
		t.Errorf("options %v", options)
	}
}

// TestForms: the element type of codes of every width, and the default arithmetic for them.
func TestForms(t *testing.T) {
	checkpoint := exports.Small(t)
	for name, c := range map[string]struct {
		recipe  packed.Recipe
		element string
		scale   string
		exact   bool
	}{
		"ternary":        {packed.Recipe{}, "u2", "f16", true},
		"ternary in TL":  {packed.Recipe{Layout: "tl2"}, "u2", "f16", true},
		"signs":          {packed.Recipe{Quant: "sign", Scale: "tensor", AllowLossy: true}, "u2", "f16", true},
		"int2":           {packed.Recipe{Quant: "int2", AllowLossy: true}, "u2", "f32", false},
		"int4 per row":   {exports.PerRow("int4"), "i4", "f16", true},
		"int8 per row":   {exports.PerRow("int8"), "i8", "f16", true},
		"MXFP4":          {packed.Recipe{Quant: "mxfp4", AllowLossy: true}, "f4e2m1", "f8e8m0", false},
		"int4 in groups": {packed.Recipe{Quant: "int4", Scale: "group:32", AllowLossy: true}, "i4", "f16", false},
	} {
		source := exports.Packed(t, checkpoint, c.recipe)
		dir, s := exportedOf(t, source, "")
		n := graphOf(t, dir)
		if (n.arithmetic() == export.Exact) != c.exact {
			t.Errorf("%s: arithmetic %s, details %q", name, n.arithmetic(), s.Details)
		}
		w := "self.model.layers.1.self_attn.q_proj.weight_compressed"
		if got := n.layerOf(t, w).find("data").value("element_type"); got != c.element {
			t.Errorf("%s: %s", name, got)
		}
		if got := n.layerOf(t, w+"/scale").find("data").value("element_type"); got != c.scale {
			t.Errorf("%s: scales %s", name, got)
		}
		_, err := Export(t.Context(), source, filepath.Join(t.TempDir(), "model"), export.Exact, nil)
		if c.exact != (err == nil) || err != nil && !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%s: --arithmetic exact: %v", name, err)
		}
		exportedOf(t, source, export.Plain)
	}
}

// TestRefused: a refused or cancelled export leaves nothing behind.
func TestRefused(t *testing.T) {
	exports.Refused(t, tiny(t), func(ctx context.Context, path, dir string) error {
		_, err := Export(ctx, path, dir, export.Exact, nil)
		return err
	})
}

// TestExpertsRefused: experts are refused by name, as floats and as codes.
func TestExpertsRefused(t *testing.T) {
	for _, like := range []string{"mixtral-8x7b-v0.1", "gpt-oss-20b"} {
		checkpoint := filepath.Join(t.TempDir(), like)
		tinymodel.Miniature(t, like, checkpoint)
		dir := filepath.Join(t.TempDir(), "model")
		_, err := Export(t.Context(), tinymodel.Converted(t, checkpoint, packed.Recipe{}), dir, export.Plain, nil)
		if !errors.Is(err, pack.ErrUnsupported) ||
			!strings.Contains(fmt.Sprint(err), "experts, which are not written to OpenVINO") {
			t.Errorf("%s: %v", like, err)
		}
		if _, err := os.Lstat(dir); err == nil {
			t.Errorf("%s: something was written", like)
		}
	}
}

// TestDamage: a flipped bit anywhere in any file of the directory is detected, and so is a truncated file.
func TestDamage(t *testing.T) {
	source := exports.Packed(t, exports.Small(t), packed.Recipe{})
	for _, s := range []*Static{nil, {Cache: States, Context: 32, Prefill: 8, Layers: 1},
		{Cache: Inputs, Context: 32, Prefill: 8}} {
		damage(t, source, s)
	}
}

func damage(t *testing.T, source string, s *Static) {
	f, err := packed.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := plan(f, "", s)
	if err != nil {
		t.Fatal(err)
	}
	dir := written(t, m)
	good, v := exports.Contents(t, dir), &comparison{ctx: t.Context(), dir: dir}
	data := m.data()
	damaged := func(file folder.File, bad []byte, what string, at int) {
		path := filepath.Join(dir, file.Name)
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := v.file(file, data[file.Name]); !errors.Is(err, pack.ErrCorrupt) ||
			!strings.Contains(err.Error(), dir) {
			t.Errorf("%s, %s %d: %v", file.Name, what, at, err)
		}
		if err := os.WriteFile(path, []byte(good[file.Name]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flipped := func(file folder.File, at int) {
		bad := []byte(good[file.Name])
		bad[at] ^= 4
		damaged(file, bad, "byte", at)
	}
	for _, file := range m.files() {
		text := good[file.Name]
		damaged(file, []byte(text[:len(text)-2]), "up to byte", len(text)-2)
		from := 0
		if strings.HasSuffix(file.Name, ".xml") {
			from = 24 // after the declaration
		}
		for at := from; at < len(text); at += max(1, len(text)/4) {
			if text[at] != '\n' { // white space between elements
				flipped(file, at)
			}
		}
		if data[file.Name] == nil {
			continue
		}
		list := data[file.Name].constants
		for i := 0; i < len(list); i += 1 + len(list)/12 {
			flipped(file, int(list[i].offset+list[i].size/2))
			if end := list[i].offset + list[i].size; end < data[file.Name].end && end%alignment != 0 {
				flipped(file, int(end)) // between constants
			}
		}
	}
	if _, err := Verify(t.Context(), dir, source); err != nil {
		t.Errorf("what was damaged is not as it was: %v", err)
	}
}

// TestAdded: a file that would change chats, tokens or options, and that the export of the packed file has not, is
// refused by its name.
func TestAdded(t *testing.T) {
	source, bare := tiny(t), without(t, "tokenizer.json")
	dynamic, _ := exportedOf(t, source, "")
	static := staticOf(t, source, Static{Cache: Inputs, Context: 32, Prefill: 1})
	for name, dir := range map[string]string{
		"chat_template.jinja":   dynamic,
		"chat_template.json":    dynamic,
		"processor_config.json": dynamic,
		"added_tokens.json":     static,
		configFile:              static,
	} {
		refuseAdded(t, dir, source, name, []byte("{}"))
	}
	dir, _ := exportedOf(t, bare, "")
	for _, name := range []string{tokenizerFile, dataOf(tokenizerFile), detokenizerFile} {
		text, err := os.ReadFile(filepath.Join(dynamic, name))
		if err != nil {
			t.Fatal(err)
		}
		refuseAdded(t, dir, bare, name, text)
	}
}

// refuseAdded adds a file to an export for as long as Verify must name it.
func refuseAdded(t *testing.T, dir, source, name string, text []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(t.Context(), dir, source); !errors.Is(err, pack.ErrCorrupt) ||
		!strings.Contains(err.Error(), path) {
		t.Errorf("%s beside the files of the packed file: %v", name, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// without is tiny-bitnet without a file.
func without(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "without")
	if err := os.CopyFS(dir, os.DirFS(shared.Testdata(t, "tiny-bitnet"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	return exports.Packed(t, dir, packed.Recipe{})
}

// TestHostile: files that are no graphs, by hand.
func TestHostile(t *testing.T) {
	attributes := ""
	for i := range maxAttributes + 1 {
		attributes += fmt.Sprintf(` a%d=""`, i)
	}
	for name, text := range map[string]string{
		"nothing":                 "",
		"two elements":            `<net/><net/>`,
		"text":                    `<net>x</net>`,
		"a comment":               `<net><!-- x --></net>`,
		"a document type":         `<!DOCTYPE net [<!ENTITY x "y">]><net/>`,
		"an entity":               `<net name="&x;"/>`,
		"a late declaration":      `<net/><?xml version="1.0"?>`,
		"an instruction":          `<?php x?><net/>`,
		"an attribute twice":      `<net name="a" name="b"/>`,
		"another end":             `<net><layers></net></layers>`,
		"an end too much":         `<net/></net>`,
		"no end":                  `<net><layers>`,
		"another encoding":        `<?xml version="1.0" encoding="utf-16"?><net/>`,
		"bytes that are no UTF-8": "<net name=\"\xff\"/>",
		"too many elements":       "<net>" + strings.Repeat("<a/>", maxElements) + "</net>",
		"too many attributes":     "<net" + attributes + "/>",
		"elements in elements":    strings.Repeat("<a>", maxDepth+1) + strings.Repeat("</a>", maxDepth+1),
	} {
		if n, err := parse([]byte(text)); !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%s: %v, %v", name, n, err)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, modelFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, modelFile), maxXML+1); err != nil {
		t.Fatal(err)
	}
	if _, err := readXML(dir, modelFile); !errors.Is(err, pack.ErrCorrupt) {
		t.Errorf("a graph of %d bytes: %v", maxXML+1, err)
	}
}

// TestStored: every code is recovered from its bits, and bits of no code are refused.
func TestStored(t *testing.T) {
	for _, a := range []pack.Alphabet{pack.Ternary, pack.Int1, pack.Int2, pack.Int2Odd, pack.Int2Q,
		pack.Int4, pack.Int8,
		pack.E2M1} {
		for _, zeros := range []bool{false, true} {
			for _, embedding := range []bool{false, true} {
				x := &form{alphabet: a, element: f4e2m1}
				if a.Name != pack.E2M1.Name || embedding {
					x.width(int(a.Values[0]), int(a.Values[len(a.Values)-1]), zeros, least(embedding, nil))
				}
				if signed := x.element == i4 || x.element == i8; signed && zeros {
					t.Errorf("%s with zero points as %s", a.Name, x.element)
				}
				for _, c := range a.Values {
					if s := x.stored(c); x.code(s&(1<<x.element.bits()-1)) != c || embedding && x.element == u2 {
						t.Errorf("%s as %s: code %d is stored as %d, which is %d", a.Name, x.element, c, s, x.code(s))
					}
				}
			}
		}
	}
	if x := (&form{alphabet: pack.E2M1, element: f4e2m1}); x.code(8) != -128 {
		t.Error("−0 is taken for a code")
	}
}

// FuzzParse: writing and parsing a parsed file gives the same file.
func FuzzParse(f *testing.F) {
	f.Add([]byte("<?xml version=\"1.0\"?>\n<net name=\"a\" version=\"11\">\n<layers><layer id=\"0\" " +
		"name=\"&lt;&#10;&#34;\"/></layers><edges/></net>"))
	f.Add([]byte(`<net><rt_info><lowpack><kv_cache value="states"/><context value="64"/><prefill value="8"/><layers value="x"/><bits value="4"/></lowpack></rt_info></net>`))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := parse(data)
		if err != nil {
			if !errors.Is(err, pack.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if _, err := n.static(); err != nil && !errors.Is(err, pack.ErrCorrupt) {
			t.Fatal(err)
		}
		again, err := parse([]byte(n.String()))
		if err != nil {
			t.Fatalf("what was read is not written so that it can be read: %v", err)
		}
		if err := again.equals(n, ""); err != nil {
			t.Fatal(err)
		}
	})
}
