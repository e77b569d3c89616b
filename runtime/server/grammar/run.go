package grammar

import (
	"slices"
)

// run is a part of an automaton that takes the same thing again and again: its nodes from one to another (exclusive)
// are copies, of size nodes each, of which one follows the other. Far from the last copy all places of a run allow the
// same tokens, so that what was found for one of them holds for the others.
type run struct{ from, to, size int32 }

// shortRun is the copies of a run of which some are far enough from the last one: a short token goes through as many as
// it has bytes.
const shortRun = 2 * maxShort

// note keeps a run of n copies in mind, the last nodes so far, instead of those within it.
func (b *builder) note(within, from, n int) {
	if size := (len(b.nodes) - from) / max(1, n); n > shortRun && size*n == len(b.nodes)-from {
		b.runs = append(b.runs[:within], run{int32(from), int32(len(b.nodes)), int32(size)})
	}
}

// holds says whether a run is what it should be: all copies but the last one are the same, and none is passed without a
// byte. nullable says which rules take the empty text.
func (r run) holds(nodes []node, nullable []bool) bool {
	for at := r.from; at < r.to-2*r.size; at++ {
		if !r.same(&nodes[at], &nodes[at+r.size]) {
			return false
		}
	}
	var seen []int32
	for at := range r.size {
		seen = append(seen, r.from+at)
	}
	for i := 0; i < len(seen); i++ {
		n := &nodes[seen[i]]
		next := slices.Clone(n.free)
		for _, c := range n.calls {
			if nullable[c.rule] {
				next = append(next, c.to)
			}
		}
		for _, to := range next {
			switch {
			case to >= r.from+2*r.size && to < r.to:
				return false
			case !slices.Contains(seen, to):
				seen = append(seen, to)
			}
		}
		if len(seen) > maxPlaces {
			return false
		}
	}
	return true
}

// same says whether a node is that of the copy behind another one.
func (r run) same(a, b *node) bool {
	moved := func(to int32) int32 {
		if to >= r.from && to < r.to {
			return to + r.size
		}
		return to
	}
	return a.end == b.end && a.tail == b.tail &&
		slices.EqualFunc(a.edges, b.edges,
			func(a, b edge) bool { return a.low == b.low && a.high == b.high && moved(a.to) == b.to }) &&
		slices.EqualFunc(a.free, b.free, func(a, b int32) bool { return moved(a) == b }) &&
		slices.EqualFunc(a.calls, b.calls, func(a, b call) bool { return a.rule == b.rule && moved(a.to) == b.to })
}

// place is where in a run a position is: in a copy, or in what is called from there.
type place struct {
	run, copy int32
	base      int32 // the frame of the run
}

// place finds the innermost run of a position; false = there is none.
func (g *Grammar) place(p position) (at place, found bool) {
	for node, frame := p.node, p.frame; ; node, frame = g.frames[frame].to, g.frames[frame].below {
		// the first that ends behind it
		i, _ := slices.BinarySearchFunc(g.runs, node+1, func(r run, to int32) int { return int(r.to - to) })
		if i < len(g.runs) && g.runs[i].from <= node {
			r := g.runs[i]
			return place{int32(i), (node - r.from) / r.size, frame}, true
		}
		if frame == 0 {
			return place{}, false
		}
	}
}

// move is the frame that a stack becomes where the one above base returns by some nodes later.
func (g *Grammar) move(frame, base, by int32) int32 {
	f := g.frames[frame]
	if f.below != base {
		f.below = g.move(f.below, base, by)
	} else {
		f.to += by
	}
	id, _ := g.push(f.to, f.below) // as deep as it was
	return id
}

// like returns the state that stands for those that allow the same short tokens, which may be s: the one in the last
// copy of a run that is far enough from the end.
func (g *Grammar) like(s *state) *state {
	var at place
	var inside []int
	for i, p := range s.positions {
		switch next, found := g.place(p); {
		case !found:
			continue
		case len(inside) == 0:
			at = next
		case next.run != at.run || next.base != at.base: // positions may meet here and not there
			return s
		default:
			at.copy = max(at.copy, next.copy)
		}
		inside = append(inside, i)
	}
	if len(inside) == 0 {
		return s
	}
	r := g.runs[at.run]
	// one copy more is entered without a byte, and the last one is not the same
	last := (r.to-r.from)/r.size - maxShort - 3
	by := (last - at.copy) * r.size
	if by <= 0 {
		return s
	}
	same := &state{accepts: s.accepts, positions: slices.Clone(s.positions)}
	for _, i := range inside {
		if p := &same.positions[i]; p.frame == at.base {
			p.node += by
		} else {
			p.frame = g.move(p.frame, at.base, by)
		}
	}
	return g.known(same)
}
