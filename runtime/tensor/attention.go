package tensor

// Attention is the part of attention that all heads share (N18).
type Attention struct {
	Scale float32 // of the scores
	Cap   float32 // soft cap of the scores; 0 = none
}

// Scratch is memory for the attention of some heads at a time.
type Scratch struct {
	scores []float32 // [heads][visible]
	out    []float32 // [heads][width]
	sums   []int32   // [CacheBlock]
	query  []int8    // [width]
	totals []float32 // [heads]
}

// NewScratch makes scratch memory for heads query heads that share a key/value head of the given width, and that many
// visible positions.
func NewScratch(heads, width, visible int) *Scratch {
	return &Scratch{
		scores: make([]float32, heads*visible), out: make([]float32, heads*width), totals: make([]float32, heads),
		sums: make([]int32, CacheBlock), query: make([]int8, width),
	}
}

// Heads computes the attention of the query heads that share one key/value head. The visible positions are the rows
// [from, to) of keys and values, at least one. q is [heads][Width] with zeros as padding; dst receives [heads][dim].
func (a Attention) Heads(dst []float32, dim int, q []float32, heads int, keys, values Cache, from, to int, s *Scratch) {
	n, width := to-from, values.Width()
	for j := 0; j < n; j += CacheBlock {
		keys.Scores(s.scores[j:], n, q, heads, from+j, from+min(j+CacheBlock, n), s)
	}
	for h := range heads {
		z := s.scores[h*n:][:n]
		Times(z, a.Scale)
		if a.Cap != 0 {
			SoftCaps(z, a.Cap)
		}
		s.totals[h] = Softmax(z)
	}
	out := s.out[:heads*width]
	clear(out)
	for j := 0; j < n; j += CacheBlock {
		for h := range heads {
			values.Weigh(out[h*width:][:width], s.scores[h*n:][j:min(j+CacheBlock, n)], from+j)
		}
	}
	for h := range heads {
		Divide(dst[h*dim:][:dim], out[h*width:], s.totals[h])
	}
}
