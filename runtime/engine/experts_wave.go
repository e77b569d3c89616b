package engine

import (
	"slices"

	"github.com/lowpack/lowpack/internal/tensor"
)

// wave is a set of experts of a block, in order of expert number, that compute in parallel, each for the tokens that
// have chosen it. The workers share the units of all their matrices at once: the product of one expert alone would be
// too short, and some workers would wait at its end, once per expert.
type wave struct {
	seats []seat
	rows  int     // of all seats
	most  int     // rows in the memory of the pass
	sizes []*seat // by number of tokens, descending
	// A wave has at most `most` rows, so the seat at place i of sizes has at most most/(i+1): room[i] holds that many.
	room    []activations
	prepare wavePrepare
	product waveProduct
	sum     waveSum
}

// seat is one of the experts of a wave.
type seat struct {
	*mlp
	tokens  []int     // that have chosen it
	weights []float32 // weights of these tokens, stride apart; nil = 1
	stride  int
	into    bool // the weights multiply the inputs (N66)
	at      int  // its first row

	prepare prepareTask
	product product
	chunk   int // units of a chunk of the product
	first   int // number of its first chunk
}

// quantizeExperts allocates the quantized inputs of the experts of a block.
func (e *Engine) quantizeExperts(b *block) {
	w := &e.pass.mix.wave
	for i, quant := range w.room {
		for j := range b.mlps() {
			x := b.mlpOf(j)
			e.quantizeFor(quant, &x.gateUp, e.opt.Batch/(i+1))
			e.quantizeFor(quant, &x.down, e.opt.Batch/(i+1))
		}
	}
}

// newWave allocates the memory of waves with up to experts experts.
func newWave(experts, batch int) wave {
	n := min(experts, batch)
	w := wave{seats: make([]seat, 0, n), sizes: make([]*seat, 0, n), room: make([]activations, n)}
	for i := range w.room {
		w.room[i] = activations{}
	}
	return w
}

// begin empties the wave.
func (w *wave) begin(most int) { w.seats, w.rows, w.most = w.seats[:0], 0, most }

// add seats an expert for its tokens, if it has any, and reports whether there was room.
func (w *wave) add(x *mlp, tokens []int, weights []float32, stride int, into bool) bool {
	if len(tokens) == 0 {
		return true
	}
	if len(w.seats) == cap(w.seats) || w.rows+len(tokens) > w.most {
		return false
	}
	w.seats = append(w.seats, seat{mlp: x, tokens: tokens, weights: weights, stride: stride, into: into,
		at: w.rows})
	w.rows += len(tokens)
	return true
}

// wave computes the outputs of its experts for their tokens and adds them, times their weights, to the sums of the
// tokens.
func (e *Engine) wave(w *wave) {
	p, hidden := &e.pass, e.desc.Hidden
	w.sizes = w.sizes[:0]
	for i := range w.seats {
		w.sizes = append(w.sizes, &w.seats[i])
	}
	slices.SortStableFunc(w.sizes, func(a, b *seat) int { return len(b.tokens) - len(a.tokens) })
	for _, s := range w.sizes {
		s.prepare = prepareTask{projection: &s.gateUp, src: p.mix.x, stride: hidden, rows: s.tokens}
		if s.into {
			s.prepare.factors, s.prepare.apart, s.weights = s.weights, s.stride, nil
		}
	}
	e.layer(w)
	for _, s := range w.sizes {
		s.prepare = prepareTask{projection: &s.down, src: s.product.y, stride: s.gateUp.out, gated: true,
			paired: s.gateUp.alternate, tokens: s.tokens}
	}
	e.layer(w)
	w.sum = waveSum{w.seats, p.mix.sum, hidden}
	distribute(e.pool, (hidden+sumColumns-1)/sumColumns, max(1, sumElements/(sumColumns*w.rows)), &w.sum)
}

// layer prepares the input of a projection of each expert and multiplies it.
func (e *Engine) layer(w *wave) {
	p := &e.pass
	in, out, sums := len(p.x)/w.most, len(p.y)/w.most, len(p.sums)/w.most // per row, at most
	for i, s := range w.sizes {
		var moved []float32
		if p.moved != nil {
			moved = p.moved[s.at*in:]
		}
		e.ready(&s.prepare, len(s.tokens), p.x[s.at*in:], p.sums[s.at*sums:], moved, w.room[i])
		f := s.prepare.projection
		s.product = product{projection: f, n: len(s.tokens), x: s.prepare.x, q: s.prepare.quant,
			planes: s.prepare.planes, sums: s.prepare.sums, y: p.y[s.at*out:], ldy: f.out}
		if e.planes() > 1 && f.coded() {
			s.product.wide = p.wide[2*s.at*out:]
		}
	}
	w.prepare.seats, w.product.seats = w.seats, w.seats
	distribute(e.pool, w.rows, e.prepared(w.rows), &w.prepare)
	chunks := 0
	for i := range w.seats {
		s := &w.seats[i]
		f := s.product.projection
		all := len(s.tokens) == len(p.tokens) // in order
		s.product.projection = f.with(e.observe(f, s.product.x[:s.product.n*f.in], all))
		s.chunk, s.first = f.chunk(s.product.n*int(e.planes()), e.opt.Threads), chunks
		chunks += (f.units + s.chunk - 1) / s.chunk
	}
	e.pool.Run(chunks, 1, &w.product)
}

// wavePrepare prepares rows.
type wavePrepare struct{ seats []seat }

func (k *wavePrepare) Do(from, to int) {
	for i := range k.seats {
		s := &k.seats[i]
		if first, end := max(from-s.at, 0), min(to-s.at, len(s.tokens)); first < end {
			s.prepare.Do(first, end)
		}
	}
}

// waveProduct multiplies chunks of units.
type waveProduct struct{ seats []seat }

func (k *waveProduct) Do(from, to int) {
	for i := range k.seats {
		s := &k.seats[i]
		units := s.product.projection.units
		for u := max(from-s.first, 0) * s.chunk; u < min((to-s.first)*s.chunk, units); u += s.chunk {
			s.product.Do(u, min(u+s.chunk, units))
		}
	}
}

// waveSum adds the rows of seats, times the weights of their tokens, to the sums of these tokens (N36), in blocks of
// columns.
type waveSum struct {
	seats  []seat
	sum    []float32
	hidden int
}

// sumColumns is the number of columns of a block, and sumElements the minimum number of elements that a worker adds.
const (
	sumColumns  = 64
	sumElements = 16 << 10
)

func (k *waveSum) Do(from, to int) {
	lo, hi := from*sumColumns, min(to*sumColumns, k.hidden)
	for i := range k.seats {
		s := &k.seats[i]
		for j, t := range s.tokens {
			y := s.product.y[j*k.hidden:][lo:hi]
			if s.weights != nil {
				tensor.Times(y, s.weights[t*s.stride])
			}
			tensor.Add(k.sum[t*k.hidden:][lo:hi], y)
		}
	}
}
