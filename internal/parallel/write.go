package parallel

import (
	"context"
	"io"
	"sync"
)

// Write writes pieces 0 … n−1 in this order, each with one call, while others are being made: piece(buffer, i) appends
// piece i to an empty buffer, which is reused once the piece is written. There are no more pieces in memory than
// goroutines. Errors are as in Each; after the first one nothing is written.
func Write(ctx context.Context, w io.Writer, n int, piece func(buffer []byte, i int) ([]byte, error)) error {
	buffers := make([]*[]byte, min(limitOf(ctx), n))
	for i := range buffers {
		buffers[i] = spare.Get().(*[]byte)
	}
	defer func() {
		for _, b := range buffers {
			spare.Put(b)
		}
	}()
	order := newTurns(n)
	return Each(ctx, len(buffers), n, func(worker, i int) (err error) {
		done := false
		defer func() { order.end(i, done) }() // also of a panic, which Each makes an error of
		b, err := piece((*buffers[worker])[:0], i)
		if err != nil || !order.wait(i) {
			return err
		}
		*buffers[worker] = b
		_, err = w.Write(b)
		done = err == nil
		return err
	})
}

// spare holds the buffers of earlier calls: tensors are many, and new memory costs as much as what is done with it.
var spare = sync.Pool{New: func() any { return new([]byte) }}

// turns lets one goroutine after another pass.
type turns struct {
	sync.Mutex
	changed sync.Cond
	next    int // whose turn it is
	broken  int // the first that failed: after it nobody has a turn
}

func newTurns(n int) *turns {
	t := &turns{broken: n}
	t.changed.L = t
	return t
}

// wait waits for the turn of i, and reports whether it comes.
func (t *turns) wait(i int) bool {
	t.Lock()
	defer t.Unlock()
	for t.next != i && t.broken > i {
		t.changed.Wait()
	}
	return t.broken > i
}

// end ends the turn of i.
func (t *turns) end(i int, done bool) {
	t.Lock()
	defer t.Unlock()
	if done {
		t.next = i + 1
	} else {
		t.broken = min(t.broken, i)
	}
	t.changed.Broadcast()
}
