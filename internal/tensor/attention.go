package tensor

import "math"

// Attention is how scores become weights, the same for all heads of a layer (N18).
type Attention struct {
	Scale float32 // of the scores
	Cap   float32 // soft cap of the scores; 0 = none
}

// Query is one token's query heads that share a KV head, without the queries themselves.
type Query struct {
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

// Queries that Heads computes at once: all of them visit a block of the cache while it is in the first-level cache of
// the processor, and the more there are, the less it costs to transpose it. LeastTokens tokens always are.
const (
	MostQueries = 128
	LeastTokens = 4
	MostTokens  = CacheBlock
)

// TokensOf is the number of tokens with these query heads per KV head that Heads computes at once, a power of two.
func TokensOf(heads int) int {
	n := MostTokens
	for n > LeastTokens && n*heads > MostQueries {
		n /= 2
	}
	return n
}

// ScoreSpace is the number of scores that Heads needs for queries with an attention span of at most visible positions
// in all: whole blocks of keys, and the lanes behind them.
func ScoreSpace(queries, visible int) int { return queries * (visible + 2*CacheBlock + Lanes) }

// Scratch is memory for the attention of TokensOf tokens.
type Scratch struct {
	scores []float32 // [tokens · heads][stride of a call]
	out    []float32 // [tokens · heads][width]
	totals []float32 // [tokens · heads]
	codes  []int8    // [tokens · heads][width]: the queries as int8
	scales []float32 // [tokens · heads]: their scales
	sums   []int32   // [tokens · heads][rows of a block or stretch]
	wide   []float32 // rows of a block, or rows of a panel of values, as floats
	// unpacked is rows of I4 as int8: of a stretch, or of a block.
	unpacked []byte
	keys     []float32 // [width][CacheBlock]: a block of keys, transposed
	partial  []float32 // [partialSums]
}

// NewScratch makes scratch memory for the query heads of a KV head of the given width. scores has ScoreSpace elements;
// page is the number of rows of a page of the cache.
func NewScratch(heads, width, page int, scores []float32) *Scratch {
	n := TokensOf(heads) * heads
	return &Scratch{
		scores: scores, out: make([]float32, n*width), totals: make([]float32, n), codes: make([]int8, n*width),
		scales: make([]float32, n), sums: make([]int32, max(n*CacheBlock, heads*page)),
		wide: make([]float32, max(CacheBlock*width, valueRows*ValueColumns)), keys: make([]float32, width*CacheBlock),
		partial:  make([]float32, partialSums),
		unpacked: make([]byte, max(stretchBytes, CacheBlock*width)),
	}
}

// Queries are tokens that attend together.
type Queries struct {
	Q      []float32 // [tokens · heads][Width], padded with zeros
	Tokens []Query
}

// Heads computes the attention of at most TokensOf(heads) tokens to one KV head. All query heads of all tokens visit a
// block of keys together, and then a block of values, if it is in the attention span of all tokens.
func (a Attention) Heads(queries Queries, heads, dim int, keys, values *Cache, s *Scratch) {
	q, tokens := queries.Q, queries.Tokens
	g := newGroup(tokens, heads, s)
	out := Vectors{s.out, values.Width()}
	clear(s.out[:g.n*out.Stride])
	scaled := 0
	if len(tokens) == 1 {
		keys.Scores(g.scores(0), q, heads, tokens[0].Span, s)
	} else {
		scaled = a.shared(&g, q, keys, s)
	}
	for i := range tokens {
		for h := range heads {
			at, t := i*heads+h, &tokens[i]
			z := g.scores(at).at(t.Span.From - g.from).Data
			if at >= scaled {
				Times(z[:t.Span.Len()], a.Scale)
			}
			s.totals[at] = a.weights(z[:Padded(t.Span.Len())], values, t.Span, HeadOf(t.Sinks, t.Slopes, h))
		}
	}
	if len(tokens) == 1 {
		values.AddWeighted(out, g.scores(0), heads, tokens[0].Span, Range{0, out.Stride}, s)
	} else {
		g.addWeighted(out, values)
	}
	for i := range tokens {
		tokens[i].divide(out.from(i*heads), dim, s.totals[i*heads:][:heads])
	}
}

// group is the tokens of a call of Heads.
type group struct {
	tokens      []Query
	heads, n    int   // per token; in all
	all, common Range // positions that some tokens attend to, and that all do
	from        int   // position of the first score of a row
	stride      int   // of rows of scores
	*Scratch
}

func newGroup(tokens []Query, heads int, s *Scratch) group {
	g := group{tokens: tokens, heads: heads, n: len(tokens) * heads, all: tokens[0].Span, common: tokens[0].Span,
		Scratch: s}
	for _, q := range tokens[1:] {
		g.all = Range{min(g.all.From, q.Span.From), max(g.all.To, q.Span.To)}
		g.common = g.common.and(q.Span)
	}
	g.from = g.all.From
	if len(tokens) > 1 {
		g.from -= g.from % CacheBlock
	}
	g.stride = (g.all.To-g.from+CacheBlock-1)/CacheBlock*CacheBlock + Lanes
	return g
}

// scores are the scores of queries from the first one on.
func (g *group) scores(first int) Vectors { return Vectors{g.Scratch.scores, g.stride}.from(first) }

// shared computes the scores of several tokens, block by block. It returns how many queries, from the first one on,
// have scores that are scaled.
func (a Attention) shared(g *group, q []float32, keys *Cache, s *Scratch) (scaled int) {
	if !keys.typ.coded() && g.n >= transposedQueries {
		scaled = g.n / scoreTile * scoreTile
	}
	keys.quantizeQueries(q, g.n, s)
	for rows := range (Range{g.from, g.all.To}).blocks(CacheBlock) { // scores outside of a token's span are ignored
		z := g.scores(0).at(rows.From - g.from)
		if scaled > 0 {
			keys.scaledScores(z, q, g.seeing(rows, scaled), rows.From, a.Scale, s)
		}
		if scaled < g.n {
			keys.pageScores(z.from(scaled), q[scaled*keys.width:], g.n-scaled, rows, 0, s)
		}
	}
	return scaled
}

// seeing is the queries, of the first n, that tokens between the first and the last have which attend to some of these
// positions: whole calls of scores.
func (g *group) seeing(rows Range, n int) (queries Range) {
	first, last := 0, len(g.tokens)-1
	for first < last && g.tokens[first].Span.and(rows).Len() <= 0 {
		first++
	}
	for last > first && g.tokens[last].Span.and(rows).Len() <= 0 {
		last--
	}
	return Range{first * g.heads / scoreTile * scoreTile, min(n, (last+1)*g.heads+scoreTile-1) / scoreTile * scoreTile}
}

// addWeighted adds the weighted values to the outputs, block by block: positions that all tokens attend to together,
// those before and after them one token at a time.
func (g *group) addWeighted(out Vectors, values *Cache) {
	for rows := range g.all.blocks(values.valueBlock()) {
		together := rows.and(g.common)
		if together.Len() <= 0 {
			together = Range{rows.To, rows.To}
		}
		g.addEach(out, values, Range{rows.From, together.From})
		if together.Len() > 0 {
			z := g.scores(0).at(together.From - g.from)
			values.pageAddWeighted(out, z, g.n, area{together, Range{0, out.Stride}, 0}, g.Scratch)
		}
		g.addEach(out, values, Range{together.To, rows.To})
	}
}

// addEach adds the weighted values of positions that not all tokens attend to.
func (g *group) addEach(out Vectors, values *Cache, rows Range) {
	for i, t := range g.tokens {
		if r := rows.and(t.Span); r.Len() > 0 {
			z := g.scores(i * g.heads).at(r.From - g.from)
			values.pageAddWeighted(out.from(i*g.heads), z, g.heads, area{r, Range{0, out.Stride}, 0}, g.Scratch)
		}
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
// the next stretch, where later calls find theirs in the cache. Rows of I4 are unpacked for the calls, so that what the
// caches hold is int8. A row has the given number of columns.
func (c *Cache) stretch(rows Range, n, cols, near int) (first Range, ahead int) {
	size, row := c.Rows, c.typ.bytes(cols)
	ahead = near
	if n != together(n) || c.typ == I4 {
		size = max(1, min(stretchBytes/max(row, cols), c.Rows)/CacheBlock) * CacheBlock
		ahead = size * row
	}
	at := rows.From % c.Rows
	return Range{rows.From, min(rows.To, rows.From+min(size-at%size, c.Rows-at))}, ahead
}

// stretchBytes is the size of a stretch of rows.
const stretchBytes = 16 << 10

// ahead is the prefetch distance for rows and the given number of heads: more products per line, or narrower numbers,
// take more time. Beyond so few rows that they end before a far line it would bring in what nobody reads.
func (c *Cache) ahead(heads int, rows Range) int {
	if heads < c.typ.Size() || rows.Len()*c.typ.bytes(c.panel) <= farAhead {
		return streamAhead
	}
	return farAhead
}

// Scores sets element j of z's vector h to the dot product of query head h and row rows.From+j of the keys.
func (c *Cache) Scores(z Vectors, q []float32, heads int, rows Range, s *Scratch) {
	c.quantizeQueries(q, heads, s)
	near := c.ahead(heads, rows)
	for from := rows.From; rows.Len() > 0; {
		r, ahead := c.stretch(rows, heads, c.width, near)
		c.pageScores(z.at(r.From-from), q, heads, r, ahead, s)
		rows.From = r.To
	}
}

// Weights turns the scores of one head into weights of these rows of the values. It returns the sum of the weights,
// with the weight of the sink, a score that belongs to no row.
func (a Attention) Weights(z []float32, values *Cache, rows Range, head Head) (sum float32) {
	c := a.Scale
	if a.Cap != 0 || head.Slope != 0 {
		Times(z, c)
		a.bias(z, rows, head)
		c = 1
	}
	sum = softmax(z, c, head.Sink)
	values.applyScales(z, rows)
	return sum
}

// weights is Weights of scores that are scaled. z has whole lanes: what is beyond the rows is overwritten.
func (a Attention) weights(z []float32, values *Cache, rows Range, head Head) (sum float32) {
	n := rows.Len()
	a.bias(z[:n], rows, head)
	for i := n; i < len(z); i++ {
		z[i] = float32(math.Inf(-1)) // which adds e^−∞ = +0 to a lane
	}
	sum = softmax(z, 1, head.Sink)
	values.applyScales(z[:n], rows)
	return sum
}

// bias limits scaled scores, and adds what grows with the positions.
func (a Attention) bias(z []float32, rows Range, head Head) {
	if a.Cap != 0 {
		SoftCaps(z, a.Cap)
	}
	if head.Slope != 0 {
		for j := range z {
			z[j] += float32(head.Slope * float32(rows.From+j))
		}
	}
}

// AddWeighted adds Σ x[h·stride + j] · row(rows.From+j), of the given columns, to vector h of y, for the heads of one
// KV head. The number of columns is a multiple of Lanes.
func (c *Cache) AddWeighted(y, x Vectors, heads int, rows, cols Range, s *Scratch) {
	near := c.ahead(heads, rows)
	if c.typ == F32 { // four weighted sums of F32 still run at memory bandwidth
		near = streamAhead
	}
	for from := rows.From; rows.Len() > 0; {
		r, ahead := c.stretch(rows, heads, c.panel, near)
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
