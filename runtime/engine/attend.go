package engine

import (
	"sync/atomic"

	"github.com/lowpack/lowpack/runtime/tensor"
)

// attention is the attention of a pass. Its work is shared among the workers by tokens and key/value heads, and where
// these are few and the text is long, by positions and then by columns of the values: no sum is cut, so that all sums are
// those of N18 for any number of workers.
type attention struct {
	tensor.Attention
	groups  []group
	scores  []float32 // [threads · MostQueries · Heads/KVHeads][Context]
	totals  []float32 // [tokens · Heads], of shared tokens
	scratch []scratch // one per worker
	long    int       // longText, and
	part    int       // sharedRows; tests make do with less

	attend attendTask
	score  scoreTask
	weigh  weighTask
	value  valueTask
}

// group is some tokens of a pass that follow one another in one sequence: they visit keys and values together.
type group struct{ first, n int }

// scratch is memory for the attention of one worker at a time.
type scratch struct {
	taken   atomic.Bool
	queries [tensor.MostQueries]tensor.Query
	*tensor.Scratch
	_ [64]byte // the flag of the neighbour belongs to another worker
}

// attentionScores is the room for scores that a worker needs, in elements.
func (e *Engine) attentionScores() int {
	return tensor.MostQueries * e.desc.Heads / e.desc.KVHeads * e.opt.Context
}

func (e *Engine) newAttention() attention {
	d, n := e.desc, e.attentionScores()
	a := attention{
		Attention: attentionOf(d), scores: make([]float32, e.opt.Threads*n), scratch: make([]scratch, e.opt.Threads),
		totals: make([]float32, e.opt.Threads*tensor.MostQueries*d.Heads/d.KVHeads), groups: make([]group, 0, e.opt.Batch),
		long: longText, part: sharedRows,
	}
	for i := range a.scratch {
		a.scratch[i].Scratch = tensor.NewScratch(d.Heads/d.KVHeads, e.width(), a.scores[i*n:][:n])
	}
	return a
}

// group finds the groups of the tokens of a pass.
func (a *attention) group(tokens []token) {
	a.groups = a.groups[:0]
	for t := range tokens {
		if last := len(a.groups) - 1; t > 0 && tokens[t].seq == tokens[t-1].seq && a.groups[last].n < tensor.MostQueries {
			a.groups[last].n++
		} else {
			a.groups = append(a.groups, group{t, 1})
		}
	}
}

// take finds free memory. There is one per worker, and a worker takes one at a time.
func (a *attention) take() *scratch {
	for {
		for i := range a.scratch {
			if s := &a.scratch[i]; s.taken.CompareAndSwap(false, true) {
				return s
			}
		}
	}
}

const (
	// shortText is how many products of floats are so few, some microseconds, that sharing them costs more than it gains.
	shortText = 1 << 15
	// longText is how many positions are so many that sharing them among workers pays, if there are not enough heads.
	longText = 512
	// sharedRows is how many of them a worker takes at once.
	sharedRows = 256
)

// attend computes attention in a layer.
func (e *Engine) attend(layer int) {
	p, d := &e.pass, e.desc
	a := &p.attention
	items, positions := len(a.groups)*d.KVHeads, p.tokens[0].pos+1
	if len(a.groups) == 1 && positions*d.Heads*d.HeadDim < shortText {
		a.attend = attendTask{e, layer}
		a.attend.Do(0, items)
		return
	}
	if n := len(p.tokens); n*d.KVHeads <= len(a.scratch)*tensor.MostQueries && len(a.scratch) > 1 {
		longest := 0
		for t := range p.tokens {
			longest = max(longest, e.sees(t, layer).Len())
		}
		if longest >= a.long {
			e.attendShared(layer, longest)
			return
		}
	}
	a.attend = attendTask{e, layer}
	e.run(items, 1, &a.attend)
}

// attendShared is attend for few tokens behind long texts.
func (e *Engine) attendShared(layer, longest int) {
	a, n, d := &e.pass.attention, len(e.pass.tokens), e.desc
	a.score = scoreTask{e, layer, (longest + a.part - 1) / a.part}
	e.run(n*d.KVHeads*a.score.parts, 1, &a.score)
	a.weigh = weighTask{e, layer}
	e.run(n*d.Heads, 1, &a.weigh)
	blocks := e.width() / tensor.Lanes
	parts := min(blocks, (tensor.MostQueries*len(a.scratch)+n*d.KVHeads-1)/(n*d.KVHeads))
	a.value = valueTask{e, layer, parts, (blocks + parts - 1) / parts * tensor.Lanes}
	e.run(n*d.KVHeads*parts, 1, &a.value)
}

// sees is the positions that a token sees in a layer.
func (e *Engine) sees(t, layer int) tensor.Range {
	r := tensor.Range{From: 0, To: e.pass.tokens[t].pos + 1}
	if window := e.desc.SlidingWindow; window > 0 && e.weights.blocks[layer].local {
		r.From = max(0, r.To-window)
	}
	return r
}

// query is token t before a key/value head.
func (e *Engine) query(t, kv, layer int) tensor.Query {
	p, d := &e.pass, e.desc
	heads := d.Heads / d.KVHeads
	at := t*d.Heads + kv*heads
	return tensor.Query{Q: p.q[at*e.width():][:heads*e.width()], Dst: p.o[at*d.HeadDim:][:heads*d.HeadDim], Sees: e.sees(t, layer)}
}

// attendTask computes attention; item i is key/value head i / groups and group i mod groups: a head stays in the
// second-level cache while the groups of a prompt visit it.
type attendTask struct {
	*Engine
	layer int
}

func (k *attendTask) Do(from, to int) {
	p, d := &k.pass, k.desc
	s := p.attention.take()
	defer s.taken.Store(false)
	for i := from; i < to; i++ {
		g, kv := p.attention.groups[i%len(p.attention.groups)], i/len(p.attention.groups)
		for j := range g.n {
			s.queries[j] = k.query(g.first+j, kv, k.layer)
		}
		cache := &p.tokens[g.first].seq.kv[k.layer]
		p.attention.Heads(s.queries[:g.n], d.Heads/d.KVHeads, d.HeadDim, cache.keys[kv], cache.values[kv], s.Scratch)
	}
}

// scoreTask computes scores; item i is part i mod parts of the positions that token i / parts / KVHeads sees with
// key/value head i / parts mod KVHeads.
type scoreTask struct {
	*Engine
	layer, parts int
}

func (k *scoreTask) Do(from, to int) {
	p, d := &k.pass, k.desc
	s := p.attention.take()
	defer s.taken.Store(false)
	heads := d.Heads / d.KVHeads
	for i := from; i < to; i++ {
		head, at := i/k.parts, i%k.parts*p.attention.part
		t, kv := head/d.KVHeads, head%d.KVHeads
		q := k.query(t, kv, k.layer)
		rows := tensor.Range{From: q.Sees.From + at, To: min(q.Sees.From+at+p.attention.part, q.Sees.To)}
		if rows.Len() > 0 {
			z := p.attention.scores[head*heads*k.opt.Context+at:]
			p.attention.Scores(z, k.opt.Context, q.Q, heads, p.tokens[t].seq.kv[k.layer].keys[kv], rows, s.Scratch)
		}
	}
}

// weighTask turns scores into weights; item i is head i mod Heads of token i / Heads.
type weighTask struct {
	*Engine
	layer int
}

func (k *weighTask) Do(from, to int) {
	a := &k.pass.attention
	for i := from; i < to; i++ {
		a.totals[i] = a.Weights(a.scores[i*k.opt.Context:][:k.sees(i/k.desc.Heads, k.layer).Len()])
	}
}

// valueTask adds the weighted values up; item i is part i mod parts of the columns, with token and head as in scoreTask.
type valueTask struct {
	*Engine
	layer, parts, columns int
}

func (k *valueTask) Do(from, to int) {
	p, d := &k.pass, k.desc
	s := p.attention.take()
	defer s.taken.Store(false)
	heads, ldz := d.Heads/d.KVHeads, k.opt.Context
	for i := from; i < to; i++ {
		head, at := i/k.parts, i%k.parts*k.columns
		t, kv := head/d.KVHeads, head%d.KVHeads
		cols := tensor.Range{From: at, To: min(at+k.columns, k.width())}
		if cols.Len() > 0 {
			q, a := k.query(t, kv, k.layer), &p.attention
			a.Values(q.Dst, d.HeadDim, a.scores[head*heads*ldz:], ldz, a.totals[head*heads:][:heads],
				p.tokens[t].seq.kv[k.layer].values[kv], q.Sees, cols, s.Scratch)
		}
	}
}
