package grammar

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// part is a fragment of an automaton with its entry and exit node.
type part struct{ in, out int32 }

// builder builds the nodes of a grammar.
type builder struct {
	nodes []node
	rules map[string]int32 // entry nodes by rule name
	runs  []run
}

func newBuilder() *builder { return &builder{rules: map[string]int32{}} }

func (b *builder) node() int32 {
	b.nodes = append(b.nodes, node{})
	return int32(len(b.nodes) - 1)
}

var (
	errTooLarge = fmt.Errorf("the grammar is too large: more than %d places", maxNodes)
	errCrowded  = fmt.Errorf("the grammar is too ambiguous: more than %d places are possible at the start of the text",
		maxPlaces)
)

// check returns an error if the grammar is too large.
func (b *builder) check() error {
	if len(b.nodes) > maxNodes {
		return errTooLarge
	}
	return nil
}

func (b *builder) link(from, to int32) { b.nodes[from].free = append(b.nodes[from].free, to) }

// empty matches the empty text.
func (b *builder) empty() part {
	n := b.node()
	return part{n, n}
}

// bytes matches one byte from low to high.
func (b *builder) bytes(low, high byte) part {
	p := part{b.node(), b.node()}
	b.nodes[p.in].edges = append(b.nodes[p.in].edges, edge{low, high, p.out})
	return p
}

// text matches a literal.
func (b *builder) text(s string) part {
	p := b.empty()
	for i := range len(s) {
		p = b.then(p, b.bytes(s[i], s[i]))
	}
	return p
}

// then matches parts in sequence.
func (b *builder) then(parts ...part) part {
	for i := 1; i < len(parts); i++ {
		b.link(parts[i-1].out, parts[i].in)
	}
	return part{parts[0].in, parts[len(parts)-1].out}
}

// either matches one of several parts.
func (b *builder) either(parts ...part) part {
	p := part{b.node(), b.node()}
	for _, x := range parts {
		b.link(p.in, x.in)
		b.link(x.out, p.out)
	}
	return p
}

// maybe matches a part or nothing.
func (b *builder) maybe(x part) part {
	p := b.either(x)
	b.link(p.in, p.out)
	return p
}

// many matches a part any number of times.
func (b *builder) many(x part) part {
	p := b.maybe(x)
	b.link(x.out, x.in)
	return p
}

// repeat matches the parts that make returns, least to most times; most < 0 = no upper bound.
func (b *builder) repeat(least, most int, make func() (part, error)) (part, error) {
	p, err := b.copies(b.empty(), least, make, nil)
	if err != nil {
		return p, err
	}
	if most < 0 {
		x, err := make()
		if err != nil {
			return p, err
		}
		return b.then(p, b.many(x)), nil
	}
	end := b.node()
	last, err := b.copies(p, most-least, make, func(out int32) { b.link(out, end) })
	b.link(last.out, end)
	return part{p.in, end}, err
}

// copies appends n parts from make to p. leave, if not nil, is called with the exit before each part.
func (b *builder) copies(p part, n int, make func() (part, error), leave func(out int32)) (part, error) {
	within, second := len(b.runs), 0
	for i := range n {
		if i == 1 { // the first copy may also define rules
			second = len(b.nodes)
		}
		x, err := make()
		if err != nil {
			return p, err
		}
		if leave != nil {
			leave(p.out)
		}
		if p = b.then(p, x); b.check() != nil {
			return p, b.check()
		}
	}
	b.note(within, second, n-1)
	return p, nil
}

// rule calls a rule, which make defines at its first use; it may be recursive.
func (b *builder) rule(name string, make func() (part, error)) (part, error) {
	entry, known := b.rules[name]
	if !known {
		entry = b.node()
		b.rules[name] = entry
		x, err := make()
		if err != nil {
			return part{}, err
		}
		b.link(entry, x.in)
		b.nodes[x.out].end = true
	}
	return b.call(entry), b.check()
}

// call matches the rule with the given entry node.
func (b *builder) call(entry int32) part {
	p := part{b.node(), b.node()}
	b.nodes[p.in].calls = append(b.nodes[p.in].calls, call{entry, p.out})
	return p
}

// finish returns the grammar of a part.
func (b *builder) finish(p part) (*Grammar, error) {
	b.nodes[p.out].end = true
	if err := b.check(); err != nil {
		return nil, err
	}
	if !b.reaching(true)[p.in] {
		return nil, errors.New("no text of finite length satisfies it")
	}
	g := b.grammar(p.in)
	if g.first() == nil {
		return nil, errCrowded
	}
	return g, nil
}

// reaching computes, per node, whether it can reach the end of its rule: with any text if bytes is set, otherwise with
// the empty text only. A worklist runs backwards from the ends, so that each node is found once.
func (b *builder) reaching(bytes bool) []bool {
	before := make([][]int32, len(b.nodes)) // predecessors
	var list []int32
	for i := range b.nodes {
		n, at := &b.nodes[i], int32(i)
		if n.end {
			list = append(list, at)
		}
		for _, e := range n.edges {
			before[e.to] = append(before[e.to], at)
		}
		for _, to := range n.free {
			before[to] = append(before[to], at)
		}
		for _, c := range n.calls {
			before[c.rule], before[c.to] = append(before[c.rule], at), append(before[c.to], at)
		}
	}
	good := make([]bool, len(b.nodes))
	for len(list) > 0 {
		at := list[len(list)-1]
		list = list[:len(list)-1]
		if !good[at] && b.nodes[at].reaches(good, bytes) {
			good[at] = true
			list = append(list, before[at]...)
		}
	}
	return good
}

// reaches reports whether a node is an end or has a step to nodes that reach theirs.
func (n *node) reaches(good []bool, bytes bool) bool {
	if n.end {
		return true
	}
	for _, e := range n.edges {
		if bytes && good[e.to] {
			return true
		}
	}
	for _, to := range n.free {
		if good[to] {
			return true
		}
	}
	for _, c := range n.calls {
		if good[c.rule] && good[c.to] {
			return true
		}
	}
	return false
}

// runes matches one character from low to high in UTF-8, except surrogates.
func (b *builder) runes(low, high rune) part {
	p := part{b.node(), b.node()}
	const firstSurrogate, lastSurrogate = 0xd800, 0xdfff
	if low < firstSurrogate {
		b.utf8(p, low, min(high, firstSurrogate-1))
	}
	if high > lastSurrogate {
		b.utf8(p, max(low, lastSurrogate+1), min(high, utf8.MaxRune))
	}
	return p
}

// utf8 adds edges for the encodings of a range of characters. It splits the range where the encoded length changes, and
// then until each byte has a range that does not depend on the bytes before it.
func (b *builder) utf8(p part, low, high rune) {
	if low > high {
		return
	}
	for _, last := range []rune{0x7f, 0x7ff, 0xffff} {
		if low <= last && high > last {
			b.utf8(p, low, last)
			b.utf8(p, last+1, high)
			return
		}
	}
	for i := 1; i < utf8.RuneLen(high); i++ {
		mask := rune(1)<<(6*i) - 1
		if low&^mask == high&^mask {
			break
		}
		if low&mask != 0 {
			b.utf8(p, low, low|mask)
			b.utf8(p, low|mask+1, high)
			return
		}
		if high&mask != mask {
			b.utf8(p, low, high&^mask-1)
			b.utf8(p, high&^mask, high)
			return
		}
	}
	first, last := []byte(string(low)), []byte(string(high))
	at := p.in
	for i := range first {
		to := p.out
		if i < len(first)-1 {
			to = b.node()
		}
		b.nodes[at].edges = append(b.nodes[at].edges, edge{first[i], last[i], to})
		at = to
	}
}
