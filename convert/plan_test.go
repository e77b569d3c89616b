package convert

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/pack"
)

// raw is a tensor that a test changes.
type raw struct {
	dtype safetensors.DType
	shape []int64
	data  []byte
}

// bf16 is a tensor of BF16 values.
func bf16(shape []int64, values ...float32) raw {
	r := raw{dtype: safetensors.BF16, shape: shape}
	for _, v := range values {
		r.data = binary.LittleEndian.AppendUint16(r.data, uint16(math.Float32bits(v)>>16))
	}
	return r
}

// edit changes the tensors of a checkpoint with one weight file.
func edit(t testing.TB, dir string, change func(tensors map[string]raw)) {
	t.Helper()
	tensors := readWeights(t, dir)
	change(tensors)
	writeWeights(t, filepath.Join(dir, "model.safetensors"), tensors)
}

func readWeights(t testing.TB, dir string) map[string]raw {
	t.Helper()
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	tensors := map[string]raw{}
	for _, x := range c.Tensors() {
		r := raw{dtype: x.DType, data: make([]byte, x.Size)}
		for _, n := range x.Shape {
			r.shape = append(r.shape, int64(n))
		}
		if err := c.ReadAt(x, r.data, 0); err != nil {
			t.Fatal(err)
		}
		tensors[x.Name] = r
	}
	c.Close()
	return tensors
}

func writeWeights(t testing.TB, path string, tensors map[string]raw) {
	t.Helper()
	var infos []safetensors.TensorInfo
	for name, r := range tensors {
		infos = append(infos, safetensors.TensorInfo{Name: name, DType: r.dtype, Shape: r.shape})
	}
	safetensors.Order(infos)
	if err := safetensors.Place(infos); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := safetensors.NewWriter(&b, nil, infos, 8)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range infos {
		if err := w.Write(x.Name, tensors[x.Name].data); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), os.WriteFile(path, b.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

const (
	qProj = "model.layers.0.self_attn.q_proj.weight"
	down  = "model.layers.1.mlp.down_proj.weight"
	norm  = "model.layers.1.input_layernorm.weight"
	embed = "model.embed_tokens.weight"
)

// set16 returns a copy of a 16-bit tensor with one element replaced.
func set16(r raw, i int, bits uint16) raw {
	r.data = bytes.Clone(r.data)
	binary.LittleEndian.PutUint16(r.data[2*i:], bits)
	return r
}

// TestRefusals breaks checkpoints in one way each. Errors of the plan and of the run name what they are about.
func TestRefusals(t *testing.T) {
	const nan, inf = 0x7fc0, 0xff80
	for _, c := range []struct {
		what, like string
		recipe     packed.Recipe
		change     func(map[string]raw)
		class      error
		says       []string
	}{
		{"missing tensor", "bitnet-2b4t-bf16", packed.Recipe{}, func(m map[string]raw) { delete(m, norm) },
			pack.ErrCorrupt,
			[]string{norm}},
		{"wrong shape", "bitnet-2b4t-bf16", packed.Recipe{},
			func(m map[string]raw) { m[norm] = bf16([]int64{2}, 1, 1) },
			pack.ErrCorrupt, []string{norm, "[2]", "[64]"}},
		{"tensor without a place", "bitnet-2b4t-bf16", packed.Recipe{},
			func(m map[string]raw) { m["model.extra"] = m[norm] },
			pack.ErrUnsupported, []string{"model.extra"}},
		{"norm of integers", "bitnet-2b4t-bf16", packed.Recipe{},
			func(m map[string]raw) { r := m[norm]; r.dtype = "I16"; m[norm] = r }, pack.ErrUnsupported,
			[]string{norm, "I16"}},
		{"linear of integers", "bitnet-2b4t-bf16", packed.Recipe{},
			func(m map[string]raw) { r := m[qProj]; r.dtype = "U16"; m[qProj] = r }, pack.ErrUnsupported,
			[]string{qProj, "U16"}},
		{"NaN in a linear", "bitnet-2b4t-bf16", packed.Recipe{},
			func(m map[string]raw) { m[down] = set16(m[down], 1000, nan) }, pack.ErrCorrupt, []string{down, "NaN"}},
		{"infinity in a norm", "bitnet-2b4t-bf16", packed.Recipe{},
			func(m map[string]raw) { m[norm] = set16(m[norm], 63, inf) }, pack.ErrCorrupt,
			[]string{norm, "element 63"}},
		{"NaN in the embedding", "llama-3.2-1b", packed.Recipe{},
			func(m map[string]raw) { m[embed] = set16(m[embed], 321, nan) }, pack.ErrCorrupt,
			[]string{embed, "element 321"}},
		{"tied head that is another matrix", "llama-3.2-1b", packed.Recipe{},
			func(m map[string]raw) { m["lm_head.weight"] = set16(m[embed], 5000, 0x4000) }, pack.ErrUnsupported,
			[]string{"lm_head.weight", embed, "tie_word_embeddings"}},
		{"tied head of another type", "llama-3.2-1b", packed.Recipe{},
			func(m map[string]raw) { r := m[embed]; r.dtype = "F16"; m["lm_head.weight"] = r }, pack.ErrUnsupported,
			[]string{"lm_head.weight"}},
		{"code 3", "bitnet-2b4t", packed.Recipe{},
			func(m map[string]raw) { r := m[down]; r.data = bytes.Clone(r.data); r.data[7] = 0xc0; m[down] = r },
			pack.ErrCorrupt, []string{down, "code 3"}},
		{"no scale", "bitnet-2b4t", packed.Recipe{}, func(m map[string]raw) { delete(m, down+"_scale") },
			pack.ErrCorrupt,
			[]string{down + "_scale"}},
		{"two scales", "bitnet-2b4t", packed.Recipe{},
			func(m map[string]raw) { m[down+"_scale"] = bf16([]int64{2}, 1, 1) },
			pack.ErrCorrupt, []string{down + "_scale"}},
		{"scale of zero", "llama3-8b", packed.Recipe{},
			func(m map[string]raw) { m[down+"_scale"] = bf16([]int64{1}, 0) },
			pack.ErrCorrupt, []string{down}},
		{"packed codes quantized anew", "bitnet-2b4t", packed.Recipe{Quant: "absmean"}, nil, pack.ErrUnsupported,
			[]string{qProj, "--quant auto"}},
		{"packed codes kept", "bitnet-2b4t", packed.Recipe{Quant: "none"}, nil, pack.ErrUnsupported, []string{qProj}},
		{"floats made ternary", "llama-3.2-1b", packed.Recipe{Quant: "absmean"}, nil, pack.ErrUnsupported,
			[]string{qProj, "--allow-lossy", "relative error 0."}},
		{"master weights made ternary per row", "bitnet-2b4t-bf16", packed.Recipe{Quant: "absmean", Scale: "row"}, nil,
			pack.ErrUnsupported, []string{qProj, "--allow-lossy"}},
		{"floats that are not ternary", "llama-3.2-1b", packed.Recipe{Quant: "ternary-values"}, nil,
			pack.ErrUnsupported,
			[]string{qProj, "magnitudes"}},
		{"layout without the alphabet", "llama-3.2-1b", packed.Recipe{Quant: "int8", Layout: "i1"}, nil,
			pack.ErrUnsupported,
			[]string{qProj, "i1", "int8"}},
		{"unknown quantizer", "bitnet-2b4t", packed.Recipe{Quant: "magic"}, nil, pack.ErrUnsupported,
			[]string{"magic", "absmean"}},
		{"unknown layout", "bitnet-2b4t", packed.Recipe{Layout: "magic"}, nil, pack.ErrUnsupported,
			[]string{"magic", "vnni4i"}},
		{"unknown scale", "bitnet-2b4t", packed.Recipe{Scale: "group:x"}, nil, pack.ErrUnsupported,
			[]string{"group:x"}},
		{"unknown head", "bitnet-2b4t", packed.Recipe{Head: "magic"}, nil, pack.ErrUnsupported, []string{"magic"}},
		{"unknown parameter", "bitnet-2b4t", packed.Recipe{Params: map[string]int{"magic": 1}}, nil,
			pack.ErrUnsupported,
			[]string{"magic"}},
		{"bad pattern", "bitnet-2b4t", packed.Recipe{Include: []string{"[a"}}, nil, pack.ErrUnsupported,
			[]string{"[a"}},
		{"rule without a pattern", "bitnet-2b4t", packed.Recipe{Rules: []packed.Rule{{Quant: "int8"}}}, nil,
			pack.ErrUnsupported, []string{"rule 1"}},
		{"rule that keeps and quantizes", "bitnet-2b4t",
			packed.Recipe{Rules: []packed.Rule{{Match: "*", Quant: "int8", Keep: true}}}, nil, pack.ErrUnsupported,
			[]string{"rule 1"}},
	} {
		path := mini(t, c.like, nil)
		if c.change != nil {
			edit(t, path, c.change)
		}
		at := newPlace(t, "old")
		p, err := NewPlan(context.Background(), path, plain(c.recipe))
		if err == nil {
			_, err = p.Run(context.Background(), at.target)
			p.Close()
		}
		if !errors.Is(err, c.class) {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		for _, word := range c.says {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q is not in: %v", c.what, word, err)
			}
		}
		at.untouched(t, c.what)
	}
}

// rules counts the rules of a plan.
func rules(p *Plan) map[string]int {
	n := map[string]int{}
	for _, r := range p.Tensors {
		n[strings.Join([]string{r.Rule, r.Alphabet, r.Scale, r.Layout}, " ")]++
	}
	return n
}

// TestDecisions compares plans of all kinds of checkpoints with the expected ones: 14 linear layers in 2 layers.
func TestDecisions(t *testing.T) {
	for _, c := range []struct {
		what, like string
		weights    synth.Weights
		recipe     packed.Recipe
		want       map[string]int // besides passthrough tensors
	}{
		{"packed", "bitnet-2b4t", "", packed.Recipe{}, map[string]int{"import-u8 ternary tensor vnni4i": 14}},
		{"packed that divides", "llama3-8b", "", packed.Recipe{Layout: "i1"},
			map[string]int{"import-u8 ternary tensor i1": 14}},
		{"master weights", "bitnet-2b4t-bf16", "", packed.Recipe{},
			map[string]int{"absmean ternary tensor vnni4i": 14}},
		{"master weights of a family that is always ternary", "bitnet-large", "", packed.Recipe{},
			map[string]int{"absmean ternary tensor vnni4i": 14}},
		{"master weights kept", "bitnet-2b4t-bf16", "", packed.Recipe{Quant: "none"}, map[string]int{}},
		{"master weights, lossy per row", "bitnet-2b4t-bf16", "",
			packed.Recipe{Quant: "absmean", Scale: "row", AllowLossy: true},
			map[string]int{"absmean ternary row vnni4i": 14}},
		{"master weights, lossy per group", "bitnet-2b4t-bf16", "",
			packed.Recipe{Quant: "absmean", Scale: "group:32", AllowLossy: true},
			map[string]int{"absmean ternary group:32 vnni4i": 14}},
		{"ternary values", "trilm-99m", "", packed.Recipe{},
			map[string]int{"ternary-values ternary tensor vnni4i": 14}},
		{"ternary values per shard", "trilm-99m", synth.TernaryShards, packed.Recipe{},
			map[string]int{"ternary-values ternary row vnni4i": 14}},
		{"signs", "paretoq-125m-1bit", "", packed.Recipe{}, map[string]int{"sign-values int1 row vnni4i": 14}},
		{"signs in a layout of ternary codes", "paretoq-125m-1bit", "", packed.Recipe{Layout: "i2"},
			map[string]int{"ternary-values ternary row i2": 14}},
		{"three levels per row", "paretoq-125m-1.58bit", "", packed.Recipe{},
			map[string]int{"ternary-values ternary row vnni4i": 14}},
		{"four levels", "paretoq-125m-2bit", "", packed.Recipe{}, map[string]int{"int2-values int2odd row vnni4i": 14}},
		{"four levels, asked for", "paretoq-125m-2bit", "", packed.Recipe{Quant: "int2-values"},
			map[string]int{"int2-values int2odd row vnni4i": 14}},
		{"eight levels", "paretoq-125m-3bit", "", packed.Recipe{}, map[string]int{"int3-values int3 row vnni4p": 14}},
		{"eight levels, in four bits", "paretoq-125m-3bit", "", packed.Recipe{Quant: "int4-values"},
			map[string]int{"int4-values int4 row vnni4i": 14}},
		{"sixteen levels", "paretoq-125m-4bit", "", packed.Recipe{}, map[string]int{"int4-values int4 row vnni4i": 14}},
		{"full precision", "llama-3.2-1b", "", packed.Recipe{}, map[string]int{}},
		{"full precision to int8", "llama-3.2-1b", "", packed.Recipe{Quant: "int8", Layout: "vnni4"},
			map[string]int{"int8 int8 row vnni4": 14}},
		{"full precision to ternary", "llama-3.2-1b", "", packed.Recipe{Quant: "absmean", AllowLossy: true},
			map[string]int{"absmean ternary tensor vnni4i": 14}},
		{"full precision to three bits", "llama-3.2-1b", "", packed.Recipe{Quant: "int3", AllowLossy: true},
			map[string]int{"int3 int3 row vnni4p": 14}},
		{"five and six bits in a layout that holds neither", "llama-3.2-1b", "",
			packed.Recipe{Quant: "int5", Scale: "group:32", Layout: "vnni4i-64", AllowLossy: true,
				Rules: []packed.Rule{{Match: "*.down_proj.weight", Quant: "int6", Scale: "group:64"},
					{Match: "*.q_proj.weight", Quant: "int4"}}},
			map[string]int{"int5 int5 group:32 vnni4p": 10, "int6 int6 group:64 vnni4p": 2,
				"int4 int4 row vnni4i-64": 2}},
		{"tied head to int8", "llama-3.2-1b", "", packed.Recipe{Head: "int8"},
			map[string]int{"int8 int8 row vnni4": 1}},
		{"tied head to int6", "llama-3.2-1b", "", packed.Recipe{Head: "int6"},
			map[string]int{"int6 int6 group:64 vnni4p": 1}},
		{"own head to int8", "llama-3-8b", "", packed.Recipe{Head: "int8"}, map[string]int{"int8 int8 row vnni4": 1}},
		{"screen of a tied head", "llama-3.2-1b", "", packed.Recipe{Head: "screen"},
			map[string]int{"int8 int8 row vnni4": 1}},
		{"screen of an own head", "llama-3-8b", "", packed.Recipe{Head: "screen"},
			map[string]int{"int8 int8 row vnni4": 1}},
		{"some included", "bitnet-2b4t-bf16", "", packed.Recipe{Include: []string{"*.mlp.*", "*.q_proj.weight"}},
			map[string]int{"absmean ternary tensor vnni4i": 8}},
		{"rules", "bitnet-2b4t-bf16", "", packed.Recipe{Rules: []packed.Rule{
			{Match: "model.layers.0.mlp.*", Keep: true},
			{Match: "*.down_proj.weight", Quant: "int8", Layout: "blocked", Scale: "tensor"},
			{Match: "*.mlp.*", Layout: "i2"},
			{Match: "*", Layout: "vnni4i-64"},
		}}, map[string]int{"int8 int8 tensor blocked": 1, "absmean ternary tensor i2": 2,
			"absmean ternary tensor vnni4i-64": 8}},
	} {
		path := mini(t, c.like, func(o *synth.Options) {
			if c.weights != "" {
				o.Weights = c.weights
			}
		})
		p := newPlan(t, path, plain(c.recipe))
		got := rules(p)
		delete(got, "keep   ")
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
		at := newPlace(t, "")
		s, err := p.Run(context.Background(), at.target)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		checkOutput(t, p, s, at.target)
	}
}

// TestLayoutFor: the default layout holds the codes that are asked for.
func TestLayoutFor(t *testing.T) {
	for quant, want := range map[string]string{QuantAuto: "vnni4i", "absmean": "vnni4i", "int4": "vnni4i",
		"iq4nl": "vnni4i", "int3": "vnni4p", "int5": "vnni4p", "int6": "vnni4p", "int8": "vnni4"} {
		if got := LayoutFor(quant); got != want {
			t.Errorf("%s: %s, want %s", quant, got, want)
		}
	}
}

// TestOpenLayout: a layout for ternary codes does not keep a model from being packed whose head, or all of whose codes,
// are others: these have the layout that holds them.
func TestOpenLayout(t *testing.T) {
	for _, a := range pack.Alphabets() {
		want := map[string]string{pack.Int3.Name: "vnni4p", pack.Int4.Name: "vnni4i", pack.E2M1.Name: "vnni4i",
			pack.IQ4NL.Name: "vnni4i", pack.Int4Odd.Name: "vnni4i", pack.IQ2.Name: "vnni4i",
			pack.IQ3XXS.Name: "vnni4i", pack.Int5.Name: "vnni4p", pack.Int6.Name: "vnni4p", pack.Int8.Name: "vnni4",
			pack.Ternary.Name: "vnni4t"}[a.Name]
		l, err := openLayout("vnni4t", nil, a, true)
		switch {
		case err != nil && want != "":
			t.Errorf("%s: %v", a.Name, err)
		case err == nil && l.Spec().Name != want:
			t.Errorf("%s: %s, want %q", a.Name, l.Spec().Name, want)
		}
	}
}

// checkOutput compares a packed file with its plan.
func checkOutput(t *testing.T, p *Plan, s *Summary, target string) {
	t.Helper()
	f, err := packed.Open(target)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	checkDigests(t, f)
	if f.Size() != p.Bytes || s.BytesOut != p.Bytes || s.Tensors != len(p.Tensors) {
		t.Errorf("%d bytes in %d tensors; the plan says %d in %d", f.Size(), s.Tensors, p.Bytes, len(p.Tensors))
	}
	if _, err := packed.Describe(f); err != nil && p.Family != "" {
		t.Error(err)
	}
	for _, r := range p.Tensors {
		stored := []string{r.Tensor}
		if r.Rule != ruleKeep {
			stored = []string{r.Tensor + packed.PackedSuffix, r.Tensor + packed.ScaleSuffix}
		}
		n := 0
		for _, name := range stored {
			x, err := f.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			n += len(x.Data)
		}
		if int64(n) != r.BytesOut {
			t.Errorf("%s: %d bytes; the plan says %d", r.Tensor, n, r.BytesOut)
		}
	}
}

// TestBare converts weights without a model.
func TestBare(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weights.safetensors")
	writeWeights(t, path, map[string]raw{
		"ternary": bf16([]int64{2, 3}, 0.5, 0, -0.5, 0.5, 0.5, 0),
		"rows":    bf16([]int64{2, 3}, 0.5, 0, -0.5, 2, 2, 0),
		"floats":  bf16([]int64{2, 3}, 1, 2, 3, 4, 5, 6.5),
		"vector":  bf16([]int64{3}, 1, 2, float32(math.Inf(1))),
		"none":    bf16([]int64{0, 3}),
		"bytes":   {dtype: "U8", shape: []int64{2, 2}, data: []byte{1, 2, 3, 4}},
	})
	_, err := NewPlan(context.Background(), path, plain(packed.Recipe{}))
	if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), `"floats"`) ||
		!strings.Contains(err.Error(), "--allow-lossy") {
		t.Errorf("floats: %v", err)
	}
	for _, c := range []struct {
		recipe packed.Recipe
		want   map[string]string
	}{
		{packed.Recipe{AllowLossy: true},
			map[string]string{"ternary": "ternary-values tensor", "rows": "ternary-values row",
				"floats": "absmean tensor"}},
		{packed.Recipe{Include: []string{"r*"}}, map[string]string{"rows": "ternary-values row"}},
		{packed.Recipe{Quant: "none"}, map[string]string{}},
		{packed.Recipe{Quant: "int8", Layout: "vnni4"},
			map[string]string{"ternary": "int8 row", "rows": "int8 row", "floats": "int8 row"}},
	} {
		p := newPlan(t, path, plain(c.recipe))
		at := newPlace(t, "")
		s, err := p.Run(context.Background(), at.target)
		if err != nil {
			t.Fatal(err)
		}
		checkOutput(t, p, s, at.target)
		got := map[string]string{}
		for _, r := range p.Tensors {
			if r.Rule != ruleKeep {
				got[r.Tensor] = r.Rule + " " + r.Scale
			}
		}
		if !maps.Equal(got, c.want) || len(p.Tensors) != 6 {
			t.Errorf("%+v: %v, want %v", c.recipe, got, c.want)
		}
	}
}

// TestAllFloats: a note names the file that declares a format in which nothing is, and a detail says what a tensor is
// that has no effect.
func TestAllFloats(t *testing.T) {
	path := mini(t, "llama-3.2-1b", nil)
	const scale = "model.norm.input_scale"
	edit(t, path, func(m map[string]raw) { m[scale] = bf16([]int64{1}, 1) })
	qmap := `{"model.norm":{"weights":"none","activations":"qint8"}}`
	if err := os.WriteFile(filepath.Join(path, "quanto_qmap.json"), []byte(qmap), 0o600); err != nil {
		t.Fatal(err)
	}
	p := newPlan(t, path, plain(packed.Recipe{}))
	notes, details := strings.Join(p.Notes, "\n"), strings.Join(p.Details, "\n")
	if !strings.Contains(notes, "quanto_qmap.json declares Optimum Quanto, but all modules hold floats") ||
		!strings.Contains(details, scale+`" is left out: it is a scale of activations`) {
		t.Errorf("notes: %s\ndetails: %s", notes, details)
	}
}

// TestNotes: omissions, and the interpretation of a scale, appear in the notes.
func TestNotes(t *testing.T) {
	path := mini(t, "llama-3.2-1b", nil)
	const inv = "model.layers.0.self_attn.rotary_emb.inv_freq"
	edit(t, path, func(m map[string]raw) {
		m[inv], m["lm_head.weight"] = bf16([]int64{2}, 1, 0.5), m[embed]
	})
	p := newPlan(t, path, plain(packed.Recipe{}))
	details, notes := strings.Join(p.Details, "\n"), strings.Join(p.Notes, "\n")
	if !strings.Contains(details, inv) || !strings.Contains(details, "lm_head.weight") || strings.Contains(notes, inv) {
		t.Errorf("details: %s\nnotes: %s", details, notes)
	}
	if !strings.Contains(notes, "nothing is packed") || !strings.Contains(notes, "--quant int8: about ") ||
		strings.Contains(notes, "tokenizer") {
		t.Errorf("notes: %s", notes)
	}
	few := newPlan(t, path, plain(packed.Recipe{Quant: "int2", Scale: "group:32", AllowLossy: true}))
	if notes := strings.Join(few.Notes, "\n"); !strings.Contains(notes, "WARNING: int2 makes two bits or fewer of ") ||
		!strings.Contains(notes, " % (relative error") {
		t.Errorf("notes: %s", notes)
	}
	for quant, form := range map[string]string{"int3": "lowpack int3, group 32, GPTQ",
		"int4": "lowpack int4, group 64, GPTQ", "mxfp4": "lowpack int4, group 64, GPTQ",
		"iq4nl": "lowpack iq4nl, group 64, GPTQ", "int5": "lowpack int5, group 64, GPTQ", "int6": ""} {
		notes := strings.Join(newPlan(t, path, plain(packed.Recipe{Quant: quant, AllowLossy: true})).Notes, "\n")
		if strings.Contains(notes, quant+" without a text: ") != (form != "") || !strings.Contains(notes, form) {
			t.Errorf("notes on %s: %s", quant, notes)
		}
		whose, _, _ := strings.Cut(strings.TrimPrefix(form, "lowpack "), ",")
		if form != "" && !strings.Contains(notes, "SmolLM2-135M in "+whose+" loses ") {
			t.Errorf("notes on %s do not say whose figures they have: %s", quant, notes)
		}
	}
	if err := os.Remove(filepath.Join(path, "tokenizer.json")); err != nil {
		t.Fatal(err)
	}
	if p = newPlan(t, path, plain(packed.Recipe{Quant: "int8",
		Layout: "vnni4"})); strings.Contains(strings.Join(p.Notes,
		"\n"), "nothing is packed") || !strings.Contains(strings.Join(p.Notes, "\n"), "no tokenizer.json") {
		t.Errorf("notes: %s", p.Notes)
	}
	for like, want := range map[string]string{"bitnet-2b4t": "multiplies", "llama3-8b": "divides"} {
		p := newPlan(t, mini(t, like, nil), plain(packed.Recipe{}))
		i := slices.IndexFunc(p.Tensors, func(r Row) bool { return r.Tensor == qProj })
		if !strings.Contains(p.Tensors[i].Note, want) {
			t.Errorf("%s: %q", like, p.Tensors[i].Note)
		}
	}
}

// TestMeasure compares relative errors with an independent computation, and with known values.
func TestMeasure(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weights.safetensors")
	writeWeights(t, path, map[string]raw{"w": bf16([]int64{2, 4}, 1, -1, 2, 0, 0.25, 0, -3, 0.75)})
	for recipe, want := range map[string]float64{
		// mean |w| = 1: codes 1 −1 1 0 0 0 −1 1
		"absmean": math.Sqrt((1 + 0.0625 + 4 + 0.0625) / (1 + 1 + 4 + 0.0625 + 9 + 0.5625)),
	} {
		p := newPlan(t, path, plain(packed.Recipe{Quant: recipe, AllowLossy: true}))
		if p.Tensors[0].RelError != nil {
			t.Error("an error is known before it is measured")
		}
		if err := p.Measure(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := *p.Tensors[0].RelError; math.Abs(got-want) > 1e-6 {
			t.Errorf("%s: relative error %v, want %v", recipe, got, want)
		}
	}
	all := newPlan(t, mini(t, "bitnet-2b4t-bf16", nil), plain(packed.Recipe{Head: "int8"}))
	if err := all.Measure(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, r := range all.Tensors {
		e := *r.RelError
		good := map[string]bool{"keep": e == 0, "absmean": e > 0.3 && e < 0.7, "int8": e > 0 && e < 0.02}[r.Rule]
		if !good {
			t.Errorf("%s by %s: relative error %v", r.Tensor, r.Rule, e)
		}
	}
}

// TestFiles names a missing directory, an empty one and one with pickles.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "absent"), dir} {
		if p, err := NewPlan(context.Background(), path, Options{}); err == nil ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
			if p != nil {
				p.Close()
			}
		}
	}
}
