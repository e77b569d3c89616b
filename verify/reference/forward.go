package reference

import (
	"context"
	"errors"
	"fmt"

	"github.com/lowpack/lowpack/pack"
)

// Sequence is the text so far: its KV cache, and what recurrent layers need of earlier positions.
type Sequence struct {
	n            int          // positions
	keys, values [][][]stored // [layer][position][head]
	recurrent    []layerState
	staged
}

// layerState is what a recurrent layer keeps of a sequence.
type layerState struct {
	inputs [][]float32 // [position][channel]: of the convolution
	state  []float32
}

// NewSequence returns an empty sequence.
func (m *Model) NewSequence() *Sequence {
	n := len(m.blocks)
	return &Sequence{keys: make([][][]stored, n), values: make([][][]stored, n), recurrent: make([]layerState, n)}
}

// Chunk is a piece of a sequence: tokens that follow what the sequence holds already.
type Chunk struct {
	Seq    *Sequence
	Tokens []int
}

// Logits returns the logits of every position of a text, [position][Vocab].
func (m *Model) Logits(ctx context.Context, tokens []int) ([][]float32, error) {
	return m.Forward(ctx, Chunk{m.NewSequence(), tokens})
}

// Forward appends chunks to their sequences and returns the logits of every token, chunk after chunk, [token][Vocab].
// All tokens go through a layer together, so that its weights are read once. After an error the sequences are unusable.
func (m *Model) Forward(ctx context.Context, chunks ...Chunk) ([][]float32, error) {
	return m.run(ctx, (*pass).logits, chunks...)
}

// Hidden returns the hidden states after the final norm of every position of a text (N79), [position][Hidden].
func (m *Model) Hidden(ctx context.Context, tokens []int) ([][]float32, error) {
	return m.run(ctx, (*pass).hidden, Chunk{m.NewSequence(), tokens})
}

// run appends chunks to their sequences and returns what last makes of the tokens behind the blocks.
func (m *Model) run(ctx context.Context, last lastStep, chunks ...Chunk) ([][]float32, error) {
	if !m.d.Rope.Staged() {
		return m.forward(ctx, last, chunks...)
	}
	var all [][]float32
	for _, c := range chunks {
		rows, err := m.forwardStaged(ctx, last, c)
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	return all, nil
}

// lastStep is what follows the blocks: the hidden states, or the logits made of them.
type lastStep func(p *pass) ([][]float32, error)

func (m *Model) forward(ctx context.Context, last lastStep, chunks ...Chunk) ([][]float32, error) {
	p := &pass{Model: m, ctx: ctx}
	if err := p.embedAll(chunks); err != nil {
		return nil, err
	}
	for i := range m.blocks {
		b := &m.blocks[i]
		if err := p.block(i, b); err != nil {
			return nil, err
		}
		if m.after != nil {
			m.after(i, p.h)
		}
	}
	rows, err := last(p)
	if err != nil {
		return nil, fmt.Errorf("output head: %w", err)
	}
	return rows, nil
}

// pass is the evaluation of some tokens: h[t] is the residual stream of token t, which stands at position at[t].
type pass struct {
	*Model
	ctx context.Context
	at  []place
	h   [][]float32

	streams [][][]float32 // [stream][token]: between blocks (N68)
	brought [][]float32   // of the tokens, for all layers (N70)
}

type place struct {
	seq     *Sequence
	pos, id int
}

func (p *pass) embedAll(chunks []Chunk) error {
	for _, c := range chunks {
		for _, token := range c.Tokens {
			if token < 0 || token >= p.d.Vocab {
				return fmt.Errorf("%w: token %d of a vocabulary of %d", pack.ErrLimit, token, p.d.Vocab)
			}
			if p.d.MaxPositions > 0 && c.Seq.n >= p.d.MaxPositions {
				return fmt.Errorf("%w: the model has %d positions", pack.ErrLimit, p.d.MaxPositions)
			}
			h := make([]float32, p.d.Hidden)
			if err := p.embed.row(p.ctx, h, token); err != nil {
				return err
			}
			if s := p.d.EmbedScale; s != 0 {
				for i := range h {
					h[i] = float32(h[i] * s)
				}
			}
			p.addPosition(h, c.Seq.n)
			p.h = append(p.h, h)
			p.at = append(p.at, place{c.Seq, c.Seq.n, token})
			c.Seq.n++
		}
	}
	var err error
	if p.h, err = p.norm(p.h, p.embedNorm); err != nil {
		return err
	}
	if err := p.bring(); err != nil {
		return err
	}
	return p.spread()
}

// addPosition adds what a position has learned to an embedding (N43).
func (p *pass) addPosition(h []float32, pos int) {
	if p.places == nil {
		return
	}
	row := make([]float32, len(h))
	p.places.row(row, pos+p.d.FirstPosition)
	for i, v := range row {
		h[i] += v
	}
}

// block is steps 1 to 4 of the forward pass.
func (p *pass) block(i int, b *block) error {
	if err := p.predict(b.altUp); err != nil {
		return fmt.Errorf("layer %d: prediction: %w", i, err)
	}
	mlpIn := p.h
	beside, err := p.lowRank(b)
	if err != nil {
		return fmt.Errorf("layer %d: Laurel: %w", i, err)
	}
	a, err := p.mixing(i, b)
	if err == nil {
		err = p.residual(a, b.attnPostNorm)
	}
	if err != nil {
		return fmt.Errorf("layer %d: %s: %w", i, b.mixingName(), err)
	}
	p.addLowRank(beside)
	if !p.d.Parallel {
		mlpIn = p.h
	}
	if err := p.mlp(b, mlpIn); err != nil {
		return fmt.Errorf("layer %d: MLP: %w", i, err)
	}
	err = p.correct(b.altUp)
	if err == nil {
		err = p.use(i, b)
	}
	if err != nil {
		return fmt.Errorf("layer %d: layer input: %w", i, err)
	}
	p.multiplyStream(b.scalar)
	return nil
}

// mixing is steps 1 to 3 of the forward pass, by a recurrent layer or by attention, or by both (N65).
func (p *pass) mixing(layer int, b *block) ([][]float32, error) {
	if b.mixer == nil {
		return p.attention(layer, b)
	}
	r, err := p.mix(layer, b)
	if err != nil || !b.both {
		return r, err
	}
	a, err := p.attention(layer, b)
	for t := range a {
		for i, v := range a[t] {
			r[t][i] += v
		}
	}
	return r, err
}

func (b *block) mixingName() string {
	if b.mixer != nil {
		return "recurrence"
	}
	return "attention"
}

// attention is steps 1 to 3 of the forward pass, up to the norm of the output.
func (p *pass) attention(layer int, b *block) ([][]float32, error) {
	if b.latent != nil {
		return p.latentAttention(layer, b)
	}
	a, err := p.norm(p.h, b.attnNorm)
	if err != nil {
		return nil, err
	}
	var qkv [3][][]float32
	for i, l := range []*linear{&b.q, &b.k, &b.v} {
		if i > 0 && b.kvOf != 0 {
			qkv[i] = vectors(len(a), 0)
			continue
		}
		if l == &b.v && b.keysAsValues {
			qkv[i] = copies(qkv[1])
			continue
		}
		if qkv[i], err = p.linear(l, a); err != nil {
			return nil, err
		}
		p.clip(qkv[i])
	}
	o := make([][]float32, len(p.h))
	for t := range p.at {
		if err = p.join(t, layer, b, qkv[0][t], qkv[1][t], qkv[2][t]); err != nil {
			return nil, err
		}
		if o[t], err = p.attendAll(t, layer, b, qkv[0][t]); err != nil {
			return nil, err
		}
	}
	if err = p.gateAttention(b, a, o); err != nil {
		return nil, err
	}
	if o, err = p.norm(o, b.attnSubNorm); err != nil {
		return nil, err
	}
	return p.linear(&b.o, o)
}

// gateAttention multiplies the output of attention by its gate, if there is one (N63).
func (p *pass) gateAttention(b *block, a, o [][]float32) error {
	if b.attnGate.name == "" {
		return nil
	}
	gate, err := p.linear(&b.attnGate, a)
	for t := range gate {
		for i, g := range gate[t] {
			o[t][i] = float32(o[t][i] * sigmoid(g))
		}
	}
	return err
}

// clip limits queries, keys or values, where the model does.
func (p *pass) clip(x [][]float32) {
	c := p.d.ClipQKV
	for _, row := range x {
		for i, v := range row {
			if c != 0 {
				row[i] = min(max(v, -c), c)
			}
		}
	}
}

// join rotates the query and key of a token, and brings key and value into the cache (step 2 of the forward pass).
func (p *pass) join(t, layer int, b *block, q, k, v []float32) error {
	for _, x := range []struct {
		heads []float32
		norm  *norm
	}{{q, &b.qNorm}, {k, &b.kNorm}} {
		if p.d.RotateFirst {
			p.rotate(t, x.heads, b)
		}
		if err := p.headNorms(t, x.heads, x.norm); err != nil {
			return err
		}
		if !p.d.RotateFirst {
			p.rotate(t, x.heads, b)
		}
	}
	scale := queryScale(&p.d.Rope, p.at[t].pos, b.noRope)
	for i := range q {
		q[i] = float32(q[i] * scale)
	}
	if b.kvOf != 0 {
		return nil
	}
	if err := p.headNorms(t, v, &b.vNorm); err != nil {
		return err
	}
	keys, ok := store(p.cache, k, b.shape.HeadDim)
	values, fine := keys, ok
	if p.d.Latent == nil {
		values, fine = store(p.cache, v, b.shape.HeadDim)
	}
	if !ok || !fine {
		return p.notFinite(t, "a key or value")
	}
	seq := p.at[t].seq
	seq.keys[layer], seq.values[layer] = append(seq.keys[layer], keys), append(seq.values[layer], values)
	return nil
}

// headNorms normalizes the heads of a query or key in place, one by one or all at once, as the norm is long.
func (p *pass) headNorms(t int, x []float32, norm *norm) error {
	n := norm.size
	for h := 0; n > 0 && h < len(x)/n; h++ {
		y, ok := norm.apply(x[h*n:][:n], h)
		if !ok {
			return p.notFinite(t, "a norm of heads")
		}
		copy(x[h*n:], y)
	}
	return nil
}

// rotate applies the rotation to the heads of a query or key, in place.
func (p *pass) rotate(t int, x []float32, b *block) {
	for d := b.shape.HeadDim; len(x) > 0; x = x[d:] {
		head := x[:d]
		if p.d.Latent != nil { // the last values
			head = head[d-p.d.Rope.Dim:]
		}
		if own := p.at[t].seq.rope; own != nil && b.staged {
			own.rotate(head, p.at[t].pos)
		} else {
			b.rope.rotate(head, p.at[t].pos)
		}
	}
}

// attendAll computes the attention of all heads of a token (N18).
func (p *pass) attendAll(t, layer int, b *block, q []float32) ([]float32, error) {
	at, first := p.at[t], 0
	if b.kvOf != 0 {
		layer = b.kvOf - 1
	}
	if b.window > 0 {
		first = max(0, at.pos+1-b.window)
		if p.d.Chunked {
			first = at.pos / b.window * b.window
		}
	}
	d, n := b.shape.HeadDim, at.pos+1-first
	keys, values := make([]*stored, n), make([]*stored, n)
	o := make([]float32, 0, len(q))
	for h := range p.d.Heads {
		query, ok := queryOf(p.cache, q[h*d:(h+1)*d])
		if !ok {
			return nil, p.notFinite(t, "a query")
		}
		kv := h / (p.d.Heads / b.shape.KVHeads)
		for j := range n {
			keys[j] = &at.seq.keys[layer][first+j][kv]
			values[j] = &at.seq.values[layer][first+j][kv]
		}
		to := scoring{scale: b.scale, limit: p.d.AttnSoftcap, sink: b.sink(h), first: first}
		if p.slopes != nil {
			to.slope = p.slopes[h]
		}
		out := attend(&query, keys, values, to)
		if p.cache == CacheI4 {
			unhadamard(out)
		}
		o = append(o, out...)
	}
	return o, nil
}

// mlp is step 4 of the forward pass.
func (p *pass) mlp(b *block, h [][]float32) error {
	if b.still {
		return nil
	}
	x, err := p.norm(h, b.ffnNorm)
	if err != nil {
		return err
	}
	switch {
	case b.beside != nil:
		x, err = p.besideMLP(b, h, x)
	case b.experts != nil:
		x, err = p.mixture(b.experts, x, x)
	default:
		x, err = p.gated(&b.mlp, b.ffnSubNorm, x)
	}
	if err != nil {
		return err
	}
	return p.residual(x, b.ffnPostNorm)
}

// gated is an MLP with, perhaps, a norm in front of its last linear layer.
func (p *pass) gated(m *mlp, subNorm norm, x [][]float32) ([][]float32, error) {
	first, act := &m.gate, p.gate
	if !m.gated {
		first = &m.up
	}
	if m.act != nil {
		act = m.act
	}
	f, err := p.linear(first, x)
	if err != nil {
		return nil, err
	}
	for t := range f {
		if m.sparsity != 0 {
			sparse(f[t], m.sparsity)
		}
	}
	var up [][]float32
	if m.gated {
		if up, err = p.linear(&m.up, x); err != nil {
			return nil, err
		}
	}
	for t := range f {
		for i, v := range f[t] {
			factor := float32(1)
			if m.gated {
				factor = up[t][i]
			}
			f[t][i] = act(v, factor)
		}
	}
	if f, err = p.norm(f, subNorm); err != nil {
		return nil, err
	}
	return p.linear(&m.down, f)
}

// residual adds postNorm(x) to the stream (N20), in new vectors: a parallel MLP reads the old ones.
func (p *pass) residual(x [][]float32, postNorm norm) error {
	x, err := p.norm(x, postNorm)
	if err != nil {
		return err
	}
	next := make([][]float32, len(p.h))
	for t, h := range p.h {
		next[t] = make([]float32, len(h))
		for i := range h {
			next[t][i] = h[i] + p.scaled(x[t][i])
		}
	}
	p.h = next
	return nil
}

// scaled is what a block adds to the stream, times the model's factor for it.
func (p *pass) scaled(x float32) float32 {
	if s := p.d.ResidualScale; s != 0 {
		return float32(x * s)
	}
	return x
}

func (p *pass) logits() ([][]float32, error) {
	x, err := p.hidden()
	if err != nil {
		return nil, err
	}
	logits, err := p.linear(&p.head, x)
	if err != nil {
		return nil, err
	}
	for t := range logits {
		for i, z := range logits[t] {
			if p.d.LogitDivisor != 0 {
				z /= p.d.LogitDivisor
			}
			if p.d.LogitScale != 0 {
				z = float32(z * p.d.LogitScale)
			}
			logits[t][i] = softcap(z, p.d.LogitSoftcap)
			if !finite(logits[t][i]) {
				return nil, p.notFinite(t, fmt.Sprintf("the logit of token %d", i))
			}
		}
	}
	return logits, nil
}

// hidden is the final norm of every token (N79).
func (p *pass) hidden() ([][]float32, error) {
	if err := p.gather(); err != nil {
		return nil, err
	}
	return p.norm(p.h, p.final)
}

// norm applies a norm to every vector.
func (p *pass) norm(x [][]float32, n norm) ([][]float32, error) {
	if n.size == 0 {
		return x, nil
	}
	y := make([][]float32, len(x))
	for t := range x {
		var ok bool
		if y[t], ok = n.apply(x[t], 0); !ok {
			return nil, p.notFinite(t, "the mean square of a norm")
		}
	}
	return y, nil
}

func (p *pass) linear(l *linear, x [][]float32) ([][]float32, error) {
	y, err := l.apply(p.ctx, x)
	if bad := new(badInput); errors.As(err, &bad) {
		return nil, p.notFinite(bad.vector, fmt.Sprintf("an input of %q", l.name))
	}
	return y, err
}

// notFinite reports a value that is NaN or infinite (N4).
func (p *pass) notFinite(t int, what string) error {
	return fmt.Errorf("%w: position %d: %s is NaN or infinite (N4)", pack.ErrCorrupt, p.at[t].pos, what)
}
