package eval

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/plot"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
)

// converted packs a checkpoint and opens the result.
func converted(t testing.TB, checkpoint string, r packed.Recipe) *engine.Engine {
	t.Helper()
	r.Golden = "none"
	e, err := engine.Open(tinymodel.Converted(t, checkpoint, r), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
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

func heldout(t testing.TB) []int {
	var text struct{ IDs []int }
	readJSON(t, shared.Testdata(t, "tiny-bitnet-golden/heldout_ids.json"), &text)
	return text.IDs
}

func run(t testing.TB, e, other *engine.Engine, ids []int, o Options) *Result {
	t.Helper()
	r, err := Run(context.Background(), e, other, ids, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestGoldenPerplexity compares with an independent float64 program, and with itself on every other machine: the mean
// loss is the same number to the last bit for every instruction set, number of threads and architecture.
func TestGoldenPerplexity(t *testing.T) {
	for dir, exact := range map[string]float64{"tiny-bitnet": 0x1.b78633730b8c3p+01,
		"tiny-bitnet-packed": 0x1.b77c95bd47dc2p+01} {
		var golden struct {
			Heldout struct {
				Perplexity float64
				Windows    []float64 `json:"window_mean_nll"`
			}
		}
		readJSON(t, shared.Testdata(t, "tiny-bitnet-golden/"+dir+".json"), &golden)
		r := run(t, converted(t, shared.Testdata(t, dir), packed.Recipe{}), nil, heldout(t), Options{Window: 256})
		if r.Tokens != 4096 || r.Windows != 16 || !r.BeginOfText {
			t.Errorf("%s: %d tokens in %d windows", dir, r.Tokens, r.Windows)
		}
		if off := math.Abs(r.Perplexity/golden.Heldout.Perplexity - 1); off > 0.005 {
			t.Errorf("%s: perplexity %.6f, golden %.6f: %.4f off", dir, r.Perplexity, golden.Heldout.Perplexity, off)
		}
		for w, want := range golden.Heldout.Windows {
			mean := 0.0
			for _, s := range r.scores[w*256 : (w+1)*256] {
				mean += s.nll / 256
			}
			if math.Abs(mean-want) > 0.01 {
				t.Errorf("%s: window %d has a loss of %.5f, golden %.5f", dir, w, mean, want)
			}
		}
		if r.MeanNLL != exact {
			t.Errorf("%s: mean loss %v (%#x), on other machines %v", dir, r.MeanNLL, math.Float64bits(r.MeanNLL), exact)
		}
	}
}

// TestGoldenModels compares with logits that other programs recorded for third-party models: the loss of the texts that
// those programs generated.
func TestGoldenModels(t *testing.T) {
	for dir, form := range map[string]string{"stories260k": "hf-F32", "bitllama2-3m": "packed-auto"} {
		e := converted(t, shared.Path(t, "data/models/"+dir+"/"+form), packed.Recipe{})
		golden := shared.Path(t, "data/models/"+dir+"/golden")
		var texts []struct {
			IDs    []int
			Logits string `json:"logits_file"`
			Rows   int    `json:"logit_rows"`
			Vocab  int
		}
		readJSON(t, filepath.Join(golden, "golden.json"), &texts)
		want, got, n := 0.0, 0.0, 0.0
		for _, text := range texts {
			data, err := os.ReadFile(filepath.Join(golden, text.Logits))
			if err != nil {
				t.Fatal(err)
			}
			logits := make([]float32, len(data)/4)
			for i := range logits {
				logits[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
			}
			for i := range text.Rows {
				want += engine.NewPrediction(logits[i*text.Vocab:][:text.Vocab],
					make([]float32, text.Vocab)).NLL(text.IDs[i+1])
			}
			r := run(t, e, nil, text.IDs[1:text.Rows+1], Options{Window: text.Rows})
			got += r.MeanNLL * float64(text.Rows)
			n += float64(text.Rows)
		}
		p, q := math.Exp(want/n), math.Exp(got/n)
		t.Logf("%s: perplexity %.5f, golden %.5f", dir, q, p)
		if math.Abs(q/p-1) > 0.005 {
			t.Errorf("%s: perplexity %.5f, golden %.5f", dir, q, p)
		}
	}
}

// TestWindows: every token is scored once, with the context that Options describes.
func TestWindows(t *testing.T) {
	for _, bos := range []int{-1, 5} {
		for n := 1; n <= 40; n++ {
			for window := 2; window <= 12; window++ {
				for stride := 1; stride <= window; stride++ {
					r := runner{o: Options{Window: window, Stride: stride}, ids: make([]int, n), bos: bos}
					scored := 0
					for _, w := range r.windows() {
						if w.end-w.begin > window || w.begin%stride != 0 || w.end > n {
							t.Fatalf("window %+v", w)
						}
						skipped := w.first - scored
						if skipped != 0 && (bos >= 0 || w.first != w.begin+1 || skipped != 1) {
							t.Fatalf("%d tokens, window %d, stride %d: %+v after %d", n, window, stride, w, scored)
						}
						if before := w.first - w.begin; w.begin > 0 && before < window-stride {
							t.Fatalf("%d tokens, window %d, stride %d: only %d in front of %+v", n, window,
								stride, before, w)
						}
						scored = w.end
					}
					if scored != n {
						t.Fatalf("%d of %d tokens scored", scored, n)
					}
				}
			}
		}
	}
}

// TestStrideAndPieces: a loss depends only on the preceding tokens, not on their division into passes; with the window
// full, strided and plain evaluation agree where the context does.
func TestStrideAndPieces(t *testing.T) {
	e := converted(t, shared.Testdata(t, "tiny-bitnet-packed"), packed.Recipe{})
	ids := heldout(t)[:200]
	whole := run(t, e, nil, ids, Options{Window: 200})
	strided := run(t, e, nil, ids, Options{Window: 64, Stride: 16})
	if whole.Tokens != 200 || strided.Tokens != 200 || strided.Windows != 10 {
		t.Errorf("%d and %d tokens, %d windows", whole.Tokens, strided.Tokens, strided.Windows)
	}
	for i := range 64 {
		if whole.scores[i] != strided.scores[i] {
			t.Fatalf("token %d: %+v and %+v", i, whole.scores[i], strided.scores[i])
		}
	}
	for _, s := range strided.scores[64:] {
		if s.depth < 48 {
			t.Errorf("token %d is scored with %d in front", s.at, s.depth)
		}
	}
	if whole.scores[150] == strided.scores[150] {
		t.Error("a shorter context made no difference")
	}
}

// TestAgainst compares a file with itself and with one whose head was quantized, and the divergence with its
// definition.
func TestAgainst(t *testing.T) {
	dir := shared.Testdata(t, "tiny-bitnet-packed")
	e, int8Head := converted(t, dir, packed.Recipe{}), converted(t, dir, packed.Recipe{Head: "int8"})
	ids := heldout(t)[:300]
	same := run(t, e, e2(t, dir), ids, Options{Window: 100})
	if a := same.Against; a.MeanKL != 0 || a.MaxKL != 0 || math.Abs(a.Top1-1) > 1e-12 ||
		a.Perplexity != same.Perplexity {
		t.Errorf("against itself: %+v", a)
	}
	if a := same.Against; a.Ratio != 1 || a.RatioError != 0 || a.P99KL != 0 || a.MeanKLError != 0 || a.Top1Error != 0 {
		t.Errorf("against itself: %+v", a)
	}
	r := run(t, int8Head, e, ids, Options{Window: 100})
	if a := r.Against; math.Abs(a.Ratio-r.Perplexity/a.Perplexity) > 1e-9 ||
		!(a.RatioError > 0 && a.RatioError < r.PerplexityError/r.Perplexity) {
		t.Errorf("a ratio of %v ± %v of %v and %v", a.Ratio, a.RatioError, r.Perplexity, a.Perplexity)
	}
	within := func(kl float64) (n int) {
		for _, s := range r.scores {
			if s.kl <= kl {
				n++
			}
		}
		return n
	}
	if p := r.Against.P99KL; within(p) != 297 || within(math.Nextafter(p, 0)) != 296 || p > r.Against.MaxKL {
		t.Errorf("KL of %v at 99 %%: %d of 300 do not exceed it", p, within(p))
	}
	if a := r.Against; math.Abs(a.Top1Error-math.Sqrt(a.Top1*(1-a.Top1)/300)) > 1e-12 ||
		!(a.MeanKLError > 0 && a.MeanKLError < a.MeanKL) {
		t.Errorf("standard errors: %+v", a)
	}
	if a := r.Against; !(a.MeanKL > 1e-7 && a.MeanKL < 0.01 && a.MaxKL > a.MeanKL && a.Top1 > 0.9 &&
		a.Perplexity == same.Perplexity) {
		t.Errorf("int8 head: %+v", a)
	}
}

// TestBare: without a begin-of-text token, the first token of a window has no context and is not scored.
func TestBare(t *testing.T) {
	e := converted(t, shared.Testdata(t, "tiny-bitnet-packed"), packed.Recipe{})
	ids := heldout(t)[:300]
	with, bare := run(t, e, nil, ids, Options{Window: 100}), run(t, e, nil, ids, Options{Window: 100, Bare: true})
	if !with.BeginOfText || bare.BeginOfText || with.Tokens != 300 || bare.Tokens != 297 ||
		with.scores[1].nll == bare.scores[0].nll {
		t.Errorf("%+v\n%+v", with, bare)
	}
}

func e2(t testing.TB, dir string) *engine.Engine { return converted(t, dir, packed.Recipe{}) }

func TestRefused(t *testing.T) {
	e := converted(t, shared.Testdata(t, "tiny-bitnet-packed"), packed.Recipe{})
	for name, o := range map[string]Options{"window 1": {Window: 1}, "window beyond the model": {Window: 257},
		"stride beyond the window": {Window: 8, Stride: 9}, "negative stride": {Stride: -1}} {
		if _, err := Run(context.Background(), e, nil, []int{1, 2, 3}, o); !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Run(context.Background(), e, nil, nil, Options{}); !errors.Is(err, pack.ErrUnsupported) {
		t.Errorf("no tokens: %v", err)
	}
	if _, err := Run(context.Background(), e, mini(t, "smollm2-135m"), []int{1, 2}, Options{}); !errors.Is(err,
		pack.ErrUnsupported) {
		t.Errorf("other vocabulary: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, e, nil, []int{1, 2, 3}, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	run(t, e, nil, []int{1, 2, 3}, Options{}) // the sequence was given back
}

// mini converts a synthetic miniature.
func mini(t testing.TB, like string) *engine.Engine {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "checkpoint")
	tinymodel.Miniature(t, like, dir)
	return converted(t, dir, packed.Recipe{})
}

// TestSyntheticModelsRun: random weights of every family keep activations finite over a long text, and do not predict
// anything, whether they make some tokens likelier than others or hardly do so (Cohere, whose logits are scaled down).
// Gemma's scaled embeddings, seen through the same matrix again, make the token that was just read the argmax.
func TestSyntheticModelsRun(t *testing.T) {
	ids := make([]int, 200)
	for i := range ids {
		ids[i] = (i * i * 37) % 300
	}
	families := map[string]bool{}
	for _, l := range synth.Likes() {
		e := mini(t, l.Name)
		key := e.Description().Family + string(l.Weights)
		if families[key] {
			continue
		}
		families[key] = true
		r := run(t, e, nil, ids, Options{Window: min(128, e.Description().MaxPositions)})
		if uniform := math.Log(320); r.MeanNLL < uniform-0.05 || r.MeanNLL > uniform+12 {
			t.Errorf("%s: a mean loss of %.2f nats; a uniform guess has %.2f", l.Name, r.MeanNLL, uniform)
		}
	}
}

func TestPlot(t *testing.T) {
	dir := shared.Testdata(t, "tiny-bitnet-packed")
	r := run(t, converted(t, dir, packed.Recipe{Head: "int8"}), e2(t, dir), heldout(t)[:1000], Options{Window: 250})
	loss := *r
	loss.Against = nil
	for name, chart := range map[string]plot.Chart{"kl": r.Plot("int8 head"), "loss": loss.Plot("tiny-bitnet")} {
		lines := chart.(*plot.Lines)
		points := lines.Series[0].Points
		if len(points) < 100 || len(points) > bins {
			t.Errorf("%s: %d points", name, len(points))
		}
		if path := os.Getenv("LOWPACK_KEEP_PLOTS"); path != "" { // to look at them in a browser
			f, err := os.Create(filepath.Join(path, "eval-"+name+".svg"))
			if err != nil {
				t.Fatal(err)
			}
			if err := plot.SVG(f, chart); err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
	}
}

// TestBlame: an error names the file that it is about, and no other.
func TestBlame(t *testing.T) {
	e, other := converted(t, shared.Testdata(t, "tiny-bitnet"), packed.Recipe{}), converted(t,
		shared.Testdata(t, "tiny-bitnet"), packed.Recipe{})
	o := Options{Window: 8, Text: "the text", Model: "the model", Other: "the other"}
	fails := func(ids []int, window int, want string) {
		t.Helper()
		o.Window = window
		if _, err := Run(context.Background(), e, other, ids, o); err == nil ||
			!strings.HasPrefix(err.Error(), want+": ") {
			t.Errorf("%v; want %s first", err, want)
		}
	}
	fails(nil, 8, "the text")
	fails([]int{1, 2, 3}, 1<<20, "the model")
	for range other.Options().Sequences {
		s, err := other.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
	}
	fails([]int{1, 2, 3}, 8, "the other")
}
