package quantized_test

import (
	"bytes"
	"math"
	"slices"
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
	moRowConfig = `{"dtype":"bfloat16","quantization_config":{"quant_method":"modelopt","quant_algo":` +
		`"FP8_PER_CHANNEL_PER_TOKEN"}}`
	moBlockConfig  = `{"dtype":"bfloat16","quantization_config":{"quant_method":"modelopt","quant_algo":"fp8_pb_wo"}}`
	moPowersConfig = `{"dtype":"bfloat16","quantization_config":{"quant_method":"modelopt","quant_algo":"MXFP8",` +
		`"group_size":32}}`
	moMXConfig    = `{"quantization_config":{"quant_method":"modelopt","quant_algo":"mxfp4"}}`
	moRoundConfig = `{"quantization_config":{"quant_method":"modelopt","quant_algo":"W4A16_AWQ","group_size":8,` +
		`"has_zero_point":false,"pre_quant_scale":true}}`
	moSmoothConfig = `{"dtype":"bfloat16","quantization_config":{"quant_method":"modelopt","quant_algo":` +
		`"W8A8_SQ_PER_CHANNEL"}}`
	moBytesConfig = `{"quantization_config":{"quant_method":"modelopt","quant_algo":"W8A16"}}`
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
	for _, c := range []altered{
		{moEightConfig, "", "", keep, ""},
		{moEightConfig, "", "", add("x.input_scale"), ""},
		{moEightConfig, "", "", func(f files) { f.add("x.weight_scale", safetensors.F32, one, 1, 1) }, ""},
		{moEightConfig, "", "", func(f files) { delete(f, "x.weight_scale") }, `"x.weight_scale" is missing`},
		{moEightConfig, "", "", func(f files) { f.add("x.weight_scale", safetensors.F32, floats(8, 1, 0), 8, 1) },
			"require [1 1]"},
		{moEightConfig, "", "", add("x.weight_scale_2"), `"x.weight_scale_2" is there`},
		{moEightConfig, "", "", add("x.pre_quant_scale"), `"x.pre_quant_scale" of ModelOpt multiplies the inputs`},
		{moEightConfig, "", "", add("x.k_scale"), `"x.k_scale" is a scale of a KV cache`},
		{moEightConfig, "", "", four, "its weight has type U8"},
		{moEightConfig, `"lm_head"`, `"lm_head","x*"`, keep, "declares it as not quantized"},
		{moEightConfig, `"lm_head"`, `"["`, keep, ""}, // only a name that is a bracket
		{moEightConfig, `"lm_head"`, `"[!a-w]"`, keep, "declares it as not quantized"},
		{moEightConfig, `"lm_head"`, `"` + strings.Repeat("a", 1025) + `"`, keep, "at most 1024"},
		{moEightConfig, `"weights":{`, `"weights":{"symmetric":true,`, keep, ""},
		{moEightConfig, `"weights":{`, `"weights":{"symmetric":false,`, keep, "symmetric is false"},
		{moEightConfig, `"weights":{`, `"weights":{"actorder":"group",`, keep, "actorder"},
		{moEightConfig, `"weights":{`, `"weights":{"block_structure":[128,128],`, keep, "block_structure"},
		{moEightConfig, `"ignore"`, `"exclude_modules":["x"],"ignore"`, keep, "exclude_modules"},
		{moEightConfig, `"FP8"`, `"FP8_PER_CHANNEL_PER_TOKEN"`, keep, "weights is"},
		{moEightConfig, `"FP8"`, `"MXFP6"`, keep, `quant_algo "MXFP6"; supported are FP8, `},
		{moEightConfig, `"FP8"`, `"W4A8_AWQ"`, keep, `quant_algo "W4A8_AWQ": codes are quantized`},
		{moEightConfig, `"FP8"`, `"NVFP4_AWQ"`, keep, "weights is"},
		{moEightConfig, `"quant_algo":"FP8",`, ``, keep, "quant_algo is null or missing"},
		{moEightConfig, `"FP8"`, `null`, keep, "quant_algo is null or missing"},
		{moEightConfig, `"quant_algo":"FP8"`, `"kv_cache_scheme":"FP8"`, keep, "quant_algo is"},
		{moEightConfig, `"quant_algo"`, `"quantized_layers":{"x":{"quant_algo":"FP8"}},"quant_algo"`, keep,
			"names 1 modules"},
		{moEightConfig, `false,"num_bits":8,"type":"float"},"targets"`,
			`false,"num_bits":4,"type":"float"},"targets"`, keep, `"num_bits":4`},
		{moEightConfig, `"type":"float"},"targets"`, `"type":"float","strategy":"channel"},"targets"`, keep,
			"strategy"},
		{moEightConfig, `"type":"float"},"targets"`, `"type":"int"},"targets"`, keep, `"int"`},
		{moEightConfig, `"type":"float"},"targets"`, `"type":"float","group_size":16},"targets"`, keep, "group_size"},
		{moEightConfig, `"targets":`, `"pre_quant_scale":true,"targets":`, keep, ""},
		{moEightConfig, `"targets":`, `"lora_rank":32,"targets":`, keep, "lora_rank"},
		{moEightConfig, "", "", func(f files) { f.add("x.weight_scale", safetensors.U8, []byte{127}) }, "has type U8"},
		{moEightConfig, `"dtype":"bfloat16",`, ``, keep, "has no dtype"},
		{moFourConfig, "", "", keep, ""},
		{moFourConfig, `"NVFP4"`, `"W4A16_NVFP4"`, keep, ""},
		{moFourConfig, `"NVFP4"`, `"W4A8_NVFP4_FP8"`, keep, ""},
		{moFourConfig, "", "", func(f files) { f.add("x.weight_scale_2", safetensors.F32, one, 1) }, ""},
		{moFourConfig, "", "", func(f files) { delete(f, "x.weight_scale_2") }, `"x.weight_scale_2" is missing`},
		{moFourConfig, "", "", func(f files) { delete(f, "x.weight_scale") }, `"x.weight_scale" is missing`},
		{moFourConfig, "", "", func(f files) { f.add("x.weight", safetensors.BF16, make([]byte, 256), 8, 16) },
			`"x.weight_scale" is there, but "x.weight" has type "BF16"`},
		{moFourConfig, `"NVFP4"`, `"FP8"`, keep, `"num_bits":4`},
		{moFourConfig, `"quant_algo"`, `"group_size":64,"quant_algo"`, keep, "has groups of 16 or 32"},
		{moFourConfig, `"quant_algo"`, `"group_size":32,"quant_algo"`, keep, "with a group_size of 32"},
		{moFourConfig, `"group_size":16`, `"group_size":32`, keep, "require [8 0]"},
		{moFourConfig, `,"group_size":16`, ``, keep, "correct the wrong one"},
		{moFourConfig, `{"group_0":{"weights":{"dynamic":false,"num_bits":4,"type":"float","group_size":16},` +
			`"targets":["Linear"]}}`, `{"group_0":{}}`, keep, "weights is missing"},
		{moMixedConfig, "", "", keep, ""},
		{moMixedConfig, `{"x":{"quant_algo":"FP8"},`, `{`, keep, `"num_bits":8`},
		{moMixedConfig, `"x"`, `"z"`, keep, "does not name it"},
		{moMixedConfig, `"quant_algo":"FP8"`, `"quant_algo":"NVFP4"`, keep, `"num_bits":8`},
		{moMixedConfig, `"quant_algo":"NVFP4"`, `"quant_algo":"NVFP4_SVD","pre_quant_scale":true`, keep,
			"a matrix of low rank"},
		{moMixedConfig, `"quant_algo":"NVFP4"`, `"quant_algo":"MXFP8"`, keep, "quant_algo MXFP8 has groups of 32"},
		{moMixedConfig, `"targets":["x"]`, `"quant_algo":"FP8","targets":["x"]`, keep, ""},
		{moMixedConfig, `"targets":["x"]`, `"quant_algo":"NVFP4","targets":["x"]`, keep, "correct the wrong one"},
		{moRowConfig, "", "", keep, ""},
		{moRowConfig, "", "", func(f files) { f.add("x.weight_scale", safetensors.F32, floats(8, 1, 0), 8, 1) },
			"want 1 dimensions"},
		{moBlockConfig, "", "", keep, ""},
		{moBlockConfig, `"fp8_pb_wo"`, `"FP8_PB_WO"`, keep, ""},
		{moBlockConfig, "", "", func(f files) { f.add("x.weight_scale", safetensors.F32, floats(4, 1, 0), 2, 2) },
			"want 4 dimensions"},
		{moPowersConfig, "", "", keep, ""},
		{moPowersConfig, "", "", func(f files) { f.add("x.weight_scale", safetensors.F32, floats(8, 1, 0), 8, 1) },
			"has type F32, which does not go with"},
		{moMXConfig, "", "", keep, ""},
		{moMXConfig, `"mxfp4"`, `"W4A8_MXFP4_FP8"`, keep, ""},
		{moRoundConfig, "", "", keep, ""},
		{moRoundConfig, `"group_size":8`, `"group_size":16`, keep, "not whole groups of 16"},
		{moRoundConfig, `"group_size":8,`, ``, keep, ""}, // as in config.json
		{moRoundConfig, "", "", func(f files) { f.add("x.weight_scale", safetensors.F32, floats(24, 1, 0), 8, 3) },
			"3 groups of scales for 16 columns: not whole groups of 8"},
		{moRoundConfig, `"group_size":8,`, ``, func(f files) {
			f.add("x.weight_scale", safetensors.F32, floats(24, 1, 0), 8, 3)
		}, "16 columns: not whole groups of 5"},
		{moRoundConfig, "", "", add("x.weight_scale_2"), "codes of integers have one scale"},
		{moRoundConfig, "", "", add("x.pre_quant_scale"), "config.json has no dtype"},
		{moRoundConfig, `"quant_algo":"W4A16_AWQ"`, `"quant_algo":"W8A16"`, add("x.pre_quant_scale"), "has none"},
		{moBytesConfig, "", "", add("x.pre_quant_scale"), `"x.pre_quant_scale" of ModelOpt multiplies the inputs`},
		{moSmoothConfig, "", "", keep, ""},
		{moSmoothConfig, "", "", func(f files) { delete(f, "x.pre_quant_scale") }, ""},
		{moSmoothConfig, "", "", func(f files) {
			f.add("x.pre_quant_scale", safetensors.F32, floats(8, 1, 0), 8)
		}, "require [16]"},
		{moSmoothConfig, "", "", func(f files) { f.add("x.weight", safetensors.BF16, make([]byte, 256), 8, 16) },
			`"x.weight_scale" is there, but "x.weight" has type "BF16"`},
		{moRoundConfig, `"has_zero_point":false`, `"has_zero_point":true`, keep, "has_zero_point"},
		{moBytesConfig, "", "", keep, ""},
		{moBytesConfig, `"W8A16"`, `"W8A8_SQ_PER_CHANNEL"`, add("x.input_scale"), ""},
		{moBytesConfig, "", "", add("x.weight_scale_2"), `"x.weight_scale_2" is there`},
		{moEightConfig, "", "", func(f files) { f.add("x.weight", safetensors.I8, make([]byte, 128), 8, 16) },
			"its weight has type I8"},
	} {
		c.check(t)
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
		{`{}`, `16`, `64`, "group_size is 64"},
		{moFourConfig, `16`, `32`, "group_size of 32"},
		{moFourConfig, `"group_size"`, `"lora_rank":8,"group_size"`, "lora_rank"},
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

// TestModelOptScales: which weights have which scale, and that those of MXFP8 are not rounded.
func TestModelOptScales(t *testing.T) {
	for config, want := range map[string]func(row, column int) float32{
		moRowConfig:    func(row, _ int) float32 { return 1.875 * float32(1+row) },
		moBlockConfig:  func(row, column int) float32 { return 1.875 * float32(1+row/128*2+column/128) },
		moPowersConfig: func(row, _ int) float32 { return float32(math.Ldexp(1.875, row-3)) },
	} {
		f := sound(config)
		w := f["x.weight"]
		for i := range w.data {
			w.data[i] = 0x3f // 1.875
		}
		if config == moPowersConfig {
			f.add("x.weight_scale", safetensors.U8, []byte{124, 125, 126, 127, 128, 129, 130, 131}, 8, 1)
		}
		b, err := f.values(config)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range bfloats(b) {
			if want := want(i/w.Shape[1], i%w.Shape[1]); v != want {
				t.Fatalf("%s: weight %d is %v, want %v", config, i, v, want)
			}
		}
	}
	f := sound(moPowersConfig)
	f["x.weight"].data[0] = 8 // 2^-6
	f.add("x.weight_scale", safetensors.U8, []byte{127 - 18, 0, 0, 0, 0, 0, 0, 0}, 8, 1)
	b, err := f.values(strings.Replace(moPowersConfig, "bfloat16", "float16", 1))
	if err != nil || b[0] != 1 || b[1] != 0 {
		t.Errorf("2^-24 is %x, %v", b[:2], err)
	}
	f["x.weight"].data[0] = 0x70 // 2^7
	f.add("x.weight_scale", safetensors.U8, []byte{127 - 31, 0, 0, 0, 0, 0, 0, 0}, 8, 1)
	b, err = f.values(strings.Replace(moPowersConfig, "bfloat16", "float16", 1))
	if err != nil || b[0] != 1 || b[1] != 0 {
		t.Errorf("2^-24 of a scale that F16 does not have is %x, %v", b[:2], err)
	}
}

// TestModelOptCodes: bytes hold signed codes of two rows, or of one.
func TestModelOptCodes(t *testing.T) {
	f := sound(moRoundConfig)
	for i := range f["x.weight"].data {
		f["x.weight"].data[i] = byte(i*7%16 | i*3%16<<4)
	}
	m, err := f.open(moRoundConfig, "x")
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range codes(m) {
		row, k := i/16, i%16
		at := row/2*16 + k
		want := at * 7 % 16
		if row%2 == 1 {
			want = at * 3 % 16
		}
		if want >= 8 {
			want -= 16
		}
		if int(c) != want {
			t.Errorf("row %d, column %d is %d, want %d", row, k, c, want)
		}
	}
	if m.Layer.Group != 8 || !slices.Equal(m.Scales, f["x.weight_scale"].data) {
		t.Errorf("groups of %d, scales %v", m.Layer.Group, m.ScaleValues())
	}
	f = sound(moBytesConfig)
	copy(f["x.weight"].data, []byte{0x80, 0x7f, 0xff})
	if m, err = f.open(moBytesConfig, "x"); err != nil || !slices.Equal(codes(m)[:4], []int8{-128, 127, -1, 0}) {
		t.Errorf("%v", err)
	}
}

// TestModelOptGroups: groups of 32 columns of E2M1 elements, which a configuration may not declare.
func TestModelOptGroups(t *testing.T) {
	f := files{}
	f.add("x.weight", safetensors.U8, make([]byte, 256), 8, 32)
	f.add("x.weight_scale", "F8_E4M3", bytes.Repeat([]byte{0x38}, 16), 8, 2)
	f.add("x.weight_scale_2", safetensors.F32, floats(1, 1, 0))
	const config = `{"quantization_config":{"quant_method":"modelopt","quant_algo":"W4A8_NVFP4_FP8"}}`
	for _, c := range []string{config, strings.Replace(config, `}}`, `,"group_size":32}}`, 1)} {
		if m, err := f.open(c, "x"); err != nil || m.Layer.Group != 32 || len(m.Scales) != 4*16 {
			t.Errorf("%s: %v", c, err)
		}
	}
	if _, err := f.open(strings.Replace(config, `}}`, `,"group_size":16}}`, 1), "x"); !wellSaid(err, "require [8 4]") {
		t.Error(err)
	}
}

// TestModelOptNone: where no weight is quantized, keys and values may be.
func TestModelOptNone(t *testing.T) {
	const config = `{"quantization_config":{"quant_method":"modelopt","quant_algo":null,"kv_cache_scheme":"FP8"}}`
	f := sound(moFourConfig)
	if _, err := f.open(config, "x"); !wellSaid(err, "has no quant_algo") {
		t.Error(err)
	}
	f = files{}
	f.add("x.weight", safetensors.BF16, make([]byte, 256), 8, 16)
	f.add("x.k_scale", safetensors.F32, floats(1, 1, 0))
	if found, err := f.readAll(config); found || err != nil {
		t.Error(found, err)
	}
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
