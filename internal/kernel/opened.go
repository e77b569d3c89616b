package kernel

import (
	"sync"

	"github.com/lowpack/lowpack/pack"
)

// Digits in two planes (layout vnni4p) that become int8 before many tokens are multiplied by them: every tile of tokens
// joins the parts of digits once more, while int8 takes one instruction or none. Sums are the same numbers.

// planeWidths are the numbers of bits of the parts of digits.
var planeWidths = map[string]struct{ low, high int }{
	pack.Int3.Name: {2, 1}, pack.Int5.Name: {4, 1}, pack.Int6.Name: {4, 2},
}

// opening is how panels become int8.
type opening struct {
	tokens int                             // minimum, or byTuning
	open   func(dst, src *byte, fours int) // writes groups of four columns in the order of vnni4
	wide   tiled                           // multiplies what it writes
}

// opening adds a family for int8 for large batches.
func (m method) opening(open func(dst, src *byte, fours int), wide family, o operands) method {
	few := m.bind
	m.bind = func(w *Weights) (product, error) {
		l, err := pack.Open(pack.Spec{Name: "vnni4", Alphabet: pack.Int8.Name})
		if err != nil {
			return nil, err
		}
		bytes, err := newTiled(w, l.(pack.Paneled), nil, wide, o)
		if err != nil {
			return nil, err
		}
		p, err := few(w)
		if err == nil {
			p.(*tiled).opened = &opening{w.tokensFrom(Int8First, wholeRows), open, *bytes.(*tiled)}
		}
		return p, err
	}
	return m
}

// opens reports whether weights become int8 first.
func (p *tiled) opens(tokens int) bool {
	return p.opened != nil && atLeast(tokens, p.opened.tokens, tuned.opened)
}

// openedRoom holds int8 weights, and what multiplies them.
type openedRoom struct {
	bytes []byte
	wide  tiled
}

// openedRooms keeps them between calls.
var openedRooms = sync.Pool{New: func() any { return new(openedRoom) }}

// mulOpened multiplies as many panels at a time as a call takes.
func (p *tiled) mulOpened(c call) {
	room, fours := openedRooms.Get().(*openedRoom), ceilDiv(p.w.Shape.K, 4)
	room.wide = p.opened.wide
	run := runOf(room.wide.panel, c.t1-c.t0)
	if n := run * room.wide.panel; len(room.bytes) < n {
		room.bytes = alignedTo(4096, n)
	}
	room.wide.packed = room.bytes
	for from := c.p0; from < c.p1; from += run {
		part := c
		part.p0, part.p1, room.wide.first = from, min(from+run, c.p1), from
		p.opened.open(&room.bytes[0], &p.packed[from*p.panel], fours*(part.p1-part.p0))
		room.wide.mul(part)
	}
	room.wide = tiled{} // keeps nothing alive
	openedRooms.Put(room)
}
