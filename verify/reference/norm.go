package reference

import (
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
)

// norm is a norm of the model; without a size it is a step that does not exist.
type norm struct {
	size    int       // of the vectors that are normalized
	weights []float32 // as 1 + w where the model asks for it; of several heads if there are more than size; nil = ones
	bias    []float32 // nil = none
	center  bool      // LayerNorm (N40)
	eps     float32
}

// apply normalizes one vector, the k-th of several that may have weights of their own. It reports whether the mean
// square is finite (N4).
func (n *norm) apply(x []float32, k int) ([]float32, bool) {
	if n.center {
		mean := sum(x) / float32(len(x))
		centered := make([]float32, len(x))
		for i, v := range x {
			centered[i] = v - mean
		}
		x = centered
	}
	w := n.weights
	if len(w) > n.size {
		w = w[k*n.size:][:n.size]
	}
	y, ok := rmsNorm(x, w, n.eps)
	for i, b := range n.bias {
		y[i] = y[i] + b
	}
	return y, ok
}

// openNorm reads the weights of a norm (N13, N40).
func openNorm(v packed.View, d *model.Description, from model.Norm, n int) (out norm, err error) {
	if from.Skipped() {
		return out, nil
	}
	out = norm{size: n, center: d.LayerNorm, eps: d.NormEps}
	if out.weights, err = openVector(v, from.Weight, n); err != nil {
		return out, err
	}
	out.bias, err = openVector(v, from.Bias, n)
	out.raise(d)
	return out, err
}

// raise adds 1 to the weights where the model asks for it.
func (n *norm) raise(d *model.Description) {
	for i := range n.weights {
		if d.NormPlusOne {
			n.weights[i] = 1 + n.weights[i]
		}
	}
}

// openHeadNorm reads the norm of queries or keys, of heads of a size.
func openHeadNorm(v packed.View, d *model.Description, size int, from model.Norm, heads int) (norm, error) {
	switch {
	case from.Skipped() || d.HeadNorm == model.EachHead:
		return openNorm(v, d, from, size)
	case d.HeadNorm == model.WholeHead:
		return openNorm(v, d, from, heads*size)
	}
	out := norm{size: size, center: d.LayerNorm, eps: d.NormEps}
	if !from.Apart() {
		f, err := openFloats(v, from.Weight, heads, size)
		if err != nil {
			return out, err
		}
		out.weights = make([]float32, heads*size)
		for h := range heads {
			f.row(out.weights[h*size:][:size], h)
		}
	}
	for h := 0; from.Apart() && h < heads; h++ {
		w, err := openVector(v, from.Of(h), size)
		if err != nil {
			return out, err
		}
		out.weights = append(out.weights, w...)
	}
	out.raise(d)
	return out, nil
}
