package export

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// ftypes maps llama.cpp's file types to their number, and to how many of 57 matrices are imported as codes; 0: floats.
var ftypes = map[string]struct {
	number string
	packed int
}{
	"F16":  {"1", 0},
	"BF16": {"32", 0},
	"Q5_1": {"9", 57},
	"Q2_K": {"10", 57},
	"Q3_K": {"12", 57},
	"Q4_K": {"14", 57},
	"Q5_K": {"16", 57},
	"Q6_K": {"18", 57},
	"Q4_0": {"2", 57}, "Q5_0": {"8", 57}, "Q8_0": {"7", 57}, "IQ4_NL": {"25", 57}, "IQ4_XS": {"30", 57},
	"TQ1_0": {"36", 57}, "TQ2_0": {"37", 57}, "MXFP4": {"38", 57}, "Q2_0": {"41", 57},
	"Q1_0":  {"40", 57}, // where blocks of zeros have no code, the values are ternary
	"Q4_1":  {"3", 57},  // with minima
	"IQ1_S": {"24", 57}, "IQ1_M": {"31", 57}, "IQ2_XXS": {"19", 57}, "IQ2_XS": {"20", 57}, "IQ2_S": {"29", 57},
	"IQ3_XXS": {"23", 57}, "IQ3_S": {"26", 57},
}

// inFloats is a GGUF with matrices in F32.
func inFloats(t *testing.T) string {
	t.Helper()
	path, _ := exported(t, packedOf(t, shared.Path(t, filepath.Join("data", "models", "bitllama2-3m", "fake-f32")),
		packed.Recipe{Quant: "none"}))
	return path
}

// requantized asks llama.cpp for files in types, and for the floats of each.
func requantized(t *testing.T, path string, numbers ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	library := interop.NodeFile(t, "llama.cpp", "@node-llama-cpp/linux-x64/bins/linux-x64/libllama.v*.so")
	interop.Python(t, "gguf", "testdata/quantize.py", append([]string{library, path, dir}, numbers...)...)
	return dir
}

// TestInteropTypes: every type that llama.cpp writes has the values that llama.cpp dequantizes it to, and a packed file
// has them as well.
func TestInteropTypes(t *testing.T) {
	var numbers []string
	for _, f := range ftypes {
		numbers = append(numbers, f.number)
	}
	dir := requantized(t, inFloats(t), numbers...)
	for name, f := range ftypes {
		path := filepath.Join(dir, f.number+".gguf")
		types := map[string]int{}
		for _, x := range headerOf(t, path).Tensors {
			types[x.Type.String()]++
		}
		if types[name] != 57 {
			t.Errorf("%s: llama.cpp wrote %v", name, types)
		}
		sameFloats(t, path, filepath.Join(dir, f.number+"-f32.gguf"))
		source := packedOf(t, path, packed.Recipe{})
		if _, err := VerifyGGUF(t.Context(), path, source); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := countPacked(t, source); f.packed > 0 && n != f.packed {
			t.Errorf("%s: %d matrices are packed", name, n)
		}
	}
}

func countPacked(t *testing.T, path string) int {
	t.Helper()
	f, err := packed.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return len(f.Manifest().Packed)
}

// sameFloats compares all tensors of two models; the second one is in F32.
func sameFloats(t *testing.T, path, floats string) {
	t.Helper()
	a, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := checkpoint.Open(floats)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if len(a.Tensors()) != len(b.Tensors()) {
		t.Errorf("%d and %d tensors", len(a.Tensors()), len(b.Tensors()))
	}
	for _, x := range b.Tensors() {
		y, ok := a.Lookup(x.Name)
		if !ok || !slices.Equal(valuesOf(t, a, y), valuesOf(t, b, x)) {
			t.Errorf("%s: %s: other values", path, x.Name)
		}
	}
}

func valuesOf(t *testing.T, c *checkpoint.Checkpoint, x checkpoint.Tensor) []float32 {
	t.Helper()
	data, d := make([]byte, x.Size), quantize.DType(x.DType)
	if err := c.ReadAt(x, data, 0); err != nil {
		t.Fatal(err)
	}
	values := make([]float32, len(data)/d.Size())
	d.Widen(values, data)
	return values
}

// TestInteropIKTypes: ik_llama.cpp's own types have the codes of the ternary floats that its program read, and their
// scale, which one of the types rounds to float16.
func TestInteropIKTypes(t *testing.T) {
	source := inFloats(t)
	want := packedOf(t, source, packed.Recipe{})
	for kind, round := range map[string]func(float32) float32{
		"IQ1_BN": func(x float32) float32 { return float16.Widen(float16.Narrow(x)) },
		"IQ2_BN": func(x float32) float32 {
			return x
		},
	} {
		path := filepath.Join(t.TempDir(), kind+".gguf")
		ikQuantize(t, "--pure", "--token-embedding-type", "f32", source, path, strings.ToLower(kind))
		sameRounded(t, want, packedOf(t, path, packed.Recipe{}), round)
	}
}

// TestInteropIK: ik_llama.cpp computes squared ReLU, and lowpack's logits up to the error of its activations.
func TestInteropIK(t *testing.T) {
	source := wideBitnet(t)
	path := filepath.Join(t.TempDir(), "m.gguf")
	if _, err := GGUF(t.Context(), source, path, GGUFOptions{Dialect: IK}); err != nil {
		t.Fatal(err)
	}
	ids := []int{1, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130}
	logits, _ := asked(t, ids, samples,
		func(spec, out string) []byte { return interop.Python(t, "ik", "testdata/ik.py", path, spec, out) })
	own := logitsOf(t, source, ids)
	largest, mean, agree := distance(logits, own)
	t.Logf("largest difference %.3g, mean %.3g, %d of %d argmax tokens agree; logits like %v", largest, mean, agree,
		len(ids), own[0][:4])
	if largest > 0.5 || mean > 0.1 || agree < len(ids)*3/4 {
		t.Error("they differ")
	}
}

// ikQuantize runs llama-quantize of ik_llama.cpp.
func ikQuantize(t *testing.T, args ...string) {
	t.Helper()
	program := interop.File(t, "ik", "ik_llama_cpp/bin/llama-quantize")
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Join(filepath.Dir(program), "..", "lib"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out[max(0, len(out)-2000):])
	}
}

// TestInteropExperts: llama.cpp loads exported mixtures of experts, and computes lowpack's logits for their weights as
// floats; with MXFP4, up to the error of its 8-bit activations.
func TestInteropExperts(t *testing.T) {
	ids := []int{1, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130}
	for _, like := range mixtures {
		r := packed.Recipe{Quant: "int8", Scale: "group:32", AllowLossy: true}
		if like == "gpt-oss-20b" {
			r = packed.Recipe{} // its codes are imported
		}
		source := packedOf(t, mixture(t, like), r)
		path, _ := exported(t, source)
		logits, tokens := llama(t, filepath.Join(requantized(t, path, "0"), "0.gguf"), ids, samples)
		sameTokens(t, source, tokens)
		largest, mean, agree := distance(logits, logitsOf(t, packedOf(t, path, packed.Recipe{Quant: "none"}), ids))
		t.Logf("%s: largest difference %.3g, mean %.3g, %d of %d argmax tokens agree", like, largest, mean,
			agree, len(ids))
		if largest > 1e-4 || agree != len(ids) {
			t.Errorf("%s: they differ", like)
		}
		if like != "gpt-oss-20b" {
			continue
		}
		logits, _ = llama(t, path, ids, samples)
		largest, mean, agree = distance(logits, logitsOf(t, source, ids))
		t.Logf("%s, MXFP4: largest difference %.3g, mean %.3g, %d of %d argmax tokens agree", like, largest, mean,
			agree, len(ids))
		if largest > 0.5 || mean > 0.1 || agree != len(ids) {
			t.Errorf("%s, MXFP4: they differ", like)
		}
	}
}

// forLlamaCpp writes a miniature that llama.cpp can compute: queries are scaled by the size of a head, and factors for
// short texts are for 512 positions, as it has no context of fewer than 256. MiniCPM4 is MiniCPM with factors of
// frequencies.
func forLlamaCpp(t *testing.T, like string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), like)
	from := map[string]string{"minicpm4": "minicpm-2b"}[like]
	tinymodel.MiniatureWith(t, cmp.Or(from, like), dir, func(o *synth.Options) {
		size := map[string]string{"gemma-2-2b": "16", "gemma-3-270m": "32"}[like]
		o.Config = bytes.ReplaceAll(o.Config, []byte(`"query_pre_attn_scalar": 256`),
			[]byte(`"query_pre_attn_scalar": `+size))
		o.Config = bytes.ReplaceAll(o.Config, []byte(`"original_max_position_embeddings": 4096`),
			[]byte(`"original_max_position_embeddings": 65536`))
		if from != "" {
			const longRope = `"rope_scaling": {"rope_type": "longrope", "long_factor": [1, 1.5, 2, 3, 5, 9, 17, 33], "short_factor": [1, 1.125, 1.25, 1.5, 2, 3, 4, 6], "original_max_position_embeddings": 4096}`
			o.Config = bytes.ReplaceAll(o.Config, []byte(`"rope_scaling": null`), []byte(longRope))
		}
	})
	return dir
}

// TestInteropFamilies: with floats on both sides, llama.cpp computes the logits that lowpack computes, in every family.
// Its GELU is a table of float16 numbers.
func TestInteropFamilies(t *testing.T) {
	for like, most := range map[string]float64{
		"smollm2-135m":      1e-4,
		"mistral-7b-v0.3":   1e-4,
		"qwen2.5-0.5b":      1e-4,
		"qwen2.5-1.5b-yarn": 1e-4,
		"qwen3-0.6b":        1e-4,
		"phi-3-mini-4k":     1e-4,
		"minicpm-2b":        1e-4,
		"minicpm4":          1e-4,
		"llama-3.2-1b":      1e-4,
		"phi-3-mini-128k":   1e-4,
		"gemma-2b":          5e-3, "gemma-2-2b": 5e-3, "gemma-3-270m": 5e-3,
	} {
		t.Run(like, func(t *testing.T) { computedAlike(t, forLlamaCpp(t, like), most) })
	}
	for like, most := range denseFamilies {
		t.Run(like, func(t *testing.T) { computedAlike(t, denseModel(t, like), most) })
	}
}

// computedAlike compares logits and tokens of a checkpoint with llama.cpp's for the exported file.
func computedAlike(t *testing.T, dir string, most float64) {
	t.Helper()
	source := packedOf(t, dir, packed.Recipe{Quant: "none"})
	path, told := exported(t, source)
	path = filepath.Join(requantized(t, path, "0"), "0.gguf") // with BF16 it rounds activations
	var ids []int
	tokens := 40 // more than the windows of miniatures
	if slices.ContainsFunc(told.Notes, func(n string) bool { return strings.Contains(n, "keep texts within 32") }) {
		tokens = 32
	}
	for i := range tokens {
		ids = append(ids, 1+i*7%300)
	}
	logits, cut := llama(t, path, ids, samples)
	sameTokens(t, source, cut)
	largest, mean, agree := distance(logits, logitsOf(t, source, ids))
	t.Logf("largest difference %.3g, mean %.3g, %d of %d argmax tokens agree", largest, mean, agree, len(ids))
	if largest > most || agree != len(ids) {
		t.Error("they differ")
	}
}
