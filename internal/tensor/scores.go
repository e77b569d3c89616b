package tensor

import (
	"encoding/binary"
	"math"

	"github.com/lowpack/lowpack/internal/fma"
)

// transposeGo sets column i of 16 rows, from their first byte at w, ldw bytes apart, to y[i·CacheBlock:][:16].
func transposeGo(y []float32, w []byte, ldw, cols int) {
	for r := range Lanes {
		row := w[r*ldw:][:4*cols]
		for i := range cols {
			y[i*CacheBlock+r] = math.Float32frombits(binary.LittleEndian.Uint32(row[4*i:]))
		}
	}
}

// scoresGo sets element j of z's vector t, of scoreTile, to the dot product (N6) of query t and key j, of CacheBlock,
// times c. k is the keys, transposed. The assembly also gets scratch memory, of partialSums.
func scoresGo(z Vectors, k []float32, q Vectors, width int, c float32) {
	for t := range scoreTile {
		for j := range CacheBlock {
			var l lanes
			for i, v := range q.from(t).Data[:width] {
				l[i%Lanes] = fma.Float32(v, k[i*CacheBlock+j], l[i%Lanes])
			}
			z.Data[t*z.Stride+j] = fold(&l) * c
		}
	}
}

const (
	scoreTile   = 4                          // queries of a call of scores
	partialSums = 3 * scoreTile * CacheBlock // sums that wait for others in a call of scores, at most
)

// transposedQueries is the number of queries from which transposing a block of keys costs less than it saves.
const transposedQueries = 16

// scaledScores sets element j of z's vector h to the score of row first+j, of a whole block of the keys, and query h:
// their product times scale. The number of queries is a multiple of scoreTile.
func (c *Cache) scaledScores(z Vectors, q []float32, queries Range, first int, scale float32, s *Scratch) {
	m, _ := c.panelAt(first, 0)
	r := c.inPage(Range{first, first + CacheBlock})
	if c.typ != F32 {
		m = m.widened(r, Range{0, m.Cols}, s.wide)
		r = Range{0, CacheBlock}
	}
	for at := 0; at < CacheBlock; at += Lanes {
		transpose(s.keys[at:], m.bytes(r.From+at, r.From+at+Lanes), 4*m.Cols, m.Cols)
	}
	for h := queries.From; h < queries.To; h += scoreTile {
		scores(z.from(h).Data, z.Stride, s.keys, q[h*c.width:], c.width, c.width, scale, s.partial)
	}
}
