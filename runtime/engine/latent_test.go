//go:build amd64 && !purego

package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/verify/reference"
)

// latentModel is a random model with latent attention in all blocks.
func latentModel(t *testing.T) (*view, *model.Description) {
	t.Helper()
	for seed := uint64(1); ; seed++ {
		v, d := randomModel(t, rand.New(rand.NewPCG(seed, 51)), everyFeature)
		if d.Latent != nil && d.Layers > 1 && d.Heads > 3 && d.Positions == "" {
			d.MaxPositions = 2048
			return v, d
		}
	}
}

// TestLatentCaches: every format of the cache gives the logits of the reference, for any division of a text into
// chunks, number of threads and batch, alone or beside another text, behind a fork and a resumed conversation.
func TestLatentCaches(t *testing.T) {
	v, d := latentModel(t)
	cachesEqualReference(t, v, d)
}

// cachesEqualReference compares the engine with the reference as TestLatentCaches says.
func cachesEqualReference(t *testing.T, v *view, d *model.Description) {
	t.Helper()
	ref, err := reference.New(v, d)
	if err != nil {
		t.Fatal(err)
	}
	tokens := make([]int, 75)
	for i := range tokens {
		tokens[i] = (i*i*7 + i*3) % d.Vocab
	}
	for _, cache := range caches {
		of, err := ref.WithCache(string(cache))
		if err != nil {
			t.Fatal(err)
		}
		want, err := of.Logits(context.Background(), tokens)
		if err != nil {
			t.Fatal(err)
		}
		for _, threads := range []int{1, 3} {
			for _, chunk := range []int{1, 7, len(tokens)} {
				name := fmt.Sprintf("cache %s, %d threads, chunks of %d", cache, threads, chunk)
				e, err := build(v, d, Options{Threads: threads, Batch: 16, Cache: cache, Sequences: 3, Page: 32})
				if err != nil {
					t.Fatal(err)
				}
				if chunk == 1 {
					e.pass.attention.long = 1
				}
				if i := firstOther(t, e, tokens, chunk, want); i >= 0 {
					t.Errorf("%s: other logits at position %d", name, i)
				}
				e.Close()
			}
		}
	}
}

// firstOther returns the first position whose logits differ, -1 for none. Half of the way the text is forked, and the
// fork goes on from resumed pages.
func firstOther(t *testing.T, e *Engine, tokens []int, chunk int, want [][]float32) int {
	t.Helper()
	seq, err := e.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	other, err := e.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(tokens); at += chunk {
		part := tokens[at:min(at+chunk, len(tokens))]
		flat := make([]float32, len(part)*e.desc.Vocab)
		beside := Chunk{Seq: other, Tokens: tokens[len(tokens)-1-at/chunk:][:1]}
		if err := e.Forward(t.Context(), []Chunk{beside, {Seq: seq, Tokens: part, Logits: flat}}); err != nil {
			t.Fatal(err)
		}
		for i := range part {
			if !slices.Equal(flat[i*e.desc.Vocab:][:e.desc.Vocab], want[at+i]) {
				return at + i
			}
		}
		if at/chunk == len(tokens)/chunk/2 {
			held := seq.Pages(seq.Len())
			n := seq.Len()
			seq.Close()
			if seq, err = e.Resume(held, n); err != nil {
				t.Fatal(err)
			}
			e.Release(held...)
		}
	}
	return -1
}

// TestLatentCacheBytes: a token has one row per layer.
func TestLatentCacheBytes(t *testing.T) {
	blocks := slices.Repeat([]model.Block{{Q: model.Linear{Weight: "q"}}}, 27)
	d := &model.Description{Blocks: blocks, Config: model.Config{Layers: len(blocks), KVHeads: 1, HeadDim: 576,
		Latent: &model.Latent{Rank: 512, Nope: 128, Value: 128}}}
	if n := CacheBytesPerToken(d, CacheF16); n != 27*576*2 {
		t.Errorf("%d bytes", n)
	}
}

// latent makes attention latent (N51).
func (m *maker) latent(c *model.Config) {
	c.Latent = &model.Latent{Rank: pick(m, 7, 16, 64, 100), Nope: pick(m, 1, 16, 20), Value: pick(m, 3, 16, 24),
		NormEps: 1e-6}
	if m.chance(2) {
		c.Latent.MScale, c.Latent.Factor = 0.7, 40
	}
	c.KVHeads, c.Rope.Dim, c.HeadNorm, c.RotateFirst = 1, pick(m, 2, 8, 20), model.EachHead, false
	c.HeadDim, c.ClipQKV, c.Rope.QueryBeta, c.Rope.StillBeta = c.Latent.Rank+c.Rope.Dim, 0, 0, 0
	if c.Rope.Dim < 4 {
		c.Rope.Alpha, c.Rope.Dynamic = 0, 0
	}
}

// latentBlock replaces the attention of a block.
func (m *maker) latentBlock(prefix string, c *model.Config, b *model.Block) {
	l, queries := c.Latent, c.Heads*(c.Latent.Nope+c.Rope.Dim)
	b.MLA = &model.MLA{KVNorm: m.norm(prefix+"kvn", l.Rank, 1),
		KVUp: m.floats(prefix+"kvu", c.Heads*(l.Nope+l.Value), l.Rank)}
	b.Q, b.V, b.AttnGate = m.linear(prefix+"lq", c.Hidden, queries), model.Linear{}, model.Linear{}
	b.K, b.O = m.linear(prefix+"lk", c.Hidden, c.HeadDim), m.linear(prefix+"lo", c.Heads*l.Value, c.Hidden)
	if m.chance(2) {
		rank := pick(m, 12, 33, 64)
		b.Q = m.linear(prefix+"lqa", c.Hidden, rank)
		b.MLA.QNorm, b.MLA.QUp = m.norm(prefix+"qn", rank, 1), m.linear(prefix+"lqb", rank, queries)
	}
	b.QNorm, b.KNorm, b.AttnSubNorm = model.Norm{}, model.Norm{}, model.Norm{}
}

// routing gives experts one of the routers of N50.
func (m *maker) routing(prefix string, x *model.Experts) {
	if x.Count > 1 && m.chance(4) {
		x.Chosen, x.Score, x.Distance = 2, model.SparseMixer, pick(m, float32(0.02), 1.5)
		return
	}
	if m.chance(5) {
		x.Score, x.Inputs, x.Normalize = model.Sigmoid, true, false
		return
	}
	x.Score = pick(m, model.Softmax, model.Softmax, model.Sigmoid)
	x.Epsilon, x.Least, x.Scale = pick(m, float32(0), 1e-6), pick(m, float32(0), 0.3), pick(m, float32(0), 2.5)
	if m.chance(2) {
		x.ChoiceBias = m.floatsAs(prefix+"choice", []int{x.Count})
	}
	if n := x.Count; m.chance(2) {
		x.Groups = pick(m, 1, 2, 3)
		if n%x.Groups != 0 {
			x.Groups = n
		}
		x.GroupTop = min(pick(m, 1, 2), n/x.Groups)
		x.KeptGroups = 1 + m.IntN(x.Groups)
		x.Chosen = min(x.Chosen, x.KeptGroups*(n/x.Groups))
	}
}

func (m *maker) expertMatrix(name string, n, in, out int) model.Linear {
	l := model.Linear{Weight: name, In: in, Out: out, Experts: n}
	switch m.IntN(4) {
	case 0:
		l.Each = name + ".*"
		for e := range n {
			m.floatsAs(l.Of(e), []int{out, in})
		}
	case 1:
		m.floatsAs(name, []int{n, out, in})
	default:
		m.manyCodes(name, n, out, in)
	}
	return l
}
