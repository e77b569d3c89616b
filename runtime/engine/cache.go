package engine

import (
	"fmt"
	"math"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/tensor"
)

// Sequence is a text in the making: the keys and values of its tokens so far. Forward appends to it.
type Sequence struct {
	e    *Engine
	open bool
	n    int // tokens
	kv   []layerCache
}

// layerCache holds keys and values of one layer: a matrix per key/value head, with one row per position. Rows are padded
// with zeros to whole blocks of lanes, which changes no sum: a lane is never −0, and adding +0 to it leaves it.
type layerCache struct{ keys, values []*tensor.Matrix }

// cacheBytes is the size of the cache of one sequence. A float64 holds what overflows an int.
func cacheBytes(d *model.Description, context int) float64 {
	return 2 * float64(d.Layers) * float64(d.KVHeads) * float64(context) * float64(padded(d.HeadDim)*tensor.F32.Size())
}

// padded is n rounded up to whole blocks of lanes.
func padded(n int) int { return (n + tensor.Lanes - 1) / tensor.Lanes * tensor.Lanes }

// newSequence allocates the cache of a sequence.
func (e *Engine) newSequence() *Sequence {
	s := &Sequence{e: e, kv: make([]layerCache, e.desc.Layers)}
	rows, cols := e.opt.Context, padded(e.desc.HeadDim)
	all := make([]byte, int(cacheBytes(e.desc, rows)))
	size := rows * cols * tensor.F32.Size()
	cut := func() []*tensor.Matrix {
		list := make([]*tensor.Matrix, e.desc.KVHeads)
		for i := range list {
			m, err := tensor.NewMatrix(tensor.F32, rows, cols, all[:size])
			if err != nil {
				panic(err) // the sizes are computed from one another
			}
			list[i], all = m, all[size:]
		}
		return list
	}
	for i := range s.kv {
		s.kv[i] = layerCache{cut(), cut()}
	}
	return s
}

// unknownMemory stands for the free memory where the system does not tell: then an allocation that fails ends the
// process with a message of Go's.
const unknownMemory = math.MaxInt / 2

// allocate gets the memory for sequences and passes, after a check that it is there.
func (e *Engine) allocate() error {
	d, o := e.desc, e.opt
	free, work := float64(availableMemory()), e.passBytes()
	cache := cacheBytes(d, o.Context) * float64(o.Sequences)
	if cache+work > free {
		const mib = 1 << 20
		fits := max(0, int((free-work)/(cacheBytes(d, 1)*float64(o.Sequences))))
		return fmt.Errorf("%w: %d sequences of %d tokens need %.0f MiB for keys and values and %.0f MiB to compute with, but %.0f MiB of memory are free; ask for a context of at most %d tokens, or for fewer sequences",
			pack.ErrLimit, o.Sequences, o.Context, cache/mib, work/mib, free/mib, fits)
	}
	for range o.Sequences {
		e.sequences = append(e.sequences, e.newSequence())
	}
	e.newPass()
	return nil
}

// NewSequence opens an empty sequence. As many as Options.Sequences can be open at once.
func (e *Engine) NewSequence() (*Sequence, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.sequences {
		if !s.open {
			s.open, s.n = true, 0
			return s, nil
		}
	}
	return nil, fmt.Errorf("%w: all %d sequences are open; close one, or make the engine with more", pack.ErrLimit, len(e.sequences))
}

// Len is the number of tokens of the sequence.
func (s *Sequence) Len() int { return s.n }

// Truncate forgets the tokens from position n on.
func (s *Sequence) Truncate(n int) {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	s.n = max(0, min(s.n, n))
}

// Close gives the sequence back. It must not be used afterwards.
func (s *Sequence) Close() {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	s.open = false
}
