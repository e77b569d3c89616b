package batch

import (
	"context"
	"io"

	"golang.org/x/sync/semaphore"
)

// feed hands the requests that the journal has no answer to to those who answer them.
type feed struct {
	*Options
	in       *inputFile
	checked  checked
	j        *journal
	requests chan<- *Request
	room     *semaphore.Weighted // for maxHeld bytes
}

// all reads the input once for each group with requests to answer, so that a model is in use for all that name it
// before the next one is: they may have no room in memory together.
func (f *feed) all(ctx context.Context) error {
	for group := range f.checked.groups {
		if !f.open(group) {
			continue
		}
		if err := f.group(ctx, group); err != nil {
			return err
		}
	}
	return nil
}

// open reports whether a request of a group has no answer.
func (f *feed) open(group int) bool {
	for i := range f.checked.requests {
		if f.checked.group(i) == group && !f.j.has(i) {
			return true
		}
	}
	return false
}

// group hands on the requests of a group.
func (f *feed) group(ctx context.Context, group int) error {
	again, err := newSource(f.in)
	if err != nil {
		return err
	}
	defer again.close()
	for i := 0; ; i++ {
		text, err := again.next()
		switch {
		case err != nil && err != io.EOF && !isFault(err):
			return err
		case err == io.EOF && again.digest() == f.checked.digest:
			return nil
		case err != nil || i >= f.checked.requests:
			return errChanged
		case f.checked.group(i) != group || f.j.has(i):
			continue
		}
		q, fault := f.parse(text)
		if fault != nil {
			return errChanged
		}
		q.Line = i
		if err := f.hand(ctx, q); err != nil {
			return err
		}
	}
}

// hand waits until somebody takes a request.
func (f *feed) hand(ctx context.Context, q *Request) error {
	if f.room.Acquire(ctx, weight(q)) != nil {
		return ctx.Err()
	}
	select {
	case <-f.Stop: // before all others
		return ErrStopped
	default:
	}
	select {
	case f.requests <- q:
		return nil
	case <-f.Stop:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}
