package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
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
		"no sequence":       {[]Chunk{{Seq: nil, Tokens: []int{1}, Logits: nil}}, pack.ErrUnsupported},
		"closed sequence":   {[]Chunk{{Seq: closed, Tokens: []int{1}, Logits: nil}}, pack.ErrUnsupported},
		"of another engine": {[]Chunk{{Seq: other, Tokens: []int{1}, Logits: nil}}, pack.ErrUnsupported},
		"no tokens":         {[]Chunk{{Seq: s, Tokens: nil, Logits: nil}}, pack.ErrUnsupported},
		"negative token":    {[]Chunk{{Seq: s, Tokens: []int{-1}, Logits: nil}}, pack.ErrUnsupported},
		"token too large":   {[]Chunk{{Seq: s, Tokens: []int{vocab}, Logits: nil}}, pack.ErrUnsupported},
		"context":           {[]Chunk{{Seq: s, Tokens: make([]int, 9), Logits: nil}}, pack.ErrLimit},
		"half a row": {[]Chunk{{Seq: s, Tokens: []int{1}, Logits: make([]float32, vocab/2)}},
			pack.ErrUnsupported},
		"more rows than text": {[]Chunk{{Seq: s, Tokens: []int{1}, Logits: make([]float32, 2*vocab)}},
			pack.ErrUnsupported},
		"the same twice": {[]Chunk{{Seq: s, Tokens: []int{1}, Logits: nil}, {Seq: s, Tokens: []int{1}, Logits: nil}},
			pack.ErrUnsupported},
	} {
		if err := e.Forward(context.Background(), c.batch); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if err := e.Forward(cancelled, []Chunk{{Seq: s, Tokens: []int{1}, Logits: nil}}); !errors.Is(err,
		context.Canceled) {
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
	v.files["config.json"] = strings.Replace(v.files["config.json"], `"max_position_embeddings": 256`,
		`"max_position_embeddings": 1000000`, 1)
	_, err := New(v, Options{Context: 1000000, Sequences: 1000000})
	if !errors.Is(err, pack.ErrLimit) || !strings.Contains(err.Error(), "MiB") ||
		!strings.Contains(err.Error(), "ask for a context of at most") {
		t.Errorf("a cache of terabytes: %v", err)
	}
	if _, err := Open(shared.Testdata(t, "tiny-bitnet/model.safetensors"), Options{}); !errors.Is(err,
		pack.ErrUnsupported) {
		t.Errorf("a checkpoint: %v", err)
	}
}

// TestTruncate: a truncated sequence continues like one that was never longer.
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

// TestMissingAndMisshapen: a file whose tensors do not match its config.json is rejected with the name of the tensor.
func TestMissingAndMisshapen(t *testing.T) {
	for name, damage := range map[string]func(v *view){
		"model.norm.weight": func(v *view) { delete(v.tensors, "model.norm.weight") },
		"model.layers.3.mlp.down_proj.weight": func(v *view) {
			delete(v.tensors, "model.layers.3.mlp.down_proj.weight.packed")
		},
		"model.layers.1.mlp.up_proj.weight": func(v *view) {
			entry(t, v, "model.layers.1.mlp.up_proj.weight").Shape[0] = 64
		},
		"model.layers.0.self_attn.q_proj.weight": func(v *view) {
			entry(t, v, "model.layers.0.self_attn.q_proj.weight").Layout.Name = "none"
		},
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
