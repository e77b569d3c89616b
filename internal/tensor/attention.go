package tensor

import "math"

// Attention is how scores become weights, the same for all heads of a layer (N18).
type Attention struct {
	Scale float32 // of the scores
	Cap   float32 // soft cap of the scores; 0 = none
}

// Query is one token's query heads that share a KV head.
type Query struct {
	Q    []float32 // [heads][Width], padded with zeros
	Dst  []float32 // [heads][dim]: receives the attention
	Span Range     // attention span: at least one position

	Sinks  []float32 // [heads]: attention sinks, a score that belongs to no position; nil = none
	Slopes []float32 // [heads]: ALiBi, what the scores grow by from one position to the next; nil = none
}

// Head is what the scores of a head have besides products.
type Head struct {
	Sink  float32 // −Inf is none
	Slope float32 // 0 = none
}

// HeadOf returns those of a head, given the sinks and slopes of all; nil = none.
func HeadOf(sinks, slopes []float32, head int) Head {
	h := Head{Sink: float32(math.Inf(-1))}
	if sinks != nil {
		h.Sink = sinks[head]
	}
	if slopes != nil {
		h.Slope = slopes[head]
	}
	return h
}

// MostQueries is the number of tokens whose attention Heads computes at once: all of them visit a block of the cache
// while it is in the first-level cache of the processor.
const MostQueries = 4

// Scratch is memory for the attention of MostQueries tokens.
type Scratch struct {
	visible int
	queries []float32 // [MostQueries · heads][width]
	scores  []float32 // [MostQueries · heads][visible]
	out     []float32 // [MostQueries · heads][width]
	totals  []float32 // [MostQueries · heads]
	codes   []int8    // [MostQueries · heads][width]: the queries as int8
	scales  []float32 // [MostQueries · heads]: their scales
	sums    []int32   // [MostQueries · heads][rows of a block or stretch]
	wide    []float32 // [CacheBlock][width]
}

// NewScratch makes scratch memory for the query heads of a KV head of the given width. scores has MostQueries · heads
// rows, each as long as the longest attention span; page is the number of rows of a page of the cache.
func NewScratch(heads, width, page int, scores []float32) *Scratch {
	n := MostQueries * heads
	return &Scratch{
		visible: len(scores) / n, queries: make([]float32, n*width), scores: scores, out: make([]float32, n*width),
		totals: make([]float32, n), codes: make([]int8, n*width), scales: make([]float32, n),
		sums: make([]int32, max(n*CacheBlock, heads*page)), wide: make([]float32, CacheBlock*width),
	}
}

// Heads computes the attention of at most MostQueries tokens to one KV head. All query heads of all tokens visit a
// block of keys together, and then a block of values, if it is in the attention span of all tokens.
func (a Attention) Heads(queries []Query, heads, dim int, keys, values *Cache, s *Scratch) {
	scores, out := Vectors{s.scores, s.visible}, Vectors{s.out, values.Width()}
	clear(s.out[:len(queries)*heads*out.Stride])
	if len(queries) == 1 {
		q := &queries[0]
		keys.Scores(scores, q.Q, heads, q.Span, s)
		a.weights(q, scores, s.totals[:heads], values)
		values.AddWeighted(out, scores, heads, q.Span, Range{0, out.Stride}, s)
	} else {
		a.shared(queries, heads, keys, values, s)
	}
	for i := range queries {
		queries[i].divide(out.from(i*heads), dim, s.totals[i*heads:][:heads])
	}
}

// shared computes s.out and s.totals of several tokens, block by block.
func (a Attention) shared(queries []Query, heads int, keys, values *Cache, s *Scratch) {
	scores, out := Vectors{s.scores, s.visible}, Vectors{s.out, values.Width()}
	n, cols := len(queries)*heads, Range{0, out.Stride}
	all, common := queries[0].Span, queries[0].Span
	for i, q := range queries {
		all = Range{min(all.From, q.Span.From), max(all.To, q.Span.To)}
		common = common.and(q.Span)
		copy(s.queries[i*heads*out.Stride:], q.Q)
	}
	keys.quantizeQueries(s.queries, n, s)
	for rows := range all.blocks(CacheBlock) { // scores outside of a token's span are computed and ignored
		keys.pageScores(scores.at(rows.From-all.From), s.queries, n, rows, 0, s)
	}
	for i := range queries {
		q := &queries[i]
		a.weights(q, scores.from(i*heads).at(q.Span.From-all.From), s.totals[i*heads:][:heads], values)
	}
	for rows := range all.blocks(CacheBlock) {
		if rows.and(common) == rows {
			values.pageAddWeighted(out, scores.at(rows.From-all.From), n, area{rows, cols, 0}, s)
			continue
		}
		for i, q := range queries {
			if r := rows.and(q.Span); r.Len() > 0 {
				z := scores.from(i * heads).at(r.From - all.From)
				values.pageAddWeighted(out.from(i*heads), z, heads, area{r, cols, 0}, s)
			}
		}
	}
}

// weights turns a token's scores into weights, and sets totals to the sum of each head.
func (a Attention) weights(q *Query, z Vectors, totals []float32, values *Cache) {
	for h := range totals {
		totals[h] = a.Weights(z.from(h).Data[:q.Span.Len()], values, q.Span, HeadOf(q.Sinks, q.Slopes, h))
	}
}

// divide sets Dst to the weighted sums over the sums of the weights.
func (q *Query) divide(out Vectors, dim int, totals []float32) {
	for h, total := range totals {
		Divide(q.Dst[h*dim:][:dim], out.from(h).Data, total)
	}
}

// The steps of Heads for one token, for decoding at context depth, where many workers share one text: Scores for some
// rows at a time, then Weights, then AddWeighted for some rows and columns at a time, then Divide. They are bound by
// memory bandwidth: the KV cache is read once, in the order of memory.

// stretch is the first part of rows that one call takes: up to the end of a page, or, if row kernels need more than one
// call for n vectors, what the second-level cache holds for the later calls. ahead is the prefetch distance: near, or
// the next stretch, where later calls find theirs in the cache. row is the size of a row in bytes.
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

// ahead is the prefetch distance for the given number of heads: more products per line, or narrower numbers, take more
// time.
func (c *Cache) ahead(heads int) int {
	if heads < c.typ.Size() {
		return streamAhead
	}
	return farAhead
}

// Scores sets element j of z's vector h to the dot product of query head h and row rows.From+j of the keys.
func (c *Cache) Scores(z Vectors, q []float32, heads int, rows Range, s *Scratch) {
	c.quantizeQueries(q, heads, s)
	for from := rows.From; rows.Len() > 0; {
		r, ahead := c.stretch(rows, heads, c.width*c.typ.Size(), c.ahead(heads))
		c.pageScores(z.at(r.From-from), q, heads, r, ahead, s)
		rows.From = r.To
	}
}

// Weights turns the scores of one head into weights of these rows of the values. It returns the sum of the weights,
// with the weight of the sink, a score that belongs to no row.
func (a Attention) Weights(z []float32, values *Cache, rows Range, head Head) (sum float32) {
	Times(z, a.Scale)
	if a.Cap != 0 {
		SoftCaps(z, a.Cap)
	}
	if head.Slope != 0 {
		for j := range z {
			z[j] += float32(head.Slope * float32(rows.From+j))
		}
	}
	sum = SoftmaxBeside(z, head.Sink)
	values.applyScales(z, rows)
	return sum
}

// AddWeighted adds Σ x[h·stride + j] · row(rows.From+j), of the given columns, to vector h of y, for the heads of one
// KV head. The number of columns is a multiple of Lanes.
func (c *Cache) AddWeighted(y, x Vectors, heads int, rows, cols Range, s *Scratch) {
	near := c.ahead(heads)
	if c.typ == F32 { // four weighted sums of F32 still run at memory bandwidth
		near = streamAhead
	}
	for from := rows.From; rows.Len() > 0; {
		r, ahead := c.stretch(rows, heads, c.panel*c.typ.Size(), near)
		c.pageAddWeighted(y, x.at(r.From-from), heads, area{r, cols, ahead}, s)
		rows.From = r.To
	}
}

// Range is the rows or columns From … To−1.
type Range struct{ From, To int }

// Len is the number of rows or columns.
func (r Range) Len() int { return r.To - r.From }

func (r Range) and(other Range) Range { return Range{max(r.From, other.From), min(r.To, other.To)} }

// blocks splits a range at the multiples of n.
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
