package engine

import (
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/tensor"
)

// The tasks of a pass besides the products: each is a loop over tokens, or over tokens and heads, whose turns are
// independent of each other.

// enterTask looks the embeddings of tokens up and computes their rotations.
type enterTask struct{ *Engine }

func (k *enterTask) Do(from, to int) {
	p, d := &k.pass, k.desc
	for t := from; t < to; t++ {
		h := p.h[t*d.Hidden:][:d.Hidden]
		k.weights.embed.Row(h, p.tokens[t].id)
		if d.EmbedScale != 0 {
			tensor.Times(h, d.EmbedScale)
		}
		k.rotation(t)
	}
}

// rotation computes the rotations of token t.
func (e *Engine) rotation(t int) {
	p := &e.pass
	p.rope[0].At(p.tokens[t].pos, p.turns[t][0])
	if e.desc.Rope.LocalTheta != 0 {
		p.rope[1].At(p.tokens[t].pos, p.turns[t][1])
	}
}

// turn is the rotation of token t in a block.
func (e *Engine) turn(t int, local bool) tensor.Turn {
	if local && e.desc.Rope.LocalTheta != 0 {
		return e.pass.turns[t][1]
	}
	return e.pass.turns[t][0]
}

// prepareTask makes the input of a fan from the rows of src: the gated product of the two halves of a row if gated, then
// the norm if there is one, then the quantized form if the fan has codes.
type prepareTask struct {
	*Engine
	fan    *fan
	src    []float32
	stride int   // of src
	rows   []int // of src and of the pass; nil = all
	gated  bool
	norm   []float32
	quant  *kernel.Activations
}

// mostPrepared is how many tokens a worker prepares at once, at most: few enough for all to have work.
const mostPrepared = 8

func (k *prepareTask) Do(from, to int) {
	p, n := &k.pass, k.fan.in
	for t := from; t < to; t++ {
		row := t
		if k.rows != nil {
			row = k.rows[t]
		}
		at := from // what is wanted quantized only passes by, and its place stays in the cache
		if k.fan.floats {
			at = t
		}
		src, x := k.src[row*k.stride:][:n], p.x[at*n:][:n]
		if k.gated {
			p.gate(src, src, k.src[row*k.stride+n:][:n])
		}
		var maxabs float32
		finite := true
		if k.norm != nil {
			maxabs, finite = tensor.RMSNorm(x, src, k.norm, k.desc.NormEps)
		} else {
			copy(x, src)
			maxabs = tensor.MaxAbs(x)
		}
		if k.fan.codes {
			var ok bool
			p.step[t], ok = tensor.Quantize(k.quant.Row(t), x, maxabs)
			finite = finite && ok
			k.quant.FinishRow(t)
		}
		p.check(row, finite)
	}
}

// splitTask takes the outputs of the query, key and value linears apart: head norms, rotation, and keys and values into
// the cache.
type splitTask struct {
	*Engine
	layer int
}

func (k *splitTask) Do(from, to int) {
	p, d, b := &k.pass, k.desc, &k.weights.blocks[k.layer]
	width := k.width()
	for t := from; t < to; t++ {
		tok, turn := &p.tokens[t], k.turn(t, b.local)
		y := p.y[t*b.qkv.out:][:b.qkv.out]
		for h := range d.Heads {
			q := p.q[(t*d.Heads+h)*width:][:d.HeadDim]
			k.head(t, q, y[h*d.HeadDim:][:d.HeadDim], b.qNorm, turn)
		}
		keys, values := y[d.Heads*d.HeadDim:], y[(d.Heads+d.KVHeads)*d.HeadDim:]
		cache := &tok.seq.kv[k.layer]
		for h := range d.KVHeads {
			key := keys[h*d.HeadDim:][:d.HeadDim]
			k.head(t, key, key, b.kNorm, turn)
			p.check(t, cache.keys[h].SetRow(tok.pos, key))
			p.check(t, cache.values[h].SetRow(tok.pos, values[h*d.HeadDim:][:d.HeadDim]))
		}
	}
}

// head sets dst to a query or key after its norm, if any, and rotation.
func (k *splitTask) head(t int, dst, src, norm []float32, turn tensor.Turn) {
	if norm != nil {
		_, finite := tensor.RMSNorm(dst, src, norm, k.desc.NormEps)
		k.pass.check(t, finite)
	} else {
		copy(dst, src)
	}
	turn.Apply(dst)
}

// postTask adds the norm of the output of a block's half to the residual stream.
type postTask struct {
	*Engine
	norm []float32
}

func (k *postTask) Do(from, to int) {
	p, n := &k.pass, k.desc.Hidden
	for t := from; t < to; t++ {
		r := p.y[t*n:][:n]
		_, finite := tensor.RMSNorm(r, r, k.norm, k.desc.NormEps)
		p.check(t, finite)
		tensor.Add(p.h[t*n:][:n], r)
	}
}

// finishTask caps, checks and delivers the logits of tokens.
type finishTask struct {
	*Engine
	rows []int
	y    []float32
}

func (k *finishTask) Do(from, to int) {
	p, d := &k.pass, k.desc
	for r := from; r < to; r++ {
		y, logits := k.y[r*d.Vocab:][:d.Vocab], p.tokens[k.rows[r]].logits
		if d.LogitSoftcap != 0 {
			tensor.SoftCaps(y, d.LogitSoftcap)
		}
		p.check(k.rows[r], tensor.AllFinite(y))
		if &y[0] != &logits[0] {
			copy(logits, y)
		}
	}
}
