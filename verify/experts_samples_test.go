package verify

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
)

// sampleTensor is a stored tensor of a sample.
type sampleTensor struct {
	checkpoint.Tensor
	data []byte
	meta []safetensors.KV // of the file
}

// readSample returns config.json and the tensors of a sample of an original packer.
func readSample(t *testing.T, name string) (config map[string]any, tensors map[string]sampleTensor) {
	t.Helper()
	return readFolder(t, shared.Path(t, "data/packed/"+name), (*checkpoint.Checkpoint).Tensors)
}

// readFolder returns config.json and the listed tensors of a checkpoint.
func readFolder(t *testing.T, dir string, list func(*checkpoint.Checkpoint) []checkpoint.Tensor) (
	config map[string]any, tensors map[string]sampleTensor) {
	t.Helper()
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := json.Unmarshal(c.Config(), &config); err != nil {
		t.Fatal(err)
	}
	tensors = map[string]sampleTensor{}
	for _, x := range list(c) {
		data := make([]byte, x.Size)
		if err := c.ReadAt(x, data, 0); err != nil {
			t.Fatal(err)
		}
		tensors[x.Name] = sampleTensor{Tensor: x, data: data}
	}
	return config, tensors
}

// declare sets the quantization_config of a checkpoint.
func declare(t *testing.T, config map[string]any, declared string) (q map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(declared), &q); err != nil {
		t.Fatal(err)
	}
	config["quantization_config"] = q
	return q
}

// passes writes a checkpoint and converts it, and demands that the packed file passes all levels.
func passes(t *testing.T, config map[string]any, tensors map[string]sampleTensor) (path string) {
	t.Helper()
	source := writeSample(t, config, tensors)
	path = tinymodel.Converted(t, source, packed.Recipe{})
	if bad := failed(run(t, path, Options{Source: source})); len(bad) > 0 {
		t.Fatal(bad)
	}
	return path
}

// writeSample writes a checkpoint.
func writeSample(t *testing.T, config map[string]any, tensors map[string]sampleTensor) (dir string) {
	t.Helper()
	dir = t.TempDir()
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	var list []safetensors.TensorInfo
	var meta []safetensors.KV
	for name, x := range tensors {
		meta = append(meta, x.meta...)
		info := safetensors.TensorInfo{Name: name, DType: x.DType}
		for _, n := range x.Shape {
			info.Shape = append(info.Shape, int64(n))
		}
		list = append(list, info)
	}
	safetensors.Order(list)
	if err := safetensors.Place(list); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := safetensors.NewWriter(f, meta, list, 8)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list {
		if err := w.Write(x.Name, tensors[x.Name].data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// mixed makes a mixture of a sample of two layers: expert e of both blocks is the MLP of layer e, in the tensors that
// put makes of it.
func mixed(tensors map[string]sampleTensor, put func(out map[string]sampleTensor, block, expert, module string,
	x sampleTensor)) map[string]sampleTensor {
	out := map[string]sampleTensor{}
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		x := tensors[name]
		layer, module, mlp := strings.Cut(strings.TrimPrefix(name, "model.layers."), ".mlp.")
		if !mlp {
			out[name] = x
			continue
		}
		for _, block := range []string{"0", "1"} {
			put(out, "model.layers."+block, layer, module, x)
		}
	}
	return out
}

// addRouters adds scores of two experts.
func addRouters(tensors map[string]sampleTensor, name string, hidden int) {
	data := make([]byte, 2*2*hidden)
	for i := range 2 * hidden { // ±0.125 in bfloat16
		data[2*i+1] = 0x3e | byte(i*i%7%2)<<7
	}
	for _, block := range []string{"0", "1"} {
		tensors["model.layers."+block+name] = sampleTensor{Tensor: checkpoint.Tensor{DType: safetensors.BF16,
			Shape: []int{2, hidden}}, data: data}
	}
}

// TestExpertsOfOriginalPackers: the experts of mixtures whose modules the original packers wrote have the codes,
// scales, zero points and orders that these modules have in a model without experts, which formats/quantized holds
// against the packers. All levels pass.
func TestExpertsOfOriginalPackers(t *testing.T) {
	for _, name := range []string{
		"gptq-b2-asym-g64-v1", "gptq-b3-asym-g32-v1", "gptq-b4-sym-g32-desc", "gptq-b4-sym-g64-v2",
		"autoround-auto_round-b4-sym-g128", "autoround-auto_round-b2-asym-g32", "autoround-auto_round-b4-asym-g128",
		"autoround-auto_gptq-b4-asym-g128", "autoround-auto_awq-b4-asym-g128", "autoround-llm_compressor-b4-sym-g128",
		"awq-gemm-g64",
		"ct-pack-b3-asym-g64", "ct-pack-b4-asym-g128", "ct-pack-b4-sym-channel", "ct-gptq-b4-sym-g32-actorder-weight",
		"ct-pack-w4a8", "ct-mxfp4-w4a16", "bnb-int8",
	} {
		t.Run(name, func(t *testing.T) {
			config, tensors := readSample(t, name)
			short := strings.NewReplacer("gate_proj", "w1", "up_proj", "w3", "down_proj", "w2")
			experts := mixed(tensors, func(out map[string]sampleTensor, block, expert, module string, x sampleTensor) {
				out[block+".block_sparse_moe.experts."+expert+"."+short.Replace(module)] = x
			})
			addRouters(experts, ".block_sparse_moe.gate.weight", 128)
			maps.Copy(config, map[string]any{"architectures": []string{"MixtralForCausalLM"}, "model_type": "mixtral",
				"num_local_experts": 2, "num_experts_per_tok": 1})
			compareExperts(t, name, writeSample(t, config, experts), func(module string) string {
				return "block_sparse_moe.experts." + short.Replace(module)
			})
		})
	}
}

// stack joins the tensors of two experts in one, as MLX has them.
func stack(tensors map[string]sampleTensor, module string) map[string]sampleTensor {
	return mixed(tensors, func(out map[string]sampleTensor, block, expert, name string, x sampleTensor) {
		to := block + module + name
		first := out[to]
		out[to] = sampleTensor{Tensor: checkpoint.Tensor{DType: x.DType,
			Shape: append([]int{int(expert[0]-'0') + 1}, x.Shape...)},
			data: slices.Concat(first.data, x.data)}
	})
}

// TestExpertsOfMLX: the same for MLX's tensors of all experts of a block.
func TestExpertsOfMLX(t *testing.T) {
	for _, c := range []struct {
		sample, mlp  string
		architecture string
		more         map[string]any
	}{
		{"mlx-bonsai-bit1-f16-tied", "mlp", "Qwen3MoeForCausalLM",
			map[string]any{"num_experts": 2, "moe_intermediate_size": 256, "norm_topk_prob": true}},
		{"mlx-bonsai-ternary-f16-tied", "mlp", "Qwen3MoeForCausalLM",
			map[string]any{"num_experts": 2, "moe_intermediate_size": 256}},
		{"mlx-mxfp4", "block_sparse_moe", "MixtralForCausalLM", map[string]any{"num_local_experts": 2}},
	} {
		t.Run(c.sample, func(t *testing.T) {
			config, tensors := readSample(t, c.sample)
			experts := stack(tensors, "."+c.mlp+".switch_mlp.")
			addRouters(experts, "."+c.mlp+".gate.weight", 128)
			maps.Copy(config, c.more)
			maps.Copy(config, map[string]any{"architectures": []string{c.architecture}, "model_type": nil,
				"num_experts_per_tok": 1})
			compareExperts(t, c.sample, writeSample(t, config, experts), func(module string) string {
				return c.mlp + ".switch_mlp." + module
			})
		})
	}
}

// TestRouterOfCodes: MLX quantizes routers as well, which stay floats here: such a checkpoint is refused by their name.
func TestRouterOfCodes(t *testing.T) {
	config, tensors := readSample(t, "mlx-mxfp4")
	experts := stack(tensors, ".block_sparse_moe.switch_mlp.")
	for _, suffix := range []string{"weight", "scales"} {
		x := tensors["model.layers.0.mlp.gate_proj."+suffix]
		row := len(x.data) / x.Shape[0]
		for _, block := range []string{"0", "1"} {
			experts["model.layers."+block+".block_sparse_moe.gate."+
				suffix] = sampleTensor{Tensor: checkpoint.Tensor{DType: x.DType,
				Shape: []int{2, x.Shape[1]}}, data: x.data[:2*row]}
		}
	}
	maps.Copy(config, map[string]any{"architectures": []string{"MixtralForCausalLM"}, "model_type": nil,
		"num_local_experts": 2, "num_experts_per_tok": 1})
	p, err := convert.NewPlan(t.Context(), writeSample(t, config, experts), convert.Options{})
	if err == nil {
		p.Close()
	}
	if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), "block_sparse_moe.gate") {
		t.Errorf("%v", err)
	}
}

// compareExperts converts a mixture and compares each expert with the module of the sample that it was made of.
func compareExperts(t *testing.T, sample, dir string, moved func(module string) string) {
	t.Helper()
	path := tinymodel.Converted(t, dir, packed.Recipe{})
	if bad := failed(run(t, path, Options{Source: dir})); len(bad) > 0 {
		t.Error(bad)
	}
	got, want := openPacked(t, path), openPacked(t,
		tinymodel.Converted(t, shared.Path(t, "data/packed/"+sample), packed.Recipe{Golden: "none"}))
	for _, expert := range []int{0, 1} {
		for _, module := range []string{"gate_proj", "up_proj", "down_proj"} {
			a := sampleMatrix(t, want, "model.layers."+string(rune('0'+expert))+".mlp."+module+".weight", 0)
			for _, block := range []string{"0", "1"} {
				b := sampleMatrix(t, got, "model.layers."+block+"."+moved(module)+".weight", expert)
				if !a.equal(b) {
					t.Errorf("%s of expert %d of block %s is not that of the sample", module, expert, block)
				}
			}
		}
	}
}

func openPacked(t *testing.T, path string) *packed.File {
	t.Helper()
	f, err := packed.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// weightsOf is all that defines the weights of a matrix.
type weightsOf struct {
	alphabet string
	codes    []int8
	scales   []float32
	zeros    []int8
	order    []int32
}

func sampleMatrix(t *testing.T, f *packed.File, name string, expert int) (w weightsOf) {
	t.Helper()
	e, ok := f.Manifest().Entry(name)
	if !ok {
		t.Fatalf("%s is not packed", name)
	}
	m, err := packed.Codes(f, e, expert)
	if err != nil {
		t.Fatal(err)
	}
	w.alphabet, w.codes = e.Layout.Alphabet, m.Codes
	if w.scales, err = packed.ScalesOf(f, e, expert); err != nil {
		t.Fatal(err)
	}
	if w.zeros = make([]int8, len(w.scales)); e.Zero { // of experts some may have no zero points
		if w.zeros, err = packed.ZerosOf(f, e, expert); err != nil {
			t.Fatal(err)
		}
	}
	w.order = make([]int32, m.K)
	for i := range w.order {
		w.order[i] = int32(i)
	}
	if e.Order {
		if w.order, err = packed.Order(f, e, expert); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w weightsOf) equal(v weightsOf) bool {
	return w.alphabet == v.alphabet && slices.Equal(w.codes, v.codes) && slices.Equal(w.scales, v.scales) &&
		slices.Equal(w.zeros, v.zeros) && slices.Equal(w.order, v.order)
}
