package engine

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/shared"
)

func tiny(t testing.TB) *view {
	return fromCheckpoint(t, shared.Testdata(t, "tiny-bitnet"), "vnni4i", false)
}

// golden is testdata/tiny-bitnet-golden: outputs of an independent float64 program.
type golden struct {
	Prompts []struct {
		Name          string
		PromptIDs     []int     `json:"prompt_ids"`
		GreedyIDs     []int     `json:"greedy_ids"`
		GreedyMargins []float64 `json:"greedy_margins"`
	}
	Heldout struct {
		WindowMeanNLL []float64 `json:"window_mean_nll"`
	}
	Ternary map[string]struct {
		Scale             float64
		Minus, Zero, Plus int
	}
}

func readJSON(t testing.TB, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// f64 reads float64 tensors of a safetensors file, by name, and the bytes of all other tensors.
func f64(t testing.TB, path string) (map[string][]float64, map[string][]byte) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	h, err := safetensors.Parse(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	floats, bytes := map[string][]float64{}, map[string][]byte{}
	for _, x := range h.Tensors {
		data := make([]byte, x.Size())
		if _, err := f.ReadAt(data, h.DataStart+x.Begin); err != nil {
			t.Fatal(err)
		}
		if x.DType != "F64" {
			bytes[x.Name] = data
			continue
		}
		list := make([]float64, len(data)/8)
		for i := range list {
			list[i] = math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:]))
		}
		floats[x.Name] = list
	}
	return floats, bytes
}

// logits runs tokens through a new sequence and returns the logits of the last n positions.
func logits(t testing.TB, e *Engine, tokens []int, n int) [][]float32 {
	t.Helper()
	s := sequence(t, e)
	defer s.Close()
	vocab := e.Description().Vocab
	flat := make([]float32, n*vocab)
	if err := e.Forward(context.Background(), []Chunk{{Seq: s, Tokens: tokens, Logits: flat}}); err != nil {
		t.Fatal(err)
	}
	rows := make([][]float32, n)
	for i := range rows {
		rows[i] = flat[i*vocab:][:vocab]
	}
	return rows
}

func maxDiff(got []float32, want []float64) (d float64) {
	for i, v := range got {
		d = max(d, math.Abs(float64(v)-want[i]))
	}
	return d
}

// logSoftmax in float64.
func logSoftmax[T float32 | float64](z []T) []float64 {
	top, sum := float64(slices.Max(z)), 0.0
	for _, v := range z {
		sum += math.Exp(float64(v) - top)
	}
	out := make([]float64, len(z))
	for i, v := range z {
		out[i] = float64(v) - top - math.Log(sum)
	}
	return out
}

// divergence is KL(want ‖ got) in nats.
func divergence(got []float32, want []float64) (kl float64) {
	p, q := logSoftmax(want), logSoftmax(got)
	for i := range p {
		kl += math.Exp(p[i]) * (p[i] - q[i])
	}
	return kl
}

func argmax[T float32 | float64](z []T) int { return slices.Index(z, slices.Max(z)) }

// Tolerances for other arithmetic. Logits differ by rounding alone, some 1e-6, until an activation lies so close to the
// middle between two codes that float32 and float64 round it differently: every later layer and position then sees an
// input that is one step of 1/127 off in one element, and such differences multiply. Two float64 and float32 runs of
// the golden program itself differ by up to 0.15 in a logit (testdata/tiny-bitnet-golden/tolerances.json). So there are
// two kinds of positions, and the bounds are for the second kind; measured values are given next to them.
const (
	tinyMaxDelta = 0.5   // of a logit; measured 0.18
	tinyMeanKL   = 1e-4  // nats; measured 9e-6
	tinyQuiet    = 1e-4  // of a logit, at positions without a flipped code
	tinyQuietMin = 0.7   // share of such positions; measured 0.89 and 0.94
	tinyMargin   = 0.1   // golden margins above this decide the arg-max here too; measured 0.033
	tinyPPL      = 0.005 // relative
)

// TestTinyBitnet compares both forms of the bundled model with their golden outputs, teacher-forced: the logits after
// every prompt and along the first one, and the argmax at 512 greedy tokens.
func TestTinyBitnet(t *testing.T) {
	for _, form := range []string{"tiny-bitnet", "tiny-bitnet-packed"} {
		t.Run(form, func(t *testing.T) {
			v := fromCheckpoint(t, shared.Testdata(t, form), "vnni4i", false)
			var g golden
			readJSON(t, shared.Testdata(t, "tiny-bitnet-golden/"+form+".json"), &g)
			checkCodes(t, v, &g)
			e := engine(t, v, Options{})
			last, _ := f64(t, shared.Testdata(t, "tiny-bitnet-golden/"+form+".logits.safetensors"))
			trace, _ := f64(t, shared.Testdata(t, "tiny-bitnet-golden/"+form+".trace.safetensors"))
			var s similarity
			rows := logits(t, e, g.Prompts[0].PromptIDs, len(g.Prompts[0].PromptIDs))
			for i, got := range rows {
				s.add(got, trace["logits"][i*len(got):][:len(got)])
			}
			for _, p := range g.Prompts {
				s.add(logits(t, e, p.PromptIDs, 1)[0], last["logits."+p.Name])
			}
			t.Logf("%d positions: max |Δ| %.3g, mean KL %.3g, max KL %.3g, quiet %.2f", s.n, s.delta,
				s.kl/float64(s.n), s.maxKL,
				s.quiet/float64(s.n))
			if s.delta > tinyMaxDelta || s.kl/float64(s.n) > tinyMeanKL || s.quiet/float64(s.n) < tinyQuietMin {
				t.Error("the logits are further from the golden ones than float32 explains")
			}
			checkGreedy(t, e, &g)
		})
	}
}

// similarity collects differences of logits over positions.
type similarity struct {
	n                       int
	delta, kl, maxKL, quiet float64
}

func (s *similarity) add(got []float32, want []float64) {
	d, kl := maxDiff(got, want), divergence(got, want)
	s.n++
	s.delta, s.kl, s.maxKL = max(s.delta, d), s.kl+kl, max(s.maxKL, kl)
	if d < tinyQuiet {
		s.quiet++
	}
}

// checkCodes counts the codes of every tensor.
func checkCodes(t *testing.T, v *view, g *golden) {
	if len(g.Ternary) != len(v.manifest.Packed) {
		t.Fatalf("%d tensors of codes, want %d", len(v.manifest.Packed), len(g.Ternary))
	}
	for name, want := range g.Ternary {
		e, ok := v.manifest.Entry(name)
		if !ok {
			t.Fatalf("no %s", name)
		}
		m, err := packed.Codes(v, e, 0)
		if err != nil {
			t.Fatal(err)
		}
		count := [3]int{}
		for _, c := range m.Codes {
			count[c+1]++
		}
		scales, err := packed.Scales(v, e)
		if err != nil {
			t.Fatal(err)
		}
		if count != [3]int{want.Minus, want.Zero, want.Plus} || math.Abs(float64(scales[0])-want.Scale) > 1e-7 {
			t.Errorf("%s: codes %v, scale %v; want %+v", name, count, scales[0], want)
		}
	}
}

// checkGreedy compares the argmax at every golden token with that token, teacher-forced. Tokens may differ only where
// the golden program itself was nearly undecided.
func checkGreedy(t *testing.T, e *Engine, g *golden) {
	equal, total := 0, 0
	for _, p := range g.Prompts {
		tokens := append(slices.Clone(p.PromptIDs), p.GreedyIDs...)
		rows := logits(t, e, tokens[:len(tokens)-1], len(p.GreedyIDs))
		for i, want := range p.GreedyIDs {
			total++
			if got := argmax(rows[i]); got == want {
				equal++
			} else if p.GreedyMargins[i] > tinyMargin {
				t.Errorf("%s: token %d is %d, want %d by a margin of %v", p.Name, i, got, want, p.GreedyMargins[i])
			}
		}
	}
	t.Logf("%d of %d greedy tokens", equal, total)
	if total != 512 || equal < total-3 { // measured: all in one form, all but one in the other
		t.Errorf("%d of %d greedy tokens are equal", equal, total)
	}
}

// TestTinyTrace follows one prompt through the layers: all int8 inputs of layer 0 equal the golden ones, and the
// residual stream stays close to the golden one.
func TestTinyTrace(t *testing.T) {
	e := engine(t, tiny(t), Options{})
	var g golden
	readJSON(t, shared.Testdata(t, "tiny-bitnet-golden/tiny-bitnet.json"), &g)
	floats, bytes := f64(t, shared.Testdata(t, "tiny-bitnet-golden/tiny-bitnet.trace.safetensors"))
	s, p, d := sequence(t, e), &e.pass, e.desc
	for i, id := range g.Prompts[0].PromptIDs {
		p.tokens = append(p.tokens, token{seq: s, pos: i, id: id})
	}
	n := len(p.tokens)
	check := func(name string, width int) {
		want := bytes["model.layers.0."+name+".input_int8"]
		for i := range n {
			for k, got := range p.quant[width][0].Row(i) {
				if w := int8(want[i*width+k]); got != w {
					t.Errorf("%s: token %d, element %d: %d, want %d", name, i, k, got, w)
				}
			}
		}
	}
	p.begin()
	e.embed()
	e.input(n, prepareTask{projection: &e.weights.blocks[0].qkv, src: p.h, stride: d.Hidden,
		norm: &e.weights.blocks[0].attnNorm})
	for _, name := range []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"} {
		check(name, d.Hidden)
	}
	for i := range d.Layers {
		if !e.block(i) {
			t.Fatalf("layer %d is not finite", i)
		}
		if i == 0 {
			check("mlp.gate_proj", d.Hidden)
			check("mlp.up_proj", d.Hidden)
			check("mlp.down_proj", d.Intermediate)
		}
		want := floats[fmt.Sprintf("model.layers.%d.output", i)]
		// measured 1.3e-5, values up to 40: no code flips here
		if delta := maxDiff(p.h[:n*d.Hidden], want); delta > 1e-4 {
			t.Errorf("layer %d: the residual stream is off by %v", i, delta)
		}
	}
	p.tokens = p.tokens[:0]
}

// TestTinyPerplexity: the text and its windows are the same as in the golden program. Smaller KV cache formats cost
// little. Each format evaluates a third of the windows, and all of them with LOWPACK_LONG=1.
func TestTinyPerplexity(t *testing.T) {
	var held struct {
		Window int
		BOS    int `json:"begin_of_text"`
		IDs    []int
	}
	readJSON(t, shared.Testdata(t, "tiny-bitnet-golden/heldout_ids.json"), &held)
	var g golden
	readGolden(t, &g)
	if len(held.IDs) != held.Window*len(g.Heldout.WindowMeanNLL) {
		t.Fatalf("%d golden windows of %d for %d tokens", len(g.Heldout.WindowMeanNLL), held.Window, len(held.IDs))
	}
	for first, cache := range caches {
		e := engine(t, tiny(t), Options{Cache: cache})
		nll, golden, windows := 0.0, 0.0, 0.0
		for w, mean := range g.Heldout.WindowMeanNLL {
			if !long.All && w%len(caches) != first {
				continue
			}
			ids := held.IDs[w*held.Window:][:held.Window]
			rows := logits(t, e, append([]int{held.BOS}, ids[:len(ids)-1]...), len(ids))
			for i, id := range ids {
				nll -= logSoftmax(rows[i])[id]
			}
			golden, windows = golden+mean, windows+1
		}
		want := math.Exp(golden / windows)
		got := math.Exp(nll / windows / float64(held.Window))
		t.Logf("cache %s: perplexity %.4f, golden %.4f", cache, got, want)
		if math.Abs(got/want-1) > tinyPPL {
			t.Errorf("cache %s: perplexity %.4f, want %.4f within %v", cache, got, want, tinyPPL)
		}
	}
}

// llama2c is a golden record of a C program: greedy tokens, and the logits of the first positions.
type llama2c struct {
	PromptIDs  []int `json:"prompt_ids"`
	IDs        []int
	LogitsFile string `json:"logits_file"`
	Rows       int    `json:"logit_rows"`
	Vocab      int
}

func readLlama2c(t *testing.T, dir string) (list []llama2c, rows [][][]float64) {
	readJSON(t, filepath.Join(dir, "golden.json"), &list)
	for _, g := range list {
		data, err := os.ReadFile(filepath.Join(dir, g.LogitsFile))
		if err != nil {
			t.Fatal(err)
		}
		x := widened(t, "F32", data)
		var r [][]float64
		for i := range g.Rows {
			row := make([]float64, g.Vocab)
			for k := range row {
				row[k] = float64(x[i*g.Vocab+k])
			}
			r = append(r, row)
		}
		rows = append(rows, r)
	}
	return list, rows
}

// TestBitLlama runs a ternary model that others trained, from packed codes and from floats that hold the same codes.
// Their program rounds activations elsewhere, so logits differ by up to a few tenths (of a standard deviation of 6.8)
// from the third position on; the argmax must agree at 98 % of the positions. Measured: 100 %.
func TestBitLlama(t *testing.T) {
	list, rows := readLlama2c(t, shared.Path(t, "data/models/bitllama2-3m/golden"))
	codes, scales := map[string]string{}, map[string]packed.Tensor{}
	var first [][]float32
	for _, form := range []string{"packed-auto", "fake-f32"} {
		v := fromCheckpoint(t, shared.Path(t, "data/models/bitllama2-3m/"+form), "vnni4i", form == "fake-f32")
		for i := range v.manifest.Packed {
			x := &v.manifest.Packed[i]
			m, err := packed.Codes(v, x, 0)
			if err != nil {
				t.Fatal(err)
			}
			digest := packed.CodesDigest(m)
			if other, ok := codes[x.Name]; ok && other != digest {
				t.Errorf("%s: the two forms have different codes", x.Name)
			}
			codes[x.Name] = digest
		}
		sameWithScales(t, v, scales, list[0].IDs[:list[0].Rows], &first)
		e := engine(t, v, Options{})
		agree, total, delta := 0, 0, 0.0
		for i, g := range list {
			got := logits(t, e, g.IDs[:g.Rows], g.Rows)
			for j := range got {
				total++
				if argmax(got[j]) == argmax(rows[i][j]) {
					agree++
				}
				delta = max(delta, maxDiff(got[j], rows[i][j]))
			}
		}
		t.Logf("%s: arg-max agrees at %d of %d positions, max |Δ| %.2g", form, agree, total, delta)
		if total == 0 || float64(agree) < 0.98*float64(total) {
			t.Errorf("%s: arg-max agrees at %d of %d positions", form, agree, total)
		}
	}
}

// sameWithScales: with the scales of the first form, every form gives the same logits, bit for bit.
func sameWithScales(t *testing.T, v *view, scales map[string]packed.Tensor, tokens []int, first *[][]float32) {
	for name, x := range v.tensors {
		if strings.HasSuffix(name, packed.ScaleSuffix) {
			if _, ok := scales[name]; !ok {
				scales[name] = x
			}
			v.tensors[name] = scales[name]
		}
	}
	got := logits(t, engine(t, v, Options{}), tokens, len(tokens))
	if *first == nil {
		*first = got
	}
	for i := range got {
		if !slices.Equal(got[i], (*first)[i]) {
			t.Fatalf("position %d: the logits of the two forms differ", i)
		}
	}
}

// TestStories runs a float model whose inner size, 172, and head size, 8, are not multiples of a block: its greedy text
// is the golden one, and its logits are within 1e-3.
func TestStories(t *testing.T) {
	list, rows := readLlama2c(t, shared.Path(t, "data/models/stories260k/golden"))
	for form, want := range map[string]struct {
		tokens int
		delta  float64
	}{
		"hf-F32":  {256, 1e-3}, // measured: every token, 1.6e-5
		"hf-BF16": {85, 0.3},   // weights rounded to 8 bits: diverges after a while; measured 172 tokens, 0.12
	} {
		e := engine(t, fromCheckpoint(t, shared.Path(t, "data/models/stories260k/"+form), "", false), Options{})
		for i, g := range list {
			got := logits(t, e, g.IDs[:g.Rows], g.Rows)
			delta := 0.0
			for j := range got {
				delta = max(delta, maxDiff(got[j], rows[i][j]))
			}
			ids := greedy(t, e, g.PromptIDs, len(g.IDs)-len(g.PromptIDs))
			same := 0
			for same < len(ids) && ids[same] == g.IDs[len(g.PromptIDs)+same] {
				same++
			}
			t.Logf("%s, prompt %d: %d of %d tokens, max |Δ| %.2g", form, i, same, len(ids), delta)
			if same < min(want.tokens, len(ids)) || delta > want.delta {
				t.Errorf("%s, prompt %d: %d of %d tokens, max |Δ| %.2g", form, i, same, len(ids), delta)
			}
		}
	}
}

// greedy continues a prompt by n tokens, one at a time.
func greedy(t *testing.T, e *Engine, prompt []int, n int) (ids []int) {
	s := sequence(t, e)
	defer s.Close()
	next, row := prompt, make([]float32, e.Description().Vocab)
	for range n {
		if err := e.Forward(context.Background(), []Chunk{{Seq: s, Tokens: next, Logits: row}}); err != nil {
			t.Fatal(err)
		}
		next = []int{argmax(row)}
		ids = append(ids, next[0])
	}
	return ids
}
