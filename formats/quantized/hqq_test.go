package quantized_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/safetensors"
)

// hqqConfig declares a matrix of 8 rows and 16 columns.
const hqqConfig = `{"quantization_config":{"quant_method":"hqq","skip_modules":["lm_head"],"quant_config":{` +
	`"weight_quant_params":{"nbits":4,"channel_wise":true,"group_size":8,"optimize":true,"round_zero":true,"axis":1,` +
	`"view_as_float":false},"scale_quant_params":null,"zero_quant_params":null,"offload_meta":false}}}`

// hqq adds what HQQLinear writes of the module x beside its codes.
func (f files) hqq(bits, group, axis int, dtype string) {
	integer := func(n int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(n)) }
	packing := map[int][2]string{8: {"8bit_u8", "torch.uint8"}, 4: {"4bit_u8", "torch.uint8"},
		3: {"3bit_32", "torch.int32"}, 2: {"2bit_u8", "torch.uint8"}, 1: {"1bit_u8", "torch.uint8"}}[bits]
	f.add("x.nbits", "I32", integer(bits))
	f.add("x.group_size", "I32", integer(group))
	f.add("x.axis", "I32", integer(axis))
	f.add("x.shape", "I64", binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, 8), 16), 2)
	for suffix, text := range map[string]string{"packing": packing[0], "unpack_view_dtype": packing[1],
		"compute_dtype": dtype} {
		f.add("x."+suffix, safetensors.U8, []byte(text), len(text))
	}
	for _, suffix := range strings.Fields("view_as_float quant_scale quant_zero offload_meta") {
		f.add("x."+suffix, safetensors.U8, []byte{0})
	}
	for _, suffix := range strings.Fields("channel_wise optimize round_zero encoded_state_dict stores_quant_config") {
		f.add("x."+suffix, safetensors.U8, []byte{1})
	}
}

// brains returns n numbers of BF16: first, first + step, and so on.
func brains(n int, first, step float32) (out []byte) {
	for i := range n {
		out = binary.LittleEndian.AppendUint16(out, uint16(math.Float32bits(round16(first+step*float32(i)))>>16))
	}
	return out
}

// TestHQQ: codes are packed from the high bits down, those of a unit as far apart as there are units; groups are along
// rows of weights or along what they would be with as many rows as a group has elements; differences and products are
// rounded to BF16.
func TestHQQ(t *testing.T) {
	const count, group = 128, 8
	for _, axis := range []int{0, 1} {
		for bits, perUnit := range map[int]int{8: 1, 4: 2, 3: 10, 2: 4, 1: 8} {
			rows, columns := count/group, group
			grid := []int{rows, 1}
			if axis == 0 {
				rows, columns, grid = columns, rows, []int{1, rows}
			}
			units := (rows + perUnit - 1) / perUnit
			code := func(i int) int { return (i*i + i>>3) % (1 << bits) }
			words := make([]uint32, units*columns)
			for i := range count {
				words[i%len(words)] |= uint32(code(i)) << ((perUnit - 1 - i/len(words)) * bits)
			}
			var stored []byte
			for _, w := range words {
				if bits == 3 {
					stored = binary.LittleEndian.AppendUint32(stored, w)
				} else {
					stored = append(stored, byte(w))
				}
			}
			f := files{}
			f.hqq(bits, group, axis, "torch.bfloat16")
			unit := map[bool]safetensors.DType{true: "I32", false: safetensors.U8}[bits == 3]
			f.add("x.W_q", unit, stored, units, columns)
			f.add("x.zero", safetensors.BF16, brains(16, 0.3, 0.7), grid...)
			f.add("x.scale", safetensors.BF16, brains(16, 0.1, 0.013), grid...)
			config := strings.NewReplacer(`"nbits":4`, fmt.Sprintf(`"nbits":%d`, bits), `"axis":1`,
				fmt.Sprintf(`"axis":%d`, axis)).Replace(hqqConfig)
			b, err := f.values(config)
			if err != nil {
				t.Errorf("%d bits along axis %d: %v", bits, axis, err)
				continue
			}
			zeros, scales := bfloats(f["x.zero"].data), bfloats(f["x.scale"].data)
			for i, got := range bfloats(b) {
				g := i / group
				if axis == 0 {
					g = i % 16
				}
				if want := round16(round16(float32(code(i))-zeros[g]) * scales[g]); got != want {
					t.Fatalf("%d bits along axis %d: weight %d is %v, want %v", bits, axis, i, got, want)
				}
			}
		}
	}
}

// TestHQQRefused: what the configuration says of a module must be in its tensors, and these must agree.
func TestHQQRefused(t *testing.T) {
	keep := func(files) {}
	brain := func(suffix string, first float32, shape ...int) func(files) {
		return func(f files) { f.add("x."+suffix, safetensors.BF16, brains(shape[0]*shape[1], first, 0), shape...) }
	}
	flag := func(suffix string, to byte) func(files) {
		return func(f files) { f["x."+suffix].data[0] = to }
	}
	text := func(suffix, to string) func(files) {
		return func(f files) { f.add("x."+suffix, safetensors.U8, []byte(to), len(to)) }
	}
	dynamic := `{"quantization_config":{"quant_method":"hqq","quant_config":{"x":` +
		hqqConfig[strings.Index(hqqConfig, `"quant_config":`)+15:]
	for _, c := range []struct {
		config, old, now string
		change           func(files)
		want             string // "" = accepted
	}{
		{hqqConfig, "", "", keep, ""},
		{dynamic + "}", "", "", keep, ""},
		{dynamic + "}", `{"x"`, `{"y"`, keep, "declares it as not quantized"},
		{hqqConfig, `["lm_head"]`, `["x"]`, keep, "declares it as not quantized"},
		{hqqConfig, `"nbits":4`, `"nbits":2`, keep, "have 4 bits"},
		{hqqConfig, `"nbits":4`, `"nbits":5`, keep, "nbits is 5"},
		{hqqConfig, `"group_size":8`, `"group_size":null`, keep, "groups of 8"},
		{hqqConfig, `"axis":1`, `"axis":0`, keep, "along axis 1"},
		{hqqConfig, `"channel_wise":true`, `"channel_wise":false`, keep, "channel_wise"},
		{hqqConfig, `"view_as_float":false`, `"view_as_float":true`, keep, "view_as_float"},
		{hqqConfig, `"scale_quant_params":null`, `"scale_quant_params":{"nbits":8}`, keep, "scale_quant_params"},
		{hqqConfig, `"offload_meta":false`, `"offload_meta":true`, keep, "offload_meta"},
		{hqqConfig, `"weight_quant_params"`, `"weights"`, keep, "weights"},
		{`{"quantization_config":{"quant_method":"hqq"}}`, "", "", keep, "quant_config is missing"},
		{hqqConfig, "", "", func(f files) { delete(f, "x.W_q") }, `"x.W_q" is missing`},
		{hqqConfig, "", "", func(f files) { delete(f, "x.zero") }, `"x.zero" is missing`},
		{hqqConfig, "", "", func(f files) { delete(f, "x.round_zero") }, `"x.round_zero" is missing`},
		{hqqConfig, "", "", flag("nbits", 5), "with 5 bits"},
		{hqqConfig, "", "", flag("axis", 2), "along axis 2"},
		{hqqConfig, "", "", flag("group_size", 7), "groups of 7"},
		{hqqConfig, "", "", func(f files) { flag("axis", 0)(f); flag("group_size", 16)(f) }, "of at most its rows"},
		{hqqConfig, "", "", flag("group_size", 0), "groups of 0"},
		{hqqConfig, "", "", flag("group_size", 16), "require [8 1]"},
		{hqqConfig, "", "", func(f files) { f["x.shape"].data[15] = 0x80 }, `"x.shape": element 1 is -`},
		{hqqConfig, "", "", flag("view_as_float", 1), `"x.view_as_float" is true`},
		{hqqConfig, "", "", flag("quant_zero", 1), `"x.quant_zero" is true`},
		{hqqConfig, "", "", flag("channel_wise", 0), `"x.channel_wise" is false`},
		{hqqConfig, "", "", flag("optimize", 2), "neither 0 nor 1"},
		{hqqConfig, "", "", flag("optimize", 0), ""},
		{hqqConfig, "", "", text("packing", "2bit_u8"), `"x.packing" is "2bit_u8"`},
		{hqqConfig, "", "", text("unpack_view_dtype", "torch.int32"), `"x.unpack_view_dtype"`},
		{hqqConfig, "", "", text("compute_dtype", "torch.float64"), "torch.float64"},
		{hqqConfig, "", "", text("compute_dtype", "torch.float16"), `"x.scale" has type BF16`},
		{hqqConfig, "", "", text("packing", strings.Repeat("x", 65)), "at most 64 are read"},
		{hqqConfig, "", "", brain("weight", 1, 8, 16), "it has both"},
		{hqqConfig, "", "", brain("zero", float32(math.Inf(1)), 16, 1), `"x.zero": element 0 is +Inf`},
		{hqqConfig, "", "", brain("scale", float32(math.Inf(1)), 16, 1), `"x.scale": element 0 is +Inf`},
	} {
		f := sound(hqqConfig)
		c.change(f)
		config := c.config
		if c.old != "" {
			config = strings.Replace(config, c.old, c.now, 1)
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
