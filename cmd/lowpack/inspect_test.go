package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/pooling"
	"github.com/lowpack/lowpack/formats/scoring"
	"github.com/lowpack/lowpack/internal/testkit/sentence"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// inspected returns the summary of inspect --json for a file.
func inspected(t *testing.T, path string) facts {
	t.Helper()
	o := command(t, "inspect", "--json", path)
	var v struct {
		Summary facts
		Bytes   int64
	}
	if err := json.Unmarshal([]byte(o.out), &v); o.code != 0 || err != nil {
		t.Fatalf("%v\n%s", err, o.out)
	}
	if s := v.Summary; s.Parameters > 0 && s.FileBits != 8*float64(v.Bytes)/float64(s.Parameters) {
		t.Errorf("%s: %v bits per weight of %d bytes", path, s.FileBits, v.Bytes)
	}
	return v.Summary
}

// TestInspectGGUF: tensors of a GGUF are listed with their stored types and sizes.
func TestInspectGGUF(t *testing.T) {
	dir := t.TempDir()
	file, m := filepath.Join(dir, "p"), filepath.Join(dir, "m.gguf")
	for _, args := range [][]string{{"convert", shared.Testdata(t, "tiny-bitnet"), "-o", file, "--golden", "none"},
		{"export", file, "--to", "gguf", "--force", "-o", m}} {
		if o := command(t, args...); o.code != 0 {
			t.Fatal(o.out)
		}
	}
	o := command(t, "inspect", m)
	for _, kind := range []string{"TQ2_0 ", "F16 ", "BF16 ", "F32 "} {
		if !strings.Contains(o.out, "  "+kind) {
			t.Errorf("no %sin\n%s", kind, o.out)
		}
	}
	if !strings.Contains(o.out, " 2.06\n") {
		t.Errorf("TQ2_0 takes 2.06 bits per weight:\n%s", o.out)
	}
	if o = command(t, "verify", m); o.code == 0 || !strings.Contains(o.out, "lowpack verify FILE --source "+m) {
		t.Errorf("%s", o.out)
	}
}

// TestInspectParameters: packed codes, which have fewer elements than weights, are counted as weights.
func TestInspectParameters(t *testing.T) {
	for like, want := range map[string]int64{"qwen3-8b-gptq": 135_552, "gpt-oss-20b": 298_430} {
		dir := filepath.Join(t.TempDir(), like)
		if o := command(t, "synth", "--like", like, "--mini", "-o", dir); o.code != 0 {
			t.Fatal(o.out)
		}
		if got := inspected(t, dir).Parameters; got != want {
			t.Errorf("%s: %d parameters, want %d", like, got, want)
		}
	}
}

// TestInspectFacts checks the summary of the bundled model, in each of its forms.
func TestInspectFacts(t *testing.T) {
	source := shared.Testdata(t, "tiny-bitnet")
	const parameters = 4_817_696 // elements of all tensors of the published checkpoint
	ck := inspected(t, source)
	if ck.Family != "bitnet" || ck.Architecture != "BitNetForCausalLM" || ck.Parameters != parameters ||
		ck.Context != 256 || ck.Vocabulary != 2560 {
		t.Errorf("%+v", ck)
	}
	if ck.Tokenizer != "byte-level BPE" || fmt.Sprint(ck.ChatTemplates) != "[default]" || ck.Golden != nil ||
		ck.Verify != "" {
		t.Errorf("%+v", ck)
	}
	if !strings.HasPrefix(ck.Convert, "42 of 68 tensors packed (absmean to vnni4i), ") {
		t.Errorf("%q", ck.Convert)
	}
	if codes := inspected(t, shared.Testdata(t, "tiny-bitnet-packed")); codes.Parameters != parameters {
		t.Errorf("packed codes: %d parameters", codes.Parameters)
	}
	for _, c := range []struct {
		name, flags string
		quantized   int
		golden      string
	}{
		{"plain", "", 42, "full: 13632 of 13632 rows, logits of 89 positions, 10 texts"},
		{"kernel", "--golden kernel", 42, "kernel: 13632 of 13632 rows, logits of 0 positions, 0 texts"},
		{"none", "--golden none", 42, "none"},
		{"head", "--golden none --head int8", 43, "none"},
		{"screen", "--golden none --head screen", 43, "none"},
	} {
		path := filepath.Join(t.TempDir(), c.name)
		o := command(t, append([]string{"convert", source, "-o", path}, strings.Fields(c.flags)...)...)
		if o.code != 0 {
			t.Fatal(o.out)
		}
		s := inspected(t, path)
		if s.Parameters != parameters || s.Quantized != c.quantized || s.Golden == nil || s.Golden.text() != c.golden {
			t.Errorf("%s: %+v, golden %+v", c.name, s, s.Golden)
		}
		if s.QuantizedBits < 2 || c.quantized == 42 && s.QuantizedBits > 2.1 {
			t.Errorf("%s: %v bits per quantized weight", c.name, s.QuantizedBits)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, perToken := range []int64{2 * 6 * 2 * 32 * 4, 2 * 6 * 2 * 32 * 2, 2 * 6 * 2 * (32 + 4),
			2 * 6 * 2 * (16 + 4)} {
			if k := s.KVCache[i]; k.PerToken != perToken || k.Memory != info.Size()+256*perToken {
				t.Errorf("%s: %+v, want %d bytes per token", c.name, k, perToken)
			}
		}
		if s.Verify != "lowpack verify "+path+" --source CHECKPOINT" {
			t.Errorf("%q", s.Verify)
		}
	}
}

// TestInspectEmbeddings: inspect says of a checkpoint and of its packed file how they make embeddings, and of others
// nothing.
func TestInspectEmbeddings(t *testing.T) {
	p := pooling.Pooling{Mode: pooling.Mean, Normalize: true}
	dir := filepath.Join(t.TempDir(), "checkpoint")
	tinymodel.Miniature(t, "qwen3-0.6b", dir)
	if s := inspected(t, dir); s.Embeddings != "" {
		t.Errorf("without modules.json: %q", s.Embeddings)
	}
	sentence.Pool(t, dir, p)
	for _, path := range []string{dir, tinymodel.Converted(t, dir, packed.Recipe{Quant: "none", Golden: "none"})} {
		if s := inspected(t, path); s.Embeddings != "mean of all tokens, normalized" {
			t.Errorf("%s: %q", path, s.Embeddings)
		}
	}
}

// TestInspectScores: inspect says of a checkpoint and of its packed file how they make scores.
func TestInspectScores(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "checkpoint")
	tinymodel.Miniature(t, "qwen3-0.6b", dir)
	sentence.Score(t, dir, scoring.Scoring{True: 5, False: 7, Activation: scoring.Sigmoid, Format: scoring.Flat,
		Prompt: "Which?", MaxTokens: 40})
	const want = `logit of token 5 less that of 7, sigmoid, prompt "Which?", at most 40 tokens`
	for _, path := range []string{dir, tinymodel.Converted(t, dir, packed.Recipe{Quant: "none", Golden: "none"})} {
		if s := inspected(t, path); s.Scores != want || s.Embeddings != "" {
			t.Errorf("%s: %q, %q", path, s.Scores, s.Embeddings)
		}
	}
	settings := filepath.Join(dir, "config_sentence_transformers.json")
	if err := os.WriteFile(settings, []byte(`{"model_type": "SentenceTransformer"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := inspected(t, dir); s.Scores != "" || !strings.HasPrefix(s.Convert, "refused: ") ||
		!strings.Contains(s.Convert, "model_type") {
		t.Errorf("%+v", s)
	}
}

// TestInspectEmbeddingsRefused: inspect says that embeddings are not computed as a checkpoint declares them, of one too
// large to be planned as well.
func TestInspectEmbeddingsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "checkpoint")
	tinymodel.Miniature(t, "qwen3-0.6b", dir)
	sentence.Pool(t, dir, pooling.Pooling{Mode: pooling.Mean})
	settings := filepath.Join(dir, "config_sentence_transformers.json")
	if err := os.WriteFile(settings, []byte(`{"truncate_dim": 2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(){func() {}, func() { enlarge(t, dir) }} {
		change()
		if s := inspected(t, dir); s.Embeddings != "" || !strings.HasPrefix(s.Convert, "refused: ") ||
			!strings.Contains(s.Convert, "truncate_dim") {
			t.Errorf("%+v", s)
		}
	}
}

// enlarge adds the matrix of bareFile to a checkpoint of one file.
func enlarge(t *testing.T, dir string) {
	t.Helper()
	const one, other = "model.safetensors", "w.safetensors"
	weights, err := os.ReadFile(filepath.Join(dir, one))
	if err != nil {
		t.Fatal(err)
	}
	var header map[string]json.RawMessage
	if err := json.Unmarshal(weights[8:8+binary.LittleEndian.Uint64(weights)], &header); err != nil {
		t.Fatal(err)
	}
	delete(header, "__metadata__")
	shards := map[string]string{"w": other}
	for name := range header {
		shards[name] = one
	}
	index, err := json.Marshal(map[string]any{"weight_map": shards})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, one+".index.json"), index, 0o600)
	}
	if err == nil {
		err = os.Rename(filepath.Join(bareFile(t, 8256), other), filepath.Join(dir, other))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestInspectSaysWhatConvertDoes: inspect reports whether the weights of a checkpoint, experts included, would be
// imported losslessly, rounded, or refused, and why.
func TestInspectSaysWhatConvertDoes(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"data/packed/gptq-b4-sym-g128", "all weights exact"},
		{"data/packed/awq-gemm-g64", "all weights exact"},
		{"data/packed/mlx-bonsai-bit1-f16-tied", "all weights exact"},
		{"data/packed/bonsai-ternary-bf16-untied", "all weights exact"},
		{"data/packed/mlx-b4-g64", "all weights exact"},
		{"data/packed/ct-float-fp8-block", "0 of "},
		{"data/packed/ct-nvfp4-w4a16", "all weights exact"},
		{"data/transformers/gpt_oss_mxfp4", "(import-codes to vnni4i)"},
		{"data/transformers/gpt_oss_mxfp4", "all weights exact"},
		{"data/transformers/qwen3_moe", "0 of "},
	} {
		if s := inspected(t, shared.Path(t, c.name)); !strings.Contains(s.Convert, c.want) {
			t.Errorf("%s: %q does not say %q", c.name, s.Convert, c.want)
		}
	}
	if s := inspected(t, shared.Testdata(t, "tiny-bitnet")); !strings.HasSuffix(s.Convert,
		"; weights rounded by absmean") {
		t.Errorf("%q", s.Convert)
	}
	for path, want := range map[string]string{"data/packed/gptq-b3-planar": "gptq_p"} {
		if o := command(t, "inspect", shared.Path(t, path)); o.code == 0 || !strings.Contains(o.out, want) {
			t.Errorf("%s: exit code %d, %s", path, o.code, o.out)
		}
	}
}

// TestInspectLacking inspects models without a tokenizer, without a config, or with an answer that would be expensive.
func TestInspectLacking(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "model")
	if err := os.CopyFS(dir, os.DirFS(shared.Testdata(t, "tiny-bitnet"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "tokenizer.json")); err != nil {
		t.Fatal(err)
	}
	if s := inspected(t, dir); s.Tokenizer != "" || !strings.Contains(s.TokenizerError, "there is no tokenizer.json") {
		t.Errorf("%+v", s)
	}
	if s := inspected(t, filepath.Join(bareFile(t, 64), "w.safetensors")); s.Family != "" || s.Parameters != 64*64 ||
		!strings.Contains(s.Convert, "1 of 1 tensors packed") && !strings.HasPrefix(s.Convert, "refused: ") {
		t.Errorf("%+v", s)
	}
	if s := inspected(t, filepath.Join(bareFile(t, 8256), "w.safetensors")); s.Parameters != 8256*8256 ||
		!strings.HasPrefix(s.Convert, "finding out reads all weights: lowpack convert ") {
		t.Errorf("%+v", s)
	}
}

// bareFile writes a checkpoint of one square matrix of zeros, which takes no disk space, and returns its directory.
func bareFile(t *testing.T, n int64) string {
	t.Helper()
	dir := t.TempDir()
	header := fmt.Sprintf(`{"w":{"dtype":"F32","shape":[%d,%d],"data_offsets":[0,%d]}}`, n, n, 4*n*n)
	header += strings.Repeat(" ", 64-len(header)%64)
	f, err := os.Create(filepath.Join(dir, "w.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(string([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0}) + header); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(8 + int64(len(header)) + 4*n*n); err != nil {
		t.Fatal(err)
	}
	return dir
}
