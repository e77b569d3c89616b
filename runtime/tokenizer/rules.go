package tokenizer

import (
	"bytes"
	"fmt"

	"github.com/lowpack/lowpack/pack"
)

// ruleReader turns the written form of merges into ids. It works in batches, one kind of look-up after the other: the tables
// are larger than the caches of a core, and look-ups that do not depend on each other wait for memory together.
type ruleReader struct {
	vocab    *vocab
	bytewise bool
	text     []byte
	rules    []rule  // the batch
	last     int     // the token that the last rule made
	out      []merge // of the batches before
}

// rule is text[from:middle] + text[middle:to], and its ids.
type rule struct {
	from, middle, to int
	left, right, id  int
}

const ruleBatch = 1024

// addLine takes a rule in the form "a b".
func (r *ruleReader) addLine(line []byte) error {
	left, right, ok := bytes.Cut(line, []byte{' '})
	if !ok || len(left) == 0 || len(right) == 0 || bytes.IndexByte(right, ' ') >= 0 {
		return fmt.Errorf("%w: merge %d, %.80q, is not two tokens with one space between", pack.ErrCorrupt, len(r.out)+len(r.rules), line)
	}
	return r.add(left, right)
}

// add takes a rule; its rank is its place in the order of calls.
func (r *ruleReader) add(left, right []byte) error {
	one := rule{from: len(r.text)}
	if r.bytewise {
		var ok1, ok2 bool
		r.text, ok1 = toBytes(r.text, left)
		one.middle = len(r.text)
		if r.text, ok2 = toBytes(r.text, right); !ok1 || !ok2 {
			return fmt.Errorf("%w: merge %d of %.40q and %.40q is not written in the byte alphabet", pack.ErrCorrupt, len(r.out)+len(r.rules), left, right)
		}
	} else {
		r.text = append(r.text, left...)
		one.middle = len(r.text)
		r.text = append(r.text, right...)
	}
	one.to = len(r.text)
	if r.rules = append(r.rules, one); len(r.rules) == ruleBatch {
		return r.flush()
	}
	return nil
}

// finish builds the table of all rules.
func (r *ruleReader) finish() (*merges, error) {
	if err := r.flush(); err != nil {
		return nil, err
	}
	return newMerges(r.out)
}

// flush looks the rules of the batch up.
func (r *ruleReader) flush() error {
	for i := range r.rules {
		one := &r.rules[i]
		one.left, _ = lookup(r.vocab, r.text[one.from:one.middle])
	}
	for i := range r.rules {
		one := &r.rules[i]
		one.right, _ = lookup(r.vocab, r.text[one.middle:one.to])
	}
	for i := range r.rules {
		r.result(&r.rules[i])
	}
	if len(r.out) > maxMerges {
		return fmt.Errorf("%w: more than %d merges", pack.ErrLimit, maxMerges)
	}
	for i := range r.rules {
		one := &r.rules[i]
		if one.left < 0 || one.right < 0 || one.id < 0 {
			return fmt.Errorf("%w: merge %d of %.40q and %.40q: one of them, or what they make, is not a token", pack.ErrCorrupt,
				len(r.out), r.text[one.from:one.middle], r.text[one.middle:one.to])
		}
		r.out = append(r.out, newMerge(one.left, one.right, len(r.out), one.id))
	}
	r.rules, r.text = r.rules[:0], r.text[:0]
	return nil
}

// result finds what a rule makes. In the usual files that is the token of the rule before, or the one after it.
func (r *ruleReader) result(one *rule) {
	both := r.text[one.from:one.to]
	for _, guess := range []int{r.last, r.last + 1} {
		if bytes.Equal(r.vocab.bytes(guess), both) && !r.vocab.isHidden(both) {
			one.id, r.last = guess, guess
			return
		}
	}
	if one.id, _ = lookup(r.vocab, both); one.id >= 0 {
		r.last = one.id
	}
}
