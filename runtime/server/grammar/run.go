package grammar

import (
	"slices"
)

// run is a counted repetition: nodes from to to (exclusive) are consecutive copies of size nodes each. Far from the
// last copy, all positions of a run allow the same tokens, so one mask serves them all.
type run struct{ from, to, size int32 }

// shortRun is the number of copies from which a run is worth tracking: a short token passes at most as many copies as
// it has bytes.
const shortRun = 2 * maxShort

// note records the last nodes as a run of n copies, in place of the runs inside it.
func (b *builder) note(within, from, n int) {
	if size := (len(b.nodes) - from) / max(1, n); n > shortRun && size*n == len(b.nodes)-from {
		b.runs = append(b.runs[:within], run{int32(from), int32(len(b.nodes)), int32(size)})
	}
}

// holds reports whether a run is valid: all copies but the last are identical, and none can be passed without a byte.
// nullable says which rules match the empty text.
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

// same reports whether b equals a moved by one copy.
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

// place is a position relative to a run: the copy that it is in or was called from.
type place struct {
	run, copy int32
	base      int32 // frame of the run
}

// place returns the innermost run of a position; false = none.
func (g *Grammar) place(p position) (at place, found bool) {
	for node, frame := p.node, p.frame; ; node, frame = g.frames[frame].to, g.frames[frame].below {
		// the first run that ends after node
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

// move returns the frame of a stack whose frame directly above base returns by nodes later.
func (g *Grammar) move(frame, base, by int32) int32 {
	f := g.frames[frame]
	if f.below != base {
		f.below = g.move(f.below, base, by)
	} else {
		f.to += by
	}
	id, _ := g.push(f.to, f.below) // cannot fail: it was as deep before
	return id
}

// like returns a representative state with the same short tokens, possibly s itself: the one in the last copy of the
// run that is far enough from the end.
func (g *Grammar) like(s *state) *state {
	var at place
	var inside []int
	for i, p := range s.positions {
		switch next, found := g.place(p); {
		case !found:
			continue
		case len(inside) == 0:
			at = next
		// the positions may later coincide, in the representative state not
		case next.run != at.run || next.base != at.base:
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
	// one extra copy is entered without a byte, and the last copy differs
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
