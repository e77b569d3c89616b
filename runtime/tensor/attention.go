package tensor

// Attention is the part of attention that all heads share (N18).
type Attention struct {
	Scale float32 // of the scores
	Cap   float32 // soft cap of the scores; 0 = none
}

// Query is a token with the query heads that share one key/value head.
type Query struct {
	Q    []float32 // [heads][Width], zeros as padding
	Dst  []float32 // [heads][dim]: receives the attention
	Sees Range     // visible positions, at least one
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
	sums    []int32   // [CacheBlock]
}

// NewScratch makes scratch memory for heads query heads that share a key/value head of the given width. scores has room
// for MostQueries · heads times the positions that are visible at most.
func NewScratch(heads, width int, scores []float32) *Scratch {
	n := MostQueries * heads
	return &Scratch{
		visible: len(scores) / n, queries: make([]float32, n*width), scores: scores, out: make([]float32, n*width),
		totals: make([]float32, n), codes: make([]int8, n*width), steps: make([]float32, n), sums: make([]int32, CacheBlock),
	}
}

// Heads computes the attention of at most MostQueries tokens to one key/value head. All query heads of all tokens meet a
// block of keys at once, and so do their weights and a block of values, where all tokens see the whole of it.
func (a Attention) Heads(queries []Query, heads, dim int, keys, values Cache, s *Scratch) {
	ldz, width, n := s.visible, values.Width(), len(queries)*heads
	all, common := queries[0].Sees, queries[0].Sees
	for i, q := range queries {
		all = Range{min(all.From, q.Sees.From), max(all.To, q.Sees.To)}
		common = common.and(q.Sees)
		copy(s.queries[i*heads*width:], q.Q)
	}
	keys.Prepare(s.queries, n, s)
	for rows := range all.blocks { // scores of what a token does not see are of no use, and do no harm
		keys.Scores(s.scores[rows.From-all.From:], ldz, s.queries, n, rows, s)
	}
	weights := func(i int, rows Range) []float32 { return s.scores[i*heads*ldz+rows.From-all.From:] }
	for i, q := range queries {
		z := weights(i, q.Sees)
		for h := range heads {
			s.totals[i*heads+h] = a.Weights(z[h*ldz:][:q.Sees.Len()])
		}
	}
	out := s.out[:n*width]
	clear(out)
	for rows := range all.blocks {
		if rows.and(common) == rows {
			values.Weigh(out, width, weights(0, rows), ldz, n, rows, Range{0, width})
			continue
		}
		for i, q := range queries {
			if r := rows.and(q.Sees); r.Len() > 0 {
				values.Weigh(out[i*heads*width:], width, weights(i, r), ldz, heads, r, Range{0, width})
			}
		}
	}
	for i, q := range queries {
		for h := range heads {
			Divide(q.Dst[h*dim:][:dim], out[(i*heads+h)*width:], s.totals[i*heads+h])
		}
	}
}

// The steps of Heads for one token, for who shares the work on a long text among many: Scores some rows at a time, then
// Weights, then Values some columns at a time. Their results are those of Heads.

// Scores sets z[h·ldz + j] to the product of query head h with row rows.From+j of the keys.
func (a Attention) Scores(z []float32, ldz int, q []float32, heads int, keys Cache, rows Range, s *Scratch) {
	keys.Prepare(q, heads, s)
	for r := range rows.blocks {
		keys.Scores(z[r.From-rows.From:], ldz, q, heads, r, s)
	}
}

// Weights turns the scores of one head into weights and returns their sum.
func (a Attention) Weights(z []float32) (sum float32) {
	Times(z, a.Scale)
	if a.Cap != 0 {
		SoftCaps(z, a.Cap)
	}
	return Softmax(z)
}

// Values sets columns of dst[h·dim + i] to the sums of the rows of values, weighted by z[h·ldz + j] and divided by
// totals[h]. Columns from dim on, which are padding, are left out.
func (a Attention) Values(dst []float32, dim int, z []float32, ldz int, totals []float32, values Cache, rows, cols Range, s *Scratch) {
	n, heads := cols.Len(), len(totals)
	out := s.out[:heads*n]
	clear(out)
	for r := range rows.blocks {
		values.Weigh(out, n, z[r.From-rows.From:], ldz, heads, r, cols)
	}
	for h, total := range totals {
		if end := min(cols.To, dim); cols.From < end {
			Divide(dst[h*dim+cols.From:h*dim+end], out[h*n:], total)
		}
	}
}

// Range is the rows or columns From … To−1.
type Range struct{ From, To int }

// Len is their number.
func (r Range) Len() int { return r.To - r.From }

func (r Range) and(other Range) Range { return Range{max(r.From, other.From), min(r.To, other.To)} }

// blocks cuts rows of a cache into blocks that fit a first-level cache.
func (r Range) blocks(yield func(Range) bool) {
	for from := r.From; from < r.To; from += CacheBlock {
		if !yield(Range{from, min(from+CacheBlock, r.To)}) {
			return
		}
	}
}
