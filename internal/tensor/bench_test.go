package tensor

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/kernel/roofline"
	"github.com/lowpack/lowpack/internal/offheap"
)

// BenchmarkMul streams the rows of a matrix from memory (128 MB) and from a cache (256 KB) through one core.
func BenchmarkMul(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, typ := range []Type{BF16, F32} {
		for _, size := range []int{256 << 10, 128 << 20} {
			for _, n := range []int{1, 4, 8, 16} {
				const cols = 2560
				rows := size / cols / typ.Size()
				m, err := NewMatrix(typ, rows, cols, bytes.Repeat([]byte{0x3c}, rows*cols*typ.Size()))
				if err != nil {
					b.Fatal(err)
				}
				x, y := ordinary(r, n*cols), make([]float32, n*rows)
				b.Run(fmt.Sprintf("%v/%dKB/x%d", typ, size>>10, n), func(b *testing.B) {
					b.SetBytes(int64(rows * cols * typ.Size()))
					ofLimit(b, 2*n*rows*cols, func() { m.Mul(Vectors{y, rows}, Vectors{x, cols}, n, Range{0, rows}) })
				})
			}
		}
	}
}

// BenchmarkQuantizeGroups quantizes a vector that lies in a cache, and reports fractions of what this core reads from
// there meanwhile.
func BenchmarkQuantizeGroups(b *testing.B) {
	const n = 8192
	pool := kernel.NewPool(1)
	defer pool.Close()
	x, q := ordinary(rand.New(rand.NewPCG(4, 4)), n), make([]int8, n)
	data := make([]byte, 4*n)
	reader := roofline.NewReader(data, pool)
	for _, group := range []int{32, 64, 128} {
		b.Run(fmt.Sprint(group), func(b *testing.B) {
			d := make([]float32, n/group)
			quantize := func() { QuantizeGroups(q, d, x, group) }
			best := roofline.Fastest(200*time.Millisecond, quantize, func() { reader.Run(pool) })
			for b.Loop() {
				quantize()
			}
			b.ReportMetric(roofline.GBs(len(data), best[0]), "GB/s")
			b.ReportMetric(best[1].Seconds()/best[0].Seconds(), "of-read")
		})
	}
}

// BenchmarkHeads computes the attention of as many tokens as attend together, the last one to 256 positions.
func BenchmarkHeads(b *testing.B) {
	const heads, dim, visible = 4, 128, 256
	tokens := TokensOf(heads)
	r := rand.New(rand.NewPCG(2, 2))
	for _, typ := range []CacheType{CacheF32, CacheF16, CacheI8, CacheI4} {
		keys, values := newCaches(typ, visible, dim, typ.PageRows(dim))
		for i := range visible {
			keys.SetRow(i, ordinary(r, dim))
			values.SetRow(i, ordinary(r, dim))
		}
		queries, q, seen := make([]Query, tokens), ordinary(r, tokens*heads*dim), 0
		for i := range queries {
			queries[i] = Query{Dst: make([]float32, heads*dim), Span: Range{0, visible - tokens + 1 + i}}
			seen += queries[i].Span.Len()
		}
		a := Attention{Scale: 0.1}
		s := NewScratch(heads, dim, CacheBlock, make([]float32, ScoreSpace(tokens*heads, visible)))
		b.Run(string(typ), func(b *testing.B) {
			ofLimit(b, 2*2*heads*seen*dim, func() { a.Heads(Queries{q, queries}, heads, dim, keys, values, s) })
		})
	}
}

// BenchmarkToken computes the steps of the attention of one token to 8,192 positions of many heads, from memory, as one
// worker does, and reports fractions of what this core reads meanwhile.
func BenchmarkToken(b *testing.B) {
	const visible, pageBytes = 8192, 32 << 10
	pool := kernel.NewPool(1)
	defer pool.Close()
	r := rand.New(rand.NewPCG(3, 3))
	for _, typ := range []CacheType{CacheF32, CacheF16, CacheI8, CacheI4} {
		for _, shape := range [][2]int{{64, 3}, {128, 1}, {128, 4}, {128, 7}, {256, 2}} {
			dim, heads := shape[0], shape[1]
			_, row := typ.Row(dim)
			caches := (64 << 20) / visible / row
			page := pageBytes / row &^ (CacheBlock - 1)
			stride := 2 * caches * page * row
			memory, err := offheap.New((visible + page - 1) / page * stride)
			if err != nil {
				b.Fatal(err)
			}
			defer memory.Free()
			const rows = 64 // that differ
			x := ordinary(r, rows*dim)
			var keys, values []Cache
			for i := range caches {
				keys = append(keys, NewKeys(typ, dim, Memory{memory.Bytes[i*page*row:], page, stride, nil}))
				values = append(values, NewValues(typ, dim,
					Memory{memory.Bytes[(caches+i)*page*row:], page, stride, nil}))
				for j := range visible {
					keys[i].SetRow(j, x[j%rows*dim:][:dim])
					values[i].SetRow(j, x[j%rows*dim:][:dim])
				}
			}
			s, width := NewScratch(heads, dim, page, make([]float32, MostQueries*heads)), keys[0].Width()
			const layer = 4 // caches, whose scores stay in a cache until the values come
			q, o := ordinary(r, heads*width), make([]float32, caches*heads*width)
			scores := Vectors{make([]float32, layer*heads*visible), visible}
			pages := func(each func(i int, rows Range)) {
				for rows := range (Range{0, visible}).blocks(page) {
					for i := range caches {
						each(i, rows)
					}
				}
			}
			b.Run(fmt.Sprintf("%s/%dx%d", typ, dim, heads), func(b *testing.B) {
				n := visible * caches * row
				reader := roofline.NewReader(memory.Bytes[:n], pool)
				best := roofline.Fastest(300*time.Millisecond, func() {
					pages(func(i int, rows Range) {
						keys[i].Scores(scores.at(i%layer*heads*visible+rows.From), q, heads, rows, s)
					})
				}, func() {
					clear(o)
					pages(func(i int, rows Range) {
						z := scores.at(i%layer*heads*visible + rows.From)
						values[i].AddWeighted(Vectors{o[i*heads*width:], width}, z, heads, rows, Range{0, width}, s)
					})
				}, func() { reader.Run(pool) })
				for b.Loop() {
					keys[0].Scores(scores, q, heads, Range{0, visible}, s)
				}
				b.ReportMetric(roofline.GBs(n, best[2]), "read-GB/s")
				b.ReportMetric(float64(best[2])/float64(best[0]), "keys-of-read")
				b.ReportMetric(float64(best[2])/float64(best[1]), "values-of-read")
			})
		}
	}
}

// BenchmarkCachedToken computes the steps of the attention of one token to few positions, from the first-level cache.
// What it reports is the bandwidth that the instructions alone allow: memory that is slower is the bound. Best of many
// short runs, it holds on a machine that others use.
func BenchmarkCachedToken(b *testing.B) {
	const visible, dim, times = 64, 128, 20
	r := rand.New(rand.NewPCG(4, 4))
	for _, typ := range []CacheType{CacheF32, CacheF16, CacheI8, CacheI4} {
		for _, heads := range []int{1, 2, 4, 7} {
			keys, values := newCaches(typ, visible, dim, visible)
			for i := range visible {
				keys.SetRow(i, ordinary(r, dim))
				values.SetRow(i, ordinary(r, dim))
			}
			_, row := typ.Row(dim)
			s, all := NewScratch(heads, dim, visible, nil), Range{0, visible}
			q, z, o := ordinary(r, heads*dim), Vectors{ordinary(r, heads*visible), visible}, make([]float32, heads*dim)
			b.Run(fmt.Sprintf("%s/%dx%d", typ, dim, heads), func(b *testing.B) {
				best := roofline.Fastest(200*time.Millisecond, func() {
					for range times {
						keys.Scores(z, q, heads, all, s)
					}
				}, func() {
					for range times {
						values.AddWeighted(Vectors{o, dim}, z, heads, all, Range{0, dim}, s)
					}
				})
				for b.Loop() {
					keys.Scores(z, q, heads, all, s)
				}
				b.ReportMetric(roofline.GBs(times*visible*row, best[0]), "keys-GB/s")
				b.ReportMetric(roofline.GBs(times*visible*row, best[1]), "values-GB/s")
			})
		}
	}
}

// ofLimit runs f and reports the best fraction of what this core multiplies and adds in registers meanwhile.
func ofLimit(b *testing.B, operations int, f func()) {
	const parts = 50
	m := &roofline.Multiplier{ISA: kernel.Best(), Floats: true}
	best := roofline.Fastest(200*time.Millisecond, f, func() { m.Do(0, parts) })
	for b.Loop() {
		f()
	}
	b.ReportMetric(roofline.GOPS(operations, best[0])/roofline.GOPS(parts*m.Operations(), best[1]), "of-limit")
}
