package onnx

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/convert/export/internal/folder"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	floats "github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/internal/testkit/exports"
	"github.com/lowpack/lowpack/internal/testkit/long"
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
	if _, err := Verify(t.Context(), dir, source); err != nil {
		t.Fatal(err)
	}
	return dir, s
}

// TestExport: the same file gives the same directory, the summary has the size of its files, and large data can be
// mapped.
func TestExport(t *testing.T) {
	source := exports.Packed(t, shared.Testdata(t, "tiny-bitnet"), packed.Recipe{})
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
	if int64(total) != s.Bytes || len(one) != 8 || one["tokenizer.json"] == "" || one[configFile] == "" {
		t.Errorf("%d files of %d bytes, the summary says %d", len(one), total, s.Bytes)
	}
	g, err := parse([]byte(one[modelFile]))
	if err != nil {
		t.Fatal(err)
	}
	external := 0
	for i := range g.tensors {
		x := &g.tensors[i]
		if x.inline == nil {
			external++
		}
		if x.offset%page != 0 || x.bytes() >= large && x.offset%largePages != 0 {
			t.Errorf("%s: offset %d", x.name, x.offset)
		}
	}
	if external < 42 || s.Tensors != len(g.tensors) {
		t.Errorf("%d of %d tensors in the data file", external, len(g.tensors))
	}
}

// TestForms: codes of every width, and the operators that multiply them in the exact and in the plain arithmetic.
func TestForms(t *testing.T) {
	dir := exports.Small(t)
	for name, c := range map[string]struct {
		recipe packed.Recipe
		bits   int64  // of the plain arithmetic
		exact  string // the operator
	}{
		"ternary":       {packed.Recipe{}, 2, "MatMulNBits"},
		"ternary in TL": {packed.Recipe{Layout: "tl2"}, 2, "MatMulNBits"},
		"signs": {packed.Recipe{Quant: "sign", Scale: "tensor", Activation: "token", AllowLossy: true}, 2,
			"MatMulNBits"},
		"int4 per row":   {exports.PerRow("int4"), 4, "MatMulNBits"},
		"int8 per row":   {exports.PerRow("int8"), 8, "MatMulInteger"},
		"MXFP4":          {packed.Recipe{Quant: "mxfp4", AllowLossy: true}, 8, "MatMulInteger"},
		"int4 in groups": {packed.Recipe{Quant: "int4", Scale: "group:32", AllowLossy: true}, 4, "MatMulInteger"},
		"int4 per row, act groups": {packed.Recipe{Quant: "int4", Scale: "row", Activation: "group:128",
			AllowLossy: true}, 4,
			"MatMulInteger"},
		"ternary, act groups": {packed.Recipe{Activation: "group:64"}, 2, "MatMulInteger"},
	} {
		source := exports.Packed(t, dir, c.recipe)
		exact, s := exportedOf(t, source, "")
		if g := modelOf(t, exact); g.arithmetic() != export.Exact || !slices.Equal(operators(g), []string{c.exact}) {
			t.Errorf("%s: arithmetic %s by %v, details %q", name, g.arithmetic(), operators(g), s.Details)
		}
		plain, _ := exportedOf(t, source, export.Plain)
		for _, n := range modelOf(t, plain).nodes {
			if n.op == "MatMulNBits" && !slices.Contains(n.attributes, attribute{"bits", c.bits}) {
				t.Errorf("%s: %s has %v", name, n.out[0], n.attributes)
			}
		}
	}
}

// TestRotations: sines are the same whether or not the cosine table, which keeps them until then, was written before.
func TestRotations(t *testing.T) {
	r := rotations{Rope: floats.NewRope(10000, 8), positions: 50}
	var alone, cos, sin bytes.Buffer
	for _, write := range []error{r.writeSin(&alone), r.writeCos(&cos), r.writeSin(&sin)} {
		if write != nil {
			t.Fatal(write)
		}
	}
	if !bytes.Equal(alone.Bytes(), sin.Bytes()) || cos.Len() != 50*4*4 || sin.Len() != cos.Len() || r.sin != nil {
		t.Errorf("%d, %d and %d bytes", alone.Len(), cos.Len(), sin.Len())
	}
	want := floats.Rotation{Cos: make([]float32, 4), Sin: make([]float32, 4)}
	r.At(49, want)
	got := make([]float32, 8)
	err := binary.Read(bytes.NewReader(append(cos.Bytes()[49*16:], sin.Bytes()[49*16:]...)), binary.LittleEndian, got)
	if err != nil || !slices.Equal(got, append(want.Cos, want.Sin...)) {
		t.Errorf("position 49: %v, want %v, %v", got, want, err)
	}
}

// TestExperts: the matrices of experts are written and read back in every form: floats, packed codes, integers.
func TestExperts(t *testing.T) {
	turned, _ := exportedOf(t, exports.Packed(t, shared.Path(t, filepath.Join("data", "transformers", "gpt_oss")),
		exports.AsFloats), "")
	taken := exports.Packed(t, shared.Path(t, filepath.Join("data", "transformers", "gpt_oss_mxfp4")), packed.Recipe{})
	exact, _ := exportedOf(t, taken, "")
	if a, b := operators(modelOf(t, turned)), operators(modelOf(t, exact)); a != nil ||
		!slices.Equal(b, []string{"MatMulInteger"}) {
		t.Errorf("gpt-oss: operators %q and %q", a, b)
	}
	for _, name := range []string{"granitemoe", "qwen2_moe"} {
		checkpoint := shared.Path(t, filepath.Join("data", "transformers", name))
		floats, _ := exportedOf(t, exports.Packed(t, checkpoint, exports.AsFloats), "")
		source := exports.Packed(t, checkpoint, packed.Recipe{Quant: "int4", AllowLossy: true})
		plain, _ := exportedOf(t, source, export.Plain)
		exact, _ := exportedOf(t, source, "")
		for dir, want := range map[string][]string{floats: nil, plain: {"MatMulNBits"}, exact: {"MatMulInteger"}} {
			if got := operators(modelOf(t, dir)); !slices.Equal(got, want) {
				t.Errorf("%s: operators %q, want %q", name, got, want)
			}
		}
	}
}

func modelOf(t *testing.T, dir string) *graph {
	t.Helper()
	g, err := parse([]byte(exports.Contents(t, dir)[modelFile]))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// operators lists the operators that multiply quantized matrices, in the graph or in its loops.
func operators(g *graph) (list []string) {
	for _, n := range g.nodes {
		if n.op == "MatMulNBits" || n.op == "MatMulInteger" {
			list = append(list, n.op)
		}
		for _, a := range n.attributes {
			if inner, ok := a.value.(*graph); ok {
				list = append(list, operators(inner)...)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// TestChats: the chat template is written for onnxruntime-genai in every file in which it looks for one; a template
// that it cannot render stays unchanged, and a note says why.
func TestChats(t *testing.T) {
	const title = "{% for m in messages %}<{{ m.role | title }}>{{ m.content }}{% endfor %}"
	const first = "{{ (messages | first).content }}"
	for template, c := range map[string]struct{ note, part string }{title: {"", "else m.role)}}>"},
		first: {"no filter first", first}} {
		source := tinymodel.WithTemplate(t, template)
		dir, s := exportedOf(t, source, "")
		if len(s.Notes) > 1 || !strings.Contains(strings.Join(s.Notes, ""), c.note) ||
			(c.note == "") != (len(s.Notes) == 0) {
			t.Errorf("%q: notes %q", template, s.Notes)
		}
		files := exports.Contents(t, dir)
		text := files["chat_template.jinja"]
		if !strings.Contains(strings.ReplaceAll(text, ") }}", ")}}"), c.part) {
			t.Errorf("%q is written as %q", template, text)
		}
		var config, own struct {
			Template string `json:"chat_template"`
			BOS      any    `json:"bos_token"`
		}
		exports.ReadJSON(t, filepath.Join(dir, "tokenizer_config.json"), &config)
		exports.ReadJSON(t, filepath.Join(shared.Testdata(t, "tiny-bitnet-packed"), "tokenizer_config.json"), &own)
		if c.note == "" {
			own.Template = text
		}
		if config != own || own.BOS == nil {
			t.Errorf("%q: tokenizer_config.json has %q, want %q", template, config, own)
		}
	}
}

// TestRefused: a refused or cancelled export leaves nothing behind.
func TestRefused(t *testing.T) {
	exports.Refused(t, exports.Packed(t, shared.Testdata(t, "tiny-bitnet"), packed.Recipe{}),
		func(ctx context.Context, path, dir string) error {
			_, err := Export(ctx, path, dir, export.Exact, nil)
			return err
		})
}

// TestFamilies: models that the graph cannot express are refused by name.
func TestFamilies(t *testing.T) {
	llama := model.Description{Family: "llama", Config: model.Config{HeadDim: 64, Rope: model.Rope{Dim: 64}}}
	experts := packed.Manifest{Packed: []packed.Entry{{Name: "experts", Shape: []int{4, 64, 64}, Order: true}}}
	if err := runs(&packed.Manifest{}, &llama); err != nil {
		t.Error(err)
	}
	partial, other := llama, llama
	partial.Rope.Dim, other.Family = 32, "mamba"
	for want, err := range map[string]error{
		"32 of 64 values":  runs(&packed.Manifest{}, &partial),
		"family mamba":     runs(&packed.Manifest{}, &other),
		`tensor "experts"`: runs(&experts, &llama),
	} {
		if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestDamage: a flipped bit anywhere in any file of the directory is detected, except in the version that wrote it, and
// so is an added file that a runtime would read. Bytes all over each file and one of each tensor of the first layer and
// outside of layers are tested; LOWPACK_LONG tests more.
func TestDamage(t *testing.T) {
	source := exports.Packed(t, exports.Small(t), packed.Recipe{})
	dir, _ := exportedOf(t, source, "")
	damaged := func(name, good string, at int) {
		bad := []byte(good)
		bad[at] ^= 4
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(t.Context(), dir, source); !errors.Is(err, pack.ErrCorrupt) ||
			!strings.Contains(err.Error(), dir) {
			t.Errorf("%s, byte %d: %v", name, at, err)
		}
		if err := os.WriteFile(path, []byte(good), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, good := range exports.Contents(t, dir) {
		from, parts := 0, 3
		if name == modelFile {
			from, parts = 24, 11 // after the producer
		}
		if long.All {
			parts *= 4
		}
		step := max(1, len(good)/parts)
		for at := from; at < len(good); at += step {
			damaged(name, good, at)
		}
		if err := os.Truncate(filepath.Join(dir, name), int64(len(good)-1)); err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(t.Context(), dir, source); !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%s without its last byte: %v", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(good), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	added := filepath.Join(dir, "chat_template.jinja")
	if err := os.WriteFile(added, []byte("{{ messages }}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(t.Context(), dir, source); !errors.Is(err, pack.ErrCorrupt) ||
		!strings.Contains(err.Error(), added) {
		t.Errorf("a chat template beside that of the packed file: %v", err)
	}
	if err := os.Remove(added); err != nil {
		t.Fatal(err)
	}
	data := exports.Contents(t, dir)[dataFile]
	g, err := parse([]byte(exports.Contents(t, dir)[modelFile]))
	if err != nil {
		t.Fatal(err)
	}
	for i := range g.tensors {
		x := &g.tensors[i]
		elsewhere := strings.Contains(x.name, "layers.") && !strings.Contains(x.name, "layers.0.")
		if x.inline == nil && (long.All || !elsewhere) {
			damaged(dataFile, data, int(x.offset+x.bytes()/2))
		}
	}
}

// TestHostile: models that lie about their tensors, by hand.
func TestHostile(t *testing.T) {
	external := func(offset, length string) message {
		return message(nil).bytes(tensorExternal, pair("location", dataFile)).bytes(tensorExternal,
			pair("offset", offset)).
			bytes(tensorExternal, pair("length", length)).number(tensorLocation, 1)
	}
	head := func(dims ...int64) (m message) {
		for _, d := range dims {
			m = m.number(tensorDims, d)
		}
		return m.number(tensorKind, int64(uint8Kind)).text(tensorName, "x")
	}
	for name, body := range map[string]message{
		"no data":                   head(4),
		"data at two places":        append(head(4).bytes(tensorRaw, []byte("1234")), external("0", "4")...),
		"less data than its shape":  head(4).bytes(tensorRaw, []byte("123")),
		"a length of another shape": append(head(4), external("0", "5")...),
		"a negative offset":         append(head(4), external("-1", "4")...),
		"no number as offset":       append(head(4), external("zero", "4")...),
		"a dimension below zero":    append(head(-4, -1), external("0", "4")...),
		"elements beyond 64 bits":   append(head(1<<32, 1<<32), external("0", "0")...),
		"another file": append(head(4),
			message(nil).bytes(tensorExternal, pair("location", "../secret")).number(tensorLocation, 1)...),
		"another data type": message(nil).number(tensorDims, 4).number(tensorKind, 99).text(tensorName,
			"x").bytes(tensorRaw, []byte("1234")),
		"a field of another type": message(nil).text(tensorDims, "4"),
		"an unknown field":        head(4).bytes(tensorRaw, []byte("1234")).text(99, "x"),
	} {
		if _, err := parse(message(nil).bytes(modelGraph, message(nil).bytes(graphTensor, body))); !errors.Is(err,
			pack.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	deep := message(nil).bytes(graphNode, message(nil).text(nodeOut, "x").text(nodeName, "x"))
	for range maxDepth - 1 {
		deep = message(nil).bytes(graphNode, message(nil).text(nodeOut, "x").text(nodeName, "x").
			bytes(nodeAttribute, message(nil).bytes(attributeGraph, deep).number(attributeKind, graphAttribute)))
	}
	if _, err := parse(message(nil).bytes(modelGraph, deep)); err != nil {
		t.Errorf("%d graphs within each other: %v", maxDepth, err)
	}
	for what, body := range map[string]message{
		"a graph too deep":   deep,
		"a tensor in a node": message(nil).bytes(graphTensor, head(4).bytes(tensorRaw, []byte("1234"))),
	} {
		node := message(nil).text(nodeOut, "x").text(nodeName, "x").bytes(nodeAttribute,
			message(nil).bytes(attributeGraph, body).number(attributeKind, graphAttribute))
		if _, err := parse(message(nil).bytes(modelGraph, message(nil).bytes(graphNode, node))); !errors.Is(err,
			pack.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, modelFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, modelFile), maxModel+1); err != nil {
		t.Fatal(err)
	}
	if _, err := folder.Small(dir, modelFile, maxModel); !errors.Is(err, pack.ErrCorrupt) {
		t.Errorf("a model of %d bytes: %v", maxModel+1, err)
	}
}

// TestBounds: MatMulNBits adds integers as floats up to 2²⁴, MatMulInteger bytes up to 2³¹; 8-bit codes are left to the
// latter.
func TestBounds(t *testing.T) {
	token := packed.Activation{Kind: packed.ActivationToken}
	for _, c := range []struct {
		alphabet string
		k        int
		floats   bool
		integers bool
	}{
		{"ternary", 132104, true, false}, {"ternary", 132105, false, false}, {"int4", 16513, true, true},
		{"int4", 16514,
			false, true},
		{"int8", 64, false, true}, {"int8", 33025, false, true}, {"int8", 33026, false, false},
	} {
		e := &packed.Entry{Name: "w", Shape: []int{2, c.k}, Layout: pack.Spec{Alphabet: c.alphabet},
			Scale: packed.Scale{Kind: packed.ScaleRow}}
		f, err := formOf(e)
		if err != nil {
			t.Fatal(err)
		}
		_, err = integersOf(e, token)
		if f.exact(nil, token) != c.floats || (err == nil) != c.integers ||
			err != nil && !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%s, %d columns: as floats %t, as integers %v", c.alphabet, c.k, f.exact(nil, token), err)
		}
		if chosen := exactly(nil)(e, token); (chosen == nil) != (c.floats || c.integers) {
			t.Errorf("%s, %d columns: %v", c.alphabet, c.k, chosen)
		}
	}
}

// TestFilled: columns that fill up a block or a group hold zeros, in both forms.
func TestFilled(t *testing.T) {
	e := &packed.Entry{Name: "w", Shape: []int{3, 40}, Layout: pack.Spec{Alphabet: "int4"},
		Scale: packed.Scale{Kind: packed.ScaleRow}}
	m := pack.NewMatrix(e.MatrixShape(), pack.Int4)
	for i := range m.Codes {
		m.Codes[i] = int8(i%16 - 8)
	}
	n, err := integersOf(e, packed.Activation{Kind: packed.ActivationGroup, Size: 32})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := n.writeMatrix(m, &b); err != nil {
		t.Fatal(err)
	}
	got := make([]int8, len(m.Codes))
	if err := n.read(got, bytes.NewReader(b.Bytes())); err != nil || !slices.Equal(got, m.Codes) {
		t.Errorf("other codes are read than written: %v", err)
	}
	b.Bytes()[b.Len()-1] ^= 0x10 // the last row of the last column that fills up
	if err := n.read(got, bytes.NewReader(b.Bytes())); !errors.Is(err, pack.ErrCorrupt) {
		t.Errorf("%v", err)
	}
}

// FuzzParse: writing and parsing a parsed model gives the same model.
func FuzzParse(f *testing.F) {
	b := newBuilder()
	b.op("Clip", []string{"x", b.scalar(1), ""}, "y", attribute{"a", int64(-1)}, attribute{"b", float32(2)},
		attribute{"c", "d"})
	b.inputs, b.metadata = []value{{"x", float32Kind, []any{batch, int64(3)}}}, [][2]string{{arithmeticKey,
		string(export.Exact)}}
	b.tensors = append(b.tensors, tensor{name: "z", kind: uint8Kind, dims: []int64{4096, 2}, offset: 4096})
	f.Add(b.encode(dataFile))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := parse(data)
		if err != nil {
			if !errors.Is(err, pack.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		again := g.encode(dataFile)
		h, err := parse(again)
		if err != nil {
			t.Fatalf("what was read is not written so that it can be read: %v", err)
		}
		if !bytes.Equal(h.encode(dataFile), again) {
			t.Fatal("another model is read than written")
		}
	})
}
