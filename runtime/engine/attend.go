package engine

import (
	"sync/atomic"

	"github.com/lowpack/lowpack/internal/tensor"
)

// attention is the attention of a pass. Its work is shared among the workers by tokens and key/value heads, and where
// these are few and the text is long, by positions and then by columns of the values: no sum is cut, so that all sums are
// those of N18 for any number of workers.
type attention struct {
	tensor.Attention
	groups  []group
	scores  []float32 // [threads · MostQueries · Heads/KVHeads, and Heads at least][Context]
	totals  []float32 // [tokens · Heads], of shared tokens
	sums    []float32 // [tokens · Heads][width], of theirs
	scratch []scratch // one per worker
	long    int       // longText; tests make do with less

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

// attentionScores is the room for scores of a worker, and of all, in elements.
func (e *Engine) attentionScores() (worker, all int) {
	d, context := e.desc, e.opt.Context
	worker = tensor.MostQueries * d.Heads / d.KVHeads * context
	return worker, max(e.opt.Threads*worker, d.Heads*context)
}

func (e *Engine) newAttention() attention {
	d := e.desc
	n, all := e.attentionScores()
	a := attention{
		Attention: attentionOf(d), scores: make([]float32, all), scratch: make([]scratch, e.opt.Threads),
		totals: make([]float32, all/e.opt.Context), sums: make([]float32, all/e.opt.Context*e.width()), groups: make([]group, 0, e.opt.Batch), long: longText,
	}
	for i := range a.scratch {
		a.scratch[i].Scratch = tensor.NewScratch(d.Heads/d.KVHeads, e.width(), e.page(), a.scores[i*n:][:n])
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
	// longText is how many positions are so many that sharing them among workers pays.
	longText = 512
	// sharedBytes of keys are what a worker takes at once, or less: there are some parts for each.
	sharedBytes, sharedParts = 256 << 10, 4
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
	if n := len(p.tokens); n*d.Heads <= len(a.totals) && items == n*d.KVHeads {
		longest := 0
		for t := range p.tokens {
			longest = max(longest, e.sees(t, layer).Len())
		}
		if longest >= a.long {
			e.attendShared(layer)
			return
		}
	}
	a.attend = attendTask{e, layer}
	e.run(items, 1, &a.attend)
}

// attendShared is attend for few tokens, of different sequences, behind long texts. Keys are shared page by page, with all
// heads of a page in the order of memory; values by columns, with as many as are next to each other for each worker.
func (e *Engine) attendShared(layer int) {
	a, n, d, rows := &e.pass.attention, len(e.pass.tokens), e.desc, e.page()
	pages, seen := 0, tensor.Range{From: e.opt.Context}
	for t := range n {
		r := e.sees(t, layer)
		r = tensor.Range{From: r.From / rows, To: (r.To-1)/rows + 1}
		pages, seen = max(pages, r.Len()), tensor.Range{From: min(seen.From, r.From), To: max(seen.To, r.To)}
	}
	a.score = scoreTask{e, layer, pages}
	items := n * d.KVHeads * pages
	e.run(items, max(1, min(sharedBytes/pageBytes, items/(sharedParts*len(a.scratch)))), &a.score)
	a.weigh = weighTask{e, layer}
	e.run(n*d.Heads, 1, &a.weigh)
	columns := min(tensor.ValueColumns, e.width())
	parts := func() int { return (e.width() + columns - 1) / columns }
	for columns > tensor.Lanes && n*d.KVHeads*parts() < sharedParts*len(a.scratch) && n*d.KVHeads*parts()%len(a.scratch) != 0 {
		columns = max(tensor.Lanes, columns/2&^(tensor.Lanes-1))
	}
	a.value = valueTask{e, layer, parts(), columns, seen}
	items = n * d.KVHeads * parts()
	e.run(items, (items+len(a.scratch)-1)/len(a.scratch), &a.value)
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
		p.attention.Heads(s.queries[:g.n], d.Heads/d.KVHeads, d.HeadDim, &cache.keys[kv], &cache.values[kv], s.Scratch)
	}
}

// scoreTask computes scores; item i is key/value head i mod KVHeads, page i / KVHeads mod pages of what it sees, and token
// i / KVHeads / pages.
type scoreTask struct {
	*Engine
	layer, pages int
}

func (k *scoreTask) Do(from, to int) {
	p, d, page := &k.pass, k.desc, k.page()
	s := p.attention.take()
	defer s.taken.Store(false)
	heads := d.Heads / d.KVHeads
	for i := from; i < to; i++ {
		kv, t := i%d.KVHeads, i/d.KVHeads/k.pages
		q := k.query(t, kv, k.layer)
		first := (q.Sees.From/page + i/d.KVHeads%k.pages) * page
		rows := tensor.Range{From: max(first, q.Sees.From), To: min(first+page, q.Sees.To)}
		if rows.Len() > 0 {
			z := p.attention.scores[(t*d.Heads+kv*heads)*k.opt.Context+rows.From-q.Sees.From:]
			p.attention.Scores(z, k.opt.Context, q.Q, heads, &p.tokens[t].seq.kv[k.layer].keys[kv], rows, s.Scratch)
		}
	}
}

// weighTask turns scores into weights; item i is head i mod Heads of token i / Heads.
type weighTask struct {
	*Engine
	layer int
}

func (k *weighTask) Do(from, to int) {
	p, d := &k.pass, k.desc
	a := &p.attention
	for i := from; i < to; i++ {
		t, sees := i/d.Heads, k.sees(i/d.Heads, k.layer)
		values := &p.tokens[t].seq.kv[k.layer].values[i%d.Heads/(d.Heads/d.KVHeads)]
		a.totals[i] = a.Weights(a.scores[i*k.opt.Context:][:sees.Len()], values, sees)
	}
}

// valueTask adds the weighted values up; item i is part i mod parts of the columns of head i / parts mod KVHeads, token
// i / parts / KVHeads.
type valueTask struct {
	*Engine
	layer, parts, columns int
	pages                 tensor.Range // that some token sees
}

// item is the token, the first query head of the pass, its values and columns of an item.
func (k *valueTask) item(i int) (t, head int, values *tensor.Cache, cols tensor.Range) {
	d, at := k.desc, i%k.parts*k.columns
	t, kv := i/k.parts/d.KVHeads, i/k.parts%d.KVHeads
	cols = tensor.Range{From: at, To: min(at+k.columns, k.width())}
	return t, i / k.parts * (d.Heads / d.KVHeads), &k.pass.tokens[t].seq.kv[k.layer].values[kv], cols
}

// Do visits all its items in one page before the next page: they are next to each other there.
func (k *valueTask) Do(from, to int) {
	p, d, a, page := &k.pass, k.desc, &k.pass.attention, k.page()
	s := a.take()
	defer s.taken.Store(false)
	heads, ldz, width := d.Heads/d.KVHeads, k.opt.Context, k.width()
	for i := from; i < to; i++ {
		_, head, _, cols := k.item(i)
		for h := range heads {
			clear(a.sums[(head+h)*width:][cols.From:cols.To])
		}
	}
	for at := k.pages.From * page; at < k.pages.To*page; at += page {
		for i := from; i < to; i++ {
			t, head, values, cols := k.item(i)
			sees := k.sees(t, k.layer)
			rows := tensor.Range{From: max(at, sees.From), To: min(at+page, sees.To)}
			if rows.Len() > 0 {
				a.Weigh(a.sums[head*width+cols.From:], width, a.scores[head*ldz+rows.From-sees.From:], ldz, heads, values, rows, cols, s.Scratch)
			}
		}
	}
	for i := from; i < to; i++ {
		_, head, _, cols := k.item(i)
		for h := head; h < head+heads; h++ {
			if end := min(cols.To, d.HeadDim); cols.From < end { // the rest is padding
				tensor.Divide(p.o[h*d.HeadDim:][cols.From:end], a.sums[h*width+cols.From:], a.totals[h])
			}
		}
	}
}
