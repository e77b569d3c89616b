package tensor

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/internal/fma"
)

// TestHeads compares attention with N18 and N27 as they are written, for head sizes with and without padding, windows, soft
// caps, sinks and all formats of the cache.
func TestHeads(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(15, 16))
		for _, dim := range []int{8, 16, 24, 64, 80, 100, 128, 144, 256} {
			for _, visible := range []int{1, 2, 3, 15, 16, 17, 63, 64, 65, 130, 200} {
				for _, typ := range []CacheType{CacheF32, CacheF16, CacheI8} {
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
	width := keys.Width()
	queries := make([]Query, 1+r.IntN(MostQueries))
	var sinks []float32
	if r.IntN(2) == 0 {
		sinks = ordinary(r, heads)
	}
	for i := range queries { // some see less, from either side
		span := Range{from + r.IntN(visible), from + visible - r.IntN(visible)}
		if i == 0 || span.Len() < 1 {
			span = Range{from, from + visible}
		}
		queries[i] = Query{make([]float32, heads*width), make([]float32, heads*dim), span, sinks}
		for h := range heads {
			copy(queries[i].Q[h*width:], ordinary(r, dim))
		}
	}
	s := NewScratch(heads, width, keys.Rows, make([]float32, MostQueries*heads*visible))
	a.Heads(queries, heads, dim, keys, values, s)
	for i, q := range queries {
		stepwise := make([]float32, heads*dim)
		inSteps(r, a, stepwise, q, heads, dim, keys, values, s)
		if d := differ(stepwise, q.Dst); d != "" {
			t.Fatalf("%s, dim %d, %d heads, query %d: shared among several: %s", typ, dim, heads, i, d)
		}
		for h := range heads {
			want := headReference(a, typ, q.Q[h*width:][:dim], k[q.Span.From:q.Span.To], v[q.Span.From:q.Span.To], q.sink(h))
			if d := differ(q.Dst[h*dim:][:dim], want); d != "" {
				t.Fatalf("%s, dim %d, %d heads, query %d span %v: head %d: %s", typ, dim, heads, i, q.Span, h, d)
			}
		}
	}
}

// inSteps computes the attention of one token in steps, some rows and some columns at a time.
func inSteps(r *rand.Rand, a Attention, dst []float32, q Query, heads, dim int, keys, values *Cache, s *Scratch) {
	n, width := q.Span.Len(), keys.Width()
	z, totals := make([]float32, heads*n), make([]float32, heads)
	for at := 0; at < n; {
		next := min(n, at+1+r.IntN(99))
		a.Scores(z[at:], n, q.Q, heads, keys, Range{q.Span.From + at, q.Span.From + next}, s)
		at = next
	}
	for h := range heads {
		totals[h] = a.Weights(z[h*n:][:n], values, q.Span, q.sink(h))
	}
	out := make([]float32, heads*width)
	for at := 0; at < width; {
		next := min(width, at+Lanes*(1+r.IntN(4)))
		for row := 0; row < n; {
			to := min(n, row+1+r.IntN(99))
			a.Weigh(out[at:], width, z[row:], n, heads, values, Range{q.Span.From + row, q.Span.From + to}, Range{at, next}, s)
			row = to
		}
		at = next
	}
	for h := range heads {
		Divide(dst[h*dim:][:dim], out[h*width:], totals[h])
	}
}

// newCaches makes KV caches that share pages, and whose memory ends with them.
func newCaches(typ CacheType, rows, dim, page int) (keys, values *Cache) {
	_, row := typ.Row(dim)
	b := make([]byte, (rows+page-1)/page*page*row*2)
	k, v := NewKeys(typ, dim, Memory{b, page, 2 * page * row, nil}), NewValues(typ, dim, Memory{b[page*row:], page, 2 * page * row, nil})
	return &k, &v
}

// stored is what becomes of a row in a cache: numbers, and a step that they are multiplied by.
func stored(typ CacheType, x []float32) (y []float32, step float32) {
	y, step = clone(x), 1
	switch typ {
	case CacheF16:
		for i := range y {
			y[i] = float16.Widen(float16.Narrow(y[i]))
		}
	case CacheI8:
		b := max(MaxAbs(x), 1e-5)
		for i := range y {
			y[i] = min(max(float32(math.RoundToEven(float64(x[i]*(127/b)))), -127), 127)
		}
		step = b / 127
	}
	return y, step
}

// headReference is one head without padding, blocks or registers.
func headReference(a Attention, typ CacheType, q []float32, k, v [][]float32, sink float32) []float32 {
	z := make([]float32, len(k))
	m := sink
	for j := range z {
		key, step := stored(typ, k[j])
		if typ == CacheI8 {
			query, queryStep := stored(typ, q)
			sum := float32(0) // of integers below 2²⁴: exact
			for i := range query {
				sum += key[i] * query[i]
			}
			z[j] = sum * step * queryStep
		} else {
			z[j] = dotReference(key, q)
		}
		z[j] *= a.Scale
		if a.Cap != 0 {
			z[j] = a.Cap * Tanh(z[j]/a.Cap)
		}
		m = max(m, z[j])
	}
	for j := range z {
		z[j] = Exp(z[j] - m)
	}
	s := Sum(z) + Exp(sink-m)
	o := make([]float32, len(q))
	for j, e := range z {
		value, step := stored(typ, v[j])
		weight := e
		if typ == CacheI8 {
			weight = e * step
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
