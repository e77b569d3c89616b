// Package grammar constrains generated text to a regular expression, a GBNF grammar or JSON of a schema: it computes
// the set of tokens that may come next.
//
// A grammar is a pushdown automaton over bytes: rules are automata whose edges consume a byte, consume nothing, or call
// another rule. A text is read by all possible positions in parallel, each with its own call stack; such a set of
// positions is a state. States are built on first use and cached, together with their transitions by byte and their
// token masks, so that most steps are lookups.
package grammar

import (
	"encoding/binary"
	"slices"
	"sync"
)

// Limits of a grammar and of its cache.
const (
	maxNodes  = 1 << 18
	maxDepth  = 256     // nested calls, i.e. nesting of JSON
	maxPlaces = 1 << 12 // positions of a state
	maxTail   = 64      // nodes without alternatives before the end of a rule
	maxStates = 1 << 13
	maxHeld   = 1 << 22 // cached positions of 16 bytes, transitions included
	maxFrames = 1 << 20 // call stack frames
	maxMasks  = 1 << 8
	maxWork   = 1 << 24 // positions visited to compute one mask
)

// node is a node of an automaton.
type node struct {
	edges []edge
	free  []int32 // nodes reachable without consuming a byte
	calls []call
	end   bool // of the rule
	tail  bool // only the end of the rule follows
}

// edge consumes a byte from low to high.
type edge struct {
	low, high byte
	to        int32
}

// call consumes what a rule matches and continues at to.
type call struct{ rule, to int32 }

// Grammar is a set of allowed texts. It is safe for concurrent use.
type Grammar struct {
	nodes   []node
	start   int32
	runs    []run
	class   [256]uint8 // equivalence classes of bytes: no edge distinguishes bytes of a class
	classes int
	plain   []byte // one plain byte of each class that has any

	mu sync.Mutex
	*memory
}

// memory caches states and call stacks.
type memory struct {
	frames []frame
	frame  map[frame]int32
	states map[string]*state
	behind map[position]*state // closures of single positions
	held   int                 // cached positions
	masks  int
}

// frame is a call stack: the return node of the innermost call and the frame below it. Frame 0 is the empty stack.
type frame struct {
	to, below int32
	depth     int32
}

// position is a node with its call stack.
type position struct{ node, frame int32 }

// state is a set of positions that can consume a byte.
type state struct {
	positions []position
	accepts   bool // the text may end here
	mask      *Mask
	next      []*state // by class of the next byte; nil element = unknown; nil = not cached
}

// Special results of a transition: the byte is not allowed, or the state would have too many positions.
var blocked, crowded = new(state), new(state)

// grammar returns the grammar with the given start node.
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

// classify computes the equivalence classes of bytes.
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

// isTail reports whether only the end of the rule follows a node. A call before such a node need not return to it (tail
// call), so a rule that ends with itself does not deepen the stack.
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

// reset drops all cached states and stacks.
func (g *Grammar) reset() {
	g.memory = &memory{frames: []frame{{to: -1, below: -1}}, frame: map[frame]int32{}, states: map[string]*state{},
		behind: map[position]*state{}}
}

// first returns the state of the empty text.
func (g *Grammar) first() *state { return g.intern([]position{{g.start, 0}}) }

// push returns the frame above below; false = deeper than maxDepth.
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

// intern returns the state of the closure of some positions, all they reach without a byte; nil = more than maxPlaces.
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

// known returns the cached state with the positions of s, or caches s.
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

// adopt translates a state of an earlier memory, whose frames have other numbers, into the current one.
func (g *Grammar) adopt(s *state, from *memory) *state {
	moved := map[int32]int32{0: 0}
	var move func(id int32) int32
	move = func(id int32) int32 {
		if to, ok := moved[id]; ok {
			return to
		}
		f := from.frames[id]
		to, _ := g.push(f.to, move(f.below)) // cannot fail: it was as deep before
		moved[id] = to
		return to
	}
	same := &state{accepts: s.accepts, positions: make([]position, len(s.positions))}
	for i, p := range s.positions {
		same.positions[i] = position{p.node, move(p.frame)}
	}
	return g.known(same)
}

// step returns the state after a byte; nil = the byte is not allowed.
func (g *Grammar) step(s *state, b byte) *state {
	if next := g.follow(s, b); next != blocked && next != crowded {
		return next
	}
	return nil
}

// follow is step that distinguishes the reasons: blocked = the byte is not allowed, crowded = too many positions.
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

// from returns the state after a byte that leads to the given positions. Single positions, which many bytes lead to,
// have a cache of their own.
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

// after returns the cached state after a byte of a class; nil = unknown.
func (s *state) after(class uint8) *state {
	if int(class) < len(s.next) {
		return s.next[class]
	}
	return nil
}

// Text is the state of one text that a grammar reads token by token.
type Text struct {
	g    *Grammar
	v    *Vocabulary
	at   *state
	made *memory // the memory that at belongs to; nil = the text is empty
	dead bool
}

// NewText starts a text over the tokens of v.
func (g *Grammar) NewText(v *Vocabulary) *Text { return &Text{g: g, v: v} }

// Dead reports whether no token was allowed at some point: the vocabulary cannot express the grammar, or the grammar is
// too ambiguous there to search for the allowed tokens.
func (t *Text) Dead() bool { return t.dead }

// state returns the state of the text and resets a cache that is too large. The grammar is locked.
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

// Accept appends a token to the text; false = it is not allowed.
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

// Allowed returns the tokens that may come next, and whether the text may end here. The caller must not modify the set.
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
