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

// TestExpertsOfFP8: miniatures of mixtures that are published in FP8, with the quantization_config of the published
// files but for the size of the blocks, become floats and pass all levels.
func TestExpertsOfFP8(t *testing.T) {
	for name, declared := range map[string]string{
		"minimax-m2": `{"activation_scheme":"dynamic","fmt":"float8_e4m3fn","quant_method":"fp8",
			"weight_block_size":[16,24],"modules_to_not_convert":["gate","e_score_correction_bias","lm_head"]}`,
		"deepseek-v3": `{"activation_scheme":"dynamic","fmt":"e4m3","quant_method":"fp8","weight_block_size":[16,24]}`,
	} {
		t.Run(name, func(t *testing.T) {
			config, tensors := readFolder(t, miniature(t, name, synth.Normal), (*checkpoint.Checkpoint).Stored)
			declare(t, config, declared)
			experts := toFP8(tensors)
			path := passes(t, config, tensors)
			if len(openPacked(t, path).Manifest().Packed) != 0 || experts == 0 {
				t.Errorf("codes, or no experts: %d", experts)
			}
		})
	}
}

// toFP8 makes linear layers of blocks FP8 with scales of 16×24 blocks, and returns how many are of experts.
func toFP8(tensors map[string]sampleTensor) (experts int) {
	for name, x := range tensors {
		module, weight := strings.CutSuffix(name, ".weight")
		if !weight || len(x.Shape) != 2 || !strings.Contains(name, ".layers.") || strings.HasSuffix(module, ".gate") {
			continue
		}
		if strings.Contains(name, ".experts.") {
			experts++
		}
		rows, columns := x.Shape[0], x.Shape[1]
		x.DType, x.data = "F8_E4M3", make([]byte, rows*columns)
		for i := range x.data {
			x.data[i] = byte(i*i+i>>3) & 0xb7 // of less than 2
		}
		tensors[name] = x
		grid := []int{(rows + 15) / 16, (columns + 23) / 24}
		var scales []byte
		for i := range grid[0] * grid[1] {
			scales = binary.LittleEndian.AppendUint32(scales, math.Float32bits(0.01+float32(i)/1000))
		}
		s := sampleTensor{data: scales}
		s.Name, s.DType, s.Shape = module+".weight_scale_inv", safetensors.F32, grid
		tensors[s.Name] = s
	}
	return experts
}
