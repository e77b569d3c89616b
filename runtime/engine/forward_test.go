package engine

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/shared"
	"github.com/lowpack/lowpack/pack"
)

func readGolden(t testing.TB, g *golden) {
	readJSON(t, shared.Testdata(t, "tiny-bitnet-golden/tiny-bitnet.json"), g)
}

func TestForwardRefuses(t *testing.T) {
	e := engine(t, tiny(t), Options{Context: 8, Sequences: 3})
	other := sequence(t, engine(t, tiny(t), Options{}))
	s, closed := sequence(t, e), sequence(t, e)
	closed.Close()
	vocab := e.desc.Vocab
	for name, c := range map[string]struct {
		batch []Chunk
		want  error
	}{
		"no sequence":         {[]Chunk{{Seq: nil, Tokens: []int{1}, Logits: nil}}, pack.ErrUnsupported},
		"closed sequence":     {[]Chunk{{Seq: closed, Tokens: []int{1}, Logits: nil}}, pack.ErrUnsupported},
		"of another engine":   {[]Chunk{{Seq: other, Tokens: []int{1}, Logits: nil}}, pack.ErrUnsupported},
		"no tokens":           {[]Chunk{{Seq: s, Tokens: nil, Logits: nil}}, pack.ErrUnsupported},
		"negative token":      {[]Chunk{{Seq: s, Tokens: []int{-1}, Logits: nil}}, pack.ErrUnsupported},
		"token too large":     {[]Chunk{{Seq: s, Tokens: []int{vocab}, Logits: nil}}, pack.ErrUnsupported},
		"context":             {[]Chunk{{Seq: s, Tokens: make([]int, 9), Logits: nil}}, pack.ErrLimit},
		"half a row":          {[]Chunk{{Seq: s, Tokens: []int{1}, Logits: make([]float32, vocab/2)}}, pack.ErrUnsupported},
		"more rows than text": {[]Chunk{{Seq: s, Tokens: []int{1}, Logits: make([]float32, 2*vocab)}}, pack.ErrUnsupported},
		"the same twice":      {[]Chunk{{Seq: s, Tokens: []int{1}, Logits: nil}, {Seq: s, Tokens: []int{1}, Logits: nil}}, pack.ErrUnsupported},
	} {
		if err := e.Forward(context.Background(), c.batch); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if err := e.Forward(cancelled, []Chunk{{Seq: s, Tokens: []int{1}, Logits: nil}}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if s.Len() != 0 {
		t.Errorf("refused chunks left %d tokens", s.Len())
	}
	sequence(t, e)
	sequence(t, e)
	if _, err := e.NewSequence(); !errors.Is(err, pack.ErrLimit) {
		t.Errorf("a fourth sequence of three: %v", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{{Threads: -1}, {Context: -1}, {Sequences: -1}, {Batch: -1}} {
		if _, err := New(tiny(t), o); !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := New(tiny(t), Options{Context: 257}); !errors.Is(err, pack.ErrLimit) {
		t.Errorf("a context beyond the positions of the model: %v", err)
	}
	v := tiny(t)
	v.files["config.json"] = strings.Replace(v.files["config.json"], `"max_position_embeddings": 256`, `"max_position_embeddings": 1000000`, 1)
	_, err := New(v, Options{Context: 1000000, Sequences: 1000000})
	if !errors.Is(err, pack.ErrLimit) || !strings.Contains(err.Error(), "MiB") || !strings.Contains(err.Error(), "ask for a context of at most") {
		t.Errorf("a cache of terabytes: %v", err)
	}
	if _, err := Open(shared.Testdata(t, "tiny-bitnet/model.safetensors"), Options{}); !errors.Is(err, pack.ErrUnsupported) {
		t.Errorf("a checkpoint: %v", err)
	}
}

// TestTruncate: a sequence that was cut back goes on like one that never was longer.
func TestTruncate(t *testing.T) {
	e := engine(t, tiny(t), Options{Sequences: 2})
	tokens := texts(t)[0]
	want := logits(t, e, tokens, 1)[0]
	s, got := sequence(t, e), make([]float32, e.desc.Vocab)
	for _, chunk := range [][]int{tokens[:5], {7, 8, 9}, tokens[5:]} {
		if chunk[0] == tokens[5] {
			s.Truncate(5)
		}
		if err := e.Forward(context.Background(), []Chunk{{Seq: s, Tokens: chunk, Logits: got}}); err != nil {
			t.Fatal(err)
		}
	}
	if s.Len() != len(tokens) || !slices.Equal(got, want) {
		t.Errorf("%d tokens; equal logits: %v", s.Len(), slices.Equal(got, want))
	}
	s.Truncate(1000)
	if s.Len() != len(tokens) {
		t.Error("cutting beyond the end made the sequence longer")
	}
}

// set changes one float of a tensor.
func (v *view) set(t *testing.T, name string, i int, x float32) {
	data := v.tensors[name].Data
	switch v.tensors[name].DType {
	case "F32":
		copy(data[4*i:], bytesOf([]float32{x}))
	case "BF16":
		copy(data[2*i:], bytesOf([]float32{x})[2:])
	default:
		t.Fatal(v.tensors[name].DType)
	}
}

// TestNonFinite: values out of the range of floats are an error that says where, and not a result.
func TestNonFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	const layer2 = "model.layers.2."
	for name, c := range map[string]struct {
		damage func(v *view)
		step   string
		at     int
	}{
		"embedding":     {func(v *view) { v.set(t, "model.embed_tokens.weight", 9*256+3, nan) }, "attention of layer 0", 2},
		"norm":          {func(v *view) { v.set(t, layer2+"input_layernorm.weight", 5, inf) }, "attention of layer 2", 0},
		"scale":         {func(v *view) { v.set(t, layer2+"mlp.up_proj.weight.scale", 0, 3e38) }, "feed-forward of layer 2", 0},
		"mean square":   {func(v *view) { v.set(t, layer2+"mlp.up_proj.weight.scale", 0, 1e20) }, "feed-forward of layer 2", 0},
		"attention":     {func(v *view) { v.set(t, layer2+"self_attn.v_proj.weight.scale", 0, 3e38) }, "attention of layer 2", 0},
		"head":          {func(v *view) { v.set(t, "model.norm.weight", 1, nan) }, "output head", 3},
		"only one row":  {func(v *view) { v.set(t, "model.embed_tokens.weight", 2000*256, inf) }, "output head", 3},
		"last position": {func(v *view) { v.set(t, "model.embed_tokens.weight", 11*256, inf) }, "attention of layer 0", 3},
	} {
		t.Run(name, func(t *testing.T) {
			v := tiny(t)
			c.damage(v)
			e := engine(t, v, Options{Threads: 2})
			s := sequence(t, e)
			err := e.Forward(context.Background(), []Chunk{{Seq: s, Tokens: []int{7, 8, 9, 11}, Logits: make([]float32, e.desc.Vocab)}})
			var n *NonFinite
			if !errors.As(err, &n) || !errors.Is(err, pack.ErrCorrupt) || !strings.Contains(n.Step, c.step) || n.Position != c.at {
				t.Fatalf("%v; want position %d, %s", err, c.at, c.step)
			}
			if s.Len() != 0 {
				t.Errorf("%d tokens stay", s.Len())
			}
		})
	}
}

// TestMissingAndMisshapen: a file that does not hold what its config.json asks for is refused by name.
func TestMissingAndMisshapen(t *testing.T) {
	for name, damage := range map[string]func(v *view){
		"model.norm.weight":                      func(v *view) { delete(v.tensors, "model.norm.weight") },
		"model.layers.3.mlp.down_proj.weight":    func(v *view) { delete(v.tensors, "model.layers.3.mlp.down_proj.weight.packed") },
		"model.layers.1.mlp.up_proj.weight":      func(v *view) { entry(t, v, "model.layers.1.mlp.up_proj.weight").Shape[0] = 64 },
		"model.layers.0.self_attn.q_proj.weight": func(v *view) { entry(t, v, "model.layers.0.self_attn.q_proj.weight").Layout.Name = "none" },
		"model.embed_tokens.weight": func(v *view) {
			x := v.tensors["model.embed_tokens.weight"]
			x.DType = "I16"
			v.tensors[x.Name] = x
		},
	} {
		v := tiny(t)
		damage(v)
		if _, err := New(v, Options{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	v := tiny(t)
	delete(v.files, "config.json")
	if _, err := New(v, Options{}); !errors.Is(err, pack.ErrUnsupported) {
		t.Errorf("weights alone: %v", err)
	}
}

func entry(t *testing.T, v *view, name string) *packed.Entry {
	e, ok := v.manifest.Entry(name)
	if !ok {
		t.Fatal(name)
	}
	return e
}
