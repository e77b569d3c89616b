package engine

import "github.com/lowpack/lowpack/formats/model"

// scattered is a linear layer whose rows are runs among those of others in one tensor: where the outputs of the tensor
// start, and where those of the layer do once they are in order.
type scattered struct {
	model.Rows
	from, to int
}

// inOrderTask puts the outputs of a projection in the order of its linear layers.
type inOrderTask struct {
	projection *projection
	from, to   []float32 // [n][projection.out]
}

// inOrder returns the outputs of a projection, given as they are stored, in the order of its linear layers.
func (e *Engine) inOrder(f *projection, n int, y []float32) []float32 {
	p := &e.pass
	if len(f.scattered) == 0 {
		return y
	}
	p.order = inOrderTask{f, y, p.ordered}
	distribute(e.pool, n, 1, &p.order)
	return p.ordered
}

func (k *inOrderTask) Do(from, to int) {
	n := k.projection.out
	for t := from; t < to; t++ {
		src, dst := k.from[t*n:][:n], k.to[t*n:][:n]
		copy(dst, src)
		for _, s := range k.projection.scattered {
			for i := 0; i < s.Len(); i += s.Run {
				copy(dst[s.to+i:][:s.Run], src[s.from+s.At(i):])
			}
		}
	}
}
