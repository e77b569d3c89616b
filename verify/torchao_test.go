package verify

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/formats/synth"
)

// TestTorchAO: integers and 8-bit floats of TorchAO in one checkpoint, whose modules have no tensor of the name of
// their weight, pass all levels; a change of any part is found by the name of the weight.
func TestTorchAO(t *testing.T) {
	config, tensors := readFolder(t, miniature(t, "qwen3-0.6b", synth.Normal), (*checkpoint.Checkpoint).Stored)
	declared := `{"quant_method":"torchao","quant_type":{"default":{"_type":"FqnToConfig","_version":1,"_data":{
		"fqn_to_config":{"lm_head":null,"re:.*mlp.*":{"_type":"Float8WeightOnlyConfig","_version":2,"_data":{}},
		"_default":{"_type":"IntxWeightOnlyConfig","_version":2,"_data":{"weight_dtype":{"_type":"torch.dtype",
		"_data":"int4"},"granularity":{"_type":"PerGroup","_version":1,"_data":{"group_size":16}}}}}}}}}`
	declare(t, config, declared)
	integers, floats := toTorchAO(tensors)
	path := passes(t, config, tensors)
	for _, name := range []string{integers + "._weight_qdata", integers + "._weight_scale",
		integers + "._weight_zero_point", floats + "._weight_qdata", floats + "._weight_scale"} {
		x := tensors[name]
		old := slices.Clone(x.data)
		x.data[len(x.data)-1] ^= 2
		bad := failed(run(t, path, Options{Source: writeSample(t, config, tensors)}))
		copy(x.data, old)
		module, _, _ := strings.Cut(name, "._weight")
		if !slices.ContainsFunc(bad, func(c Check) bool { return c.Name == module+".weight" }) {
			t.Errorf("a change of %s is not found: %v", name, bad)
		}
	}
}

// toTorchAO makes the linear layers of MLPs 8-bit floats, and others codes of 4 bits, and returns one module of each.
func toTorchAO(tensors map[string]sampleTensor) (integers, floats string) {
	for name, x := range tensors {
		module, weight := strings.CutSuffix(name, ".weight")
		if !weight || len(x.Shape) != 2 || !strings.Contains(name, ".layers.") {
			continue
		}
		describe := func(class, parts string, columns int, attributes string) {
			x := tensors[module+"._weight_qdata"]
			x.meta = []safetensors.KV{{Key: name, Value: fmt.Sprintf(`{"_type":%q,"_data":{"block_size":[1,%d],`+
				`"dtype":{"_type":"torch.dtype","_data":"bfloat16"}%s},"_tensor_data_names":["qdata","scale"%s]}`, class,
				columns, attributes, parts)}}
			tensors[x.Name] = x
		}
		add := func(suffix string, t safetensors.DType, data []byte, shape ...int) {
			x := sampleTensor{data: data}
			x.Name, x.DType, x.Shape = module+"._weight"+suffix, t, shape
			tensors[x.Name] = x
		}
		delete(tensors, name)
		rows, columns := x.Shape[0], x.Shape[1]
		codes := make([]byte, rows*columns)
		var scales, zeros []byte
		if strings.Contains(name, ".mlp.") {
			floats = max(floats, module)
			for i := range codes {
				codes[i] = byte(i*i+i>>3) & 0xb7 // of less than 2
			}
			for i := range rows {
				scales = binary.LittleEndian.AppendUint32(scales, math.Float32bits(0.01+float32(i%7)/64))
			}
			add("_qdata", "F8_E4M3", codes, rows, columns)
			add("_scale", safetensors.F32, scales, rows, 1)
			describe("Float8Tensor", "", columns, "")
			continue
		}
		integers = max(integers, module)
		for i := range codes {
			codes[i] = byte((i*i+i>>3)%12 - 6)
		}
		for i := range rows * columns / 16 {
			scales = binary.LittleEndian.AppendUint16(scales, uint16(math.Float32bits(0.01+float32(i%7)/64)>>16))
			zeros = append(zeros, byte(i%5-2))
		}
		add("_qdata", safetensors.I8, codes, rows, columns)
		add("_scale", safetensors.BF16, scales, rows, columns/16)
		add("_zero_point", safetensors.I8, zeros, rows, columns/16)
		describe("IntxUnpackedToInt8Tensor", `,"zero_point"`, 16,
			`,"target_dtype":{"_type":"torch.dtype","_data":"int4"},"activation_quantization":null`)
	}
	return integers, floats
}
