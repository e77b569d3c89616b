package quantized_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/quantized"
	"github.com/lowpack/lowpack/formats/safetensors"
)

// Configurations of Quark, which differ in what they say of weights.
const (
	qkHead = `{"dtype":"bfloat16","quantization_config":{"quant_method":"quark","exclude":["lm_head","*.gate"],` +
		`"algo_config":null,"quant_mode":"eager_mode","version":"0.13","export":{"pack_method":"reorder",` +
		`"weight_format":"real_quantized","kv_cache_group":[]},"layer_quant_config":{},"layer_type_quant_config":{},` +
		`"global_quant_config":{"bias":null,"input_tensors":null,"output_tensors":null,"weight":{"is_dynamic":false,`
	qkTail        = `}}}}`
	qkFourConfig  = qkHead + `"dtype":"uint4","qscheme":"per_group","ch_axis":-1,"group_size":8,"symmetric":false` + qkTail
	qkRowConfig   = qkHead + `"dtype":"int4","qscheme":"per_channel","ch_axis":0,"symmetric":true` + qkTail
	qkEightConfig = qkHead + `"dtype":"int8","qscheme":"per_channel","ch_axis":0,"symmetric":true` + qkTail
	qkOneConfig   = qkHead + `"dtype":"int4","qscheme":"per_tensor","symmetric":false` + qkTail
	qkFloatConfig = qkHead + `"dtype":"fp8_e4m3","qscheme":"per_channel","ch_axis":0,"symmetric":true` + qkTail
	qkBlockConfig = qkHead + `"dtype":"fp8_e4m3","qscheme":"per_block","block_size":[4,8],"symmetric":true` + qkTail
	qkMXConfig    = qkHead + `"dtype":"fp4","qscheme":"per_group","ch_axis":-1,"group_size":32,"symmetric":null,` +
		`"scale_format":"e8m0"` + qkTail
	qkSixConfig = qkHead + `"dtype":"fp6_e2m3","qscheme":"per_group","ch_axis":-1,"group_size":32,"symmetric":null,` +
		`"scale_format":"e8m0"` + qkTail
)

// qkOther declares int8 for a layer.
const qkOther = `{"weight":{"dtype":"int8","qscheme":"per_channel","ch_axis":0,"symmetric":true}}`

// quark adds a weight of 8 rows and 16 columns, or 32 with powers of two as scales.
func (f files) quark(config string) {
	zero := func(n int) []byte { return make([]byte, n) }
	switch config {
	case qkFourConfig:
		f.add("x.weight", "I32", zero(64), 16, 1)
		f.add("x.weight_scale", safetensors.F32, floats(16, 1, 1), 2, 8)
		f.add("x.weight_zero_point", "I32", []byte(strings.Repeat("\x77", 8)), 2, 1)
	case qkRowConfig:
		f.add("x.weight", "I32", zero(64), 8, 2)
		f.add("x.weight_scale", safetensors.F32, floats(8, 1, 1), 8)
		f.add("x.weight_zero_point", "I32", zero(4), 1)
	case qkOneConfig:
		f.add("x.weight", "I32", zero(64), 8, 2)
		f.add("x.weight_scale", safetensors.F32, floats(1, 1, 1))
		f.add("x.weight_zero_point", "I32", []byte{0xfb, 0xff, 0xff, 0xff})
	case qkEightConfig:
		f.add("x.weight", safetensors.I8, zero(128), 8, 16)
		f.add("x.weight_scale", safetensors.F32, floats(8, 1, 1), 8)
	case qkFloatConfig:
		f.add("x.weight", "F8_E4M3", zero(128), 8, 16)
		f.add("x.weight_scale", safetensors.F32, floats(8, 1, 1), 8)
	case qkBlockConfig:
		f.add("x.weight", "F8_E4M3", zero(128), 8, 16)
		f.add("x.weight_scale", safetensors.F32, floats(4, 1, 1), 2, 2)
	case qkMXConfig:
		f.add("x.weight", safetensors.U8, zero(128), 8, 16)
		f.add("x.weight_scale", safetensors.U8, zero(8), 8, 1)
	case qkSixConfig:
		f.add("x.weight", safetensors.U8, zero(192), 8, 24)
		f.add("x.weight_scale", safetensors.U8, []byte{120, 121, 122, 123, 124, 125, 126, 127}, 8, 1)
	}
}

// TestQuarkRefused: what Quark's configuration and tensors say of each other must agree, and what is not read is
// refused by name.
func TestQuarkRefused(t *testing.T) {
	one := floats(1, 1, 0)
	keep := func(files) {}
	add := func(name string) func(files) {
		return func(f files) { f.add(name, safetensors.F32, one) }
	}
	for _, c := range []altered{
		{qkFloatConfig, "", "", keep, ""},
		{qkFloatConfig, "", "", add("x.input_scale"), ""},
		{qkFloatConfig, "", "", add("x.output_scale"), ""},
		{qkFloatConfig, "", "", func(f files) { delete(f, "x.weight_scale") }, `"x.weight_scale" is missing`},
		{qkFloatConfig, "", "", func(f files) { f.add("x.weight_scale", safetensors.U8, make([]byte, 8), 8) },
			"has type U8"},
		{qkFloatConfig, "", "", func(f files) { f.add("x.weight", safetensors.BF16, make([]byte, 256), 8, 16) },
			`"x.weight_scale" is there, but "x.weight" has type BF16`},
		{qkFloatConfig, "", "", func(f files) { f.add("x.weight", safetensors.U8, make([]byte, 128), 8, 16) },
			"its weight has type U8"},
		{qkFloatConfig, `"*.gate"`, `"x*"`, keep, "declares it as not quantized"},
		{qkFloatConfig, `"*.gate"`, `"` + strings.Repeat("a", 1025) + `"`, keep, "at most 1024"},
		{qkFloatConfig, `"bfloat16"`, `"int8"`, keep, `dtype is "int8"`},
		{qkFloatConfig, `"quark"`, `"quark","warp_drive":1`, keep, `"warp_drive" is an unknown key`},
		{qkFloatConfig, `"bias":null`, `"warp_drive":1`, keep, `"warp_drive" is an unknown key`},
		{qkFloatConfig, `"is_dynamic":false`, `"warp_drive":1`, keep, `"warp_drive" is an unknown key`},
		{qkFloatConfig, `"kv_cache_group":[]`, `"warp_drive":1`, keep, `"warp_drive" is an unknown key`},
		{qkFloatConfig, `"input_tensors":null`, `"input_tensors":{"warp_drive":1}`, keep, `"warp_drive" is an unknown`},
		{qkFloatConfig, `"input_tensors":null`, `"input_tensors":1`, keep, "where an object is expected"},
		{qkFloatConfig, `"is_dynamic":false`, `"is_dynamic":true`, keep, "is_dynamic is true"},
		{qkFloatConfig, `"is_dynamic":false`, `"is_dynamic":false,"dynamic":true`, keep, "dynamic is true"},
		{qkFloatConfig, `"is_dynamic":false`, `"is_scale_quant":true`, keep, "is_scale_quant is true"},
		{qkFloatConfig, `"bias":null`, `"bias":{"dtype":"int8"}`, keep, "biases are quantized"},
		{qkFloatConfig, `"fp8_e4m3"`, `"fp8_e5m2"`, keep, `dtype "fp8_e5m2"; supported are fp4, fp6_e2m3`},
		{qkFloatConfig, `"per_channel"`, `"per_group"`, keep, `qscheme "per_group" of dtype fp8_e4m3`},
		{qkFloatConfig, `"ch_axis":0`, `"ch_axis":1`, keep, "ch_axis is 1"},
		{qkFloatConfig, `"ch_axis":0`, `"axis":0`, keep, ""}, // of versions before 1.0
		{qkFloatConfig, `"ch_axis":0`, `"scale_format":"e8m0"`, keep, "scale_format is"},
		{qkFloatConfig, `"global_quant_config"`, `"kv_cache_post_rope":null,"softmax_quant_spec"`, keep,
			"global_quant_config is missing"},
		{qkFloatConfig, `"algo_config":null`, `"algo_config":[{"name":"awq"},{"name":"smooth"}]`, keep, ""},
		{qkFloatConfig, `"algo_config":null`, `"algo_config":[{"name":"rotation"}]`, keep, `algorithm "rotation"`},
		{qkFloatConfig, `"algo_config":null`, `"algo_config":{"name":"quarot"}`, keep, `algorithm "quarot"`},
		{qkFloatConfig, `"algo_config":null`, `"algo_config":"awq"`, keep, "where an object is expected"},
		{qkFloatConfig, `"real_quantized"`, `"fake_quantized"`, keep, "remove quantization_config"},
		{qkFloatConfig, `"reorder"`, `"shuffle"`, keep, `pack_method "shuffle"`},
		{qkFloatConfig, `"weight":{`, `"weight":[{`, keep, "config.json"},
		{qkFloatConfig, `"layer_quant_config":{}`, `"layer_quant_config":{"x":{"weight":null}}`, keep,
			"declares it as not quantized"},
		{qkFloatConfig, `"layer_quant_config":{}`, `"layer_quant_config":{"x":{"weight":[{},{}]}}`, keep, "2 stages"},
		{qkFloatConfig, `"layer_quant_config":{}`, `"layer_quant_config":{"y*":{"weight":null}}`, keep, ""},
		{qkFloatConfig, `"layer_quant_config":{}`,
			`"layer_quant_config":{"` + strings.Repeat("a", 1025) + `":{}}`, keep, "at most 1024"},
		{qkFloatConfig, `"layer_type_quant_config":{}`, `"layer_type_quant_config":{"Linear":{"weight":null}}`, keep,
			"declares it as not quantized"},
		{qkFloatConfig, `"layer_type_quant_config":{}`, `"layer_type_quant_config":{"Conv2d":{"weight":null}}`, keep, ""},
		{qkFloatConfig, `"layer_quant_config":{}`, `"layer_quant_config":{"*":` + qkOther + `,"x":` + qkOther + `}`, keep,
			"dtype int8"},
		{qkFloatConfig, `"layer_quant_config":{}`, `"layer_quant_config":{"*":{"weight":null},"x":` + qkOther + `}`,
			keep, "declares several weights of it"},
		{qkFloatConfig, `"exclude"`, `"kv_cache_quant_config":{"x":` + qkOther + `},"exclude"`, keep,
			`several weights of it, of dtype "fp8_e4m3" and "int8"`},
		{qkEightConfig, `"exclude"`, `"kv_cache_quant_config":{"x":` + qkOther + `},"exclude"`, keep, ""},
		{qkFloatConfig, `"exclude"`, `"kv_cache_quant_config":{"x":{"warp_drive":1}},"exclude"`, keep,
			`"warp_drive" is an unknown key`},
		{qkFloatConfig, `"algo_config":null`, `"algo_config":[{"name":"awq","warp_drive":1}]`, keep,
			`"warp_drive" is an unknown key`},
		{qkFloatConfig, `"eager_mode"`, `"warp_mode"`, keep, `quant_mode "warp_mode"`},
		{qkFloatConfig, `"ch_axis":0`, `"scale_format":"e5m3"`, keep, "scale_format is"},
		{qkFloatConfig, `"layer_quant_config":{}`, `"layer_quant_config":{"x":{"weight":{}}}`, keep, `dtype ""`},
		{qkBlockConfig, "", "", keep, ""},
		{qkBlockConfig, "[4,8]", "[3,8]", func(f files) {
			f.add("x.weight_scale", safetensors.F32, floats(6, 1, 1), 3, 2)
		}, "not whole blocks of 3 and 8"},
		{qkFourConfig, "", "", keep, ""},
		{qkFourConfig, "", "", func(f files) { delete(f, "x.weight_zero_point") }, "is missing"},
		{qkFourConfig, `"symmetric":false`, `"symmetric":true`, keep, "symmetric is true"},
		{qkFourConfig, `"symmetric":false`, `"symmetric":false,"zero_point_type":"float32"`, keep, "zero_point_type"},
		{qkFourConfig, `"ch_axis":-1`, `"ch_axis":0`, keep, "along axis 0"},
		{qkFourConfig, `"group_size":8`, `"group_size":null`, keep, "groups of 0"},
		{qkFourConfig, `"group_size":8`, `"group_size":5`, keep, "not a multiple of the group size 5"},
		{qkRowConfig, "", "", keep, ""},
		{qkRowConfig, "", "", func(f files) {
			f.add("x.weight", "I32", make([]byte, 56), 7, 2)
			f.add("x.weight_scale", safetensors.F32, floats(7, 1, 1), 7)
		}, "7 rows are not a multiple of 8"},
		{qkEightConfig, "", "", keep, ""},
		{qkEightConfig, "", "", func(f files) { f.add("x.weight_zero_point", safetensors.I8, make([]byte, 8), 8) }, ""},
		{qkEightConfig, "", "", func(f files) {
			f.add("x.weight_zero_point", safetensors.I8, []byte{0, 0, 0, 0, 0, 0xff, 0, 0}, 8)
		}, "zero point of row 5 and group 0 is -1"},
		{qkOneConfig, "", "", keep, ""},
		{qkOneConfig, "", "", func(f files) { f.add("x.weight_scale", safetensors.F32, floats(1, 1, 0), 1) }, ""},
		{qkOneConfig, "", "", func(f files) { f.add("x.weight_zero_point", "I32", []byte{8, 0, 0, 0}) },
			"zero point 8 does not fit 4 bits"},
		{qkMXConfig, "", "", keep, ""},
		{qkMXConfig, `"group_size":32`, `"group_size":16`, keep, "groups of 16"},
		{qkMXConfig, `"e8m0"`, `"e5m3"`, keep, "scale_format is"},
		{qkSixConfig, "", "", keep, ""},
		{qkSixConfig, "fp6_e2m3", "fp6_e3m2", keep, ""},
		{qkSixConfig, "fp6_e2m3", "fp6_e1m4", keep, `dtype "fp6_e1m4"`},
	} {
		c.check(t)
	}
}

// TestQuarkCodes: eight codes of a word are those of columns, or of rows in groups, reordered or not.
func TestQuarkCodes(t *testing.T) {
	const stored = "\x10\x32\x54\x76\x98\xba\xdc\xfe" // 0 to 15
	for _, c := range []struct {
		config, method string
		want           []int8 // of row 0, in groups of column 0
	}{
		{qkRowConfig, "reorder", []int8{0, 4, 1, 5, 2, 6, 3, 7, -8, -4, -7, -3, -6, -2, -5, -1}},
		{qkRowConfig, "order", []int8{0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1}},
		{qkFourConfig, "reorder", []int8{-8, -4, -7, -3, -6, -2, -5, -1}},
		{qkFourConfig, "order", []int8{-8, -7, -6, -5, -4, -3, -2, -1}},
	} {
		f := sound(c.config)
		copy(f["x.weight"].data, stored)
		m, err := f.open(strings.Replace(c.config, "reorder", c.method, 1), "x")
		if err != nil {
			t.Fatal(err)
		}
		got := codes(m)
		if len(c.want) == 8 {
			for i := range 8 {
				got[i] = got[16*i]
			}
		}
		if !slices.Equal(got[:len(c.want)], c.want) {
			t.Errorf("%s, %s: %v, want %v", c.config, c.method, got[:len(c.want)], c.want)
		}
	}
}

// TestQuarkZeros: zero points and scales belong to their row and group.
func TestQuarkZeros(t *testing.T) {
	f := sound(qkFourConfig)
	copy(f["x.weight_zero_point"].data, "\x10\x32\x54\x76\x98\xba\xdc\xfe")
	m, err := f.open(strings.Replace(qkFourConfig, `"reorder"`, `"order"`, 1), "x")
	if err != nil {
		t.Fatal(err)
	}
	scales := m.ScaleValues()
	for n := range 8 {
		for g := range 2 {
			if i := 2*n + g; int(m.Zeros[i]) != 8*g+n-8 || scales[i] != float32(1+8*g+n) {
				t.Errorf("row %d, group %d: zero point %d, scale %v", n, g, m.Zeros[i], scales[i])
			}
		}
	}
	if m, err = sound(qkOneConfig).open(qkOneConfig, "x"); err != nil || m.Zeros[7] != -5 || m.ScaleValues()[7] != 1 {
		t.Errorf("%v, %v", m.Zeros, err)
	}
}

// TestSixes: numbers of both kinds of 6 bits, where they are in their bytes, and their scales.
func TestSixes(t *testing.T) {
	for kind, want := range map[string]map[uint32]float32{
		"fp6_e2m3": {0: 0, 1: 0.125, 7: 0.875, 8: 1, 15: 1.875, 16: 2, 31: 7.5, 63: -7.5, 33: -0.125},
		"fp6_e3m2": {0: 0, 1: 0.0625, 3: 0.1875, 4: 0.25, 15: 1.75, 16: 2, 31: 28, 63: -28, 33: -0.0625},
	} {
		config := strings.Replace(qkSixConfig, "fp6_e2m3", kind, 1)
		for at := range 8 {
			for bits, v := range want {
				f := sound(qkSixConfig)
				word := bits << (6 * (at % 4))
				copy(f["x.weight"].data[5*24+at/4*3:], []byte{byte(word), byte(word >> 8), byte(word >> 16)})
				f["x.weight_scale"].data[5] = 129
				b, err := f.values(config)
				if err != nil {
					t.Fatal(err)
				}
				if got := bfloats(b)[5*32+at]; got != 4*v {
					t.Errorf("%s: element %d at %d is %v, want %v", kind, bits, at, got, 4*v)
				}
			}
		}
	}
}

// TestQuarkOutputs: scales of outputs have no effect where they are declared.
func TestQuarkOutputs(t *testing.T) {
	for config, want := range map[string]bool{
		qkFloatConfig: false,
		strings.Replace(qkFloatConfig, `"exclude"`, `"kv_cache_quant_config":{"*k_proj":{}},"exclude"`, 1):  true,
		strings.Replace(qkFloatConfig, `"output_tensors":null`, `"output_tensors":{"dtype":"fp8_e4m3"}`, 1): true,
	} {
		s, err := quantized.Parse([]byte(config), nil)
		if err != nil || (s.Unused("y.output_scale") != "") != want || s.Unused("y.weight_scale") != "" {
			t.Errorf("%s: %v", config, err)
		}
	}
	in := strings.Replace(qkEightConfig, `"input_tensors":null`, `"input_tensors":{"dtype":"int8","is_dynamic":false}`, 1)
	if m, err := sound(qkEightConfig).open(in, "x"); err != nil || !strings.Contains(m.Layer.Note, "static") {
		t.Errorf("no note on static scales: %v", err)
	}
	in = strings.Replace(in, `"is_dynamic":false}`, `"is_dynamic":true}`, 1)
	if m, err := sound(qkEightConfig).open(in, "x"); err != nil || m.Layer.Note != "" {
		t.Errorf("a note on scales that are not there: %v", err)
	}
}
