package engine

import "github.com/lowpack/lowpack/internal/mmap"

// readAhead starts to read the weights that every token multiplies, in the order in which the first pass will use them:
// workers that wait for one page after another read a disk at half its speed. Half of the free memory may hold what is
// not used yet. Each NUMA node reads its own rows, so that the page cache has them in its memory.
func (e *Engine) readAhead() {
	nodes := e.pool.Nodes()
	var list aheads
	for i := range nodes {
		stages := e.weights.stages(func(s portion, b []byte) []byte { return s.of(e.pool, i, b) })
		var begin func()
		if nodes > 1 {
			begin = func() { e.pool.Bind(i) }
		}
		ahead := mmap.ReadAhead(stages, availableMemory()/2/nodes, begin)
		list, e.close = append(list, ahead), append(e.close, ahead.Close)
	}
	e.ahead = list
}

// aheads are readers, one per node.
type aheads []*mmap.Ahead

func (list aheads) Reach(stage int) {
	for _, a := range list {
		a.Reach(stage)
	}
}

// stages lists what the blocks and then the head read of the file for every token, of each matrix the part that cut
// returns. Experts are left to tokens that choose them.
func (w *weights) stages(cut func(s portion, b []byte) []byte) [][][]byte {
	stages := make([][][]byte, len(w.blocks)+1)
	stages[0] = storedOf(cut, w.plain()...)
	for i := range w.blocks {
		stages[i] = append(stages[i], storedOf(cut, w.blocks[i].dense()...)...)
	}
	last := &stages[len(w.blocks)]
	if w.screen != nil { // few rows of the head are computed
		n := w.screen.codes.Panels()
		*last = append(*last, cut(portion{0, n, n}, w.screen.codes.Stored()))
	} else {
		*last = append(*last, storedOf(cut, &w.head)...)
	}
	return stages
}

// reach tells the reader that the pass begins a block, or the head.
func (e *Engine) reach(block int) {
	if e.ahead != nil {
		e.ahead.Reach(block)
	}
}

// storedOf lists the weights of projections that are read from where they are stored.
func storedOf(cut func(s portion, b []byte) []byte, list ...*projection) (parts [][]byte) {
	for _, f := range list {
		for i := range f.matrices {
			m := &f.matrices[i]
			s := portionOf(f, m)
			if m.codes != nil {
				parts = append(parts, cut(s, m.codes.Stored()))
			} else {
				parts = append(parts, cut(s, m.floats.Stored()))
			}
			if m.minima != nil {
				parts = append(parts, cut(s, m.minima.Stored()))
			}
		}
	}
	return parts
}
