package tensor

// Attention is the part of attention that all heads share (N18).
type Attention struct {
	Scale float32 // of the scores
	Cap   float32 // soft cap of the scores; 0 = none
}

// positions is how many cached positions all query heads visit before the next ones: they stay in the first-level cache
// meanwhile, so that grouped queries read keys and values from memory once.
const positions = 64

// Scratch is the size of the scratch memory that Heads needs for so many visible positions.
func Scratch(heads, width, visible int) int { return heads * (visible + width + 1) }

// Heads computes the attention of the query heads that share one key/value head. The visible positions are the rows
// [from, to) of keys and values, at least one. q is [heads][keys.Cols]; dst receives [heads][dim], dim ≤ values.Cols: the
// columns beyond are padding. scratch has Scratch(heads, values.Cols, to − from) elements.
func (a Attention) Heads(dst []float32, dim int, q []float32, heads int, keys, values *Matrix, from, to int, scratch []float32) {
	n, width := to-from, values.Cols
	scores, sums, out := scratch[:heads*n], scratch[heads*n:][:heads], scratch[heads*(n+1):][:heads*width]
	for j := 0; j < n; j += positions {
		keys.Mul(scores[j:], n, q, keys.Cols, heads, from+j, from+min(j+positions, n))
	}
	for h := range heads {
		z := scores[h*n:][:n]
		Times(z, a.Scale)
		if a.Cap != 0 {
			SoftCaps(z, a.Cap)
		}
		sums[h] = Softmax(z)
	}
	clear(out)
	for j := 0; j < n; j += positions {
		for h := range heads {
			values.Weigh(out[h*width:][:width], scores[h*n:][j:min(j+positions, n)], from+j)
		}
	}
	for h := range heads {
		Divide(dst[h*dim:][:dim], out[h*width:], sums[h])
	}
}
