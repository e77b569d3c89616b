package export

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// convertedByLlamaCpp asks llama.cpp's converter for GGUF files of checkpoints, with floats in a type.
func convertedByLlamaCpp(t *testing.T, kind string, dirs ...string) (paths []string) {
	t.Helper()
	folder := filepath.Dir(interop.Unpacked(t, "convert_hf_to_gguf", "vendor/llama.cpp/convert_hf_to_gguf.py"))
	args, target := []string{folder}, t.TempDir()
	for _, dir := range dirs {
		path := filepath.Join(target, filepath.Base(dir)+".gguf")
		args, paths = append(args, dir, path, kind), append(paths, path)
	}
	interop.Python(t, "transformers", "testdata/hf.py", args...)
	return paths
}

// TestInteropConverter: a transformers checkpoint and the GGUF that llama.cpp's converter makes from it give the same
// weights, the same codes and scales if quantized, and the same logits.
func TestInteropConverter(t *testing.T) {
	var dirs []string
	for _, name := range []string{
		"llama", "llama-yarn", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "phi3",
		"gemma", "granite",
		"granitemoe", "olmoe", "gpt_oss", "gpt_oss_mxfp4",
	} {
		dirs = append(dirs, shared.Path(t, filepath.Join("data", "transformers", name)))
	}
	dirs = append(dirs, shared.Path(t, filepath.Join("data", "models", "stories260k", "hf-F32")))
	for _, like := range []string{"gemma-2-2b", "gemma-3-270m", "phi-3-mini-128k", "llama-3.2-1b", "minicpm-2b",
		"minicpm4"} {
		dirs = append(dirs, forLlamaCpp(t, like))
	}
	ids := []int{1, 30, 40, 50, 60, 70, 80, 90}
	for i, path := range convertedByLlamaCpp(t, "f32", dirs...) {
		name := filepath.Base(dirs[i])
		for _, r := range []packed.Recipe{{}, {Quant: "int4", Scale: "group:32", AllowLossy: true}} {
			if strings.HasPrefix(name, "gpt_oss") && r.Quant != "" {
				continue // floats are transposed, codes are imported
			}
			want, got := packedOf(t, dirs[i], r), packedOf(t, path, r)
			if r.Quant == "" {
				if _, err := VerifyGGUF(t.Context(), path, want); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			// their gate and up are one tensor
			if countPacked(t, want) > 0 && name != "gpt_oss_mxfp4" && name != "granitemoe" {
				same(t, want, got)
			}
			most := 0.0
			// their frequency factors are not float32 values in config.json
			if name == "llama-3.2-1b" || name == "phi-3-mini-128k" {
				most = 1e-5
			}
			if largest, _, _ := distance(logitsOf(t, want, ids), logitsOf(t, got, ids)); largest > most {
				t.Errorf("%s, %s: logits differ by %v", name, r.Quant, largest)
			}
		}
	}
}

// converterOnly are keys that llama.cpp's converter writes otherwise than an export, and why.
var converterOnly = map[string]bool{
	// without the positions that yarn adds in the miniature
	"afm-4.5b arcee.context_length":             true,
	"deepseek-v2-lite deepseek2.context_length": true,
	"deepseek-v3 deepseek2.context_length":      true,
	// it reads keys of an older config.json, and their defaults
	"glm-4-9b chatglm.context_length":                   true,
	"glm-4-9b chatglm.attention.layer_norm_rms_epsilon": true,
	// of all published models; a scaling that is none
	"hunyuan-1.8b hunyuan-dense.context_length":                       true,
	"hunyuan-1.8b hunyuan-dense.rope.scaling.factor":                  true,
	"hunyuan-1.8b hunyuan-dense.rope.scaling.original_context_length": true,
	"hunyuan-a13b hunyuan-moe.context_length":                         true,
	"hunyuan-a13b hunyuan-moe.rope.scaling.factor":                    true,
	"hunyuan-a13b hunyuan-moe.rope.scaling.original_context_length":   true,
	// there are none
	"glm-4.5 glm4moe.nextn_predict_layers":        true,
	"glm-4.5-groups glm4moe.nextn_predict_layers": true,
	// it has LayerNorms
	"minitron-4b nemotron.attention.layer_norm_rms_epsilon": true,
	// the usual one, which llama.cpp has without it
	"olmo-3-7b olmo2.rope.scaling.yarn_attn_factor":  true,
	"olmo-3-own olmo2.rope.scaling.yarn_attn_factor": true,
	// true if config.json does not say; llama.cpp goes by tensors
	"stablelm-2-1.6b stablelm.use_parallel_residual": true,
}

// TestInteropConverterDense: an export has the tensors and the keys that llama.cpp's converter writes for the same
// checkpoint, and a file of the converter becomes the same model.
func TestInteropConverterDense(t *testing.T) {
	var dirs []string
	for like := range denseFamilies {
		dirs = append(dirs, denseModel(t, like))
	}
	ids := []int{1, 30, 40, 50, 60, 70, 80, 90}
	for i, path := range convertedByLlamaCpp(t, "f32", dirs...) {
		name := filepath.Base(dirs[i])
		t.Run(name, func(t *testing.T) {
			source := packedOf(t, dirs[i], packed.Recipe{Quant: "none"})
			own, _ := exported(t, source)
			sameKeys(t, name, headerOf(t, own), headerOf(t, path))
			sameFloats(t, own, path)
			got := packedOf(t, path, packed.Recipe{})
			largest, _, _ := distance(logitsOf(t, source, ids), logitsOf(t, got, ids))
			// another epsilon; windows in the usual blocks, whatever layer_types says
			if largest > rounded[name] && name != "glm-4-9b" && name != "command-r7b-own" {
				t.Errorf("logits differ by %v", largest)
			}
		})
	}
}

// sameKeys demands the tensors of the converter, and its keys that describe the model.
func sameKeys(t *testing.T, name string, own, theirs *gguf.Header) {
	t.Helper()
	shapes := map[string]string{}
	for _, x := range own.Tensors {
		shapes[x.Name] = fmt.Sprint(x.Shape)
	}
	for _, x := range theirs.Tensors {
		if shapes[x.Name] != fmt.Sprint(x.Shape) {
			t.Errorf("%s: tensor %s %v, in the export %s", name, x.Name, x.Shape, shapes[x.Name])
		}
	}
	if len(own.Tensors) != len(theirs.Tensors) {
		t.Errorf("%s: %d tensors, in the export %d", name, len(theirs.Tensors), len(own.Tensors))
	}
	for _, kv := range theirs.Keys {
		v, _ := own.Get(kv.Key)
		kind, _ := kv.Value.Text()
		switch {
		case strings.HasPrefix(kv.Key, "general.") && kv.Key != "general.architecture",
			strings.HasPrefix(kv.Key, "tokenizer."), strings.HasPrefix(kv.Key, "GGUF."),
			strings.HasSuffix(kv.Key, ".rope.scaling.type") && kind == "none":
		case !converterOnly[name+" "+kv.Key] && !reflect.DeepEqual(v, kv.Value):
			t.Errorf("%s: %s is %v, in the export %v", name, kv.Key, kv.Value, v)
		}
	}
}

// TestInteropConverterBitNet: the converter makes ternary weights from a BitNet's master weights. Codes equal
// lowpack's, and so do scales, except that the converter multiplies by a reciprocal of a reciprocal. It supports only
// the norms of the first BitNet.
func TestInteropConverterBitNet(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bitnet")
	tinymodel.MiniatureWith(t, "bitnet-large", dir, func(o *synth.Options) {
		o.Config = regexp.MustCompile(`("torch_dtype": )"\w+"`).ReplaceAll(o.Config, []byte(`$1"float32"`))
	})
	path := convertedByLlamaCpp(t, "f32", dir)[0]
	a, err := packed.Open(packedOf(t, dir, packed.Recipe{}))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := packed.Open(packedOf(t, path, packed.Recipe{}))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for i := range a.Manifest().Packed {
		e := &a.Manifest().Packed[i]
		o, ok := b.Manifest().Entry(e.Name)
		if !ok || o.CodesSHA != e.CodesSHA {
			t.Errorf("%s: other codes", e.Name)
			continue
		}
		want, err1 := packed.Scales(a, e)
		got, err2 := packed.Scales(b, o)
		if err := errors.Join(err1, err2); err != nil || math.Abs(float64(got[0]/want[0])-1) > 3e-7 {
			t.Errorf("%s: scale %v, want %v; %v", e.Name, got, want, err)
		}
	}
	if n := len(a.Manifest().Packed); n != 14 {
		t.Errorf("%d matrices", n)
	}
}
