package verify

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/verify/reference"
)

const (
	// sharedFrom is more positions than the engine needs before its workers share the attention of one token.
	sharedFrom = 640
	// promptTokens attend together: more than the engine handles in one pass over the KV cache, with promptThreads.
	// More threads would take fewer tokens each than they do of the long prompts that they serve.
	promptTokens  = tensor.MostTokens + 2
	promptThreads = 2
	// passTokens are appended at once where attention is not needed, as in a prompt.
	passTokens = 128
	// cacheNumbers bounds the keys of a trial, and so its memory and time: 32 MB, and as much for values.
	cacheNumbers = 8 << 20
)

// checkAttention compares the attention of the engine with the reference at large context depth, for every format of
// the KV cache and both kinds of layers, global and local. Queries, keys and values are random: golden sequences are
// too short for more than a page of the cache, for windows, and for attention shared by workers, and long ones would
// cost too much.
func (s *session) checkAttention() error {
	var trials []*trial
	for _, local := range []bool{false, true} {
		layer := slices.IndexFunc(s.described.Blocks, func(b model.Block) bool {
			return b.HasAttention() && b.Local == local
		})
		for _, cache := range engine.CacheTypes() {
			if layer >= 0 {
				trials = append(trials, s.newTrial(layer, cache))
			}
		}
	}
	done := int64(0)
	for _, t := range trials {
		if t.n == 0 {
			continue
		}
		if err := s.finding(Logits, t.group, fmt.Sprintf("layer %d", t.layer), t.run()); err != nil {
			return err
		}
		s.advance(string(Logits)+": attention", &done, 1, int64(len(trials)))
		s.report.Coverage.Context = min(t.n, cmp.Or(s.report.Coverage.Context, t.n))
	}
	return nil
}

// trial is the attention of a layer at context depth n.
type trial struct {
	*session
	group string
	layer int
	shape model.HeadShape
	cache engine.CacheType
	n     int
	ends  []int // lengths of a text at which something begins or ends

	want map[int][]float32 // attention by position
	of   *engine.AttentionLayer
}

// newTrial chooses positions: more than two pages of the cache, more than workers share, and more than a window and a
// page.
func (s *session) newTrial(layer int, cache engine.CacheType) *trial {
	d := s.described
	shape := d.HeadShape(&d.Blocks[layer])
	page, window := tensor.CacheType(cache).PageRows(shape.HeadDim), 0
	if d.Blocks[layer].Local {
		window = d.SlidingWindow
	}
	n := max(2*page+page/2, sharedFrom)
	if window > 0 {
		n = max(n, window+page+1)
	}
	t := &trial{session: s, group: "attention, cache " + string(cache), layer: layer, cache: cache, shape: shape}
	t.n = max(0, min(n, d.MaxPositions, cacheNumbers/(shape.KVHeads*shape.HeadDim)))
	for _, end := range []int{1, tensor.CacheBlock, tensor.CacheBlock + 1, page, page + 1, 2*page + 1, window,
		window + 1,
		window + page, sharedFrom, t.n} {
		if end > 0 && end <= t.n {
			t.ends = append(t.ends, end)
		}
	}
	slices.Sort(t.ends)
	t.ends = slices.Compact(t.ends)
	return t
}

// run computes the attention by the reference, and in every way the engine does.
func (t *trial) run() error {
	if err := t.judge(); err != nil {
		return err
	}
	for _, way := range []struct {
		name    string
		threads int
		run     func() (string, error)
	}{
		{"one token at a time", t.Threads, func() (string, error) { return t.along(1) }},
		{"several tokens of a prompt", min(t.Threads, promptThreads),
			func() (string, error) { return t.along(promptTokens) }},
		{"one token of each of two sequences", t.Threads, t.pair},
	} {
		reason, err := t.with(way.threads, way.run)
		if err != nil {
			return err
		}
		c := Check{Level: Logits, Group: t.group, Name: fmt.Sprintf("layer %d: %s", t.layer, way.name), Verdict: Pass}
		if reason != "" {
			c.Verdict, c.Reason = Fail, reason
		}
		t.report.add(c)
	}
	return nil
}

// with runs something on the attention of the engine with that many threads.
func (t *trial) with(threads int, run func() (string, error)) (reason string, err error) {
	o := engine.Options{Threads: threads, Context: t.n, Sequences: 2, Batch: passTokens, Cache: t.cache}
	if t.of, err = engine.NewAttentionLayer(t.file, t.layer, o); err != nil {
		return "", err
	}
	defer t.of.Close()
	return run()
}

// rows are queries, keys and values of a position, or its queries and latent vector: evenly distributed, so that every
// position counts.
func (t *trial) rows(position int) []float32 {
	d, r := t.described, rand.New(rand.NewPCG(1, uint64(position)))
	x := make([]float32, d.AttentionInputs(&d.Blocks[t.layer]))
	for i := range x {
		x[i] = 2*r.Float32() - 1
	}
	return x
}

// outputs is the number of values of the attention of a head.
func (t *trial) outputs() int {
	if l := t.described.Latent; l != nil {
		return l.Value
	}
	return t.shape.HeadDim
}

// judge lets the reference compute what the ways will ask for.
func (t *trial) judge() error {
	l, err := reference.NewLayer(t.file, t.described, t.layer, string(t.cache))
	if err != nil {
		return err
	}
	t.want = map[int][]float32{}
	ends := t.ends
	for p := range t.n {
		if err := context.Cause(t.ctx); err != nil {
			return err
		}
		for p >= ends[0] {
			ends = ends[1:]
		}
		wanted := p >= ends[0]-promptTokens
		out, err := l.Append(t.rows(p), wanted)
		if err != nil {
			return err
		}
		if wanted {
			t.want[p] = out
		}
	}
	return nil
}

// along goes through all positions of a text and looks at the last n before every end.
func (t *trial) along(n int) (reason string, err error) {
	seq, err := t.of.NewSequence()
	if err != nil {
		return "", err
	}
	defer seq.Close()
	for _, end := range t.ends {
		from := max(seq.Len(), end-n)
		if err := t.fill(seq, from); err != nil {
			return "", err
		}
		r := t.tokens(seq, from, end)
		if err := t.of.Append([]engine.AttentionRows{r}); err != nil {
			return "", err
		}
		if reason := t.differs(from, r.Out); reason != "" {
			return reason, nil
		}
	}
	return "", nil
}

// pair looks at one token of each of two sequences of different lengths.
func (t *trial) pair() (reason string, err error) {
	var batch []engine.AttentionRows
	for _, end := range []int{t.n, t.ends[max(0, len(t.ends)-2)]} {
		seq, err := t.of.NewSequence()
		if err != nil {
			return "", err
		}
		defer seq.Close()
		if err := t.fill(seq, end-1); err != nil {
			return "", err
		}
		batch = append(batch, t.tokens(seq, end-1, end))
	}
	if err := t.of.Append(batch); err != nil {
		return "", err
	}
	for _, r := range batch {
		if reason = t.differs(r.Seq.Len()-1, r.Out); reason != "" {
			break
		}
	}
	return reason, nil
}

// tokens are positions from … to−1, whose attention is wanted.
func (t *trial) tokens(seq *engine.Sequence, from, to int) engine.AttentionRows {
	r := engine.AttentionRows{Seq: seq, Out: make([]float32, (to-from)*t.described.Heads*t.outputs())}
	for p := from; p < to; p++ {
		r.In = append(r.In, t.rows(p)...)
	}
	return r
}

// fill appends the positions before to.
func (t *trial) fill(seq *engine.Sequence, to int) error {
	for seq.Len() < to {
		if err := context.Cause(t.ctx); err != nil {
			return err
		}
		r := t.tokens(seq, seq.Len(), min(to, seq.Len()+passTokens))
		r.Out = nil
		if err := t.of.Append([]engine.AttentionRows{r}); err != nil {
			return err
		}
	}
	return nil
}

// differs says where attention differs, from a position on.
func (t *trial) differs(position int, got []float32) string {
	width := t.described.Heads * t.outputs()
	for i, v := range got {
		p, at := position+i/width, i%width
		if want := t.want[p][at]; math.Float32bits(v) != math.Float32bits(want) {
			return fmt.Sprintf("position %d, head %d: %v instead of %v: the attention of this program is wrong", p,
				at/t.outputs(), v, want)
		}
	}
	return ""
}
