package tensor

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/internal/fma"
)

// TestHeads compares attention with N18, N27 and the codes of N82 as they are written, for head sizes with and without
// padding, windows, soft caps, sinks and all formats of the cache.
func TestHeads(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(15, 16))
		for _, dim := range []int{8, 16, 24, 64, 80, 100, 128, 144, 256} {
			for _, visible := range []int{1, 2, 3, 15, 16, 17, 63, 64, 65, 130, 200} {
				for _, typ := range []CacheType{CacheF32, CacheF16, CacheI8, CacheI4} {
					testHeads(t, r, typ, dim, visible)
				}
			}
		}
	})
}

func testHeads(t *testing.T, r *rand.Rand, typ CacheType, dim, visible int) {
	heads, from := 1+r.IntN(7), r.IntN(5)
	a := Attention{Scale: 1 / float32(math.Sqrt(float64(float32(dim))))}
	if r.IntN(2) == 0 {
		a.Cap = 30
	}
	rows := from + visible + 2
	keys, values := newCaches(typ, rows, dim, CacheBlock*(1+r.IntN(4)))
	k, v := make([][]float32, rows), make([][]float32, rows)
	for i := range rows {
		k[i], v[i] = ordinary(r, dim), ordinary(r, dim)
		keys.SetRow(i, k[i])
		values.SetRow(i, v[i])
	}
	if r.IntN(4) == 0 { // latent attention
		values, v = keys, k
	}
	width := keys.Width()
	tokens := 1 + r.IntN(TokensOf(heads))
	if r.IntN(2) == 0 {
		tokens = 1 + r.IntN(LeastTokens)
	}
	queries, all := make([]Query, tokens), make([]float32, tokens*heads*width)
	var sinks []float32
	if r.IntN(2) == 0 {
		sinks = ordinary(r, heads)
	}
	var slopes []float32
	if r.IntN(3) == 0 {
		slopes = ordinary(r, heads)
	}
	for i := range queries { // some see less, from either side
		span := Range{from + r.IntN(visible), from + visible - r.IntN(visible)}
		if i == 0 || span.Len() < 1 {
			span = Range{from, from + visible}
		}
		queries[i] = Query{make([]float32, heads*dim), span, sinks, slopes}
		for h := range heads {
			copy(all[(i*heads+h)*width:], ordinary(r, dim))
		}
	}
	s := NewScratch(heads, width, keys.Rows, make([]float32, ScoreSpace(tokens*heads, visible)))
	a.Heads(Queries{all, queries}, heads, dim, keys, values, s)
	c := attentionCase{a, heads, dim, keys, values, s}
	for i, q := range queries {
		x := all[i*heads*width:][:heads*width]
		if d := differ(c.inSteps(r, x, q), q.Dst); d != "" {
			t.Fatalf("%s, dim %d, %d heads, query %d: shared among several: %s", typ, dim, heads, i, d)
		}
		for h := range heads {
			keys, values := k[q.Span.From:q.Span.To], v[q.Span.From:q.Span.To]
			want := headReference(a, typ, x[h*width:][:dim], [2][][]float32{keys, values}, HeadOf(sinks, slopes, h),
				q.Span.From)
			if d := differ(q.Dst[h*dim:][:dim], want); d != "" {
				t.Fatalf("%s, dim %d, %d heads, query %d span %v: head %d: %s", typ, dim, heads, i, q.Span, h, d)
			}
		}
	}
}

// inSteps computes the attention of one token in steps, some rows and some columns at a time.
func (c *attentionCase) inSteps(r *rand.Rand, x []float32, q Query) (dst []float32) {
	n, width := q.Span.Len(), c.keys.Width()
	z, totals := Vectors{make([]float32, c.heads*n), n}, make([]float32, c.heads)
	for at := 0; at < n; {
		next := min(n, at+1+r.IntN(99))
		c.keys.Scores(z.at(at), x, c.heads, Range{q.Span.From + at, q.Span.From + next}, c.scratch)
		at = next
	}
	for h := range totals {
		totals[h] = c.Weights(z.from(h).Data[:n], c.values, q.Span, HeadOf(q.Sinks, q.Slopes, h))
	}
	out := Vectors{make([]float32, c.heads*width), width}
	for at := 0; at < width; {
		cols := Range{at, min(width, at+Lanes*(1+r.IntN(4)))}
		for row := 0; row < n; {
			to := min(n, row+1+r.IntN(99))
			rows := Range{q.Span.From + row, q.Span.From + to}
			c.values.AddWeighted(out.at(at), z.at(row), c.heads, rows, cols, c.scratch)
			row = to
		}
		at = cols.To
	}
	dst = make([]float32, c.heads*c.dim)
	for h := range c.heads {
		Divide(dst[h*c.dim:][:c.dim], out.from(h).Data, totals[h])
	}
	return dst
}

// attentionCase is a head, its caches, and scratch memory.
type attentionCase struct {
	Attention
	heads, dim   int
	keys, values *Cache
	scratch      *Scratch
}

// newCaches makes KV caches that share pages, and whose memory ends with them.
func newCaches(typ CacheType, rows, dim, page int) (keys, values *Cache) {
	_, row := typ.Row(dim)
	b := make([]byte, (rows+page-1)/page*page*row*2)
	k := NewKeys(typ, dim, Memory{b, page, 2 * page * row, nil})
	v := NewValues(typ, dim, Memory{b[page*row:], page, 2 * page * row, nil})
	return &k, &v
}

// stored is a row as a cache stores it: numbers and their scale.
func stored(typ CacheType, x []float32) (y []float32, scale float32) {
	y, scale = clone(x), 1
	switch typ {
	case CacheF16:
		for i := range y {
			y[i] = float16.Widen(float16.Narrow(y[i]))
		}
	case CacheI8, CacheI4:
		b := max(MaxAbs(x), 1e-5)
		for i := range y {
			y[i] = min(max(float32(math.RoundToEven(float64(x[i]*(127/b)))), -127), 127)
			if typ == CacheI4 {
				y[i] = nearestI4(y[i])
			}
		}
		scale = b / 127
	}
	return y, scale
}

// nearestI4 is N82: of two values that are as near, the one of the smaller magnitude.
func nearestI4(x float32) float32 {
	best := float32(6)
	for _, v := range []float32{18, 30, 43, 57, 73, 93, 121} {
		if x, y := max(x, -x), (best+v)/2; x > y {
			best = v
		}
	}
	if x < 0 {
		return -best
	}
	return best
}

// headReference is one head without padding, blocks or registers.
func headReference(a Attention, typ CacheType, q []float32, kv [2][][]float32, head Head, first int) []float32 {
	k, v := kv[0], kv[1]
	z := make([]float32, len(k))
	m := head.Sink
	for j := range z {
		key, scale := stored(typ, k[j])
		if typ == CacheI8 || typ == CacheI4 {
			query, queryScale := stored(CacheI8, q)
			sum := float32(0) // of integers below 2²⁴: exact
			for i := range query {
				sum += key[i] * query[i]
			}
			z[j] = sum * scale * queryScale
		} else {
			z[j] = dotReference(key, q)
		}
		z[j] *= a.Scale
		if a.Cap != 0 {
			z[j] = a.Cap * Tanh(z[j]/a.Cap)
		}
		if head.Slope != 0 {
			z[j] += float32(head.Slope * float32(first+j))
		}
		m = max(m, z[j])
	}
	for j := range z {
		z[j] = Exp(z[j] - m)
	}
	s := Sum(z) + Exp(head.Sink-m)
	o := make([]float32, len(q))
	for j, e := range z {
		value, scale := stored(typ, v[j])
		weight := e
		if typ == CacheI8 || typ == CacheI4 {
			weight = e * scale
		}
		for i := range o {
			o[i] = fma.Float32(weight, value[i], o[i])
		}
	}
	for i := range o {
		o[i] /= s
	}
	return o
}

// TestPageBytes: a page has the rows that its format says, each of the bytes that it says.
func TestPageBytes(t *testing.T) {
	for typ, want := range map[CacheType]int{CacheF32: 4 * 112, CacheF16: 2 * 112, CacheI8: 128 + 4, CacheI4: 64 + 4} {
		_, row := typ.Row(100)
		if row != want {
			t.Errorf("%s: a row has %d bytes, want %d", typ, row, want)
		}
		keys := NewKeys(typ, 100, Memory{Rows: 64})
		if got := keys.PageBytes(); got != 64*row {
			t.Errorf("%s: a page of 64 rows of %d bytes has %d", typ, row, got)
		}
	}
}
