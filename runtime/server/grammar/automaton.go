// Package grammar constrains generated text: it says which tokens may come next so that the whole text has a given
// form, a regular expression or JSON of a schema.
//
// A grammar is a set of rules over bytes: automata whose edges take a byte, take nothing, or call another rule. A text
// is read by all of its possible positions at once, each with its stack of calls; such a set of positions is a state.
// States are made when they are first met and remembered, with the byte that leads from one to the next and the set of
// tokens that each allows, so that most steps look something up.
package grammar

import (
	"encoding/binary"
	"slices"
	"sync"
)

// Bounds of a grammar and of what is remembered of its states.
const (
	maxNodes  = 1 << 18
	maxDepth  = 256     // calls within calls: nesting of JSON
	maxPlaces = 1 << 12 // positions of an ambiguous text
	maxTail   = 64      // nodes without a choice up to the end of a rule
	maxStates = 1 << 13
	maxHeld   = 1 << 22 // positions of all states, of 16 bytes each, ways between them included
	maxFrames = 1 << 20 // stacks of calls
	maxMasks  = 1 << 8
	maxWork   = 1 << 24 // positions behind the bytes of all tokens, for one mask
)

// node is a place in an automaton.
type node struct {
	edges []edge
	free  []int32 // nodes that are reached without a byte
	calls []call
	end   bool // of its rule
	tail  bool // nothing but the end of its rule follows
}

// edge takes a byte of a range.
type edge struct {
	low, high byte
	to        int32
}

// call reads what a rule allows and goes on.
type call struct{ rule, to int32 }

// Grammar is the set of texts that are allowed. It is safe for concurrent use.
type Grammar struct {
	nodes   []node
	start   int32
	runs    []run
	class   [256]uint8 // of a byte: no edge tells bytes of a class apart
	classes int
	plain   []byte // a plain byte of each class that has one

	mu sync.Mutex
	*memory
}

// memory is what is remembered of the states that were met.
type memory struct {
	frames []frame
	frame  map[frame]int32
	states map[string]*state
	behind map[position]*state // of single positions, with all that they lead to without a byte
	held   int                 // positions of states
	masks  int
}

// frame is a stack of calls: where the last one returns to, and the frame below. The first frame is the empty stack.
type frame struct {
	to, below int32
	depth     int32
}

// position is a node with a stack.
type position struct{ node, frame int32 }

// state is a set of positions, those that wait for a byte.
type state struct {
	positions []position
	accepts   bool // the text may end here
	mask      *Mask
	next      []*state // by class of the next byte; nil = not known, or, of all, not remembered
}

// What stands for a state behind a byte that is not allowed, and for one of too many positions.
var blocked, crowded = new(state), new(state)

// grammar makes the grammar that begins at a node.
func (b *builder) grammar(start int32) *Grammar {
	for i := range b.nodes {
		b.nodes[i].tail = isTail(b.nodes, int32(i))
	}
	g := &Grammar{nodes: b.nodes, start: start}
	if len(b.runs) > 0 {
		nullable := b.reaching(false)
		g.runs = slices.DeleteFunc(b.runs, func(r run) bool { return !r.holds(b.nodes, nullable) })
	}
	g.classify()
	g.reset()
	return g
}

// classify gives bytes their classes.
func (g *Grammar) classify() {
	var begins [257]bool
	for i := range g.nodes {
		for _, e := range g.nodes[i].edges {
			begins[e.low], begins[int(e.high)+1] = true, true
		}
	}
	class := uint8(0)
	for b := range g.class {
		if begins[b] && b > 0 {
			class++
		}
		g.class[b] = class
		if n := len(g.plain); isPlain(byte(b)) && (n == 0 || g.class[g.plain[n-1]] != class) {
			g.plain = append(g.plain, byte(b))
		}
	}
	g.classes = int(class) + 1
}

// isTail says whether nothing but the end of its rule follows a node: what is called in front of it need not return
// there, so that a rule which ends with itself does not nest.
func isTail(nodes []node, at int32) bool {
	for range maxTail {
		switch n := &nodes[at]; {
		case len(n.edges) > 0 || len(n.calls) > 0 || len(n.free) > 1 || n.end && len(n.free) > 0:
			return false
		case n.end:
			return true
		case len(n.free) == 0:
			return false
		default:
			at = n.free[0]
		}
	}
	return false
}

// reset forgets all states and stacks but the empty one.
func (g *Grammar) reset() {
	g.memory = &memory{frames: []frame{{to: -1, below: -1}}, frame: map[frame]int32{}, states: map[string]*state{},
		behind: map[position]*state{}}
}

// first is the state of the empty text.
func (g *Grammar) first() *state { return g.intern([]position{{g.start, 0}}) }

// push returns the frame above another one; false = the stack is too deep.
func (g *Grammar) push(to, below int32) (int32, bool) {
	f := frame{to, below, g.frames[below].depth + 1}
	if f.depth > maxDepth {
		return 0, false
	}
	if id, ok := g.frame[f]; ok {
		return id, true
	}
	id := int32(len(g.frames))
	g.frames = append(g.frames, f)
	g.frame[f] = id
	return id, true
}

// intern returns the state of some positions and of all that they lead to without a byte; nil = there are too many.
func (g *Grammar) intern(from []position) *state {
	s := &state{}
	seen := map[position]bool{}
	for len(from) > 0 {
		p := from[len(from)-1]
		from = from[:len(from)-1]
		if seen[p] {
			continue
		}
		if seen[p] = true; len(seen) > maxPlaces {
			return nil
		}
		n := &g.nodes[p.node]
		if len(n.edges) > 0 {
			s.positions = append(s.positions, p)
		}
		for _, to := range n.free {
			from = append(from, position{to, p.frame})
		}
		for _, c := range n.calls {
			if g.nodes[c.to].tail {
				from = append(from, position{c.rule, p.frame})
			} else if f, ok := g.push(c.to, p.frame); ok {
				from = append(from, position{c.rule, f})
			}
		}
		if n.end && p.frame == 0 {
			s.accepts = true
		} else if n.end {
			f := g.frames[p.frame]
			from = append(from, position{f.to, f.below})
		}
	}
	return g.known(s)
}

// known returns the state with the positions of s, which may be s.
func (g *Grammar) known(s *state) *state {
	slices.SortFunc(s.positions, func(a, b position) int {
		if a.node != b.node {
			return int(a.node - b.node)
		}
		return int(a.frame - b.frame)
	})
	key := make([]byte, 0, 8*len(s.positions)+1)
	for _, p := range s.positions {
		key = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(key, uint32(p.node)), uint32(p.frame))
	}
	if s.accepts {
		key = append(key, 1)
	}
	if known := g.states[string(key)]; known != nil {
		return known
	}
	g.states[string(key)] = s
	g.held += len(s.positions)
	return s
}

// adopt returns the state that is the same as one of an earlier memory, whose stacks have other numbers.
func (g *Grammar) adopt(s *state, from *memory) *state {
	moved := map[int32]int32{0: 0}
	var move func(id int32) int32
	move = func(id int32) int32 {
		if to, ok := moved[id]; ok {
			return to
		}
		f := from.frames[id]
		to, _ := g.push(f.to, move(f.below)) // as deep as it was
		moved[id] = to
		return to
	}
	same := &state{accepts: s.accepts, positions: make([]position, len(s.positions))}
	for i, p := range s.positions {
		same.positions[i] = position{p.node, move(p.frame)}
	}
	return g.known(same)
}

// step is the state behind a byte; nil = the byte is not allowed.
func (g *Grammar) step(s *state, b byte) *state {
	if next := g.follow(s, b); next != blocked && next != crowded {
		return next
	}
	return nil
}

// follow is step that tells why: a byte that is not allowed leads to blocked, one that leads to too many positions to
// crowded.
func (g *Grammar) follow(s *state, b byte) *state {
	if next := s.after(g.class[b]); next != nil {
		return next
	}
	next := blocked
	var to []position
	for _, p := range s.positions {
		for _, e := range g.nodes[p.node].edges {
			if e.low <= b && b <= e.high {
				to = append(to, position{e.to, p.frame})
			}
		}
	}
	if len(to) > 0 {
		next = g.from(to)
	}
	if s.next == nil && g.held < maxHeld {
		s.next = make([]*state, g.classes)
		g.held += (g.classes + 1) / 2
	}
	if s.next != nil {
		s.next[g.class[b]] = next
	}
	return next
}

// from is the state of positions behind a byte, which many bytes have in common.
func (g *Grammar) from(to []position) *state {
	first := to[0]
	single := !slices.ContainsFunc(to[1:], func(p position) bool { return p != first })
	if known := g.behind[first]; single && known != nil {
		return known
	}
	next := g.intern(to)
	switch {
	case next == nil:
		next = crowded
	case len(next.positions) == 0 && !next.accepts:
		next = blocked // nested too deeply
	}
	if single && g.held < maxHeld {
		g.behind[first] = next
		g.held += 2
	}
	return next
}

// after is the state behind a byte of a class; nil = not known.
func (s *state) after(class uint8) *state {
	if int(class) < len(s.next) {
		return s.next[class]
	}
	return nil
}

// Text is a text that a grammar reads, token by token.
type Text struct {
	g    *Grammar
	v    *Vocabulary
	at   *state
	made *memory // of which at is part; nil = the text is empty
	dead bool
}

// NewText begins a text of the tokens of a vocabulary.
func (g *Grammar) NewText(v *Vocabulary) *Text { return &Text{g: g, v: v} }

// Dead says that no token was allowed any more: the vocabulary has no way to write what the grammar asks for, or the
// grammar is so ambiguous there that the allowed tokens are not searched for.
func (t *Text) Dead() bool { return t.dead }

// state returns the state of the text. The grammar is locked.
func (t *Text) state() *state {
	if len(t.g.states) > maxStates || t.g.held > maxHeld || t.g.masks > maxMasks || len(t.g.frames) > maxFrames {
		t.g.reset()
	}
	switch {
	case t.made == nil:
		t.at = t.g.first()
	case t.made != t.g.memory && t.at != nil:
		t.at = t.g.adopt(t.at, t.made)
	}
	t.made = t.g.memory
	return t.at
}

// Accept takes a token into the text; false = it is not allowed.
func (t *Text) Accept(id int) bool {
	t.g.mu.Lock()
	defer t.g.mu.Unlock()
	at := t.state()
	for _, b := range t.v.bytes(id) {
		if at != nil {
			at = t.g.step(at, b)
		}
	}
	t.at = at
	return at != nil
}

// Allowed returns the tokens that may come next, and whether the text may end here. The set must not be changed.
func (t *Text) Allowed() (*Mask, bool) {
	t.g.mu.Lock()
	defer t.g.mu.Unlock()
	s := t.state()
	if s == nil {
		t.dead = true
		return t.v.none, true
	}
	if s.mask == nil && !t.v.find(t.g, s) {
		t.dead = true
		return t.v.none, true
	}
	if s.mask.count == 0 && !s.accepts {
		t.dead = true
		return s.mask, true
	}
	return s.mask, s.accepts
}
