package engine

import (
	"fmt"
	"sync/atomic"

	"github.com/lowpack/lowpack/pack"
)

// NonFinite is the error of a chunk whose computation left the range of floats (NUMERICS N4).
type NonFinite struct {
	Chunk    int    // index of the chunk in the batch
	Position int    // of the token in its sequence
	Step     string // "attention of layer 3", "feed-forward of layer 3", "final norm" or "output head"
}

func (e *NonFinite) Error() string {
	return fmt.Sprintf("%v: sequence %d of the batch, position %d: the %s gives values that are infinite or not a "+
		"number; the weights are damaged, or their scales are wrong",
		pack.ErrCorrupt, e.Chunk, e.Position, e.Step)
}

// Unwrap makes it a pack.ErrCorrupt.
func (e *NonFinite) Unwrap() error { return pack.ErrCorrupt }

// finiteCheck notes the tokens of a pass with non-finite values.
type finiteCheck struct {
	wrong atomic.Bool // some token is noted
	bad   []bool      // [n]: per token
}

// check notes that a value of token t is not finite. It can only affect its own chunk: no step mixes tokens of
// different sequences.
func (f *finiteCheck) check(t int, finite bool) {
	if !finite {
		f.bad[t] = true
		f.wrong.Store(true)
	}
}

// forget clears all notes.
func (f *finiteCheck) forget() {
	clear(f.bad)
	f.wrong.Store(false)
}

// failed reports whether the chunk of token t has an error.
func (p *pass) failed(t int) bool { return p.batch[p.tokens[t].chunk].Err != nil }

// blame turns what check has noted since the last call into errors: the first bad position of every chunk that has no
// error yet. It reports whether any chunk of the pass is still without one. layer is −1 outside the layers.
func (p *pass) blame(layer int, step string) (more bool) {
	if !p.wrong.Load() {
		return true
	}
	if layer >= 0 {
		step = fmt.Sprintf("%s of layer %d", step, layer)
	}
	for t, tok := range p.tokens {
		if p.bad[t] && !p.failed(t) {
			p.batch[tok.chunk].Err = &NonFinite{tok.chunk, tok.pos, step}
		}
		p.bad[t] = false
	}
	p.wrong.Store(false)
	for t := range p.tokens {
		more = more || !p.failed(t)
	}
	return more
}
