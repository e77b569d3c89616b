package reference

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/verify/internal/sample"
)

// open packs a checkpoint and builds the model.
func open(t *testing.T, dir, layout string) (*Model, packed.View) {
	t.Helper()
	f := sample.FromCheckpoint(t, dir, pack.Spec{Name: layout}).Open(t)
	m, err := New(f, describe(t, f))
	if err != nil {
		t.Fatal(err)
	}
	return m, f
}

func logits(t *testing.T, m *Model, tokens []int) [][]float32 {
	t.Helper()
	z, err := m.Logits(context.Background(), tokens)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// greedy continues a prompt by n tokens.
func greedy(t *testing.T, m *Model, prompt []int, n int) []int {
	t.Helper()
	seq, next, out := m.NewSequence(), prompt, []int{}
	for len(out) < n {
		z, err := m.Forward(context.Background(), Chunk{seq, next})
		if err != nil {
			t.Fatal(err)
		}
		next = []int{ArgMax(z[len(z)-1])}
		out = append(out, next...)
	}
	return out
}

type outside struct {
	Prompts []struct {
		Name         string
		PromptIDs    []int     `json:"prompt_ids"`
		TopIDs       []int     `json:"top20_ids"`
		TopLogits    []float64 `json:"top20_logits"`
		GreedyIDs    []int     `json:"greedy_ids"`
		GreedyMargin []float64 `json:"greedy_margins"`
	}
}

// TestTinyBitnet compares a trained ternary model, as master weights and as packed codes, with an independent float64
// program: the logits after eight prompts, and, with the 64 tokens of its greedy continuations given, the arg-max at
// every position.
//
// An activation that lies on a rounding tie moves logits, in float32 against float64 by up to 0.15 (tolerances.json).
// So most prompts agree to the last digits of float32, some do not, and a token may differ where the margin is that
// small. Without LOWPACK_LONG each form of the weights takes every other prompt, and every prompt is taken.
func TestTinyBitnet(t *testing.T) {
	const tie = 0.15
	for form, name := range []string{"tiny-bitnet", "tiny-bitnet-packed"} {
		m, _ := open(t, shared.Testdata(t, name), "blocked")
		var want outside
		readJSON(t, "tiny-bitnet-golden/"+name+".json", &want)
		if !long.All {
			kept := want.Prompts[:0]
			for i := form; i < len(want.Prompts); i += 2 {
				kept = append(kept, want.Prompts[i])
			}
			want.Prompts = kept
		}
		var chunks []Chunk
		for _, p := range want.Prompts {
			chunks = append(chunks, Chunk{m.NewSequence(),
				slices.Concat(p.PromptIDs, p.GreedyIDs[:len(p.GreedyIDs)-1])})
		}
		z, err := m.Forward(context.Background(), chunks...)
		if err != nil {
			t.Fatal(err)
		}
		exact, other := 0, 0
		for _, p := range want.Prompts {
			z = z[len(p.PromptIDs)-1:]
			worst := 0.0
			for i, id := range p.TopIDs {
				worst = max(worst, math.Abs(float64(z[0][id])-p.TopLogits[i]))
			}
			if worst < 1e-4 {
				exact++
			}
			if worst > tie {
				t.Errorf("%s, %s: a top logit differs by %v", name, p.Name, worst)
			}
			for i, id := range p.GreedyIDs {
				if got := ArgMax(z[i]); got != id {
					other++
					if p.GreedyMargin[i] > tie {
						t.Errorf("%s, %s: greedy token %d is %d, want %d (margin %v)", name, p.Name, i, got, id,
							p.GreedyMargin[i])
					}
				}
			}
			z = z[len(p.GreedyIDs):]
		}
		t.Logf("%s: %d of %d prompts agree within 1e-4; %d of %d greedy tokens differ", name, exact,
			len(want.Prompts), other,
			64*len(want.Prompts))
		if exact < len(want.Prompts)-2 || other > 5 || len(want.Prompts) < 4 {
			t.Errorf("%s: %d of %d prompts agree within 1e-4, %d greedy tokens differ", name, exact,
				len(want.Prompts), other)
		}
	}
}

// TestTinyBitnetTrace compares the residual stream after every layer with the float64 program.
func TestTinyBitnetTrace(t *testing.T) {
	m, _ := open(t, shared.Testdata(t, "tiny-bitnet"), "blocked")
	trace := float64s(t, shared.Testdata(t, "tiny-bitnet-golden/tiny-bitnet.trace.safetensors"))
	var want outside
	readJSON(t, "tiny-bitnet-golden/tiny-bitnet.json", &want)
	layers := 0
	m.after = func(layer int, h [][]float32) {
		layers++
		x := trace["model.layers."+string(rune('0'+layer))+".output"]
		for i, v := range x {
			if got := float64(h[i/256][i%256]); math.Abs(got-v) > 2e-5*max(1, math.Abs(v)) {
				t.Fatalf("layer %d, token %d, value %d: %v, want %v", layer, i/256, i%256, got, v)
			}
		}
	}
	z := logits(t, m, want.Prompts[0].PromptIDs)
	if layers != 6 {
		t.Fatalf("%d layers", layers)
	}
	for i, v := range trace["logits"] {
		if got := float64(z[i/2560][i%2560]); math.Abs(got-v) > 5e-5 {
			t.Fatalf("position %d, logit %d: %v, want %v", i/2560, i%2560, got, v)
		}
	}
}

// TestTinyBitnetPerplexity measures held-out text in windows of 256 tokens, 2 of 16 unless LOWPACK_LONG is set.
func TestTinyBitnetPerplexity(t *testing.T) {
	m, _ := open(t, shared.Testdata(t, "tiny-bitnet"), "blocked")
	var text struct {
		Window int
		IDs    []int
	}
	readJSON(t, "tiny-bitnet-golden/heldout_ids.json", &text)
	var want struct {
		Heldout struct {
			Window []float64 `json:"window_mean_nll"`
		}
	}
	readJSON(t, "tiny-bitnet-golden/tiny-bitnet.json", &want)
	windows := 2
	if long.All {
		windows = len(want.Heldout.Window)
	}
	total, expected := 0.0, 0.0
	for w := range windows {
		ids := text.IDs[w*text.Window : (w+1)*text.Window]
		z := logits(t, m, append([]int{m.d.BOS}, ids[:len(ids)-1]...))
		for i, id := range ids {
			total += negLogLikelihood(z[i], id)
		}
		expected += want.Heldout.Window[w] * float64(len(ids))
	}
	n := float64(windows * text.Window)
	got, ref := math.Exp(total/n), math.Exp(expected/n)
	t.Logf("perplexity %.4f over %d tokens, float64 program %.4f (%+.3f %%)", got, int(n), ref, 100*(got/ref-1))
	if math.Abs(got/ref-1) > 0.005 {
		t.Errorf("perplexity %v, want %v within 0.5 %%", got, ref)
	}
}

func negLogLikelihood(z []float32, id int) float64 {
	top := float64(z[ArgMax(z)])
	sum := 0.0
	for _, v := range z {
		sum += math.Exp(float64(v) - top)
	}
	return math.Log(sum) + top - float64(z[id])
}

type external struct {
	PromptIDs  []int `json:"prompt_ids"`
	IDs        []int
	LogitsFile string `json:"logits_file"`
	LogitRows  int    `json:"logit_rows"`
	Vocab      int
}

func externalGolden(t *testing.T, dir string) ([]external, [][]float32) {
	t.Helper()
	dir = shared.Path(t, dir)
	var cases []external
	text, err := os.ReadFile(filepath.Join(dir, "golden.json"))
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil {
		t.Fatal(err)
	}
	var all [][]float32
	for _, c := range cases {
		b, err := os.ReadFile(filepath.Join(dir, c.LogitsFile))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, sample.Floats("F32", b))
	}
	return cases, all
}

// TestStories compares a trained float Llama with logits and greedy text of llama2.c. K = 172 and heads of 8 fit no
// block.
func TestStories(t *testing.T) {
	cases, want := externalGolden(t, "data/models/stories260k/golden")
	m, _ := open(t, shared.Path(t, "data/models/stories260k/hf-F32"), "blocked")
	for c, p := range cases {
		z := logits(t, m, p.IDs[:p.LogitRows])
		for i, v := range want[c] {
			if got := z[i/p.Vocab][i%p.Vocab]; math.Abs(float64(got-v)) > 1e-3 {
				t.Fatalf("prompt %d, position %d, logit %d: %v, want %v", c, i/p.Vocab, i%p.Vocab, got, v)
			}
		}
		n := min(150, len(p.IDs)-len(p.PromptIDs))
		for i, id := range greedy(t, m, p.PromptIDs, n) {
			if id != p.IDs[len(p.PromptIDs)+i] {
				t.Fatalf("prompt %d: greedy token %d is %d, want %d", c, i, id, p.IDs[len(p.PromptIDs)+i])
			}
		}
	}
}

// TestBitllama compares a third-party trained ternary model with logits of its C program. Its rounding differs, and in
// W1.58A8 an activation code that flips moves logits by up to 0.3, so only the arg-max of most positions must agree.
func TestBitllama(t *testing.T) {
	cases, want := externalGolden(t, "data/models/bitllama2-3m/golden")
	m, _ := open(t, shared.Path(t, "data/models/bitllama2-3m/packed-auto"), "blocked")
	agree, all := 0, 0
	for c, p := range cases {
		z := logits(t, m, p.IDs[:p.LogitRows])
		for i := range z {
			all++
			if ArgMax(z[i]) == ArgMax(want[c][i*p.Vocab:(i+1)*p.Vocab]) {
				agree++
			}
		}
	}
	t.Logf("arg-max agrees at %d of %d positions", agree, all)
	if agree*100 < all*98 {
		t.Errorf("arg-max agrees at %d of %d positions only", agree, all)
	}
}

// float64s reads the F64 tensors of a safetensors file.
func float64s(t *testing.T, path string) map[string][]float64 {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(b)
	var header map[string]struct {
		DType   string `json:"dtype"`
		Offsets [2]int `json:"data_offsets"`
	}
	if err := json.Unmarshal(b[8:8+n], &header); err != nil {
		t.Fatal(err)
	}
	out := map[string][]float64{}
	for name, h := range header {
		if h.DType != "F64" {
			continue
		}
		for data := b[8+int(n):][h.Offsets[0]:h.Offsets[1]]; len(data) > 0; data = data[8:] {
			out[name] = append(out[name], math.Float64frombits(binary.LittleEndian.Uint64(data)))
		}
	}
	return out
}

func describe(t *testing.T, v packed.View) *model.Description {
	t.Helper()
	d, err := packed.Describe(v)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
