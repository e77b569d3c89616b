package bench

import "github.com/lowpack/lowpack/formats/model"

// floatBytes is the size of a value of the KV cache, of a state and of the filter of a convolution.
const floatBytes = 4

// attended is the number of positions that n tokens at a context depth attend to, in all: depth + 1, depth + 2, …
func attended(n, depth int) int { return n*depth + n*(n+1)/2 }

// attentionWork is that of attention without a window. Bytes: a key and a value of HeadDim values for each of KVHeads
// heads and each of depth + n positions. Operations: for each head and each position that a token attends to, a product
// and an addition per value of the key and per value of the value.
func attentionWork(c *model.Config, n, depth int) (bytes, ops int) {
	bytes = floatBytes * (depth + n) * 2 * c.KVHeads * c.HeadDim
	return bytes, attended(n, depth) * c.Heads * 4 * c.HeadDim
}

// latentWork is that of latent attention. Bytes: a latent vector of Rank + Rope.Dim values for each of depth + n
// positions, and the matrices that make keys and values, Heads·(Nope + Value)·Rank values of BF16. Operations: two per
// weight and token; and for each head and each position that a token attends to, two per value of the latent vector for
// the score, and two per value of its first Rank ones for the sum.
func latentWork(c *model.Config, n, depth int) (bytes, ops int) {
	const bf16 = 2
	x := c.Latent
	weights := c.Heads * (x.Nope + x.Value) * x.Rank
	bytes = floatBytes*(depth+n)*(x.Rank+c.Rope.Dim) + bf16*weights
	return bytes, 2*n*weights + attended(n, depth)*c.Heads*2*(2*x.Rank+c.Rope.Dim)
}

// recurrentWork is that of a recurrent layer. Bytes: the state, read and written once for all n tokens, and the
// filters. Operations of a token: two per weight of the filters; for a gated short convolution a product per channel in
// front of it and one behind it; for each value of the state of Mamba-2 five (decay, input, output), of a gated delta
// rule seven (decay, the value that is there, input, output).
func recurrentWork(m *model.Mixer, n int) (bytes, ops int) {
	filters := m.Conv.Channels * m.Conv.Width
	bytes, ops = floatBytes*(2*m.State()+filters), 2*filters
	switch s, x := m.SSD, m.Delta; {
	case s != nil:
		ops += 5 * s.Heads * s.HeadDim * s.StateDim
	case x != nil:
		ops += 7 * x.ValueHeads * x.ValueDim * x.KeyDim
	default:
		ops += 2 * m.Conv.Channels
	}
	return bytes, n * ops
}
