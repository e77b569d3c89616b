package verify

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/formats/synth"
)

// TestHQQ: a checkpoint of HQQ, whose modules have no tensor of the name of their weight, passes all levels; a change
// of codes, scales or zero points is found by the name of the weight.
func TestHQQ(t *testing.T) {
	config, tensors := readFolder(t, miniature(t, "qwen3-0.6b", synth.Normal), (*checkpoint.Checkpoint).Stored)
	declared := `{"quant_method":"hqq","skip_modules":["lm_head"],"quant_config":{"weight_quant_params":{"nbits":4,
		"channel_wise":true,"group_size":8,"optimize":true,"round_zero":true,"axis":1,"view_as_float":false}}}`
	declare(t, config, declared)
	module := toHQQ(tensors)
	path := passes(t, config, tensors)
	for _, suffix := range []string{".W_q", ".scale", ".zero"} {
		x := tensors[module+suffix]
		old := slices.Clone(x.data)
		x.data[1] ^= 0x11
		bad := failed(run(t, path, Options{Source: writeSample(t, config, tensors)}))
		copy(x.data, old)
		if !slices.ContainsFunc(bad, func(c Check) bool { return c.Name == module+".weight" }) {
			t.Errorf("a change of %s is not found: %v", suffix, bad)
		}
	}
}

// toHQQ makes the linear layers of blocks codes of 4 bits, and returns the name of one.
func toHQQ(tensors map[string]sampleTensor) (module string) {
	var last string
	brains := func(n int, first float32) (out []byte) {
		for i := range n {
			out = binary.LittleEndian.AppendUint16(out, uint16(math.Float32bits(first+float32(i%7)/64)>>16))
		}
		return out
	}
	for name, x := range tensors {
		module, weight := strings.CutSuffix(name, ".weight")
		if !weight || len(x.Shape) != 2 || !strings.Contains(name, ".layers.") {
			continue
		}
		last = max(last, module)
		add := func(suffix string, t safetensors.DType, data []byte, shape ...int) {
			x := sampleTensor{data: data}
			x.Name, x.DType, x.Shape = module+suffix, t, shape
			tensors[x.Name] = x
		}
		delete(tensors, name)
		rows, columns := x.Shape[0], x.Shape[1]
		groups := rows * columns / 8
		codes := make([]byte, rows*columns/2)
		for i := range codes {
			codes[i] = byte(i*i + i>>3)
		}
		add(".W_q", safetensors.U8, codes, groups/2, 8)
		add(".scale", safetensors.BF16, brains(groups, 0.01), groups, 1)
		add(".zero", safetensors.BF16, brains(groups, 7), groups, 1)
		add(".shape", "I64", binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(rows)),
			uint64(columns)), 2)
		for suffix, n := range map[string]uint32{".nbits": 4, ".group_size": 8, ".axis": 1} {
			add(suffix, "I32", binary.LittleEndian.AppendUint32(nil, n))
		}
		for suffix, text := range map[string]string{".packing": "4bit_u8", ".unpack_view_dtype": "torch.uint8",
			".compute_dtype": "torch.bfloat16"} {
			add(suffix, safetensors.U8, []byte(text), len(text))
		}
		for suffix, flag := range map[string]byte{".view_as_float": 0, ".quant_scale": 0, ".quant_zero": 0,
			".offload_meta": 0, ".channel_wise": 1, ".optimize": 1, ".round_zero": 1, ".encoded_state_dict": 1,
			".stores_quant_config": 1} {
			add(suffix, safetensors.U8, []byte{flag})
		}
	}
	return last
}
