package engine

import (
	"math"
	"sync/atomic"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/kernel"
	ropes "github.com/lowpack/lowpack/internal/rotary"
	"github.com/lowpack/lowpack/internal/tensor"
)

// attention computes the attention of a pass (N18, N27). The work is divided among the workers in one of two ways: by
// tokens and key/value heads, for prefill and short contexts (attention_prefill.go), or, when decoding at a large
// context depth, by pages of keys and then by columns of values (attention_decode.go). Neither splits a sum: every sum
// is computed in the order of N18 for any number of workers.
type attention struct {
	shapes  [2]headShape // of blocks without a window and with one
	pool    *kernel.Pool
	context int // maximum number of positions of a sequence
	page    int // positions per page of the KV cache
	long    int // longText; smaller in tests

	slidingWindow int       // window of local blocks; 0 = none
	chunked       bool      // their spans start at multiples of it
	slopes        []float32 // of the heads, for ALiBi; nil = none
	spread        bool      // keys and values are transformed (N82)
	coded         bool      // keys, values and queries are quantized (N27)

	tokens []token   // of the pass
	groups []group   // of these tokens
	q      []float32 // [KVHeads][n][perKV][width]: queries
	o      []float32 // [n][Heads·HeadDim]: output

	scores  []float32 // [threads][room], and [Heads][Context] at least
	room    int       // scores of a worker
	totals  []float32 // [tokens · Heads]: sums of weights, in decode
	sums    []float32 // [tokens · Heads][width]: of weighted values, in decode
	scratch []scratch // one per worker

	// The tasks, kept here so that submitting one to the pool does not allocate.
	prefillTask prefillTask
	scoreTask   scoreTask
	weighTask   weighTask
	valueTask   valueTask
	gatherTask  gatherTask
}

// headShape is the shape of queries, keys and values of a block, and what scores are multiplied by.
type headShape struct {
	tensor.Attention
	heads, kvHeads int
	dim            int // elements of a head
	width          int // the same, padded as in the KV cache
}

// perKV is the number of query heads that share a key/value head.
func (h headShape) perKV() int { return h.heads / h.kvHeads }

// queryAt is where the query of a head of token t, of n, starts in attention.q.
func (h headShape) queryAt(n, t, head int) int {
	per := h.perKV()
	return ((head/per*n+t)*per + head%per) * h.width
}

// headShapes returns the head shapes of blocks without a window and with one.
func (e *Engine) headShapes() (shapes [2]headShape) {
	for i := range shapes {
		b := model.Block{Local: i == 1}
		s := e.desc.HeadShape(&b)
		width, _ := e.cacheType().Row(s.HeadDim)
		shapes[i] = headShape{attentionOf(e.desc, s.HeadDim), e.desc.Heads, s.KVHeads, s.HeadDim, width}
	}
	return shapes
}

// shape returns the head shape of a block.
func (a *attention) shape(b *block) headShape {
	if !b.local {
		return a.shapes[0]
	}
	return a.shapes[1]
}

// widest returns the largest head and width, and the fewest key/value heads, so that perKV is the largest.
func widest(shapes [2]headShape) headShape {
	most, other := shapes[0], shapes[1]
	most.dim, most.width = max(most.dim, other.dim), max(most.width, other.width)
	most.kvHeads = min(most.kvHeads, other.kvHeads)
	return most
}

// group is a run of consecutive tokens of one sequence in a pass: they read the KV cache together.
type group struct{ first, n int }

// scratch is memory for the attention that one worker computes at a time.
type scratch struct {
	taken   atomic.Bool
	queries [tensor.MostTokens]tensor.Query
	*tensor.Scratch
	_ [64]byte // the next flag belongs to another worker
}

// scoresAtOnce bounds the scores of tokens that attend together, if they are more than need to be: 1 MB, half of a
// second-level cache.
const scoresAtOnce = 1 << 18

// attentionScores is the size of the score buffers, per worker and in total, in elements.
func (e *Engine) attentionScores() (worker, all int) {
	most, context := widest(e.headShapes()), e.opt.Context
	heads := most.perKV()
	worker = max(tensor.ScoreSpace(tensor.LeastTokens*heads, context),
		min(tensor.ScoreSpace(tensor.TokensOf(heads)*heads, context), scoresAtOnce))
	return worker, max(e.opt.Threads*worker, most.heads*context)
}

// newAttention allocates the buffers for attention.
func (e *Engine) newAttention() attention {
	n, all := e.attentionScores()
	h, batch := widest(e.headShapes()), e.opt.Batch
	rows := max(e.opt.Threads*tensor.LeastTokens*h.perKV(), h.heads)
	a := attention{
		shapes:        e.headShapes(),
		pool:          e.pool,
		context:       e.opt.Context,
		page:          e.page(),
		slidingWindow: e.desc.SlidingWindow,
		chunked:       e.desc.Chunked,
		slopes:        ropes.Slopes(&e.desc.Config),
		spread:        e.opt.Cache == CacheI4,
		coded:         tensor.CacheType(e.opt.Cache).Coded(),
		long:          longText,
		groups:        make([]group, 0, batch), q: make([]float32, batch*h.heads*h.width), o: make([]float32,
			batch*h.heads*h.dim),
		scores:  make([]float32, all),
		room:    n,
		totals:  make([]float32, rows),
		sums:    make([]float32, rows*h.width),
		scratch: make([]scratch, e.opt.Threads),
	}
	for i := range a.scratch {
		a.scratch[i].Scratch = tensor.NewScratch(h.perKV(), h.width, a.page, a.scores[i*n:][:n:n])
	}
	return a
}

// attentionOf returns the attention parameters of N18 for heads of a size.
func attentionOf(d *model.Description, size int) tensor.Attention {
	a := tensor.Attention{Scale: d.AttnScale, Cap: d.AttnSoftcap}
	switch {
	case d.Latent != nil:
		a.Scale = ropes.ScoreScale(&d.Config)
	case a.Scale == 0:
		a.Scale = 1 / float32(math.Sqrt(float64(size)))
	}
	return a
}

// begin sets the tokens of a pass and finds their groups. Groups end at multiples of their size: their last positions
// are in the same block of keys.
func (a *attention) begin(tokens []token) {
	a.tokens, a.groups = tokens, a.groups[:0]
	for t := range tokens {
		last := len(a.groups) - 1
		if t > 0 && tokens[t].seq == tokens[t-1].seq && tokens[t].pos%a.together(tokens[t].pos) != 0 {
			a.groups[last].n++
		} else {
			a.groups = append(a.groups, group{t, 1})
		}
	}
}

// groupsPerWorker is the number of groups and key/value heads per worker to aim for.
const groupsPerWorker = 4

// together is the size of a group of tokens at some position: enough groups for all workers, whose scores have room.
func (a *attention) together(pos int) int {
	most, workers := widest(a.shapes), len(a.scratch)
	heads := most.perKV()
	n := tensor.TokensOf(heads)
	for n > tensor.LeastTokens && (len(a.tokens)*most.kvHeads < groupsPerWorker*workers*n ||
		tensor.ScoreSpace(n*heads, pos+n) > a.room) {
		n /= 2
	}
	return n
}

// take returns free scratch memory. There is one per worker, and a worker takes one at a time.
func (a *attention) take() *scratch {
	for {
		for i := range a.scratch {
			if s := &a.scratch[i]; s.taken.CompareAndSwap(false, true) {
				return s
			}
		}
	}
}

// run computes the attention of a layer: o from q and the KV cache.
func (a *attention) run(layer int, b *block) {
	l := attentionLayer{attention: a, headShape: a.shape(b), layer: layer, sinks: b.sinks}
	if b.local {
		l.window = a.slidingWindow
	}
	if l.isLong() {
		l.decode()
	} else {
		l.prefill()
	}
	if a.spread {
		a.gatherTask = gatherTask{l}
		distribute(a.pool, len(a.tokens), 1, &a.gatherTask)
	}
}

// gatherTask makes the outputs of transformed values those of the values; item i is token i.
type gatherTask struct{ attentionLayer }

func (k *gatherTask) Do(from, to int) {
	size := k.heads * k.dim
	for o := k.o[from*size : to*size]; len(o) > 0; o = o[k.dim:] {
		tensor.InverseHadamard(o[:k.dim])
	}
}

// attentionLayer is the attention of a pass in one layer.
type attentionLayer struct {
	*attention
	headShape
	layer  int
	window int       // maximum length of a span; 0 = unlimited
	sinks  []float32 // of the heads; nil = none
}

// span is the positions that token t attends to.
func (l *attentionLayer) span(t int) tensor.Range {
	r := tensor.Range{From: 0, To: l.tokens[t].pos + 1}
	if l.window > 0 {
		r.From = visible(l.tokens[t].pos, l.window, l.chunked)
	}
	return r
}

// visible is the first position that the token at a position attends to in layers with a window, or with chunks of that
// size.
func visible(pos, window int, chunked bool) int {
	if chunked {
		return pos / window * window
	}
	return max(0, pos+1-window)
}

// query describes the queries of token t for a key/value head.
func (l *attentionLayer) query(t, kv int) tensor.Query {
	n, at := l.perKV(), t*l.heads+kv*l.perKV()
	q := tensor.Query{Dst: l.o[at*l.dim:][:n*l.dim], Span: l.span(t)}
	if l.sinks != nil {
		q.Sinks = l.sinks[kv*n:][:n]
	}
	if l.slopes != nil {
		q.Slopes = l.slopes[kv*n:][:n]
	}
	return q
}

// queries are the queries of n tokens from token t on for a key/value head.
func (l *attentionLayer) queries(t, n, kv int) []float32 {
	return l.q[l.queryAt(len(l.tokens), t, kv*l.perKV()):][:n*l.perKV()*l.width]
}

// keys returns the keys of a key/value head in the sequence of token t.
func (l *attentionLayer) keys(t, kv int) *tensor.Cache { return &l.tokens[t].seq.kv[l.layer].keys[kv] }

// values returns the values of a key/value head in the sequence of token t.
func (l *attentionLayer) values(t, kv int) *tensor.Cache {
	return &l.tokens[t].seq.kv[l.layer].values[kv]
}
