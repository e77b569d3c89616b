package quantized_test

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/quantized"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

const (
	gptqConfig = `{"quantization_config":{"quant_method":"gptq","bits":4,"group_size":8,"sym":false,` +
		`"checkpoint_format":"gptq"}}`
	symConfig  = `{"quantization_config":{"quant_method":"gptq","bits":4,"group_size":8,"sym":true}}`
	autoConfig = `{"quantization_config":{"quant_method":"auto-round","bits":4,"group_size":8,"sym":false,` +
		`"packing_format":"auto_round:auto_gptq"}}`
	awqConfig = `{"quantization_config":{"quant_method":"awq","bits":4,"group_size":8,"version":"gemm"}}`
	ctConfig  = `{"quantization_config":{"quant_method":"compressed-tensors","format":"pack-quantized",` +
		`"config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":4,"type":"int","symmetric":false,` +
		`"strategy":"group","group_size":8}}}}}`
	w4a8Config = `{"quantization_config":{"quant_method":"compressed-tensors","format":"int-quantized",` +
		`"config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":4,"type":"int","symmetric":true,` +
		`"strategy":"channel"}}}}}`
	mxConfig = `{"quantization_config":{"quant_method":"compressed-tensors","format":"mxfp4-pack-quantized",` +
		`"config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":4,"type":"float","strategy":"group",` +
		`"group_size":32}}}}}`
	nvConfig = `{"quantization_config":{"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized",` +
		`"config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":4,"type":"float","strategy":"tensor_group",` +
		`"group_size":16}}}}}`
	gemvConfig  = `{"quantization_config":{"quant_method":"awq","bits":4,"group_size":32,"version":"gemv"}}`
	mlxConfig   = `{"quantization":{"bits":4,"group_size":8}}`
	metalConfig = `{"quantization_config":{"quant_method":"metal","bits":4,"group_size":8}}`
	stackConfig = `{"quantization":{"bits":4,"group_size":8,"mode":"affine"}}` // MLX, several experts per tensor
	ossConfig   = `{"quantization_config":{"quant_method":"mxfp4"}}`
	bnbConfig   = `{"quantization_config":{"quant_method":"bitsandbytes","load_in_8bit":true}}`

	// Weights that become floats.
	fp8Config = `{"dtype":"bfloat16","quantization_config":{"quant_method":"fp8","weight_block_size":[4,8]}}`
	fbConfig  = `{"quantization_config":{"quant_method":"fbgemm_fp8","activation_scale_ub":1200.0,` +
		`"modules_to_not_convert":["lm_head","y"]}}`
	ctFloatConfig = `{"quantization_config":{"quant_method":"compressed-tensors","format":"float-quantized",` +
		`"config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":8,"type":"float","strategy":"channel"}}}}}`
	mx6Config = `{"quantization_config":{"quant_method":"compressed-tensors","format":"mxfp6-pack-quantized",` +
		`"config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":6,"type":"float","strategy":"group",` +
		`"group_size":32}}}}}`
	mx8Config = `{"quantization_config":{"quant_method":"compressed-tensors","format":"mxfp8-quantized",` +
		`"config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":8,"type":"float","strategy":"group",` +
		`"group_size":32}}}}}`
	nf4Config = `{"quantization_config":{"quant_method":"bitsandbytes","load_in_4bit":true,` +
		`"bnb_4bit_quant_type":"nf4"}}`
	doubleConfig = `{"quantization_config":{"quant_method":"bitsandbytes","load_in_4bit":true,` +
		`"bnb_4bit_quant_type":"fp4","bnb_4bit_use_double_quant":true}}`
)

// States of bitsandbytes.
const (
	nf4State    = `{"quant_type":"nf4","blocksize":64,"dtype":"bfloat16","shape":[8,16]}`
	doubleState = `{"quant_type":"fp4","blocksize":64,"dtype":"float16","shape":[8,16],"nested_blocksize":256,` +
		`"nested_dtype":"float32","nested_offset":0.5}`
)

// fourTables are the tables of bitsandbytes, as float32.
var fourTables = map[string][]float32{
	"nf4": {-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
		-0.18477343022823334, -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
		0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1},
	"fp4": {0, 0.005208333333, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25,
		0, -0.005208333333, -0.66666667, -1, -0.33333333, -0.5, -0.16666667, -0.25},
}

// four adds what bitsandbytes stores of a weight of 4 bits beside its elements.
func (f files) four(kind, state string) {
	var table []byte
	for _, v := range fourTables[kind] {
		table = append(table, floats(1, v, 0)...)
	}
	f.add("x.weight", safetensors.U8, make([]byte, 64), 64, 1)
	f.add("x.weight.quant_map", safetensors.F32, table, 16)
	f.add("x.weight.quant_state.bitsandbytes__"+kind, safetensors.U8, []byte(state), len(state))
}

// sound returns valid tensors of a module with 8 rows and 16 columns in groups of 8 (32 columns for MXFP4).
func sound(config string) files {
	f := files{}
	zero := func(n int) []byte { return make([]byte, n) }
	switch config {
	case gptqConfig, autoConfig, symConfig, groupsConfig:
		f.add("x.qweight", "I32", zero(64), 2, 8)
		f.add("x.qzeros", "I32", []byte(strings.Repeat("\x77", 8)), 2, 1)
		f.add("x.scales", safetensors.F32, floats(16, 1, 1), 2, 8)
		f.add("x.g_idx", "I32", ints([][]int64{{1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0}}), 16)
	case awqConfig:
		f.add("x.qweight", "I32", zero(64), 16, 1)
		f.add("x.qzeros", "I32", zero(8), 2, 1)
		f.add("x.scales", safetensors.F32, floats(16, 1, 1), 2, 8)
	case ctConfig:
		f.add("x.weight_packed", "I32", zero(64), 8, 2)
		f.add("x.weight_shape", "I64",
			binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, 8), 16), 2)
		f.add("x.weight_zero_point", "I32", zero(8), 1, 2)
		f.add("x.weight_scale", safetensors.F32, floats(16, 1, 1), 8, 2)
	case w4a8Config:
		f.add("x.weight", safetensors.I8, zero(128), 8, 16)
		f.add("x.weight_scale", safetensors.F32, floats(8, 1, 1), 8, 1)
	case mxConfig:
		f.add("x.weight_packed", safetensors.U8, zero(128), 8, 16)
		f.add("x.weight_scale", safetensors.U8, zero(8), 8, 1)
	case nvConfig:
		f.add("x.weight_packed", safetensors.U8, zero(64), 8, 8)
		f.add("x.weight_scale", "F8_E4M3", []byte{0x38, 0x38, 0x38, 0x38, 0x38, 0x38, 0x38, 0x38}, 8, 1)
		f.add("x.weight_global_scale", safetensors.F32, floats(1, 2, 0), 1)
	case moEightConfig, moMixedConfig:
		f.add("x.weight", "F8_E4M3", zero(128), 8, 16)
		f.add("x.weight_scale", safetensors.F32, floats(1, 1, 0))
	case hqqConfig:
		f.hqq(4, 8, 1, "torch.bfloat16")
		f.add("x.W_q", safetensors.U8, zero(64), 8, 8)
		f.add("x.zero", safetensors.BF16, brains(16, 7, 0.5), 16, 1)
		f.add("x.scale", safetensors.BF16, brains(16, 0.1, 0.01), 16, 1)
	case qkFourConfig, qkRowConfig, qkOneConfig, qkEightConfig, qkFloatConfig, qkBlockConfig, qkMXConfig, qkSixConfig:
		f.quark(config)
	case aoIntxConfig, aoInt8Config, aoFloatConfig:
		f.torchAO(config)
	case moFourConfig:
		f.add("x.weight", safetensors.U8, zero(64), 8, 8)
		f.add("x.weight_scale", "F8_E4M3", []byte{0x38, 0x38, 0x38, 0x38, 0x38, 0x38, 0x38, 0x38}, 8, 1)
		f.add("x.weight_scale_2", safetensors.F32, floats(1, 0.375, 0))
	case moRowConfig:
		f.add("x.weight", "F8_E4M3", zero(128), 8, 16)
		f.add("x.weight_scale", safetensors.F32, floats(8, 1, 1), 8)
	case moBlockConfig:
		f.add("x.weight", "F8_E4M3", zero(130*140), 130, 140)
		f.add("x.weight_scale", safetensors.F32, floats(4, 1, 1), 2, 1, 2, 1)
	case moPowersConfig:
		f.add("x.weight", "F8_E4M3", zero(256), 8, 32)
		f.add("x.weight_scale", safetensors.U8, zero(8), 8, 1)
	case moMXConfig:
		f.add("x.weight", safetensors.U8, zero(128), 8, 16)
		f.add("x.weight_scale", safetensors.U8, zero(8), 8, 1)
	case moRoundConfig:
		f.add("x.weight", safetensors.U8, zero(64), 4, 16)
		f.add("x.weight_scale", safetensors.F32, floats(16, 1, 1), 8, 2)
	case moSmoothConfig:
		f.add("x.weight", safetensors.I8, zero(128), 8, 16)
		f.add("x.weight_scale", safetensors.F32, floats(8, 1, 1), 8)
		f.add("x.pre_quant_scale", safetensors.BF16, brains(16, 0.5, 0.25), 16)
	case moBytesConfig:
		f.add("x.weight", safetensors.I8, zero(128), 8, 16)
		f.add("x.weight_scale", safetensors.F32, floats(8, 1, 1), 8)
	case metalConfig:
		f.add("x.weight", "U32", slices.Repeat([]byte{0x10, 0x32, 0x54, 0x76}, 16), 8, 2)
		f.add("x.scales", safetensors.F32, floats(16, 1, 0), 8, 2)
		f.add("x.qbiases", safetensors.F32, floats(16, -8, 0), 8, 2)
	case gemvConfig:
		f.add("x.qweight", "I32", zero(256), 8, 8)
		f.add("x.qzeros", "I32", zero(128), 8, 4)
		f.add("x.scales", safetensors.F32, floats(256, 1, 1), 8, 32)
	case fp8Config:
		f.add("x.weight", "F8_E4M3", zero(128), 8, 16)
		f.add("x.weight_scale_inv", safetensors.F32, floats(4, 1, 1), 2, 2)
	case ctFloatConfig, fbConfig:
		f.add("x.weight", "F8_E4M3", zero(128), 8, 16)
		f.add("x.weight_scale", safetensors.F32, floats(8, 1, 1), 8, 1)
	case mx6Config:
		f.add("x.weight_packed", safetensors.U8, zero(192), 8, 24)
		f.add("x.weight_scale", safetensors.U8, []byte{120, 121, 122, 123, 124, 125, 126, 127}, 8, 1)
	case mx8Config:
		f.add("x.weight", "F8_E4M3", zero(256), 8, 32)
		f.add("x.weight_scale", safetensors.U8, zero(8), 8, 1)
	case nf4Config:
		f.four("nf4", nf4State)
		f.add("x.weight.absmax", safetensors.F32, floats(2, 1, 1), 2)
	case doubleConfig:
		f.four("fp4", doubleState)
		f.add("x.weight.absmax", safetensors.U8, zero(2), 2)
		f.add("x.weight.nested_absmax", safetensors.F32, floats(1, 1, 1), 1)
		f.add("x.weight.nested_quant_map", safetensors.F32, floats(256, -1, 0.0078125), 256)
	case mlxConfig:
		f.add("x.weight", "U32", slices.Repeat([]byte{0x10, 0x32, 0x54, 0x76}, 16), 8, 2)
		f.add("x.scales", safetensors.F32, floats(16, 1, 0), 8, 2)
		f.add("x.biases", safetensors.F32, floats(16, -8, 0), 8, 2)
	case stackConfig:
		f.add("x.weight", "U32", slices.Repeat([]byte{0x10, 0x32, 0x54, 0x76}, 32), 2, 8, 2)
		f.add("x.scales", safetensors.F32, floats(32, 1, 0), 2, 8, 2)
		f.add("x.biases", safetensors.F32, floats(32, -8, 0), 2, 8, 2)
	case ossConfig:
		f.add("x_blocks", safetensors.U8, zero(256), 2, 8, 1, 16)
		f.add("x_scales", safetensors.U8, zero(16), 2, 8, 1)
	case bnbConfig:
		f.add("x.weight", safetensors.I8, zero(128), 8, 16)
		f.add("x.SCB", safetensors.F32, floats(8, 1, 1), 8)
		f.add("x.weight_format", safetensors.U8, zero(1))
	}
	return f
}

// floatForms are formats of weights that become floats.
var floatForms = []string{fp8Config, ctFloatConfig, mx6Config, mx8Config, nf4Config, doubleConfig, moEightConfig,
	moMixedConfig, fbConfig, hqqConfig, aoFloatConfig, moRowConfig, moBlockConfig, moPowersConfig, moSmoothConfig,
	qkFloatConfig, qkBlockConfig, qkSixConfig}

var formats = append([]string{gptqConfig, symConfig, autoConfig, awqConfig, ctConfig, w4a8Config, mxConfig, mlxConfig,
	stackConfig, ossConfig, bnbConfig, nvConfig, gemvConfig, moFourConfig, aoIntxConfig, aoInt8Config,
	moMXConfig, moRoundConfig, moBytesConfig, metalConfig, qkFourConfig, qkRowConfig, qkOneConfig, qkEightConfig,
	qkMXConfig}, floatForms...)

// read reads the module x, as codes or as floats; found is false if it does not look quantized.
func (f files) readAll(config string) (found bool, err error) {
	m, err := f.open(config, "x")
	if m != nil || err != nil {
		return m != nil, err
	}
	w, err := f.values(config)
	return w != nil, err
}

// values returns the bytes of the weight of x, if it becomes floats.
func (f files) values(config string) ([]byte, error) {
	s, err := quantized.Parse([]byte(config), f)
	if err != nil {
		return nil, err
	}
	found, err := s.Values(slices.Sorted(maps.Keys(f)), f.lookup, f.read)
	v := found["x.weight"]
	if err != nil || v == nil {
		return nil, err
	}
	b := make([]byte, v.Bytes())
	return b, v.ReadAt(b, 0, f.read)
}

// TestShapesThatLie: every missing tensor, and every shape, type or size that contradicts the others, is rejected by
// name.
func TestShapesThatLie(t *testing.T) {
	for _, config := range formats {
		if found, err := sound(config).readAll(config); err != nil || !found {
			t.Fatalf("%s: %v", config, err)
		}
		for name, whole := range sound(config) {
			if strings.HasSuffix(name, metadata) {
				continue
			}
			for what, change := range map[string]func(x *tensor){
				"one more":         func(x *tensor) { x.Shape = changed(x.Shape, 0, 1) },
				"one more at last": func(x *tensor) { x.Shape = changed(x.Shape, len(x.Shape)-1, 1) },
				"none":             func(x *tensor) { x.Shape = changed(x.Shape, 0, -1000) },
				"a dimension more": func(x *tensor) { x.Shape = append(slices.Clone(x.Shape), 1) },
				"no dimension":     func(x *tensor) { x.Shape = nil },
				"huge":             func(x *tensor) { x.Shape = changed(x.Shape, 0, math.MaxInt/2) },
				"another type":     func(x *tensor) { x.DType = "F64" },
				"fewer bytes":      func(x *tensor) { x.data = x.data[:len(x.data)-1] },
			} {
				f, x := sound(config), whole
				change(&x)
				if fours := config == nf4Config || config == doubleConfig; what == "a dimension more" &&
					(len(whole.Shape) == 0 || fours && name == "x.weight") {
					continue // the same bytes
				}
				if slices.Equal(x.Shape, whole.Shape) && x.DType == whole.DType && len(x.data) == len(whole.data) {
					continue
				}
				f[name] = x
				found, err := f.readAll(config)
				if !found && err == nil {
					continue // with this type the module does not look quantized
				}
				if !wellSaid(err, "x") {
					t.Errorf("%s of %s, %s: %v", what, name, config, err)
				}
			}
		}
	}
}

func changed(shape []int, at, by int) []int {
	out := slices.Clone(shape)
	if len(out) > 0 {
		out[at] = max(out[at]+by, 0)
	}
	return out
}

func wellSaid(err error, name string) bool {
	return (errors.Is(err, pack.ErrCorrupt) || errors.Is(err, pack.ErrUnsupported) || errors.Is(err, pack.ErrLimit)) &&
		strings.Contains(err.Error(), name)
}

// TestBadValues: values that no packer writes are rejected with tensor and position.
func TestBadValues(t *testing.T) {
	set := func(name string, b []byte, at int) func(files) {
		return func(f files) {
			x := f[name]
			x.data = slices.Clone(x.data)
			copy(x.data[at:], b)
			f[name] = x
		}
	}
	f32 := func(v float64) []byte { return floats(1, float32(v), 0) }
	state := func(text, old, now string) func(files) {
		return func(f files) {
			text := strings.Replace(text, old, now, 1)
			for _, kind := range []string{"nf4", "fp4"} {
				if name := "x.weight.quant_state.bitsandbytes__" + kind; f[name].data != nil {
					delete(f, name)
					if old == kind {
						name = strings.TrimSuffix(name, kind) + now
					}
					f.add(name, safetensors.U8, []byte(text), len(text))
				}
			}
		}
	}
	for _, c := range []struct {
		config string
		change func(files)
		want   string
	}{
		{gptqConfig, set("x.g_idx", []byte{2, 0, 0, 0}, 8), "column 2 is in group 2; there are 2"},
		{gptqConfig, set("x.g_idx", []byte{255, 255, 255, 255}, 0), "column 0 is in group -1"},
		{gptqConfig, set("x.g_idx", []byte{0, 0, 0, 0}, 0), "group 0 has more than 8 columns"},
		{gptqConfig, set("x.scales", f32(math.NaN()), 12), "row 3: scale of group 0 is NaN"},
		{gptqConfig, set("x.scales", f32(math.Inf(1)), 44), "row 3: scale of group 1 is +Inf"},
		{gptqConfig, set("x.scales", f32(-1), 4), "no negative scales"},
		{symConfig, set("x.qzeros", []byte{0x78}, 3), "sym is true"},
		{symConfig, set("x.qzeros", []byte(strings.Repeat("\x66", 8)), 0), "sym is true"},
		{autoConfig, set("x.qzeros", []byte{0xf0}, 0), "value is 16"},
		{awqConfig, set("x.scales", f32(-1), 0), "no negative scales"},
		{ctConfig, set("x.weight_shape", []byte{9}, 0), "[9 16]"},
		{ctConfig, set("x.weight_shape", []byte{255, 255, 255, 255, 255, 255, 255, 255}, 8), "[8 -1]"},
		{ctConfig, set("x.weight_scale", f32(math.Inf(-1)), 0), "is -Inf"},
		{w4a8Config, set("x.weight", []byte{8}, 17), "code 8 in row 1"},
		{w4a8Config, set("x.weight", []byte{0xf7}, 17), "code -9 in row 1"},
		{mxConfig, set("x.weight_scale", []byte{255}, 3), "row 3: scale of group 0 is NaN (255)"},
		{mlxConfig, set("x.biases", f32(math.NaN()), 4), "NaN"},
		{metalConfig, set("x.qbiases", f32(math.NaN()), 4), "NaN"},
		{moRoundConfig, set("x.weight_scale", f32(-1), 4), "row 0: scale of group 1 is -1"},
		{moBytesConfig, set("x.weight_scale", f32(math.Inf(1)), 4), "row 1: scale of group 0 is +Inf"},
		{moSmoothConfig, set("x.weight_scale", f32(math.NaN()), 20), "row 5: scale of group 0 is NaN"},
		{moSmoothConfig, set("x.pre_quant_scale", []byte{0x80, 0x7f}, 6), "element 3 is +Inf"},
		{moPowersConfig, set("x.weight_scale", []byte{255}, 7), "blocks from row 7 on is NaN"},
		{moBlockConfig, set("x.weight_scale", f32(math.NaN()), 8), "scale 0 of the blocks from row 128 on is NaN"},
		{qkFourConfig, set("x.weight_scale", f32(-1), 4), "row 1: scale of group 0 is -1"},
		{qkMXConfig, set("x.weight_scale", []byte{255}, 3), "row 3: scale of group 0 is NaN (255)"},
		{qkSixConfig, set("x.weight_scale", []byte{255}, 3), "row 3: scale of group 0 is NaN (255)"},
		{qkFloatConfig, set("x.weight", []byte{0xff}, 33), "row 2, column 1 is NaN"},
		{mlxConfig, set("x.scales", f32(math.Inf(1)), 4), "+Inf"},
		{stackConfig, set("x.scales", f32(math.NaN()), 124), "row 15: scale of group 1 is NaN"},
		{ossConfig, set("x_scales", []byte{255}, 9), "row 9: scale of group 0 is NaN (255)"},
		{bnbConfig, set("x.SCB", f32(-1), 0), "no negative scales"},
		{bnbConfig, set("x.weight_format", []byte{1}, 0), "GPU kernel's order"},
		{nvConfig, set("x.weight_scale", []byte{0x7f}, 3), "row 3: scale of group 0 is NaN"},
		{nvConfig, set("x.weight_scale", []byte{0xb8}, 3), "no negative scales"},
		{nvConfig, set("x.weight_global_scale", f32(0), 0), "is +Inf"},
		{nvConfig, set("x.weight_global_scale", f32(-1), 0), "is NaN"},
		{nvConfig, set("x.weight_global_scale", f32(math.Inf(1)), 0), "is NaN"},
		{moFourConfig, set("x.weight_scale", []byte{0x7f}, 3), "row 3: scale of group 0 is NaN"},
		{moFourConfig, set("x.weight_scale", []byte{0xb8}, 3), "no negative scales"},
		{moFourConfig, set("x.weight_scale_2", f32(0), 0), "is NaN"},
		{moFourConfig, set("x.weight_scale_2", f32(0x1p-117), 0), "is NaN"},
		{moFourConfig, set("x.weight_scale_2", f32(-1), 0), "is NaN"},
		{moFourConfig, set("x.weight_scale_2", f32(math.Inf(1)), 0), "is +Inf"},
		{fbConfig, set("x.weight", []byte{0xff}, 127), "row 7, column 15 is NaN"},
		{fbConfig, set("x.weight_scale", f32(math.Inf(1)), 4), "scale 0 of the blocks from row 1 on is +Inf"},
		{moEightConfig, set("x.weight", []byte{0x7f}, 33), "row 2, column 1 is NaN"},
		{moEightConfig, set("x.weight_scale", f32(math.NaN()), 0), "scale 0 of the blocks from row 0 on is NaN"},
		{moEightConfig, set("x.weight_scale", f32(3.4e38), 0), "blocks from row 0 on is +Inf"},
		{moMixedConfig, set("x.weight_scale", f32(65520), 0), "blocks from row 0 on is +Inf"},
		{aoFloatConfig, set("x._weight_qdata", []byte{0xff}, 33), "row 2, column 1 is NaN"},
		{aoFloatConfig, set("x._weight_scale", f32(math.Inf(1)), 12), "scale 1 of the blocks from row 1 on is +Inf"},
		{gemvConfig, set("x.scales", f32(-1), 4*32), "row 1: scale of group 0 is -1"},
		{fp8Config, set("x.weight", []byte{0xff}, 33), "row 2, column 1 is NaN"},
		{fp8Config, set("x.weight_scale_inv", f32(math.NaN()), 12), "scale 1 of the blocks from row 4 on is NaN"},
		{ctFloatConfig, set("x.weight_scale", f32(math.Inf(1)), 4), "scale 0 of the blocks from row 1 on is +Inf"},
		{mx6Config, set("x.weight_scale", []byte{255}, 7), "row 7: scale of group 0 is NaN (255)"},
		{mx8Config, set("x.weight_scale", []byte{255}, 7), "blocks from row 7 on is NaN"},
		{nf4Config, set("x.weight.absmax", f32(math.Inf(1)), 4), "magnitude of block 1 is +Inf"},
		{nf4Config, set("x.weight.quant_map", f32(0.5), 0), "is not the table of its type"},
		{nf4Config, state(nf4State, "nf4", "fp4"), "its tensors are"},
		{nf4Config, state(nf4State, `"nf4",`, `"fp4",`), `quant_type is "fp4", but the name says nf4`},
		{nf4Config, state(nf4State, "[8,16]", "[8,16,1]"), "shape is missing, or not a list of two"},
		{nf4Config, state(nf4State, "[8,16]", "[8,17]"), "requires 68 bytes"},
		{nf4Config, state(nf4State, "64", "48"), "blocksize is 48"},
		{nf4Config, state(nf4State, "64", "32"), "require [4]"},
		{nf4Config, state(nf4State, "bfloat16", "float64"), `dtype "float64"`},
		{nf4Config, state(nf4State, `"shape"`, `"more":1,"shape"`), `"more" is an unknown key`},
		{nf4Config, state(nf4State, `{`, ``), "quant_state"},
		{doubleConfig, state(doubleState, "0.5", "null"), "nested_offset is missing"},
		{doubleConfig, state(doubleState, "0.5", "1e39"), "nested_offset is"},
		{doubleConfig, state(doubleState, `"float32"`, `"float16"`), "nested_dtype"},
		{doubleConfig, set("x.weight.nested_absmax", f32(math.NaN()), 0), "element 0 is NaN"},
	} {
		f := sound(c.config)
		c.change(f)
		_, err := f.readAll(c.config)
		if !wellSaid(err, c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// TestOrder: columns with unordered groups are sorted by group, stably, with their codes.
func TestOrder(t *testing.T) {
	f := sound(gptqConfig)
	x := f["x.qweight"]
	for k := range 16 { // row 0: the code of column k is k
		x.data[k/8*32+k%8/2] |= byte(k << (4 * (k % 2)))
	}
	m, err := f.open(gptqConfig, "x")
	if err != nil {
		t.Fatal(err)
	}
	order := []int32{1, 2, 3, 4, 5, 6, 7, 15, 0, 8, 9, 10, 11, 12, 13, 14}
	row := codes(m)[:16]
	for j, k := range order {
		if int(row[j]) != int(k)-8 {
			t.Errorf("code %d is %d, not that of column %d", j, row[j], k)
		}
	}
	if !slices.Equal(m.Order, order) {
		t.Errorf("%v", m.Order)
	}
	if m.Zeros != nil {
		t.Errorf("zero points %v; all are half of the range", m.Zeros)
	}
}

// TestBorrow: a zero point of 0 is stored as −1 and borrows from the next field of its word; adding to the whole word
// restores both.
func TestBorrow(t *testing.T) {
	f := sound(gptqConfig)
	x := f["x.qzeros"]
	word := uint32(0x10fedcb0)
	binary.LittleEndian.PutUint32(x.data, word-0x11111111)
	m, err := f.open(gptqConfig, "x")
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []int8{0, 11, 12, 13, 14, 15, 0, 1} {
		if got := m.Zeros[2*n]; got != want-8 {
			t.Errorf("zero point of row %d is %d, want %d", n, got+8, want)
		}
	}
}

// TestOneValue: groups of equal weights in an MLX matrix keep their value, whatever scale and bias are.
func TestOneValue(t *testing.T) {
	f := sound(mlxConfig)
	copy(f["x.weight"].data, []byte{0x33, 0x33, 0x33, 0x33}) // group 0: code 3 throughout
	copy(f["x.scales"].data, floats(1, 1e-7, 0))
	copy(f["x.biases"].data, floats(1, -0.5, 0))
	m, err := f.open(mlxConfig, "x")
	if err != nil {
		t.Fatal(err)
	}
	row := codes(m)[:16]
	v := float32(-0.5) + float32(3e-7)
	if got := math.Float32frombits(binary.LittleEndian.Uint32(m.Scales)); row[0] != -1 || got != -v || m.Zeros != nil {
		t.Errorf("code %d, scale %v, zero points %v; the weights are %v", row[0], got, m.Zeros, v)
	}
}

// TestMinima: biases that are no multiples of the scales stay as they are, and codes count from the lowest one; groups
// of scale 0 have that one alone.
func TestMinima(t *testing.T) {
	f := sound(mlxConfig)
	copy(f["x.biases"].data, floats(2, -8.5, 1))
	copy(f["x.scales"].data[4:], floats(1, 0, 0))
	m, err := f.open(mlxConfig, "x")
	if err != nil {
		t.Fatal(err)
	}
	want := []int8{-8, -7, -6, -5, -4, -3, -2, -1, -8, -8, -8, -8, -8, -8, -8, -8, -8, -7}
	if got := codes(m)[:18]; !slices.Equal(got, want) || m.Zeros != nil {
		t.Errorf("codes %v, zero points %v", got, m.Zeros)
	}
	if !slices.Equal(m.Minima, f["x.biases"].data) || !slices.Equal(m.Scales, f["x.scales"].data) {
		t.Error("scales or biases were changed")
	}
}

// TestRefusedMethods: methods whose weights are not integers times a scale are rejected with the reason.
func TestRefusedMethods(t *testing.T) {
	for config, want := range map[string]string{
		`{"quantization_config":{"quant_method":"aqlm"}}`:                                                          "codebook",
		`{"quantization_config":{"quant_method":"fp8"}}`:                                                           "has no dtype",
		`{"dtype":"int8","quantization_config":{"quant_method":"fp8"}}`:                                            `dtype is "int8"`,
		`{"dtype":"bfloat16","quantization_config":{"quant_method":"fp8","expert_dtype":"fp4"}}`:                   `expert_dtype "fp4"`,
		`{"dtype":"bfloat16","quantization_config":{"quant_method":"fp8","fmt":"e5m2"}}`:                           `fmt "e5m2"`,
		`{"dtype":"bfloat16","quantization_config":{"quant_method":"fp8","weight_block_size":[0,128]}}`:            "weight_block_size[0]",
		`{"quantization_config":{"quant_method":"bitsandbytes"}}`:                                                  "neither load_in_8bit",
		`{"quantization_config":{"quant_method":"hqq"}}`:                                                           "quant_config is missing",
		`{"quantization_config":{"quant_method":"frob"}}`:                                                          `"frob"; supported are`,
		`{"quantization_config":{"quant_method":"gptq","format":"marlin"}}`:                                        `"marlin"`,
		`{"quantization_config":{"quant_method":"gptq","pack_dtype":"int16"}}`:                                     "int16",
		`{"quantization_config":{"quant_method":"gptq","dynamic":{"-:.*(?<!x)":{}}}}`:                              "cannot parse pattern",
		`{"quantization_config":{"quant_method":"awq","version":"GEMV_FAST"}}`:                                     `"gemv_fast"`,
		`{"quantization_config":{"quant_method":"awq","bits":3}}`:                                                  "3 bits",
		`{"quantization_config":{"quant_method":"auto-round","packing_format":"auto_round:fp8"}}`:                  "fp8",
		`{"quantization_config":{"quant_method":"auto-round","data_type":"mx_fp"}}`:                                "mx_fp",
		`{"quantization_config":{"quant_method":"bitsandbytes","load_in_4bit":true,"bnb_4bit_quant_type":"int4"}}`: `"int4"`,
		`{"quantization_config":{"quant_method":"compressed-tensors"}}`:                                            "config_groups",
		`{"quantization_config":{"quant_method":"gptq","group_size":"x"}}`:                                         "group_size",
		`{"quantization_config":[]}`:                                                                               "an object is expected",
		`{"quantization_config":{"quant_method":"metal","bits":3}}`:                                                "bits is 3",
		`{"quantization_config":{"quant_method":"metal","group_size":0}}`:                                          "group_size 0",
		`{"quantization_config":{"quant_method":"gemma","num_bits":4}}`:                                            "rounded to fixed ranges",
		`{"quantization_config":{"quant_method":"fp_quant"}}`:                                                      "inputs are rotated",
		`{"quantization_config":{"quant_method":"fouroversix"}}`:                                                   "not read",
		`{"quantization_config":{"quant_method":"sinq"}}`:                                                          "scales of rows and of columns",
		`{"quantization_config":{"quant_method":"eetq"}}`:                                                          "GPU kernel",
		`{"quantization_config":{"quant_method":"nvfp4"}}`:                                                         "GPU kernel",
		`{"quantization":{"bits":7}}`:                                                                              "bits is 7",
		`{"quantization":{"bits":4,"group_size":0}}`:                                                               "group_size 0",
		`{"quantization_config":{"quant_method":"quanto"}}`:                                                        "transformers does not save such weights; Optimum Quanto does",
		`{"quantization":3}`: "an object is expected",
		`{"quantization_config":{"quant_method":"compressed-tensors",` +
			`"config_groups":{"a":{"format":"nvfp4-pack-quantized","targets":[],"weights":{}}}}}`: "nvfp4",
	} {
		if s, err := quantized.Parse([]byte(config), nil); !wellSaid(err, want) {
			t.Errorf("%s: %v, %v; want %q", config, s, err, want)
		}
	}
}

// TestOldConfig: quantize_config.json of the first GPTQ checkpoints applies if config.json declares nothing.
func TestOldConfig(t *testing.T) {
	s, err := quantized.Parse([]byte(`{"model_type":"llama"}`),
		beside("quantize_config.json", `{"bits":4,"group_size":8,"sym":false,"desc_act":true}`))
	if err != nil || s == nil || s.Method != "GPTQ" {
		t.Fatal(s, err)
	}
	if l, err := s.Layer("x", sound(gptqConfig).lookup); err != nil || l.Rows != 8 || l.Columns != 16 || l.Group != 8 {
		t.Error(l, err)
	}
	for _, config := range []string{`{"model_type":"llama"}`, `{"quantization_config":{"quant_method":"bitnet"}}`} {
		if s, err := quantized.Parse([]byte(config), nil); s != nil || err != nil {
			t.Errorf("%s: %v, %v", config, s, err)
		}
	}
}

// FuzzLayer: for any tensors of a module, the result is a matrix whose codes can all be read, or an error with a class.
func FuzzLayer(f *testing.F) {
	for i := range formats {
		f.Add(uint8(i), []byte{}, uint8(0), uint8(0), uint8(0))
	}
	f.Fuzz(func(t *testing.T, format uint8, data []byte, which, dim, size uint8) {
		config := formats[int(format)%len(formats)]
		fs := sound(config)
		names := make([]string, 0, len(fs))
		for name := range fs {
			names = append(names, name)
		}
		slices.Sort(names)
		name := names[int(which)%len(names)]
		x := fs[name]
		if len(x.Shape) > 0 {
			x.Shape = slices.Clone(x.Shape)
			x.Shape[int(dim)%len(x.Shape)] += int(size)
		}
		n := x.DType.Size()
		for _, d := range x.Shape {
			n *= int64(d)
		}
		x.data = make([]byte, n)
		copy(x.data, data)
		fs[name] = x
		if _, err := fs.readAll(config); err != nil && !wellSaid(err, "x") {
			t.Errorf("an error of no kind: %v", err)
		}
	})
}

// FuzzParse: a configuration is parsed, or rejected with a class of error.
func FuzzParse(f *testing.F) {
	for _, config := range formats {
		f.Add([]byte(config), `{"bits":4}`)
	}
	f.Fuzz(func(t *testing.T, config []byte, old string) {
		if _, err := quantized.Parse(config, beside("quantize_config.json", old)); err != nil &&
			!wellSaid(err, "config") {
			t.Errorf("an error of no kind: %v", err)
		}
	})
}
