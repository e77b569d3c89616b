package engine

import "github.com/lowpack/lowpack/internal/mmap"

// readAhead starts to read the weights that every token multiplies, in the order in which the first pass will use them:
// workers that wait for one page after another read a disk at half its speed. Half of the free memory may hold what is
// not used yet.
func (e *Engine) readAhead() {
	ahead := mmap.ReadAhead(e.weights.stages(), availableMemory()/2)
	e.ahead, e.close = ahead, append(e.close, ahead.Close)
}

// stages lists what the blocks and then the head read of the file for every token. Experts are left to tokens that
// choose them.
func (w *weights) stages() [][][]byte {
	stages := make([][][]byte, len(w.blocks)+1)
	stages[0] = storedOf(w.plain()...)
	for i := range w.blocks {
		stages[i] = append(stages[i], storedOf(w.blocks[i].dense()...)...)
	}
	last := &stages[len(w.blocks)]
	if w.screen != nil { // few rows of the head are computed
		*last = append(*last, w.screen.codes.Stored())
	} else {
		*last = append(*last, storedOf(&w.head)...)
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
func storedOf(list ...*projection) (parts [][]byte) {
	for _, f := range list {
		for i := range f.matrices {
			m := &f.matrices[i]
			if m.codes != nil {
				parts = append(parts, m.codes.Stored())
			} else {
				parts = append(parts, m.floats.Stored())
			}
			if m.minima != nil {
				parts = append(parts, m.minima.Stored())
			}
		}
	}
	return parts
}
