package engine

import "github.com/lowpack/lowpack/internal/tensor"

const (
	// longText is the context length from which sharing the positions among workers pays.
	longText = 512
	// sharedBytes is the maximum size of the keys that a worker takes at once, and sharedParts the number of parts per
	// worker to aim for.
	sharedBytes, sharedParts = 256 << 10, 4
)

// isLong reports whether the pass has few tokens, of different sequences, and long contexts: there would be too few
// whole heads for the workers, and each would take too long.
func (l *attentionLayer) isLong() bool {
	n := len(l.tokens)
	if l.isShort() || n*l.heads > len(l.totals) || len(l.groups) != n {
		return false
	}
	longest := 0
	for t := range n {
		longest = max(longest, l.span(t).Len())
	}
	return longest >= l.long
}

// decode computes attention in three steps. Keys are divided by page, with all heads of a page in memory order; values
// by columns, as many adjacent ones per worker as possible.
func (l *attentionLayer) decode() {
	n, workers := len(l.tokens), len(l.scratch)
	pages, some := l.pages()
	l.scoreTask = scoreTask{*l, pages}
	items, page := n*l.kvHeads*pages, l.keys(0, 0).PageBytes()
	distribute(l.pool, items, max(1, min(sharedBytes/page, items/(sharedParts*workers))), &l.scoreTask)
	l.weighTask = weighTask{*l}
	distribute(l.pool, n*l.heads, 1, &l.weighTask)
	columns, parts := l.columns()
	l.valueTask = valueTask{*l, parts, columns, some}
	items = n * l.kvHeads * parts
	distribute(l.pool, items, (items+workers-1)/workers, &l.valueTask)
}

// pages returns the largest number of pages of a span, and the range of pages that lie in some span.
func (l *attentionLayer) pages() (most int, some tensor.Range) {
	some.From = l.context
	for t := range l.tokens {
		r := l.span(t)
		r = tensor.Range{From: r.From / l.page, To: (r.To-1)/l.page + 1}
		most, some = max(most, r.Len()), tensor.Range{From: min(some.From, r.From), To: max(some.To, r.To)}
	}
	return most, some
}

// columns returns the number of columns of the values per item, and the number of such parts per head: all workers get
// about the same number of items.
func (l *attentionLayer) columns() (columns, parts int) {
	n, workers := len(l.tokens)*l.kvHeads, len(l.scratch)
	columns = min(tensor.ValueColumns, l.width)
	for {
		parts = (l.width + columns - 1) / columns
		if columns <= tensor.Lanes || n*parts >= sharedParts*workers || n*parts%workers == 0 {
			return columns, parts
		}
		columns = max(tensor.Lanes, columns/2&^(tensor.Lanes-1))
	}
}

// scoreTask computes scores; item i is key/value head i mod KVHeads, page i / KVHeads mod pages of its span, and token
// i / KVHeads / pages.
type scoreTask struct {
	attentionLayer
	pages int
}

func (k *scoreTask) Do(from, to int) {
	s := k.take()
	defer s.taken.Store(false)
	for i := from; i < to; i++ {
		kv, t := i%k.kvHeads, i/k.kvHeads/k.pages
		span := k.span(t)
		first := (span.From/k.page + i/k.kvHeads%k.pages) * k.page
		rows := tensor.Range{From: max(first, span.From), To: min(first+k.page, span.To)}
		if rows.Len() > 0 {
			z := tensor.Vectors{Data: k.scores[(t*k.heads+kv*k.perKV())*k.context+rows.From-span.From:],
				Stride: k.context}
			k.keys(t, kv).Scores(z, k.queries(t, 1, kv), k.perKV(), rows, s.Scratch)
		}
	}
}

// weighTask turns scores into weights; item i is head i mod Heads of token i / Heads.
type weighTask struct{ attentionLayer }

func (k *weighTask) Do(from, to int) {
	for i := from; i < to; i++ {
		t, head := i/k.heads, i%k.heads
		span := k.span(t)
		k.totals[i] = k.Weights(k.scores[i*k.context:][:span.Len()], k.values(t, head/k.perKV()), span,
			tensor.HeadOf(k.sinks, k.slopes, head))
	}
}

// valueTask sums the weighted values; item i is part i mod parts of the columns of head i / parts mod KVHeads, token i
// / parts / KVHeads.
type valueTask struct {
	attentionLayer
	parts, columns int
	pages          tensor.Range // that lie in some span
}

// item returns the token of an item, its first query head in the pass, its values and its columns.
func (k *valueTask) item(i int) (t, head int, values *tensor.Cache, cols tensor.Range) {
	at := i % k.parts * k.columns
	t, kv := i/k.parts/k.kvHeads, i/k.parts%k.kvHeads
	cols = tensor.Range{From: at, To: min(at+k.columns, k.width)}
	return t, i / k.parts * k.perKV(), k.values(t, kv), cols
}

// Do visits all its items in one page before the next page: they are adjacent there.
func (k *valueTask) Do(from, to int) {
	s := k.take()
	defer s.taken.Store(false)
	for i := from; i < to; i++ {
		_, head, _, cols := k.item(i)
		for h := head; h < head+k.perKV(); h++ {
			clear(k.sums[h*k.width:][cols.From:cols.To])
		}
	}
	for at := k.pages.From * k.page; at < k.pages.To*k.page; at += k.page {
		for i := from; i < to; i++ {
			k.add(i, at, s)
		}
	}
	for i := from; i < to; i++ {
		k.finish(i)
	}
}

// add adds the weighted values of an item in the page that starts at position at.
func (k *valueTask) add(i, at int, s *scratch) {
	t, head, values, cols := k.item(i)
	span := k.span(t)
	rows := tensor.Range{From: max(at, span.From), To: min(at+k.page, span.To)}
	if rows.Len() > 0 {
		z := tensor.Vectors{Data: k.scores[head*k.context+rows.From-span.From:], Stride: k.context}
		sums := tensor.Vectors{Data: k.sums[head*k.width+cols.From:], Stride: k.width}
		values.AddWeighted(sums, z, k.perKV(), rows, cols, s.Scratch)
	}
}

// finish divides the sums of an item by the sums of its weights.
func (k *valueTask) finish(i int) {
	_, head, _, cols := k.item(i)
	if end := min(cols.To, k.dim); cols.From < end { // the rest is padding
		for h := head; h < head+k.perKV(); h++ {
			tensor.Divide(k.o[h*k.dim:][cols.From:end], k.sums[h*k.width+cols.From:], k.totals[h])
		}
	}
}
