package calibrate_test

import (
	"context"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert/internal/calibrate"
	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/runtime/engine"
)

// TestStreams: what makes keys and values, and the head, has no stream; the norm of the stream of gate and up is what
// these multiply, and the output projection before and the down projection after them have those of the same tokens.
func TestStreams(t *testing.T) {
	f, d := tinymodel.Open(t, tinymodel.Converted(t, shared.Testdata(t, "tiny-bitnet"),
		packed.Recipe{Quant: "none", Golden: "none"}))
	var before []float32 // stream of the output projection
	var seen []string
	window := []int{1, 5, 9, 200, 31}
	e, err := engine.New(f, engine.Options{Threads: 2, Observe: func(in engine.Input) [][]float32 {
		name := in.Weights[0]
		seen = append(seen, name)
		if strings.Contains(name, "q_proj") || name == d.Head {
			if in.Stream != nil || calibrate.Importance(in) != nil {
				t.Errorf("%s has a stream", name)
			}
			return nil
		}
		if len(in.Stream) != len(window)*d.Hidden {
			t.Fatalf("%s: a stream of %d elements", name, len(in.Stream))
		}
		factors := calibrate.Importance(in)
		switch {
		case strings.Contains(name, "o_proj"):
			before = slices.Clone(in.Stream)
		case strings.Contains(name, "gate_proj"):
			if slices.Equal(before, in.Stream) {
				t.Errorf("%s: attention has added nothing", name)
			}
			checkNormed(t, f, strings.Replace(name, "mlp.gate_proj", "post_attention_layernorm", 1), in, factors)
			before = slices.Clone(in.Stream)
		case !slices.Equal(before, in.Stream):
			t.Errorf("%s has the stream of others", name)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	forward(t, e, window)
	if want := 4*d.Layers + 1; len(seen) != want {
		t.Errorf("%d inputs, want %d: %q", len(seen), want, seen)
	}
}

// TestStreamsOfFamilies: the layers whose outputs reach only their own token have streams, of all tokens, in models
// with recurrent layers, shared experts, an MLP beside experts, and attention and MLP that read the same stream.
func TestStreamsOfFamilies(t *testing.T) {
	own := regexp.MustCompile(
		`(self_attn\.(o_proj|dense)|mixer\.out_proj|mlp\.(shared_expert\.)?(gate_proj|down_proj|fc1|fc2))\.weight$`)
	for _, like := range []string{"mamba-codestral-7b", "qwen1.5-moe-a2.7b", "gemma-4-26b-a4b", "phi-2"} {
		t.Run(like, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "model")
			tinymodel.Miniature(t, like, dir)
			f, d := tinymodel.Open(t, tinymodel.Converted(t, dir, packed.Recipe{Quant: "none", Golden: "none"}))
			window, seen := []int{1, 5, 9, 200, 31}, 0
			e, err := engine.New(f, engine.Options{Threads: 2, Observe: func(in engine.Input) [][]float32 {
				name, want := in.Weights[0], 0
				if strings.Contains(name, ".experts.") { // these see some tokens, or all
					return nil
				}
				if own.MatchString(name) {
					want = len(window) * d.Hidden
					seen++
				}
				if len(in.Stream) != want {
					t.Errorf("%s: a stream of %d elements, want %d", name, len(in.Stream), want)
				}
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if forward(t, e, window); seen < d.Layers {
				t.Errorf("%d streams in %d layers", seen, d.Layers)
			}
		})
	}
}

// forward computes a window.
func forward(t *testing.T, e *engine.Engine, window []int) {
	t.Helper()
	s, err := e.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	chunk := engine.Chunk{Seq: s, Tokens: window, Logits: make([]float32, len(window)*e.Description().Vocab)}
	if err := e.Forward(context.Background(), []engine.Chunk{chunk}); err != nil {
		t.Fatal(err)
	}
}

// checkNormed compares vectors with the stream times the factors of tokens and the gains of a norm.
func checkNormed(t *testing.T, f *packed.File, norm string, in engine.Input, factors []float32) {
	t.Helper()
	s, err := f.Tensor(norm)
	if err != nil {
		t.Fatal(err)
	}
	gains := make([]float32, in.Size)
	quantize.DType(s.DType).Widen(gains, s.Data)
	for i, v := range in.Vectors {
		want := float64(in.Stream[i]) * float64(factors[i/in.Size]) * float64(gains[i%in.Size])
		if math.Abs(float64(v)-want) > 1e-4*(1+math.Abs(want)) {
			t.Fatalf("%s: element %d is %v, want %v", norm, i, v, want)
		}
	}
}

// TestImportance: the weight of a token is 1 / the root mean square of the stream, and 1 where that is no finite number
// above 0.
func TestImportance(t *testing.T) {
	for _, c := range []struct {
		stream []float32
		want   float32
	}{{[]float32{3, 4, 0, 0}, 0.4}, {[]float32{0, 0}, 1}, {[]float32{float32(math.NaN()), 1}, 1},
		{[]float32{float32(math.Inf(1)), 1}, 1}, {[]float32{1e-45}, 1}} {
		in := engine.Input{Vectors: make([]float32, 6), Size: 3, Stream: slices.Concat(c.stream, c.stream)}
		if got := calibrate.Importance(in); !slices.Equal(got, []float32{c.want, c.want}) {
			t.Errorf("%v: %v, want %v", c.stream, got, c.want)
		}
	}
}
