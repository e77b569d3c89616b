package verify

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/formats/synth"
)

// TestModelOpt: a mixture of FP8 attention and NVFP4 experts of ModelOpt, with scales of a KV cache and of activations,
// passes all levels.
func TestModelOpt(t *testing.T) {
	config, tensors := readFolder(t, miniature(t, "qwen3-30b-a3b", synth.Normal), (*checkpoint.Checkpoint).Stored)
	declared := `{"quant_method":"modelopt","quant_algo":"MIXED_PRECISION","kv_cache_scheme":{"dynamic":false,
		"num_bits":8,"type":"float"},"ignore":["lm_head","model.layers.*.mlp.gate"],"quantized_layers":{}}`
	q := declare(t, config, declared)
	layers := q["quantized_layers"].(map[string]any)
	fours := toModelOpt(tensors, layers)
	path := passes(t, config, tensors)
	if n := len(openPacked(t, path).Manifest().Packed); n == 0 || fours == 0 {
		t.Errorf("%d packed, %d of four bits", n, fours)
	}
	delete(q, "kv_cache_scheme")
	_, err := checkpoint.Open(writeSample(t, config, tensors))
	if err == nil || !strings.Contains(err.Error(), "_scale\" is a scale of a KV") {
		t.Errorf("scales of no cache: %v", err)
	}
}

// toModelOpt makes linear layers of blocks FP8, and those of experts NVFP4, and returns how many of the latter there
// are.
func toModelOpt(tensors map[string]sampleTensor, layers map[string]any) (fours int) {
	add := func(name string, t safetensors.DType, data []byte, shape ...int) {
		x := sampleTensor{data: data}
		x.Name, x.DType, x.Shape = name, t, shape
		tensors[name] = x
	}
	scale := func(v float32) []byte { return binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)) }
	for name, x := range tensors {
		module, weight := strings.CutSuffix(name, ".weight")
		if !weight || len(x.Shape) != 2 || !strings.Contains(name, ".layers.") || strings.HasSuffix(module, ".gate") {
			continue
		}
		rows, columns := x.Shape[0], x.Shape[1]
		stored := make([]byte, rows*columns)
		for i := range stored {
			stored[i] = byte(i*i+i>>3) & 0xb7 // of less than 2
		}
		algo := map[string]any{"quant_algo": "FP8"}
		if strings.Contains(name, ".experts.") && columns%16 == 0 {
			fours++
			algo = map[string]any{"quant_algo": "NVFP4", "group_size": 16}
			add(name, safetensors.U8, stored[:len(stored)/2], rows, columns/2)
			scales := make([]byte, rows*columns/16)
			for i := range scales {
				scales[i] = byte(0x30 + i%9)
			}
			add(module+".weight_scale", "F8_E4M3", scales, rows, columns/16)
			add(module+".weight_scale_2", safetensors.F32, scale(0.012))
		} else {
			add(name, "F8_E4M3", stored, rows, columns)
			add(module+".weight_scale", safetensors.F32, scale(0.0123))
		}
		add(module+".input_scale", safetensors.F32, scale(0.5))
		if kind := module[len(module)-6:]; kind == "k_proj" || kind == "v_proj" {
			add(module+"."+kind[:1]+"_scale", safetensors.F32, scale(1))
		}
		layers[module] = algo
	}
	return fours
}
