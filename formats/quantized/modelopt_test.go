package quantized_test

import (
	"math"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/quantized"
	"github.com/lowpack/lowpack/formats/safetensors"
)

const (
	moEightConfig = `{"dtype":"bfloat16","quantization_config":{"quant_method":"modelopt","quant_algo":"FP8",` +
		`"config_groups":{"group_0":{"input_activations":{"dynamic":false,"num_bits":8,"type":"float"},` +
		`"weights":{"dynamic":false,"num_bits":8,"type":"float"},"targets":["Linear"]}},` +
		`"ignore":["lm_head","*.gate"],` +
		`"producer":{"name":"modelopt","version":"0.47.0"}}}`
	moFourConfig = `{"quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4",` +
		`"config_groups":{"group_0":{"weights":{"dynamic":false,"num_bits":4,"type":"float","group_size":16},` +
		`"targets":["Linear"]}},"ignore":[]}}`
	moMixedConfig = `{"dtype":"float16","quantization_config":{"quant_method":"modelopt","quant_algo":` +
		`"MIXED_PRECISION","quantized_layers":{"x":{"quant_algo":"FP8"},"y":{"quant_algo":"NVFP4","group_size":16}},` +
		`"config_groups":{"group_0":{"weights":{"num_bits":8,"type":"float"},"targets":["x"]},` +
		`"group_1":{"weights":{"num_bits":4,"type":"float","group_size":16},"targets":["y"]}}}}`
)

// TestModelOptRefused: what ModelOpt's configuration and tensors say of each other must agree.
func TestModelOptRefused(t *testing.T) {
	one := floats(1, 1, 0)
	keep := func(files) {}
	add := func(name string) func(files) {
		return func(f files) { f.add(name, safetensors.F32, one) }
	}
	four := func(f files) {
		for name := range f {
			delete(f, name)
		}
		for name, x := range sound(moFourConfig) {
			f[name] = x
		}
	}
	for _, c := range []struct {
		config, old, now string
		change           func(files)
		want             string // "" = accepted
	}{
		{moEightConfig, "", "", keep, ""},
		{moEightConfig, "", "", add("x.input_scale"), ""},
		{moEightConfig, "", "", func(f files) { f.add("x.weight_scale", safetensors.F32, one, 1, 1) }, ""},
		{moEightConfig, "", "", func(f files) { delete(f, "x.weight_scale") }, `"x.weight_scale" is missing`},
		{moEightConfig, "", "", func(f files) { f.add("x.weight_scale", safetensors.F32, floats(8, 1, 0), 8, 1) },
			"require [1 1]"},
		{moEightConfig, "", "", add("x.weight_scale_2"), `"x.weight_scale_2" is there`},
		{moEightConfig, "", "", add("x.pre_quant_scale"), `"x.pre_quant_scale" multiplies the inputs`},
		{moEightConfig, "", "", add("x.k_scale"), `"x.k_scale" is a scale of a KV cache`},
		{moEightConfig, "", "", four, "has 4 bits"},
		{moEightConfig, `"lm_head"`, `"lm_head","x*"`, keep, "declares it as not quantized"},
		{moEightConfig, `"lm_head"`, `"["`, keep, "cannot parse pattern"},
		{moEightConfig, `"weights":{`, `"weights":{"symmetric":true,`, keep, ""},
		{moEightConfig, `"weights":{`, `"weights":{"symmetric":false,`, keep, "symmetric is false"},
		{moEightConfig, `"weights":{`, `"weights":{"actorder":"group",`, keep, "actorder"},
		{moEightConfig, `"weights":{`, `"weights":{"block_structure":[128,128],`, keep, "block_structure"},
		{moEightConfig, `"ignore"`, `"exclude_modules":["x"],"ignore"`, keep, "exclude_modules"},
		{moEightConfig, `"FP8"`, `"FP8_PER_CHANNEL_PER_TOKEN"`, keep, "quant_algo"},
		{moEightConfig, `"quant_algo":"FP8",`, ``, keep, "quant_algo"},
		{moEightConfig, `"quant_algo"`, `"quantized_layers":{"x":{"quant_algo":"FP8"}},"quant_algo"`, keep,
			"names 1 modules"},
		{moEightConfig, `false,"num_bits":8,"type":"float"},"targets"`,
			`false,"num_bits":4,"type":"float"},"targets"`, keep, "weights of 4 bits"},
		{moEightConfig, `"type":"float"},"targets"`, `"type":"float","strategy":"channel"},"targets"`, keep,
			"strategy"},
		{moEightConfig, `"type":"float"},"targets"`, `"type":"int"},"targets"`, keep, `"int"`},
		{moEightConfig, `"targets":`, `"pre_quant_scale":true,"targets":`, keep, "pre_quant_scale"},
		{moEightConfig, `"dtype":"bfloat16",`, ``, keep, "has no dtype"},
		{moFourConfig, "", "", keep, ""},
		{moFourConfig, `"NVFP4"`, `"W4A16_NVFP4"`, keep, ""},
		{moFourConfig, "", "", func(f files) { f.add("x.weight_scale_2", safetensors.F32, one, 1) }, ""},
		{moFourConfig, "", "", func(f files) { delete(f, "x.weight_scale_2") }, `"x.weight_scale_2" is missing`},
		{moFourConfig, "", "", func(f files) { delete(f, "x.weight_scale") }, `"x.weight_scale" is missing`},
		{moFourConfig, "", "", func(f files) { f.add("x.weight", safetensors.BF16, make([]byte, 256), 8, 16) },
			`"x.weight_scale" is there, but "x.weight" has type "BF16"`},
		{moFourConfig, `"NVFP4"`, `"FP8"`, keep, "weights of 4 bits"},
		{moFourConfig, `"quant_algo"`, `"group_size":32,"quant_algo"`, keep, "group_size is 32"},
		{moFourConfig, `{"group_0":{"weights":{"dynamic":false,"num_bits":4,"type":"float","group_size":16},` +
			`"targets":["Linear"]}}`, `{"group_0":{}}`, keep, "weights is missing"},
		{moMixedConfig, "", "", keep, ""},
		{moMixedConfig, `{"x":{"quant_algo":"FP8"},`, `{`, keep, "weights of 8 bits"},
		{moMixedConfig, `"x"`, `"z"`, keep, "does not name it"},
		{moMixedConfig, `"quant_algo":"FP8"`, `"quant_algo":"NVFP4"`, keep, "weights of 8 bits"},
		{moMixedConfig, `"quant_algo":"NVFP4"`, `"quant_algo":"NVFP4_AWQ","pre_quant_scale":true`, keep,
			"pre_quant_scale"},
		{moMixedConfig, `"quant_algo":"NVFP4"`, `"quant_algo":"MXFP8"`, keep, `"MXFP8"`},
	} {
		f := sound(c.config)
		c.change(f)
		config := strings.ReplaceAll(c.config, c.old, c.now)
		if c.old == "" {
			config = c.config
		}
		found, err := f.readAll(config)
		if c.want == "" && (err != nil || !found) {
			t.Errorf("%s: %v", config, err)
		}
		if c.want != "" && !wellSaid(err, c.want) {
			t.Errorf("%s: %v, want %q", config, err, c.want)
		}
	}
}

// TestModelOptAround: experts are declared together, under the name of the module around them.
func TestModelOptAround(t *testing.T) {
	f := files{}
	f.add("x.experts.1.up.weight", "F8_E4M3", make([]byte, 128), 8, 16)
	f.add("x.experts.1.up.weight_scale", safetensors.F32, floats(1, 1, 0))
	s, err := quantized.Parse([]byte(moMixedConfig), nil)
	if err != nil {
		t.Fatal(err)
	}
	found, err := s.Values([]string{"x.experts.1.up.weight"}, f.lookup, f.read)
	if err != nil || len(found) != 1 {
		t.Errorf("%v, %v", found, err)
	}
}

// TestModelOptCache: scales of a KV cache have no effect where one is declared, whether the weight beside them is
// quantized or not.
func TestModelOptCache(t *testing.T) {
	for _, scheme := range []string{`{"dynamic":false,"num_bits":8,"type":"float"}`, `"NVFP4"`} {
		config := strings.Replace(moFourConfig, `"ignore"`, `"kv_cache_scheme":`+scheme+`,"ignore"`, 1)
		f := sound(config)
		if len(f) > 0 {
			t.Fatal("the format is another one")
		}
		f = sound(moFourConfig)
		f.add("x.k_scale", safetensors.F32, floats(1, 1, 0))
		f.add("y.v_scale", safetensors.F32, floats(1, 1, 0))
		s, err := quantized.Parse([]byte(config), nil)
		if err != nil || len(s.Details) != 1 || !strings.Contains(s.Details[0], "kv_cache_scheme is not followed") {
			t.Fatal(s, err)
		}
		const scale = "a scale of a KV cache, which is kept in floats"
		for name, want := range map[string]string{"x.k_scale": scale, "y.v_scale": scale, "y.q_scale": "",
			"x.weight_scale": ""} {
			if got := s.Unused(name); got != want {
				t.Errorf("%s: %q", name, got)
			}
		}
		for _, module := range []string{"x", "y"} {
			if _, err := s.Layer(module, f.lookup); err != nil {
				t.Error(err)
			}
		}
	}
	var none *quantized.Scheme
	if s, err := quantized.Parse([]byte(moFourConfig), nil); err != nil || s.Unused("x.k_scale") != "" ||
		none.Unused("x.k_scale") != "" {
		t.Error("a scale of a KV cache that is not declared has no effect")
	}
}

// TestModelOptFile: hf_quant_config.json declares the same as config.json, alone or beside it.
func TestModelOptFile(t *testing.T) {
	const settings = `{"producer":{"name":"modelopt","version":"0.47.0"},"quantization":{"quant_algo":"NVFP4",` +
		`"kv_cache_quant_algo":"FP8","group_size":16,"exclude_modules":[]}}`
	for _, c := range []struct{ config, old, now, want string }{
		{`{}`, "", "", ""},
		{moFourConfig, "", "", ""},
		{moFourConfig, `[]`, `["lm_head"]`, "ignore is"},
		{moFourConfig, `"NVFP4"`, `"FP8"`, "quant_algo is"},
		{moEightConfig, "", "", "ignore is"},
		{gptqConfig, "", "", "hf_quant_config.json"},
		{`{}`, `"quantization"`, `"warp_drive":1,"quantization"`, `hf_quant_config.json: unsupported: "warp_drive"`},
		{`{}`, `"quant_algo"`, `"warp_drive":1,"quant_algo"`, `"warp_drive"`},
		{`{}`, `"producer":{"name":"modelopt","version":"0.47.0"},"quantization"`, `"quantization":null,"producer"`,
			"quantization is missing"},
		{`{}`, `16`, `32`, "group_size is 32"},
		{moFourConfig, `16`, `32`, "group_size is 32"},
		{moFourConfig, `"group_size"`, `"pre_quant_scale":true,"group_size"`, "pre_quant_scale"},
	} {
		s, err := quantized.Parse([]byte(c.config),
			beside("hf_quant_config.json", strings.Replace(settings, c.old, c.now, 1)))
		if c.want != "" {
			if !wellSaid(err, c.want[strings.LastIndexByte(c.want, ':')+1:]) {
				t.Errorf("%s and %s: %v, want %q", c.config, c.now, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.config, err)
			continue
		}
		if l, err := s.Layer("x", sound(moFourConfig).lookup); err != nil || l == nil || l.Group != 16 {
			t.Errorf("%s: %v, %v", c.config, l, err)
		}
		if s.Unused("x.k_scale") == "" {
			t.Errorf("%s: kv_cache_quant_algo counts in hf_quant_config.json alone", c.config)
		}
	}
}

// TestModelOptRounds: the scale of a tensor is rounded to the type of the weights before it multiplies.
func TestModelOptRounds(t *testing.T) {
	f := sound(moEightConfig)
	f["x.weight"].data[0] = 0x3f // 1.875
	for bits := math.Float32bits(1); bits < math.Float32bits(1.5); bits += 1 << 14 {
		s := math.Float32frombits(bits)
		want := round16(1.875 * round16(s))
		if want == round16(1.875*s) {
			continue
		}
		f.add("x.weight_scale", safetensors.F32, floats(1, s, 0))
		b, err := f.values(moEightConfig)
		if err != nil {
			t.Fatal(err)
		}
		if got := bfloats(b)[0]; got != want {
			t.Errorf("1.875 times %v is %v, want %v", s, got, want)
		}
		return
	}
	t.Fatal("no product shows the difference")
}

// TestModelOptFactor: the scales of NVFP4 are multiplied by the global one.
func TestModelOptFactor(t *testing.T) {
	f := sound(moFourConfig)
	f["x.weight"].data[0] = 0xf2 // 1 and −6
	f["x.weight_scale"].data[0] = 0x3c
	m, err := f.open(moFourConfig, "x")
	if err != nil {
		t.Fatal(err)
	}
	if c := codes(m); float32(c[0])*scaleOf(m, 0) != 1.5*0.375 || float32(c[1])*scaleOf(m, 0) != -6*1.5*0.375 {
		t.Errorf("codes %v times %v", c[:2], scaleOf(m, 0))
	}
}
