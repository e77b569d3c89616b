package verify

import (
	"cmp"
	"slices"
	"sync"

	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/internal/sha256pair"
)

// item is one check that is to be made: by a function, or of the digest of some bytes.
type item struct {
	group, name string
	rule        string // that a failing check breaks if its error does not say
	size        int64  // of the work, in bytes that are hashed or in weights
	check       func() error
	bytes       *digest // nil: there is check
}

// each makes checks, several at a time, and reports them in order.
func (s *session) each(l Level, what string, items []item) error {
	checks := make([]Check, len(items))
	q := &queue{session: s, what: string(l) + ": " + what, verdicts: map[*item]*Check{}}
	for i := range items {
		checks[i] = Check{Level: l, Group: items[i].group, Name: items[i].name}
		q.verdicts[&items[i]] = &checks[i]
		q.items = append(q.items, &items[i])
		q.rest += items[i].size
	}
	q.total = q.rest
	slices.SortStableFunc(q.items, func(a, b *item) int { return cmp.Compare(b.size, a.size) })
	workers := min(s.Threads, len(items))
	if err := parallel.Do(s.ctx, workers, workers, 1, func(_, _ int) error { return q.work() }); err != nil {
		return err
	}
	s.report.add(checks...)
	return nil
}

// queue is checks that are to be made.
type queue struct {
	*session
	what        string
	verdicts    map[*item]*Check
	done, total int64

	lock  sync.Mutex
	items []*item // that nobody has taken, the largest first
	rest  int64   // their size
}

// work makes checks until none is left, checks of digests two at a time.
func (q *queue) work() (err error) {
	var a, b *item
	for err == nil {
		switch {
		case a == nil && b != nil:
			a, b = b, nil
		case a == nil:
			if a = q.next(); a == nil {
				return nil
			}
		}
		switch {
		case a.bytes == nil:
			a, err = nil, q.judge(a, a.check())
		case b == nil:
			b = q.partner(a)
			fallthrough
		default:
			a, b, err = q.hash(a, b)
		}
	}
	q.empty()
	return err
}

// next takes the largest item, so that none is left alone at the end.
func (q *queue) next() *item {
	q.lock.Lock()
	defer q.lock.Unlock()
	return q.take(0)
}

// partner returns bytes to hash along with another item. That slows the other down a little, so there is none if the
// other alone takes longer than all the rest takes the other workers.
func (q *queue) partner(of *item) *item {
	q.lock.Lock()
	defer q.lock.Unlock()
	if q.rest/2 < of.bytes.left()*int64(q.Threads-1) {
		return nil
	}
	return q.take(slices.IndexFunc(q.items, func(it *item) bool { return it.bytes != nil }))
}

// take removes an item; there may be none.
func (q *queue) take(i int) *item {
	if i < 0 || i >= len(q.items) {
		return nil
	}
	it := q.items[i]
	q.items = slices.Delete(q.items, i, i+1)
	q.rest -= it.size
	return it
}

func (q *queue) empty() {
	q.lock.Lock()
	defer q.lock.Unlock()
	q.items = nil
}

// hash goes on with one digest or two. Those that are done come back as nil.
func (q *queue) hash(a, b *item) (nextA, nextB *item, err error) {
	p, errA := a.bytes.read(q.ctx)
	if b == nil {
		a.bytes.Write(p)
		nextA, err = q.after(a, errA)
		return nextA, nil, err
	}
	r, errB := b.bytes.read(q.ctx)
	sha256pair.Write(a.bytes.Hash, p, b.bytes.Hash, r)
	nextA, errA = q.after(a, errA)
	nextB, errB = q.after(b, errB)
	return nextA, nextB, cmp.Or(errA, errB)
}

// after gives an item back if there is more to hash, and else reports it.
func (q *queue) after(it *item, err error) (*item, error) {
	if err == nil && it.bytes.left() > 0 {
		return it, nil
	}
	if err == nil {
		err = it.bytes.verdict()
	}
	return nil, q.judge(it, err)
}

func (q *queue) judge(it *item, err error) error {
	err = q.verdicts[it].judge(it.rule, err)
	q.advance(q.what, &q.done, it.size, q.total)
	return err
}
