package plaindevice

import (
	"math"

	"github.com/lowpack/lowpack/internal/fma"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/runtime/device"
)

func heads(op device.Heads, c device.CacheType, b buffers) {
	dim, queries, keys := int(op.Dim), int(op.Heads), int(op.KVHeads)
	ofQuery := c.QueryWords(dim)
	for t, tok := range b.tokens(1)[:op.N] {
		for i := range queries + 2*keys {
			x := append([]float32(nil), b.f32(0)[t*int(op.LDY)+i*dim:][:dim]...)
			if op.Clip != 0 {
				tensor.Clamp(x, op.Clip)
			}
			switch {
			case i < queries:
				mark(b.u32(9), t, op.Step, turn(&op, t, b, x, headNorm{op.QNorm, 3, i}))
				if tok.Scale != 0 {
					tensor.Times(x, tok.Scale)
				}
				mark(b.u32(9), t, op.Step, storeQuery(b.u32(6)[(t*queries+i)*ofQuery:][:ofQuery], x, c))
			case i < queries+keys:
				mark(b.u32(9), t, op.Step, turn(&op, t, b, x, headNorm{op.KNorm, 4, i - queries}))
				to := row(b.u32(7), tok, int(tok.Position), b.u32(5), shape{op.KVHeads, op.PageRows, c.RowWords(dim),
					i - queries})
				mark(b.u32(9), t, op.Step, storeRow(to, x, c))
			default:
				at := shape{op.KVHeads, op.PageRows, c.RowWords(dim), i - queries - keys}
				mark(b.u32(9), t, op.Step, storeRow(row(b.u32(8), tok, int(tok.Position), b.u32(5), at), x, c))
			}
		}
	}
}

// headNorm is the norm of a head: its kind, the buffer of its weights and the number of the head.
type headNorm struct {
	kind         device.Norm
	buffer, head int
}

// turn normalizes and rotates a query or key.
func turn(op *device.Heads, t int, b buffers, x []float32, n headNorm) (ok bool) {
	w := b.f32(n.buffer)
	if op.Own != 0 && n.kind != device.NormNone {
		w = w[n.head*len(x):]
	}
	if op.RotateFirst != 0 {
		rotate(op, t, b, x)
	}
	ok = normalize(n.kind, x, w, nil, op.Eps)
	if op.RotateFirst == 0 {
		rotate(op, t, b, x)
	}
	return ok
}

// rotate is N17.
func rotate(op *device.Heads, t int, b buffers, x []float32) {
	half := int(op.Rot) / 2
	if half == 0 {
		return
	}
	trig := b.f32(2)[(t*2+int(op.Local))*int(op.Rot):]
	for i := range half {
		p, q := i, i+half
		if op.Pairs != 0 {
			p, q = 2*i, 2*i+1
		}
		c, s, u, v := trig[i], trig[half+i], x[p], x[q]
		x[p] = fma.Float32(-v, s, float32(u*c))
		x[q] = fma.Float32(u, s, float32(v*c))
	}
}

// shape is that of the KV cache, and a head of it.
type shape struct {
	heads, pageRows uint32
	words, head     int // of a row
}

// row is a row of the KV cache.
func row(cache []uint32, tok device.Token, position int, pages []uint32, s shape) []uint32 {
	page := int(pages[int(tok.Pages)+position/int(s.pageRows)])
	at := ((page*int(s.heads)+s.head)*int(s.pageRows) + position%int(s.pageRows)) * s.words
	return cache[at:][:s.words]
}

// first is the first position of a span.
func first(tok device.Token, local uint32) int {
	if local != 0 {
		return int(tok.From)
	}
	return 0
}

func scores(op device.Scores, c device.CacheType, b buffers) {
	dim, n := int(op.Dim), int(op.Heads)
	ofQuery := c.QueryWords(dim)
	for t, tok := range b.tokens(2)[:op.N] {
		from := first(tok, op.Local)
		for h := range n {
			at := shape{op.KVHeads, op.PageRows, c.RowWords(dim), h / (n / int(op.KVHeads))}
			q, z := b.u32(0)[(t*n+h)*ofQuery:][:ofQuery], b.f32(4)[(t*n+h)*int(op.Span):][:op.Span]
			for j := from; j <= int(tok.Position); j++ {
				v := float32(score(q, row(b.u32(1), tok, j, b.u32(3), at), dim, c) * op.Scale)
				if op.Cap != 0 {
					v = tensor.SoftCap(v, op.Cap)
				}
				z[j-from] = v
			}
		}
	}
}

func attend(op device.Attend, c device.CacheType, b buffers) {
	dim, n := int(op.Dim), int(op.Heads)
	for t, tok := range b.tokens(2)[:op.N] {
		from := first(tok, op.Local)
		for h := range n {
			z := b.f32(0)[(t*n+h)*int(op.Span):][:int(tok.Position)+1-from]
			sum := weights(z, &op, b.f32(4), h)
			at := shape{op.KVHeads, op.PageRows, c.RowWords(dim), h / (n / int(op.KVHeads))}
			o := b.f32(5)[(t*n+h)*dim:][:dim]
			clear(o)
			for j, e := range z {
				values, d := loadRow(row(b.u32(1), tok, from+j, b.u32(3), at), dim, c)
				if c >= device.CacheI8 {
					e = float32(e * d)
				}
				for i, v := range values {
					o[i] = fma.Float32(e, v, o[i])
				}
			}
			for i := range o {
				o[i] /= sum
			}
			if c == device.CacheI4 {
				tensor.InverseHadamard(o)
			}
		}
	}
}

// weights turns scores into weights, and returns their sum.
func weights(z []float32, op *device.Attend, sinks []float32, head int) float32 {
	m := float32(math.Inf(-1))
	for _, v := range z {
		m = max(m, v)
	}
	if op.Sinks != 0 {
		m = max(m, sinks[head])
	}
	for j := range z {
		z[j] = tensor.Exp(z[j] - m)
	}
	sum := lanes(len(z), func(i int, l float32) float32 { return l + z[i] })
	if op.Sinks != 0 {
		sum += tensor.Exp(sinks[head] - m)
	}
	return sum
}

func residual(op device.Residual, b buffers) {
	n := int(op.Len)
	for t := range int(op.N) {
		y := b.f32(0)[t*int(op.LDY)+int(op.At):][:n]
		mark(b.u32(4), t, op.Step, normalize(op.Norm, y, b.f32(1), bias(b, 2, op.Bias), op.Eps))
		if op.Accumulate == 0 {
			continue
		}
		h := b.f32(3)[t*n:][:n]
		for i, v := range y {
			if op.Scale != 0 {
				v = float32(v * op.Scale)
			}
			h[i] += v
		}
	}
}

func finish(op device.Finish, b buffers) {
	for r := range int(op.N) {
		y := b.f32(0)[r*int(op.Vocab):][:op.Vocab]
		ok := true
		for i, v := range y {
			if op.Divisor != 0 {
				v /= op.Divisor
			}
			if op.Scale != 0 {
				v *= op.Scale
			}
			if op.Cap != 0 {
				v = tensor.SoftCap(v, op.Cap)
			}
			y[i], ok = v, ok && finite(v)
		}
		mark(b.u32(2), int(b.u32(1)[r]), op.Step, ok)
	}
}
