package tensor

import "math"

// Attention is the part of attention that all heads share (N18).
type Attention struct {
	Scale float32 // of the scores
	Cap   float32 // soft cap of the scores; 0 = none
}

// Query is a token with the query heads that share one key/value head.
type Query struct {
	Q    []float32 // [heads][Width], zeros as padding
	Dst  []float32 // [heads][dim]: receives the attention
	Span Range     // visible positions, at least one

	Sinks []float32 // [heads]: a score of each for no position; nil = none
}

// sink of a head; −Inf is none.
func (q *Query) sink(head int) float32 {
	if q.Sinks == nil {
		return float32(math.Inf(-1))
	}
	return q.Sinks[head]
}

// MostQueries is the number of tokens whose attention Heads computes at once: while a block of the cache is in the
// first-level cache of the processor, all of them visit it.
const MostQueries = 4

// Scratch is memory for the attention of MostQueries tokens at a time.
type Scratch struct {
	visible int
	queries []float32 // [MostQueries · heads][width]
	scores  []float32 // [MostQueries · heads][visible]
	out     []float32 // [MostQueries · heads][width]
	totals  []float32 // [MostQueries · heads]
	codes   []int8    // [MostQueries · heads][width]
	steps   []float32 // [MostQueries · heads]
	sums    []int32   // [MostQueries · heads][rows of a block or stretch]
	wide    []float32 // [CacheBlock][width]
}

// NewScratch makes scratch memory for heads query heads that share a key/value head of the given width. scores has room
// for MostQueries · heads times the positions that are visible at most; page is the rows of a page of the cache.
func NewScratch(heads, width, page int, scores []float32) *Scratch {
	n := MostQueries * heads
	return &Scratch{
		visible: len(scores) / n, queries: make([]float32, n*width), scores: scores, out: make([]float32, n*width),
		totals: make([]float32, n), codes: make([]int8, n*width), steps: make([]float32, n),
		sums: make([]int32, max(n*CacheBlock, heads*page)), wide: make([]float32, CacheBlock*width),
	}
}

// Heads computes the attention of at most MostQueries tokens to one key/value head. All query heads of all tokens meet a
// block of keys at once, and so do their weights and a block of values, where all tokens see the whole of it.
func (a Attention) Heads(queries []Query, heads, dim int, keys, values *Cache, s *Scratch) {
	ldz, width, n := s.visible, values.Width(), len(queries)*heads
	if len(queries) == 1 {
		q := queries[0]
		a.Scores(s.scores, ldz, q.Q, heads, keys, q.Span, s)
		for h := range heads {
			s.totals[h] = a.Weights(s.scores[h*ldz:][:q.Span.Len()], values, q.Span, q.sink(h))
		}
		clear(s.out[:heads*width])
		a.Weigh(s.out, width, s.scores, ldz, heads, values, q.Span, Range{0, width}, s)
		for h := range heads {
			Divide(q.Dst[h*dim:][:dim], s.out[h*width:], s.totals[h])
		}
		return
	}
	all, common := queries[0].Span, queries[0].Span
	for i, q := range queries {
		all = Range{min(all.From, q.Span.From), max(all.To, q.Span.To)}
		common = common.and(q.Span)
		copy(s.queries[i*heads*width:], q.Q)
	}
	keys.prepare(s.queries, n, s)
	for rows := range all.blocks(CacheBlock) { // scores of what a token does not see are of no use, and do no harm
		keys.scores(s.scores[rows.From-all.From:], ldz, s.queries, n, rows, 0, s)
	}
	weights := func(i int, rows Range) []float32 { return s.scores[i*heads*ldz+rows.From-all.From:] }
	for i, q := range queries {
		z := weights(i, q.Span)
		for h := range heads {
			s.totals[i*heads+h] = a.Weights(z[h*ldz:][:q.Span.Len()], values, q.Span, q.sink(h))
		}
	}
	out := s.out[:n*width]
	clear(out)
	for rows := range all.blocks(CacheBlock) {
		if rows.and(common) == rows {
			values.weigh(out, width, weights(0, rows), ldz, n, rows, Range{0, width}, 0, s)
			continue
		}
		for i, q := range queries {
			if r := rows.and(q.Span); r.Len() > 0 {
				values.weigh(out[i*heads*width:], width, weights(i, r), ldz, heads, r, Range{0, width}, 0, s)
			}
		}
	}
	for i, q := range queries {
		for h := range heads {
			Divide(q.Dst[h*dim:][:dim], out[(i*heads+h)*width:], s.totals[i*heads+h])
		}
	}
}

// The steps of Heads for one token, for who shares the work on a long text among many: Scores of some rows at a time, then
// Weights, then Weigh for some rows and columns at a time, then Divide. They are bound by memory: KV are read
// once, in its order.

// stretch is the first of rows, up to where a page ends or, where n vectors do not go along together, as many as stay in the
// second-level cache for those behind. row is the bytes that are read of a row; ahead is how far ahead to prefetch: near, or,
// by those that find theirs in the cache, the next stretch.
func (c *Cache) stretch(rows Range, n, row, near int) (first Range, ahead int) {
	size := c.Rows
	ahead = near
	if n != together(n) {
		const bytes = 16 << 10
		size = max(1, min(bytes/row, c.Rows)/CacheBlock) * CacheBlock
		ahead = size * row
	}
	at := rows.From % c.Rows
	return Range{rows.From, min(rows.To, rows.From+min(size-at%size, c.Rows-at))}, ahead
}

// ahead is how far ahead to prefetch for so many heads: with more products, or narrower numbers, a line takes more time.
func (c *Cache) ahead(heads int) int {
	if heads < c.typ.Size() {
		return streamAhead
	}
	return farAhead
}

// Scores sets z[h·ldz + j] to the product of query head h with row rows.From+j of the keys.
func (a Attention) Scores(z []float32, ldz int, q []float32, heads int, keys *Cache, rows Range, s *Scratch) {
	keys.prepare(q, heads, s)
	for from := rows.From; rows.Len() > 0; {
		r, ahead := keys.stretch(rows, heads, keys.width*keys.typ.Size(), keys.ahead(heads))
		keys.scores(z[r.From-from:], ldz, q, heads, r, ahead, s)
		rows.From = r.To
	}
}

// Weights turns the scores of one head into weights of these rows of the values and returns their sum, with that of the sink, a
// score for no row; −Inf is none.
func (a Attention) Weights(z []float32, values *Cache, rows Range, sink float32) (sum float32) {
	Times(z, a.Scale)
	if a.Cap != 0 {
		SoftCaps(z, a.Cap)
	}
	sum = SoftmaxBeside(z, sink)
	values.scale(z, rows)
	return sum
}

// Weigh adds columns of the rows of values, weighted by z[h·ldz + j], to o[h·ldo:]. The columns are a multiple of Lanes.
func (a Attention) Weigh(o []float32, ldo int, z []float32, ldz, heads int, values *Cache, rows, cols Range, s *Scratch) {
	near := values.ahead(heads)
	if values.typ == F32 { // four sums of these are still as fast as memory
		near = streamAhead
	}
	for from := rows.From; rows.Len() > 0; {
		r, ahead := values.stretch(rows, heads, values.columns*values.typ.Size(), near)
		values.weigh(o, ldo, z[r.From-from:], ldz, heads, r, cols, ahead, s)
		rows.From = r.To
	}
}

// Range is the rows or columns From … To−1.
type Range struct{ From, To int }

// Len is their number.
func (r Range) Len() int { return r.To - r.From }

func (r Range) and(other Range) Range { return Range{max(r.From, other.From), min(r.To, other.To)} }

// blocks cuts a range at the multiples of n.
func (r Range) blocks(n int) func(yield func(Range) bool) {
	return func(yield func(Range) bool) {
		for from := r.From; from < r.To; {
			to := min(from-from%n+n, r.To)
			if !yield(Range{from, to}) {
				return
			}
			from = to
		}
	}
}
