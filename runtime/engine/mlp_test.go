//go:build amd64 && !purego

package engine

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
)

// floatModel is a model of float32 whose MLPs are wider than its residual stream.
func floatModel(t *testing.T) (*view, *model.Description) {
	t.Helper()
	m := &maker{rand.New(rand.NewPCG(3, 4)), t, newView("{}"), everyFeature}
	tensor := func(name string, shape ...int) string {
		n := 1
		for _, dim := range shape {
			n *= dim
		}
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(m.NormFloat64())
		}
		m.v.plain(name, "F32", shape, bytesOf(x))
		return name
	}
	linear := func(name string, in, out int) model.Linear {
		return model.Linear{Weight: tensor(name, out, in), In: in, Out: out}
	}
	d := &model.Description{Family: "floats", Config: model.Config{Hidden: 16, Intermediate: 40, Layers: 2, Heads: 2,
		KVHeads: 1, HeadDim: 8, Vocab: 30, MaxPositions: 8 * mostMLPTokens, NormEps: 1e-5, Activation: "silu",
		Rope: model.Rope{Theta: 10000, Dim: 8}}}
	d.Embed = tensor("embed", d.Vocab, d.Hidden)
	d.FinalNorm, d.Head = model.Norm{Weight: tensor("norm", d.Hidden)}, d.Embed
	for _, prefix := range []string{"0.", "1."} {
		d.Blocks = append(d.Blocks, model.Block{
			AttnNorm: model.Norm{Weight: tensor(prefix+"a", d.Hidden)},
			FFNNorm:  model.Norm{Weight: tensor(prefix+"f", d.Hidden)},
			Q:        linear(prefix+"q", d.Hidden, d.Hidden), K: linear(prefix+"k", d.Hidden, d.HeadDim),
			V: linear(prefix+"v", d.Hidden, d.HeadDim), O: linear(prefix+"o", d.Hidden, d.Hidden),
			Gate: linear(prefix+"g", d.Hidden, d.Intermediate), Up: linear(prefix+"u", d.Hidden, d.Intermediate),
			Down: linear(prefix+"d", d.Intermediate, d.Hidden),
		})
	}
	return m.v, d
}

// TestMLPParts: the tokens of an MLP of floats in parts have the same logits and inputs of layers as all at once, in
// less memory, also with other weights in place of its own.
func TestMLPParts(t *testing.T) {
	v, d := floatModel(t)
	run := func(part int, others bool) (inputs [][]float32, out []float32) {
		observe := func(in Input) [][]float32 {
			inputs = append(inputs, slices.Clone(in.Vectors), slices.Clone(in.Stream))
			if !others || in.Weights[0] != "0.g" {
				return nil
			}
			return [][]float32{nil, make([]float32, d.Hidden*d.Intermediate)}
		}
		e, err := build(v, d, Options{Threads: 2, Batch: 11, OnePass: true, Sequences: 2, Observe: observe})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		e.pass.mlpTokens = part
		var batch []Chunk
		for _, tokens := range [][]int{{1, 5, 9, 20, 11, 7, 4, 18}, {1, 7, 7}} {
			batch = append(batch, Chunk{Seq: sequence(t, e), Tokens: tokens,
				Logits: make([]float32, len(tokens)*d.Vocab)})
		}
		if err := e.Forward(context.Background(), batch); err != nil {
			t.Fatal(err)
		}
		return inputs, slices.Concat(batch[0].Logits, batch[1].Logits)
	}
	for _, others := range []bool{false, true} {
		inputs, want := run(mostMLPTokens, others)
		for _, part := range []int{1, 2, 3, 5, 10, 11} {
			got, logits := run(part, others)
			if !slices.Equal(logits, want) || !slices.EqualFunc(got, inputs, slices.Equal) {
				t.Errorf("parts of %d tokens, other weights: %v: other values", part, others)
			}
		}
	}
	_, plain := run(mostMLPTokens, false)
	if _, other := run(mostMLPTokens, true); slices.Equal(plain, other) {
		t.Error("other weights of up change nothing")
	}
	const tokens = 8 * mostMLPTokens
	e, err := build(v, d, Options{Batch: tokens, OnePass: true, Context: tokens})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if n := tokens * 2 * d.Hidden; len(e.pass.y) != n { // queries, keys and values, not gate and up
		t.Errorf("outputs have %d elements, not %d", len(e.pass.y), n)
	}
}

// TestNonFinitePart: what overflows between the layers of an MLP is the error of its token.
func TestNonFinitePart(t *testing.T) {
	for part := 1; part <= 4; part++ {
		v, d := floatModel(t)
		const column, token = 3, 20
		for i := range d.Hidden { // no other token has this column, and nothing else writes it
			v.set(t, "0.o", column*d.Hidden+i, 0)
		}
		for i := range d.Vocab {
			v.set(t, "embed", i*d.Hidden+column, 0)
		}
		v.set(t, "embed", token*d.Hidden+column, 5)
		v.set(t, "0.f", column, 1e25)
		d.Blocks[0].FFNSubNorm = model.Norm{Bare: true}
		e, err := build(v, d, Options{Batch: 6, OnePass: true})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		e.pass.mlpTokens = part
		c := []Chunk{{Seq: sequence(t, e), Tokens: []int{1, 5, 9, token, 11, 7}, Logits: make([]float32, d.Vocab)}}
		err = e.Forward(context.Background(), c)
		wantNonFinite(t, err, NonFinite{0, 3, "feed-forward of layer 0"})
	}
}
