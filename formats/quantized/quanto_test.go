package quantized_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/quantized"
	"github.com/lowpack/lowpack/formats/safetensors"
)

// quantoModule is a matrix of 8 rows and 160 columns, which Optimum Quanto quantizes in groups of 32 columns.
const (
	quantoModule = "model.layers.0.self_attn.q_proj"
	quantoModel  = `{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":160,"vocab_size":32,` +
		`"intermediate_size":32,"num_hidden_layers":1,"num_attention_heads":1,"num_key_value_heads":1,"head_dim":8,` +
		`"max_position_embeddings":64,"rms_norm_eps":1e-5}`
)

// quantoMap declares the types of weights and activations of that module.
func quantoMap(weights, activations string) string {
	return fmt.Sprintf(`{%q:{"weights":%q,"activations":%q}}`, quantoModule, weights, activations)
}

// quanto returns the parts of a weight of that type.
func quanto(weights string) files {
	f := files{}
	f.add(quantoModule+".input_scale", safetensors.F32, floats(1, 1, 0))
	f.add(quantoModule+".output_scale", safetensors.F32, floats(1, 1, 0))
	switch name := quantoModule + ".weight."; weights {
	case "qint8":
		f.add(name+"_data", safetensors.I8, make([]byte, 1280), 8, 160)
		f.add(name+"_scale", safetensors.F32, floats(8, 0.1, 0.01), 8, 1)
	case "qfloat8_e4m3fn":
		f.add(name+"_data", "F8_E4M3", make([]byte, 1280), 8, 160)
		f.add(name+"_scale", safetensors.BF16, brains(8, 0.1, 0.01), 8, 1)
	default:
		units := map[string]int{"qint4": 20, "qint2": 10}[weights]
		f.add(name+"_data._data", safetensors.U8, make([]byte, units*32), units, 32)
		f.add(name+"_scale", safetensors.F32, floats(40, 0.1, 0.01), 40, 1)
		f.add(name+"_shift", safetensors.F32, floats(40, -0.5, 0.03), 40, 1)
	}
	return f
}

// quantoRead reads the module, as codes or as floats.
func (f files) quantoRead(config, qmap string) (m *quantized.Matrix, values []byte, err error) {
	s, err := quantized.Parse([]byte(config), beside("quanto_qmap.json", qmap))
	if err != nil {
		return nil, nil, err
	}
	var names []string
	for name := range f {
		names = append(names, name)
	}
	layers, err := s.Layers(names, f.lookup)
	if err != nil {
		return nil, nil, err
	}
	if l := layers[quantoModule+".weight"]; l != nil {
		if m, err = l.Open(f.read); err == nil {
			words[m] = f[l.Words].data
			_, err = read(m)
		}
		return m, nil, err
	}
	found, err := s.Values(names, f.lookup, f.read)
	if v := found[quantoModule+".weight"]; v != nil {
		values = make([]byte, v.Bytes())
		err = v.ReadAt(values, 0, f.read)
	}
	return nil, values, err
}

// TestQuantoCodes: parts of the rows have their codes in the same bytes, from the low bits on; what is subtracted is a
// minimum with the other sign, or a zero point; codes of groups of scale 0 are the lowest.
func TestQuantoCodes(t *testing.T) {
	for bits, weights := range map[int]string{4: "qint4", 2: "qint2"} {
		f := quanto(weights)
		code := func(i int) int { return (i*i + i>>5) % (1 << bits) }
		stored := f[quantoModule+".weight._data._data"].data
		for i := range 1280 {
			stored[i%len(stored)] |= byte(code(i) << (i / len(stored) * bits))
		}
		copy(f[quantoModule+".weight._scale"].data[4*7:], floats(1, 0, 0))
		m, _, err := f.quantoRead(quantoModel, quantoMap(weights, "none"))
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range codes(m) {
			want := code(i) - 1<<(bits-1)
			if i/32 == 7 {
				want = -1 << (bits - 1)
			}
			if int(got) != want {
				t.Fatalf("%s: code %d is %d, want %d", weights, i, got, want)
			}
		}
		if v := valueOf(safetensors.F32, m.Minima, 0); v != 0.5 || m.Zeros != nil || m.Layer.Group != 32 {
			t.Errorf("%s: minimum %v, zero points %v, groups of %d", weights, v, m.Zeros, m.Layer.Group)
		}
		f.add(quantoModule+".weight._shift", safetensors.U8, slices.Repeat([]byte{1, 3}, 20), 40, 1)
		if m, _, err = f.quantoRead(quantoModel, quantoMap(weights, "none")); err != nil {
			t.Fatal(err)
		}
		if m.Minima != nil || int(m.Zeros[1]) != 3-1<<(bits-1) {
			t.Errorf("%s: minima %v, zero points %v", weights, m.Minima, m.Zeros)
		}
	}
}

// TestQuantoBytes: integers and floats of 8 bits have a scale per row; floats have its type.
func TestQuantoBytes(t *testing.T) {
	f := quanto("qint8")
	f[quantoModule+".weight._data"].data[161] = 0x80
	m, _, err := f.quantoRead(quantoModel, quantoMap("qint8", "qint8"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(m.Scales, f[quantoModule+".weight._scale"].data) || codes(m)[161] != -128 || m.Layer.Note == "" {
		t.Errorf("scales %v, note %q", m.ScaleValues(), m.Layer.Note)
	}
	f = quanto("qfloat8_e4m3fn")
	for i := range f[quantoModule+".weight._data"].data {
		f[quantoModule+".weight._data"].data[i] = 0x3f // 1.875
	}
	_, b, err := f.quantoRead(quantoModel, quantoMap("qfloat8_e4m3fn", "none"))
	if err != nil || len(b) == 0 {
		t.Fatal(err)
	}
	scales := bfloats(f[quantoModule+".weight._scale"].data)
	for i, v := range bfloats(b) {
		if want := round16(1.875 * scales[i/160]); v != want {
			t.Errorf("weight %d is %v, want %v", i, v, want)
		}
	}
}

// TestQuantoActivations: scales of activations have no effect; a detail says that those of floats are not quantized.
func TestQuantoActivations(t *testing.T) {
	qmap := `{"x":{"weights":"none","activations":"qint8"},"y":{"weights":"qint8","activations":"none"}}`
	s, err := quantized.Parse([]byte(quantoModel), beside("quanto_qmap.json", qmap))
	if err != nil || len(s.Details) != 1 {
		t.Fatal(s, err)
	}
	const scale = "a scale of activations, which is not used"
	for name, want := range map[string]string{"x.input_scale": scale, "y.output_scale": scale, "z.input_scale": "",
		"x.scale": ""} {
		if got := s.Unused(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestQuantoRefused: what the map and the parts of a weight say of each other must agree.
func TestQuantoRefused(t *testing.T) {
	keep := func(files) {}
	remove := func(suffix string) func(files) { return func(f files) { delete(f, quantoModule+suffix) } }
	add := func(suffix string, t safetensors.DType, n int, shape ...int) func(files) {
		return func(f files) { f.add(quantoModule+suffix, t, make([]byte, n), shape...) }
	}
	set := func(suffix string, b []byte) func(files) {
		return func(f files) { copy(f[quantoModule+suffix].data, b) }
	}
	infinite := floats(1, float32(math.Inf(1)), 0)
	for _, c := range []struct {
		weights, declared, config string
		change                    func(files)
		want                      string // "" = accepted
	}{
		{"qint4", "qint4", quantoModel, keep, ""},
		{"qint4", "qint4", quantoModel, remove(".input_scale"), ""},
		{"qint4", "qint2", quantoModel, keep, "require [10 32]"},
		{"qint4", "qint8", quantoModel, keep, "has packed codes, but quanto_qmap.json says qint8"},
		{"qint4", "none", quantoModel, keep, "declares it as not quantized"},
		{"qint4", "qfloat8_e5m2", quantoModel, keep, `weights of type "qfloat8_e5m2"`},
		{"qint4", "qint4", `{}`, keep, "do not say how many columns"},
		{"qint4", "qint4", strings.Replace(quantoModel, ":160", ":320", 1), keep, "require [20 64]"},
		{"qint2", "qint2", strings.Replace(quantoModel, `"head_dim":8`, `"head_dim":6`, 1), keep, "6 rows"},
		{"qint4", "qint4", quantoModel, remove(".weight._scale"), `_scale" is missing`},
		{"qint4", "qint4", quantoModel, remove(".weight._shift"), `_shift" is missing`},
		{"qint4", "qint4", quantoModel, remove(".weight._data._data"), "it has scales, but neither"},
		{"qint4", "qint4", quantoModel, add(".weight._data", safetensors.I8, 1280, 8, 160), "it has both"},
		{"qint4", "qint4", quantoModel, add(".weight", safetensors.BF16, 2560, 8, 160), "and parts of it"},
		{"qint4", "qint4", quantoModel, add(".weight._scale", safetensors.F32, 80, 20, 1), "require [40 1]"},
		{"qint4", "qint4", quantoModel, add(".weight._shift", safetensors.F32, 80, 20, 1), "require [40 1]"},
		{"qint4", "qint4", quantoModel, add(".weight._shift", safetensors.BF16, 80, 40, 1), "has type BF16"},
		{"qint4", "qint4", quantoModel, set(".weight._shift", infinite), "has a shift of +Inf"},
		{"qint4", "qint4", quantoModel, set(".weight._scale", infinite), "is +Inf"},
		{"qint4", "qint4", quantoModel, func(f files) {
			f.add(quantoModule+".weight._shift", safetensors.U8, slices.Repeat([]byte{15, 16}, 20), 40, 1)
		}, "zero point 16 of row 0 does not fit 4 bits"},
		{"qint8", "qint8", quantoModel, keep, ""},
		{"qint8", "qint8", `{}`, keep, ""},
		{"qint8", "qint4", quantoModel, keep, "says qint4"},
		{"qint8", "qfloat8_e4m3fn", quantoModel, keep, "says qfloat8_e4m3fn"},
		{"qint8", "none", quantoModel, keep, "declares it as not quantized"},
		{"qint8", "qint8", quantoModel, remove(".weight._scale"), `_scale" is missing`},
		{"qint8", "qint8", quantoModel, remove(".weight._data"), "it has scales, but neither"},
		{"qint8", "qint8", quantoModel, add(".weight._shift", safetensors.F32, 32, 8, 1),
			"weights of 8 bits have none"},
		{"qint8", "qint8", quantoModel, add(".weight._scale", safetensors.F32, 4, 1, 1), "require [8 1]"},
		{"qint8", "qint8", quantoModel, add(".weight._data", "F8_E5M2", 1280, 8, 160), "has type F8_E5M2"},
		{"qfloat8_e4m3fn", "qfloat8_e4m3fn", quantoModel, keep, ""},
		{"qfloat8_e4m3fn", "qint8", quantoModel, keep, "says qint8"},
		{"qfloat8_e4m3fn", "none", quantoModel, keep, "declares it as not quantized"},
		{"qfloat8_e4m3fn", "qfloat8_e4m3fn", quantoModel, add(".weight._scale", safetensors.U8, 8, 8, 1),
			"has type U8"},
		{"qfloat8_e4m3fn", "qfloat8_e4m3fn", quantoModel, set(".weight._data", []byte{0x7f}), "row 0, column 0 is NaN"},
	} {
		f := quanto(c.weights)
		c.change(f)
		m, b, err := f.quantoRead(c.config, quantoMap(c.declared, "none"))
		if c.want == "" && (err != nil || m == nil && b == nil) || c.want != "" && !wellSaid(err, c.want) {
			t.Errorf("%s as %s with %s: %v, want %q", c.weights, c.declared, c.config, err, c.want)
		}
	}
}

// TestQuantoWhole: every module of the map is there, and quantized if it is declared so: weights of a model that was
// not frozen are floats, which Optimum Quanto quantizes in every forward pass.
func TestQuantoWhole(t *testing.T) {
	for _, c := range []struct{ module, weights, activations, tensor, want string }{
		{"y", "none", "none", "", ""},
		{"y", "none", "qint8", "y.weight", ""},
		{"y", "none", "qint8", "y.output_scale", ""},
		{"y", "none", "qint8", "z.weight", `"y": quanto_qmap.json declares it, but it has no tensors`},
		{"y", "qint4", "none", "", `"y": quanto_qmap.json declares it, but it has no tensors`},
		{"y", "qint4", "none", "y.input_scale", `"y": quanto_qmap.json declares it, but it has no tensors`},
		{"y", "qint4", "none", "y.weight", `"y": quanto_qmap.json says qint4, but tensor "y.weight" holds floats`},
		{"y", "qfloat8_e4m3fn", "qint8", "y.weight", `"y": quanto_qmap.json says qfloat8_e4m3fn`},
		{quantoModule, "qint8", "none", "y.weight", ""},
	} {
		f := quanto("qint8")
		f.add(c.tensor, safetensors.F32, floats(4, 1, 1), 2, 2)
		qmap := fmt.Sprintf(`{%q:{"weights":%q,"activations":%q}}`, c.module, c.weights, c.activations)
		s, err := quantized.Parse([]byte(quantoModel), beside("quanto_qmap.json", qmap))
		if err != nil || s.File != "quanto_qmap.json" {
			t.Fatal(s, err)
		}
		_, err = s.Values(nil, f.lookup, f.read)
		if c.want == "" && err != nil || c.want != "" && !wellSaid(err, c.want) {
			t.Errorf("%s with %s: %v, want %q", qmap, c.tensor, err, c.want)
		}
	}
}

// TestQuantoStack: experts of one block must have their codes in the same form.
func TestQuantoStack(t *testing.T) {
	one := &quantized.Layer{Module: "e0", Rows: 8, Columns: 32, Group: 32, ScaleOf: safetensors.F32, Shares: 2}
	other := *one
	other.Module = "e1"
	if err := quantized.Stackable([]*quantized.Layer{one, &other}); err != nil {
		t.Error(err)
	}
	other.Shares = 4
	if err := quantized.Stackable([]*quantized.Layer{one, &other}); !wellSaid(err, `"e1"`) {
		t.Errorf("codes of 4 and of 2 bits: %v", err)
	}
}
