package tokenizer

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"

	"github.com/lowpack/lowpack/pack"
)

// ruleReader turns the written form of merges into ids. Batches of rules are looked up concurrently with reading, on
// all available cores: the look-ups are the larger half of loading a tokenizer.
type ruleReader struct {
	vocab    *vocab
	bytewise bool
	count    int // rules so far
	batch    *ruleBatch
	batches  []*ruleBatch // full batches, in order
	buffers  chan ruleBuffer
	running  sync.WaitGroup
}

const rulesPerBatch = 4096

func newRuleReader(v *vocab, bytewise bool) *ruleReader {
	r := &ruleReader{vocab: v, bytewise: bytewise, buffers: make(chan ruleBuffer, runtime.GOMAXPROCS(0)+1)}
	for range cap(r.buffers) {
		r.buffers <- ruleBuffer{}
	}
	r.begin()
	return r
}

// begin waits for a buffer. There is one more buffer than cores, which bounds the memory of all batches.
func (r *ruleReader) begin() {
	r.batch = &ruleBatch{vocab: r.vocab, first: r.count, ruleBuffer: <-r.buffers}
}

// addLine adds a rule in the form "a b".
func (r *ruleReader) addLine(line []byte) error {
	left, right, ok := bytes.Cut(line, []byte{' '})
	if !ok || len(left) == 0 || len(right) == 0 || bytes.IndexByte(right, ' ') >= 0 {
		return r.fail(fmt.Errorf("%w: merge %d, %.80q, is not two tokens with one space between",
			pack.ErrCorrupt, r.count, line))
	}
	return r.add(left, right)
}

// add adds a rule; its rank is its index in the order of calls.
func (r *ruleReader) add(left, right []byte) error {
	if r.count == maxMerges {
		return r.fail(fmt.Errorf("%w: more than %d merges", pack.ErrLimit, maxMerges))
	}
	if !r.batch.append(left, right, r.bytewise) {
		return r.fail(fmt.Errorf("%w: merge %d of %.40q and %.40q is not written in the byte alphabet",
			pack.ErrCorrupt, r.count, left, right))
	}
	r.count++
	if len(r.batch.rules) == rulesPerBatch {
		r.send()
		r.begin()
	}
	return nil
}

// send submits the batch for look-up.
func (r *ruleReader) send() {
	b := r.batch
	r.batches = append(r.batches, b)
	r.running.Go(func() {
		b.lookUp()
		r.buffers <- ruleBuffer{b.text[:0], b.rules[:0]}
		b.ruleBuffer = ruleBuffer{}
	})
}

// fail returns the error of the smallest rank: of an earlier rule than the one with err, or err.
func (r *ruleReader) fail(err error) error {
	r.send()
	r.running.Wait()
	for _, b := range r.batches {
		if b.err != nil {
			return b.err
		}
	}
	return err
}

// finish builds the table of all rules.
func (r *ruleReader) finish() (*merges, error) {
	if err := r.fail(nil); err != nil {
		return nil, err
	}
	rules := make([][]merge, len(r.batches))
	for i, b := range r.batches {
		rules[i] = b.out
	}
	return newMerges(rules...)
}

// ruleBatch is a run of consecutive rules.
type ruleBatch struct {
	vocab *vocab
	first int // rank of the first rule
	ruleBuffer
	out []merge
	err error
}

// ruleBuffer is memory for the written form of rules.
type ruleBuffer struct {
	text  []byte
	rules []rule
}

// rule is text[from:middle] + text[middle:to], and its ids.
type rule struct {
	from, middle, to int
	left, right, id  int
}

// append adds a rule; it reports false if the rule is not written in the byte alphabet.
func (b *ruleBatch) append(left, right []byte, bytewise bool) bool {
	one, ok1, ok2 := rule{from: len(b.text)}, true, true
	if bytewise {
		b.text, ok1 = toBytes(b.text, left)
		one.middle = len(b.text)
		b.text, ok2 = toBytes(b.text, right)
	} else {
		b.text = append(b.text, left...)
		one.middle = len(b.text)
		b.text = append(b.text, right...)
	}
	one.to = len(b.text)
	if ok1 && ok2 {
		b.rules = append(b.rules, one)
	}
	return ok1 && ok2
}

// lookUp finds the ids of all rules, one kind of look-up after the other: the tables exceed the caches of a core, and
// the memory latency of independent look-ups overlaps.
func (b *ruleBatch) lookUp() {
	for i := range b.rules {
		one := &b.rules[i]
		one.left, _ = lookup(b.vocab, b.text[one.from:one.middle])
	}
	for i := range b.rules {
		one := &b.rules[i]
		one.right, _ = lookup(b.vocab, b.text[one.middle:one.to])
	}
	last := -1
	for i := range b.rules {
		last = b.result(&b.rules[i], last)
	}
	b.out = make([]merge, len(b.rules))
	for i, one := range b.rules {
		if one.left < 0 || one.right < 0 || one.id < 0 {
			b.err = fmt.Errorf("%w: merge %d of %.40q and %.40q: one of them, or what they make, is not a token",
				pack.ErrCorrupt,
				b.first+i, b.text[one.from:one.middle], b.text[one.middle:one.to])
			return
		}
		b.out[i] = newMerge(one.left, one.right, b.first+i, one.id)
	}
}

// result finds the merged token of a rule, and returns it, or last if there is none. In typical files it is the result
// of the preceding rule, or the id after it.
func (b *ruleBatch) result(one *rule, last int) int {
	both := b.text[one.from:one.to]
	for _, guess := range []int{last, last + 1} {
		if bytes.Equal(b.vocab.bytes(guess), both) && !b.vocab.isHidden(both) {
			one.id = guess
			return guess
		}
	}
	if one.id, _ = lookup(b.vocab, both); one.id >= 0 {
		return one.id
	}
	return last
}
