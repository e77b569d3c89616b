package reference

import (
	"context"
	"errors"
	"fmt"

	"github.com/lowpack/lowpack/pack"
)

// Sequence is the text so far: its KV cache.
type Sequence struct {
	n            int          // positions
	keys, values [][][]stored // [layer][position][head]
}

// NewSequence returns an empty sequence.
func (m *Model) NewSequence() *Sequence {
	return &Sequence{keys: make([][][]stored, len(m.blocks)), values: make([][][]stored, len(m.blocks))}
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
	p := &pass{Model: m, ctx: ctx}
	if err := p.embedAll(chunks); err != nil {
		return nil, err
	}
	for i := range m.blocks {
		b := &m.blocks[i]
		if err := p.attention(i, b); err != nil {
			return nil, fmt.Errorf("layer %d: attention: %w", i, err)
		}
		if err := p.mlp(b); err != nil {
			return nil, fmt.Errorf("layer %d: MLP: %w", i, err)
		}
		if m.after != nil {
			m.after(i, p.h)
		}
	}
	logits, err := p.logits()
	if err != nil {
		return nil, fmt.Errorf("output head: %w", err)
	}
	return logits, nil
}

// pass is the evaluation of some tokens: h[t] is the residual stream of token t, which stands at position at[t].
type pass struct {
	*Model
	ctx context.Context
	at  []place
	h   [][]float32
}

type place struct {
	seq *Sequence
	pos int
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
			p.h = append(p.h, h)
			p.at = append(p.at, place{c.Seq, c.Seq.n})
			c.Seq.n++
		}
	}
	return nil
}

// attention is steps 1 to 3 of the forward pass.
func (p *pass) attention(layer int, b *block) error {
	a, err := p.norm(p.h, b.attnNorm)
	if err != nil {
		return err
	}
	var qkv [3][][]float32
	for i, l := range []*linear{&b.q, &b.k, &b.v} {
		if qkv[i], err = p.linear(l, a); err != nil {
			return err
		}
	}
	o := make([][]float32, len(p.h))
	for t := range p.at {
		if err = p.join(t, layer, b, qkv[0][t], qkv[1][t], qkv[2][t]); err != nil {
			return err
		}
		if o[t], err = p.attendAll(t, layer, b, qkv[0][t]); err != nil {
			return err
		}
	}
	if o, err = p.norm(o, b.attnSubNorm); err != nil {
		return err
	}
	if o, err = p.linear(&b.o, o); err != nil {
		return err
	}
	return p.residual(o, b.attnPostNorm)
}

// join rotates the query and key of a token, and brings key and value into the cache (step 2 of the forward pass).
func (p *pass) join(t, layer int, b *block, q, k, v []float32) error {
	for _, x := range []struct{ heads, norm []float32 }{{q, b.qNorm}, {k, b.kNorm}} {
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
	keys, ok := store(p.cache, k, p.d.HeadDim)
	values, fine := store(p.cache, v, p.d.HeadDim)
	if !ok || !fine {
		return p.notFinite(t, "a key or value")
	}
	seq := p.at[t].seq
	seq.keys[layer], seq.values[layer] = append(seq.keys[layer], keys), append(seq.values[layer], values)
	return nil
}

// headNorms normalizes the heads of a query or key in place, one by one or all at once, as the norm is long.
func (p *pass) headNorms(t int, x, norm []float32) error {
	for n := len(norm); n > 0 && len(x) > 0; x = x[n:] {
		y, ok := rmsNorm(x[:n], norm, p.d.NormEps)
		if !ok {
			return p.notFinite(t, "a norm of heads")
		}
		copy(x, y)
	}
	return nil
}

// rotate applies the rotation to the heads of a query or key, in place.
func (p *pass) rotate(t int, x []float32, b *block) {
	for d := p.d.HeadDim; len(x) > 0; x = x[d:] {
		b.rope.rotate(x[:d], p.at[t].pos)
	}
}

// attendAll computes the attention of all heads of a token (N18).
func (p *pass) attendAll(t, layer int, b *block, q []float32) ([]float32, error) {
	at, first := p.at[t], 0
	if b.window > 0 {
		first = max(0, at.pos+1-b.window)
	}
	d, n := p.d.HeadDim, at.pos+1-first
	keys, values := make([]*stored, n), make([]*stored, n)
	o := make([]float32, 0, len(q))
	for h := range p.d.Heads {
		query := stored{x: q[h*d : (h+1)*d]}
		if p.cache == CacheI8 {
			var ok bool
			if query.q, query.scale, ok = quantize(query.x); !ok {
				return nil, p.notFinite(t, "a query")
			}
		}
		kv := h / (p.d.Heads / p.d.KVHeads)
		for j := range n {
			keys[j] = &at.seq.keys[layer][first+j][kv]
			values[j] = &at.seq.values[layer][first+j][kv]
		}
		o = append(o, attend(&query, keys, values, p.scale, p.d.AttnSoftcap, b.sink(h))...)
	}
	return o, nil
}

// mlp is step 4 of the forward pass.
func (p *pass) mlp(b *block) error {
	x, err := p.norm(p.h, b.ffnNorm)
	if err != nil {
		return err
	}
	if b.experts != nil {
		x, err = p.mixture(b.experts, x)
	} else {
		x, err = p.gated(&b.mlp, b.ffnSubNorm, x)
	}
	if err != nil {
		return err
	}
	return p.residual(x, b.ffnPostNorm)
}

// gated is an MLP with, perhaps, a norm in front of its last linear layer.
func (p *pass) gated(m *mlp, subNorm []float32, x [][]float32) ([][]float32, error) {
	gate, err := p.linear(&m.gate, x)
	if err != nil {
		return nil, err
	}
	up, err := p.linear(&m.up, x)
	if err != nil {
		return nil, err
	}
	for t := range gate {
		for i, g := range gate[t] {
			gate[t][i] = p.gate(g, up[t][i])
		}
	}
	if gate, err = p.norm(gate, subNorm); err != nil {
		return nil, err
	}
	return p.linear(&m.down, gate)
}

// residual adds postNorm(x) to the stream (N20).
func (p *pass) residual(x [][]float32, postNorm []float32) error {
	x, err := p.norm(x, postNorm)
	if err != nil {
		return err
	}
	for t, h := range p.h {
		for i := range h {
			h[i] += p.scaled(x[t][i])
		}
	}
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
	x, err := p.norm(p.h, p.final)
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
			logits[t][i] = softcap(z, p.d.LogitSoftcap)
			if !finite(logits[t][i]) {
				return nil, p.notFinite(t, fmt.Sprintf("the logit of token %d", i))
			}
		}
	}
	return logits, nil
}

// norm applies N13 to every vector; without weights the step does not exist.
func (p *pass) norm(x [][]float32, w []float32) ([][]float32, error) {
	if w == nil {
		return x, nil
	}
	y := make([][]float32, len(x))
	for t := range x {
		var ok bool
		if y[t], ok = rmsNorm(x[t], w, p.d.NormEps); !ok {
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
