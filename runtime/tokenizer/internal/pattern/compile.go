package pattern

import (
	"fmt"
	"unicode/utf8"

	"github.com/lowpack/lowpack/pack"
)

func newPattern(source string, tree *node) (*Pattern, error) {
	alternatives := []*node{tree}
	if tree.kind == nodeAlt {
		alternatives = tree.subs
	}
	p := &Pattern{source: source}
	for _, a := range alternatives {
		start := int32(len(p.prog))
		if p.emit(a); len(p.prog) > maxProgram {
			return nil, fmt.Errorf("%w: the pattern %.80q needs more than %d instructions", pack.ErrLimit, source,
				maxProgram)
		}
		p.add(inst{op: opMatch})
		first, _ := a.first()
		for i := range p.starts {
			if first[i] {
				p.starts[i] = append(p.starts[i], start)
			}
		}
	}
	return p, nil
}

func (p *Pattern) add(in inst) int {
	p.prog = append(p.prog, in)
	return len(p.prog) - 1
}

// emit appends the instructions of a node. It stops once the program has exceeded its limit.
func (p *Pattern) emit(n *node) {
	if len(p.prog) > maxProgram {
		return
	}
	switch n.kind {
	case nodeSet:
		p.add(inst{op: opRun, class: n.class(), min: 1, max: 1})
	case nodeAhead:
		p.add(inst{op: opAhead, class: n.class()})
	case nodeNotAhead:
		p.add(inst{op: opNotAhead, class: n.class()})
	case nodeCat:
		for _, s := range n.subs {
			p.emit(s)
		}
	case nodeAlt:
		p.emitAlternatives(n.subs)
	case nodeRepeat:
		p.emitRepeat(n)
	}
}

func (p *Pattern) emitAlternatives(subs []*node) {
	var jumps []int
	for i, s := range subs {
		if i == len(subs)-1 {
			p.emit(s)
			break
		}
		split := p.add(inst{op: opSplit})
		p.prog[split].to = int32(split + 1)
		p.emit(s)
		jumps = append(jumps, p.add(inst{op: opJump}))
		p.prog[split].or = int32(len(p.prog))
	}
	for _, j := range jumps {
		p.prog[j].to = int32(len(p.prog))
	}
}

func (p *Pattern) emitRepeat(n *node) {
	body := n.subs[0]
	if body.kind == nodeSet {
		p.add(inst{op: opRun, class: body.class(), min: n.min, max: n.max, possessive: n.possessive})
		return
	}
	for range n.min {
		p.emit(body)
	}
	if n.max == unlimited {
		split := p.add(inst{op: opSplit})
		p.prog[split].to = int32(split + 1)
		p.emit(body)
		p.add(inst{op: opJump, to: int32(split)})
		p.prog[split].or = int32(len(p.prog))
		return
	}
	var splits []int
	for range n.max - n.min {
		split := p.add(inst{op: opSplit})
		p.prog[split].to = int32(split + 1)
		splits = append(splits, split)
		p.emit(body)
	}
	for _, s := range splits {
		p.prog[s].or = int32(len(p.prog))
	}
}

// minLen is the minimum number of characters that a node can match (large counts are capped).
func (n *node) minLen() int {
	const enough = 1 << 20
	switch n.kind {
	case nodeSet:
		return 1
	case nodeCat:
		sum := 0
		for _, s := range n.subs {
			sum = min(sum+s.minLen(), enough)
		}
		return sum
	case nodeAlt:
		least := enough
		for _, s := range n.subs {
			least = min(least, s.minLen())
		}
		return least
	case nodeRepeat:
		return min(n.min*n.subs[0].minLen(), enough)
	}
	return 0
}

// firsts says for every ASCII character, and last for all others together, whether a match can start with it.
type firsts [utf8.RuneSelf + 1]bool

func (f *firsts) add(g firsts) {
	for i := range f {
		f[i] = f[i] || g[i]
	}
}

// first returns the firsts of a node, and whether it can match the empty string.
func (n *node) first() (f firsts, empty bool) {
	switch n.kind {
	case nodeSet:
		for _, r := range n.set {
			for c := r.Lo; c <= min(r.Hi, utf8.RuneSelf-1); c++ {
				f[c] = true
			}
			f[utf8.RuneSelf] = f[utf8.RuneSelf] || r.Hi >= utf8.RuneSelf
		}
		return f, false
	case nodeCat:
		for _, s := range n.subs {
			g, empty := s.first()
			if f.add(g); !empty {
				return f, false
			}
		}
		return f, true
	case nodeAlt:
		for _, s := range n.subs {
			g, e := s.first()
			f.add(g)
			empty = empty || e
		}
		return f, empty
	case nodeRepeat:
		f, empty = n.subs[0].first()
		return f, empty || n.min == 0
	}
	return f, true
}
