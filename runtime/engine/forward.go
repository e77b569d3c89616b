package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/mmap"
	"github.com/lowpack/lowpack/pack"
)

// Chunk is a run of tokens to append to a sequence.
type Chunk struct {
	Seq    *Sequence
	Tokens []int
	// Logits receives the logits after each of the last len(Logits)/Vocab tokens. Empty = no logits.
	Logits []float32
	// Hidden receives the hidden states after the final norm (NUMERICS N79) of each of the last len(Hidden)/Hidden
	// tokens, float32, one after another. Empty = no hidden states.
	Hidden []float32
	// Err is set by Forward: nil, or what kept this chunk alone from being appended, a *NonFinite or pack.ErrLimit.
	Err error

	// Top says that only the Top largest logits, in the order of NUMERICS N21, and the logits of the tokens Keep are
	// needed; the others may become −Inf. This is faster with a file that has a screen of its head (FORMAT F21), and on
	// a device, which then returns device.TopMost of them if that is enough; the needed logits are the same, bit for
	// bit. 0 = all.
	Top  int
	Keep []int
}

// Forward appends the tokens of all chunks to their sequences, at most one chunk per sequence, and computes the
// requested logits and hidden states. One call with many sequences reads the weights once for all of them. The tokens
// go through the model in passes of at most Options.Batch; ctx is checked between blocks.
//
// A chunk whose values overflow fails alone: its Err says where, its sequence keeps its old length, and the other
// chunks are computed. So does one whose sequence reaches other rotations (NUMERICS N67) without the free pages to have
// its own copies of those that it shares: pages of its own are rotated in place. Forward then returns the first Err of
// the batch. After any other error all sequences keep their old lengths. The contents of Logits and Hidden are
// undefined for a chunk that was not appended. A file that was truncated while the engine uses it is such an error; the
// engine is unusable afterwards.
func (e *Engine) Forward(ctx context.Context, batch []Chunk) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.pool.Leave(e.pool.Enter())
	if e.staged() {
		return e.forwardStaged(ctx, batch)
	}
	return e.forward(ctx, batch)
}

// checkAll rejects a batch that cannot be computed.
func (e *Engine) checkAll(batch []Chunk) error {
	tokens := 0
	for i := range batch {
		batch[i].Err = nil
		if err := e.check(batch, i); err != nil {
			return err
		}
		tokens += len(batch[i].Tokens)
	}
	if e.opt.OnePass && tokens > e.opt.Batch {
		return fmt.Errorf("%w: %d tokens are to be computed in one pass of %d", pack.ErrLimit, tokens, e.opt.Batch)
	}
	return nil
}

// forward is Forward with the rotations that the sequences have.
func (e *Engine) forward(ctx context.Context, batch []Chunk) error {
	if err := e.checkAll(batch); err != nil {
		return err
	}
	defer shrink(batch)
	if err := grow(batch); err != nil {
		return err
	}
	again := 0
	for i := range batch {
		again += batch[i].Seq.behind()
		batch[i].Seq.enter(&batch[i])
	}
	start := time.Now()
	if err := mmap.Guard(func() error { return e.compute(ctx, batch) }); err != nil {
		return err
	}
	e.learn(batch, again, time.Since(start))
	var first error
	for i := range batch {
		if c := &batch[i]; c.Err == nil {
			c.Seq.n.Add(int64(len(c.Tokens)))
			c.Seq.appended = true
		} else if first == nil {
			first = c.Err
		}
	}
	return first
}

// compute runs the tokens of all chunks through the model, pass by pass.
func (e *Engine) compute(ctx context.Context, batch []Chunk) error {
	p := &e.pass
	p.batch, p.tokens = batch, p.tokens[:0]
	defer func() { p.batch = nil }()
	for i := range batch {
		c := &batch[i]
		silent := len(c.Tokens) - len(c.Logits)/e.desc.Vocab // tokens without logits
		unseen := len(c.Tokens) - len(c.Hidden)/e.desc.Hidden
		for j := -c.Seq.behind(); j < len(c.Tokens); j++ {
			t := token{seq: c.Seq, chunk: i, pos: c.Seq.Len() + j}
			if t.again = j < 0 && t.pos < c.Seq.rows; j < 0 {
				t.id = c.Seq.token(t.pos)
			} else {
				t.id = c.Tokens[j]
			}
			if j >= silent {
				t.logits = c.Logits[(j-silent)*e.desc.Vocab:][:e.desc.Vocab]
				t.top, t.keep = c.Top, c.Keep
			}
			if j >= unseen {
				t.hidden = c.Hidden[(j-unseen)*e.desc.Hidden:][:e.desc.Hidden]
			}
			if p.tokens = append(p.tokens, t); len(p.tokens) == e.opt.Batch {
				if err := e.flush(ctx); err != nil {
					return err
				}
			}
			if c.Err != nil { // set by the previous pass
				break
			}
		}
	}
	return e.flush(ctx)
}

// check rejects chunk i of a batch if it cannot be computed.
func (e *Engine) check(batch []Chunk, i int) error {
	c := &batch[i]
	switch {
	case c.Seq == nil || c.Seq.e != e || !c.Seq.open:
		return fmt.Errorf("%w: chunk %d is for a sequence that is not open here", pack.ErrUnsupported, i)
	case e.opt.OnePass && c.Seq.Len() > 0:
		return fmt.Errorf("%w: chunk %d is for a sequence that has had its one pass", pack.ErrUnsupported, i)
	case len(c.Tokens) == 0:
		return fmt.Errorf("%w: chunk %d has no tokens", pack.ErrUnsupported, i)
	case c.Seq.Len()+len(c.Tokens) > e.opt.Context:
		return fmt.Errorf("%w: %d tokens after %d; the context holds %d", pack.ErrLimit, len(c.Tokens), c.Seq.Len(),
			e.opt.Context)
	case len(c.Logits)%e.desc.Vocab != 0 || len(c.Logits) > len(c.Tokens)*e.desc.Vocab:
		return fmt.Errorf("%w: room for %d logits; %d tokens have %d each", pack.ErrUnsupported, len(c.Logits),
			len(c.Tokens),
			e.desc.Vocab)
	case len(c.Hidden)%e.desc.Hidden != 0 || len(c.Hidden) > len(c.Tokens)*e.desc.Hidden:
		return fmt.Errorf("%w: room for %d values of hidden states; %d tokens have %d each", pack.ErrUnsupported,
			len(c.Hidden), len(c.Tokens), e.desc.Hidden)
	case c.Top < 0:
		return fmt.Errorf("%w: the top %d logits", pack.ErrUnsupported, c.Top)
	}
	if err := e.checkIDs(c.Tokens); err != nil {
		return err
	}
	if err := e.checkIDs(c.Keep); err != nil {
		return err
	}
	for j := range i {
		if batch[j].Seq == c.Seq {
			return fmt.Errorf("%w: chunks %d and %d are for the same sequence", pack.ErrUnsupported, j, i)
		}
	}
	return nil
}

func (e *Engine) checkIDs(ids []int) error {
	for _, id := range ids {
		if id < 0 || id >= e.desc.Vocab {
			return fmt.Errorf("%w: token id %d; the vocabulary has %d", pack.ErrUnsupported, id, e.desc.Vocab)
		}
	}
	return nil
}

// flush computes the tokens that have been gathered.
func (e *Engine) flush(ctx context.Context) error {
	p := &e.pass
	defer func() { p.tokens, p.rows = p.tokens[:0], p.rows[:0] }()
	if len(p.tokens) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.holdWindows(); err != nil {
		return err
	}
	p.begin()
	e.embed()
	e.bring(len(p.tokens))
	e.spread(len(p.tokens))
	e.ledger.write(p.tokens)
	if e.device != nil {
		return e.deviceLayers(ctx)
	}
	if err := e.layers(ctx); err != nil {
		return err
	}
	e.slideWindows()
	return nil
}

// layers takes the embeddings of a pass through all layers and the head.
func (e *Engine) layers(ctx context.Context) error {
	if more, err := e.blocks(ctx, len(e.weights.blocks)); !more {
		return err
	}
	e.reach(len(e.weights.blocks))
	e.gather(len(e.pass.tokens))
	e.deliverHidden(0, len(e.pass.tokens))
	e.head()
	return nil
}

// blocks takes the embeddings of a pass through the first n layers. It reports false when no token is left to compute,
// or ctx is done.
func (e *Engine) blocks(ctx context.Context, n int) (more bool, err error) {
	for i := range n {
		e.reach(i)
		if !e.block(i) {
			return false, nil
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
	}
	return true, nil
}

// distribute divides the items of a task among the workers of a pool, chunk at a time.
func distribute(pool *kernel.Pool, items, chunk int, t kernel.Task) {
	if items <= chunk {
		t.Do(0, items)
		return
	}
	pool.Run(items, chunk, t)
}

// block computes one layer (NUMERICS 5). It reports false when no token is left to compute.
func (e *Engine) block(layer int) bool {
	p, d, b := &e.pass, e.desc, &e.weights.blocks[layer]
	n := len(p.tokens)

	e.predict(b, n)
	e.lowRank(b, n)
	mix := e.attend
	if b.recurrence != nil {
		mix = e.recur
	}
	o := mix(layer, b, n)
	switch {
	case o == nil:
		return false
	case b.both():
		if !e.beside(layer, b, o) {
			return false
		}
	case d.Parallel:
		e.multiply(o, n, p.branch, nil)
	default:
		e.residual(o, n, &b.attnPostNorm)
	}
	e.addLowRank(b, n)
	if !e.feedForward(layer, n) {
		return false
	}
	e.correct(b, n)
	if !e.use(layer, b, n) {
		return false
	}
	e.scale(b, n)
	return true
}

// beside adds the output of a recurrent layer, whose last projection is r, and that of the attention beside it to the
// residual stream (N65). It reports false when no token is left to compute.
func (e *Engine) beside(layer int, b *block, r *projection) bool {
	p, n := &e.pass, len(e.pass.tokens)
	e.multiply(r, n, p.branch, nil)
	o := e.attend(layer, b, n)
	if o == nil {
		return false
	}
	e.multiply(o, n, p.y, p.branch)
	e.addResidual(p.branch, n, &b.attnPostNorm)
	return true
}

// attend computes the attention of one layer, and the input of its last projection, which it returns; nil when no token
// is left to compute.
func (e *Engine) attend(layer int, b *block, n int) *projection {
	p, d := &e.pass, e.desc
	e.input(n, prepareTask{projection: &b.qkv, src: p.h, stride: d.Hidden, norm: &b.attnNorm})
	e.multiply(&b.qkv, n, p.y, nil)
	o := p.attention.o
	if b.latent != nil {
		o = e.latentAttention(layer, n)
	} else {
		e.splitQKV(layer)
		p.attention.run(layer, b)
	}
	if b.gated {
		p.outputs = outputGate{p.split}
		distribute(e.pool, n, 1, &p.outputs)
	}
	e.input(n, prepareTask{projection: &b.o, src: o, stride: b.o.in, norm: &b.attnSubNorm, own: true})
	if !p.blame(layer, "attention") {
		return nil
	}
	return &b.o
}

// feedForward computes the second half of a layer.
func (e *Engine) feedForward(layer, n int) bool {
	p, b := &e.pass, &e.weights.blocks[layer]
	if !e.desc.Blocks[layer].HasMLP() {
		return true
	}
	if b.experts != nil {
		e.mixture(b, n)
		return p.blame(layer, "feed-forward")
	}
	e.input(n, prepareTask{projection: &b.gateUp, src: p.h, stride: e.desc.Hidden, norm: &b.ffnNorm,
		own: true})
	if e.desc.Parallel { // the MLP has read the residual stream
		e.addResidual(p.branch, n, &b.attnPostNorm)
	}
	e.activate(&b.mlp, n, prepareTask{norm: &b.ffnSubNorm, gate: b.act, sparse: b.sparse, quantile: b.quantile})
	if !p.blame(layer, "feed-forward") {
		return false
	}
	e.residual(&b.down, n, &b.ffnPostNorm)
	return true
}
