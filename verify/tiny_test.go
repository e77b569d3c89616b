package verify

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/verify/internal/sample"
)

const tinyConfig = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 24, "intermediate_size": 40, "num_attention_heads": 3,
"num_key_value_heads": 1, "num_hidden_layers": 2, "vocab_size": 31, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
"hidden_act": "silu", "tie_word_embeddings": true, "bos_token_id": 1, "eos_token_id": 2}`

// tinyModel is a model of two layers with random weights, ternary linear layers and golden logits.
func tinyModel(t testing.TB) *sample.Model { return modelOf(t, tinyConfig) }

func modelOf(t testing.TB, config string) *sample.Model {
	t.Helper()
	d, err := model.Parse([]byte(config), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 3))
	m := &sample.Model{Family: d.Family, Recipe: packed.Recipe{Golden: "full"},
		Plain: []sample.Plain{sample.Embed("config.json", config)}}
	for _, n := range d.Tensors() {
		if n.Linear {
			q := sample.Quantized{
				Name:   n.Name,
				Matrix: pack.NewMatrix(pack.Shape{M: n.Shape[0], K: n.Shape[1]}, pack.Ternary),
				Layout: pack.Spec{Name: "vnni4i"},
				Scale:  packed.Scale{Kind: packed.ScaleTensor}, Scales: []float32{0.2}, Quantizer: "test",
			}
			for i := range q.Matrix.Codes {
				q.Matrix.Codes[i] = int8(r.IntN(3) - 1)
			}
			m.Quantized = append(m.Quantized, q)
			continue
		}
		x := make([]float32, n.Shape[0]*append(n.Shape, 1)[1])
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		m.Plain = append(m.Plain, sample.F32(n.Name, x, n.Shape...))
	}
	slices.SortFunc(m.Quantized, func(a, b sample.Quantized) int { return strings.Compare(a.Name, b.Name) })
	return withGolden(t, m)
}

// TestForgedLogits: the engine gives the golden logits and no others.
func TestForgedLogits(t *testing.T) {
	m := tinyModel(t)
	honest := m.Golden(nil)
	if r := run(t, file(t, m), Options{}); !r.OK {
		t.Fatal(failed(r))
	}
	for _, c := range []struct {
		name   string
		change func(r *golden.Record)
		level  Level
		says   string
	}{
		{"digest", func(r *golden.Record) { r.Logits[20].Digest = sum(nil) }, Logits, "the digest of all differs"},
		{"last bit of a value", func(r *golden.Record) {
			v := &r.Logits[20].TopLogits[19]
			*v = math.Float32frombits(math.Float32bits(*v) ^ 1)
		}, Logits, "instead of"},
		{"order", func(r *golden.Record) {
			l := &r.Logits[20]
			l.TopTokens[1], l.TopTokens[2] = l.TopTokens[2], l.TopTokens[1]
			l.TopLogits[1], l.TopLogits[2] = l.TopLogits[2], l.TopLogits[1]
		}, Logits, "place 1"},
		{"token beyond the vocabulary", func(r *golden.Record) { r.Logits[20].TopTokens[3] = 31 }, Logits, "31 tokens"},
		{"given token beyond the vocabulary", func(r *golden.Record) { r.Logits[60].Token = 1000 }, File, "token 1000"},
		{"no logits", func(r *golden.Record) { r.Logits = nil }, File, "0 positions with logits"},
		{"one sequence less", func(r *golden.Record) { r.Logits = r.Logits[:41] }, File, "41 positions"},
		{"fewer continued", func(r *golden.Record) { r.Logits = r.Logits[:88] }, File, "88 positions"},
		{"shorter lists", func(r *golden.Record) {
			l := &r.Logits[30]
			l.TopTokens, l.TopLogits = l.TopTokens[:1], l.TopLogits[:1]
		}, File, "1 top logits"},
		{"continued tokens given", func(r *golden.Record) { r.Logits[10].Given = true }, File,
			"sequence 0, position 10"},
		{"greedy token", func(r *golden.Record) { r.Logits[10].Token++ }, File, "argmax"},
	} {
		record, err := golden.Decode(honest)
		if err != nil {
			t.Fatal(err)
		}
		c.change(record)
		b, err := record.Encode()
		if err != nil {
			t.Fatal(err)
		}
		m.GoldenSize, m.Golden = len(b), func(packed.View) []byte { return b }
		bad := failed(run(t, file(t, m), Options{}))
		if len(bad) == 0 || bad[0].Level != c.level || !strings.Contains(bad[0].Reason, c.says) {
			t.Errorf("%s: %v", c.name, bad)
		}
	}
}

// TestWeightsOnly: without the name of a family there is no model: the verdict says so, nothing runs the file, and a
// checkpoint with a model contradicts it.
func TestWeightsOnly(t *testing.T) {
	m := tinyModel(t)
	m.Golden, m.GoldenSize, m.Recipe.Golden, m.Family = nil, 0, "none", ""
	path := file(t, m)
	r := run(t, path, Options{})
	var text, junit bytes.Buffer
	if err := errors.Join(r.Text(&text), r.JUnit(&junit)); err != nil {
		t.Fatal(err)
	}
	const verdict = "PASS (weights only; no model)"
	if !r.OK || !r.WeightsOnly || !strings.Contains(text.String(), "\n"+verdict+"  "+path) ||
		!strings.Contains(junit.String(), verdict) {
		t.Errorf("%s", text.String())
	}
	if _, err := engine.Open(path, engine.Options{}); !errors.Is(err, pack.ErrUnsupported) ||
		!strings.Contains(err.Error(), "weights without a model") {
		t.Errorf("run: %v", err)
	}
	dir := shared.Testdata(t, "tiny-bitnet")
	s := newSealer(t, tinymodel.Converted(t, dir, packed.Recipe{Golden: "none"}))
	path = filepath.Join(t.TempDir(), "forged")
	write(t, path, sealHeader(s.good, bytes.Replace(s.text, []byte(`"family":"bitnet"`), []byte(`"family":""`), 1)))
	if bad := failed(run(t, path, Options{Source: dir})); len(bad) == 0 || bad[0].Level != Source ||
		bad[0].Rule != "F11" {
		t.Errorf("family emptied, with --source: %v", bad)
	}
	s = newSealer(t, tinymodel.Converted(t, dir, packed.Recipe{}))
	write(t, path, sealHeader(s.good, bytes.Replace(s.text, []byte(`"family":"bitnet"`), []byte(`"family":""`), 1)))
	if bad := failed(run(t, path, Options{})); len(bad) == 0 || bad[0].Rule != "F8" {
		t.Errorf("family emptied, beside golden logits: %v", bad)
	}
}

// TestNotFinite: a model that overflows is a finding.
func TestNotFinite(t *testing.T) {
	m := tinyModel(t)
	m.Golden, m.GoldenSize, m.Recipe.Golden = nil, 0, "none"
	for i := range m.Plain {
		if m.Plain[i].Name == "model.norm.weight" {
			m.Plain[i] = sample.F32("model.norm.weight", slices.Repeat([]float32{float32(math.Inf(1))}, 24), 24)
		}
	}
	bad := failed(run(t, file(t, m), Options{}))
	if len(bad) != 1 || bad[0].Level != Logits || !strings.Contains(bad[0].Reason, "NaN or infinite") {
		t.Errorf("%v", bad)
	}
}

// TestOtherFamily: the manifest and config.json must agree.
func TestOtherFamily(t *testing.T) {
	m := tinyModel(t)
	m.Family = "bitnet"
	if bad := failed(run(t, file(t, m), Options{Level: File})); len(bad) != 1 || bad[0].Rule != "F11" {
		t.Errorf("%v", bad)
	}
}

// copyDir copies the files of a checkpoint.
func copyDir(t testing.TB, from string) string {
	t.Helper()
	to := t.TempDir()
	list, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		write(t, filepath.Join(to, e.Name()), read(t, filepath.Join(from, e.Name())))
	}
	return to
}

// TestSourceDamage flips bits of a checkpoint. Level source names the file, whatever else it finds.
func TestSourceDamage(t *testing.T) {
	flips := 20
	if long.All {
		flips = 10_000
	}
	dir := copyDir(t, shared.Testdata(t, "tiny-bitnet-packed"))
	path := tinymodel.Converted(t, dir, packed.Recipe{Golden: "none"})
	s := begin(t.Context(), path, Options{Source: dir}, Source)
	defer s.close()
	if err := s.checkFile(); err != nil {
		t.Fatal(err)
	}
	check := func() []Check {
		s.report = &Report{}
		if err := errors.Join(s.openSource(), s.checkSource()); err != nil {
			t.Fatal(err)
		}
		if s.from != nil { // each time it is opened anew
			s.from.Close()
			s.from = nil
		}
		return failed(s.report)
	}
	if bad := check(); len(bad) > 0 {
		t.Fatal(bad)
	}
	r := rand.New(rand.NewPCG(1, 9))
	files := []string{"model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json",
		"generation_config.json"}
	for i := range flips {
		name := filepath.Join(dir, files[i%len(files)])
		good := read(t, name)
		b := bytes.Clone(good)
		at := r.IntN(len(b))
		b[at] ^= 1 << r.IntN(8)
		write(t, name, b)
		bad := check()
		names := func(c Check) bool { return strings.Contains(c.Name+c.Reason, filepath.Base(name)) || c.Name == dir }
		if !slices.ContainsFunc(bad, names) {
			t.Errorf("%s, byte %d: %v", name, at, bad)
		}
		write(t, name, good)
	}
	for _, c := range []struct {
		name   string
		change func() error
		says   string
	}{
		{"a file more", func() error { return os.WriteFile(filepath.Join(dir, "vocab.json"), []byte("{}"), 0o644) },
			"vocab.json"},
		{"a file less", func() error { return os.Remove(filepath.Join(dir, "tokenizer.json")) }, "tokenizer.json"},
		{"no weights", func() error { return os.Remove(filepath.Join(dir, "model.safetensors")) }, "open"},
	} {
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		if bad := check(); len(bad) == 0 ||
			!slices.ContainsFunc(bad, func(b Check) bool { return strings.Contains(b.Name, c.says) }) {
			t.Errorf("%s: %v", c.name, bad)
		}
	}
}

// TestOtherSource: the checkpoint of another model is noticed tensor by tensor.
func TestOtherSource(t *testing.T) {
	path := tinymodel.Converted(t, shared.Testdata(t, "tiny-bitnet-packed"), packed.Recipe{Golden: "none"})
	s := begin(t.Context(), path, Options{Source: shared.Testdata(t, "tiny-bitnet")}, Source)
	defer s.close()
	if err := errors.Join(s.openSource(), s.checkFile(), s.checkSource()); err != nil {
		t.Fatal(err)
	}
	groups := map[string]int{}
	for _, c := range failed(s.report) {
		groups[c.Group]++
	}
	if groups["codes and scales"] != 42 || groups["source files"] == 0 {
		t.Errorf("%v", groups)
	}
}
