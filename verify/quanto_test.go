package verify

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// TestQuanto: codes of Optimum Quanto of 4, 2 and 8 bits, of which those of several rows share a byte, pass all levels;
// a change of any part is found by the name of the weight.
func TestQuanto(t *testing.T) {
	config, tensors := readFolder(t, miniature(t, "qwen3-0.6b", synth.Normal), (*checkpoint.Checkpoint).Stored)
	qmap := toQuanto(tensors)
	write := func() string {
		dir := writeSample(t, config, tensors)
		text, err := json.Marshal(qmap)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "quanto_qmap.json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	source := write()
	path := tinymodel.Converted(t, source, packed.Recipe{})
	if bad := failed(run(t, path, Options{Source: source})); len(bad) > 0 {
		t.Fatal(bad)
	}
	for _, name := range []string{"q_proj.weight._data._data", "q_proj.weight._shift", "o_proj.weight._data._data",
		"up_proj.weight._data._data", "up_proj.weight._shift", "down_proj.weight._data", "down_proj.weight._scale"} {
		for full, x := range tensors {
			if !strings.Contains(full, ".layers.0.") || !strings.HasSuffix(full, name) {
				continue
			}
			old := slices.Clone(x.data)
			x.data[len(x.data)-1] ^= 1
			bad := failed(run(t, path, Options{Source: write()}))
			copy(x.data, old)
			module, _, _ := strings.Cut(full, "._")
			if !slices.ContainsFunc(bad, func(c Check) bool { return c.Name == module }) {
				t.Errorf("a change of %s is not found: %v", full, bad)
			}
		}
	}
}

// toQuanto makes linear layers codes: of 8 bits in down_proj, of 2 in o_proj, and of 4 in others, with zero points in
// MLPs and what is subtracted in others. It returns their types by module.
func toQuanto(tensors map[string]sampleTensor) map[string]map[string]string {
	qmap := map[string]map[string]string{}
	for name, x := range tensors {
		module, weight := strings.CutSuffix(name, ".weight")
		if !weight || len(x.Shape) != 2 || !strings.Contains(name, ".layers.") {
			continue
		}
		delete(tensors, name)
		rows, columns := x.Shape[0], x.Shape[1]
		add := func(suffix string, t safetensors.DType, data []byte, shape ...int) {
			x := sampleTensor{data: data}
			x.Name, x.DType, x.Shape = module+suffix, t, shape
			tensors[x.Name] = x
		}
		codes := make([]byte, rows*columns)
		for i := range codes {
			codes[i] = byte(i*i + i>>3)
		}
		numbers := func(first float32) (out []byte) {
			for i := range rows {
				out = binary.LittleEndian.AppendUint32(out, math.Float32bits(first+float32(i%7)/64))
			}
			return out
		}
		add(".weight._scale", safetensors.F32, numbers(0.01), rows, 1)
		kind, shares := "qint4", 2
		switch {
		case strings.HasSuffix(module, "down_proj"):
			kind = "qint8"
			add(".weight._data", safetensors.I8, codes, rows, columns)
		case strings.HasSuffix(module, "o_proj"):
			kind, shares = "qint2", 4
		}
		qmap[module] = map[string]string{"weights": kind, "activations": "none"}
		if kind == "qint8" {
			continue
		}
		add(".weight._data._data", safetensors.U8, codes[:rows/shares*columns], rows/shares, columns)
		if strings.Contains(module, ".mlp.") {
			add(".weight._shift", safetensors.U8, slices.Repeat([]byte{1}, rows), rows, 1)
		} else {
			add(".weight._shift", safetensors.F32, numbers(0.05), rows, 1)
		}
	}
	return qmap
}
