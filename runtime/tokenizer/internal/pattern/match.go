package pattern

import (
	"fmt"
	"unicode/utf8"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/tokenizer/internal/chars"
)

// inst is one instruction of a matcher.
type inst struct {
	op         op
	class      *chars.Class
	min, max   int // of opRun
	possessive bool
	to, or     int32 // opSplit: first and second choice; opJump: to
}

type op byte

const (
	opRun   op = iota // min to max characters of class, as many as possible
	opSplit           // try to, then or
	opJump
	opAhead    // the next character is in class
	opNotAhead // there is no next character, or it is not in class
	opMatch
)

// choice is the alternative to try when a match fails: continue at pc from pos, or, for a run, give back one more
// character as long as pos stays above least.
type choice struct {
	pc         int32
	pos, least int
}

// matcher runs a pattern over one text and counts its steps.
type matcher struct {
	*Pattern
	budget int
	stack  []choice
}

func (p *Pattern) matcher(textBytes int) *matcher {
	return &matcher{Pattern: p, budget: stepsFree + stepsPerByte*textBytes}
}

// at returns the end of the match that starts at pos; −1 when there is none.
func (m *matcher) at(s string, pos int) (int, error) {
	first := utf8.RuneSelf
	if s[pos] < utf8.RuneSelf {
		first = int(s[pos])
	}
	for _, pc := range m.starts[first] {
		if end := m.run(s, pos, pc); end > pos {
			return end, nil
		}
	}
	if m.budget < 0 {
		return 0, fmt.Errorf("%w: the pattern %.80q needs more than %d steps per byte on this text",
			pack.ErrLimit, m.source, stepsPerByte)
	}
	return -1, nil
}

func (m *matcher) run(s string, pos int, pc int32) int {
	m.stack = m.stack[:0]
	for m.budget >= 0 {
		m.budget--
		in := &m.prog[pc]
		ok := true
		switch in.op {
		case opMatch:
			return pos
		case opRun:
			size, chars := in.class.Run(s[pos:], in.max)
			m.budget -= chars
			if ok = chars >= in.min; ok {
				least := pos + size
				pos += size
				if chars > in.min && !in.possessive {
					least = after(s, least-size, in.min)
					m.stack = append(m.stack, choice{pc + 1, pos, least})
				}
				pc++
			}
		case opSplit:
			m.stack = append(m.stack, choice{in.or, pos, pos})
			pc = in.to
		case opJump:
			pc = in.to
		case opAhead, opNotAhead:
			if ok = m.ahead(s, pos, in); ok {
				pc++
			}
		}
		if !ok {
			if pc, pos = m.back(s); pc < 0 {
				return -1
			}
		}
	}
	return -1
}

func (m *matcher) ahead(s string, pos int, in *inst) bool {
	if pos == len(s) {
		return in.op == opNotAhead
	}
	r, _ := utf8.DecodeRuneInString(s[pos:])
	return in.class.Has(r) == (in.op == opAhead)
}

// back takes the last choice; pc −1 when there is none left.
func (m *matcher) back(s string) (pc int32, pos int) {
	n := len(m.stack) - 1
	if n < 0 {
		return -1, 0
	}
	c := &m.stack[n]
	pc, pos = c.pc, c.pos
	if c.pos > c.least { // a run: one character less
		_, size := utf8.DecodeLastRuneInString(s[:c.pos])
		pos -= size
		c.pos = pos
	}
	if c.pos <= c.least {
		m.stack = m.stack[:n]
	}
	return pc, pos
}

// after returns the position n characters after pos.
func after(s string, pos, n int) int {
	for ; n > 0; n-- {
		_, size := utf8.DecodeRuneInString(s[pos:])
		pos += size
	}
	return pos
}
