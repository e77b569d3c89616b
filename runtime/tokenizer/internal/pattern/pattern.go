// Package pattern compiles and matches the regular expressions that split text in front of a vocabulary, in the syntax
// of Oniguruma that tokenizer.json has: alternatives tried in order, greedy and possessive repetition, Unicode classes,
// look-ahead at one character.
//
// They are matched by backtracking, as their authors' engines do, because look-ahead and the order of alternatives are
// part of the meaning; but the steps are counted, and a text that needs more than stepsPerByte of them per byte is
// refused: no pattern and no text takes more than linear time. (The published patterns need at most 25 on the worst
// texts that a test could find.)
package pattern

import (
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/tokenizer/internal/chars"
)

// Pattern is a compiled regular expression. It is safe for concurrent use.
type Pattern struct {
	source string
	prog   []inst
	// starts lists, for every ASCII character and (last) for all others, the alternatives that can start with it.
	starts [utf8.RuneSelf + 1][]int32
}

const (
	stepsPerByte = 128
	stepsFree    = 1 << 12
	maxPattern   = 4096    // bytes of source
	maxProgram   = 1 << 12 // instructions
	maxRepeat    = 1000
	maxFolded    = 1 << 20 // characters
	unlimited    = math.MaxInt
	maxNesting   = 100 // groups
)

// Compile compiles a regular expression.
func Compile(source string) (*Pattern, error) {
	if len(source) > maxPattern {
		return nil, fmt.Errorf("%w: a pattern of %d bytes, more than %d", pack.ErrLimit, len(source), maxPattern)
	}
	p := &parser{source: source}
	tree, err := p.alternatives()
	if err == nil && p.more() {
		err = p.unsupported("a parenthesis without a beginning")
	}
	if err == nil && tree.minLen() == 0 {
		err = p.unsupported("a pattern that matches the empty text")
	}
	if err != nil {
		return nil, err
	}
	return newPattern(source, tree)
}

// OfClass is a pattern that matches one character of a class, or a run of them.
func OfClass(name string, set chars.Set, run bool) *Pattern {
	tree := &node{kind: nodeSet, set: set}
	if run {
		tree = &node{kind: nodeRepeat, min: 1, max: unlimited, subs: []*node{tree}}
	}
	p, err := newPattern(name, tree)
	if err != nil {
		panic(err) // a program of two instructions is within the limits
	}
	return p
}

// Each calls part for every piece of s, in order: matches, and the text between them. The pieces concatenate to s and
// none is empty. A text on which the pattern takes too many steps is an error that wraps pack.ErrLimit.
func (p *Pattern) Each(s string, part func(string, bool) error) error {
	m := p.matcher(len(s))
	from := 0 // start of the text that no match has covered
	for pos := 0; pos < len(s); {
		end, err := m.at(s, pos)
		if err != nil {
			return err
		}
		if end < 0 {
			_, n := utf8.DecodeRuneInString(s[pos:])
			pos += n
			continue
		}
		if from < pos {
			if err := part(s[from:pos], false); err != nil {
				return err
			}
		}
		if err := part(s[pos:end], true); err != nil {
			return err
		}
		pos, from = end, end
	}
	if from < len(s) {
		return part(s[from:], false)
	}
	return nil
}
