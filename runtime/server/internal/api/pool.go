package api

import (
	"container/list"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// Limits of a pool.
const (
	smallBody = 64 << 10 // bytes; an eighth of the pool is reserved for bodies up to this size
	firstRead = 4 << 10  // bytes of the first buffer
	maxTurns  = 2        // large bodies decoded at once
)

// Pool bounds the memory of all request bodies together, from the first byte until the request is parsed. If it is
// full, the incomplete body that has gone longest without a new byte is dropped, large bodies first; the order of
// events decides, not a clock. So stalled uploads cannot block others. An eighth of the pool is reserved for bodies up
// to smallBody, so that complete large bodies do not block these either.
type Pool struct {
	size  int64
	turns chan struct{} // permission to decode a large body, which takes several times its size

	mu   sync.Mutex
	held int64
	// Incomplete bodies (*upload), least recent progress first.
	large, small list.List
}

// NewPool returns a pool of size bytes.
func NewPool(size int64) *Pool { return &Pool{size: size, turns: make(chan struct{}, maxTurns)} }

// upload is a body being read.
type upload struct {
	pool *Pool
	held int64
	stop func() // interrupts a blocked read
	in   *list.List
	at   *list.Element // element of in; nil = complete or dropped
	gone bool          // dropped
}

// errFull: the pool has no memory for the body.
var errFull = errors.New("the server has no memory left for request bodies; try again later")

func fullError() *Error {
	return &Error{Status: http.StatusServiceUnavailable, Type: Unavailable, Code: "bodies_full",
		Message:    errFull.Error(),
		RetryAfter: time.Second}
}

// begin registers a body. stop must interrupt its reads; it is called with the pool locked.
func (p *Pool) begin(stop func()) *upload {
	u := &upload{pool: p, stop: stop}
	p.mu.Lock()
	defer p.mu.Unlock()
	u.enter(&p.small)
	return u
}

// enter moves the body to the end of a list. The pool is locked.
func (u *upload) enter(in *list.List) {
	u.leave()
	u.in, u.at = in, in.PushBack(u)
}

// leave removes the body from its list: it is complete or dropped. The pool is locked.
func (u *upload) leave() {
	if u.at != nil {
		u.in.Remove(u.at)
		u.at = nil
	}
}

// oldest returns the body to drop for u; nil = none. The pool is locked.
func (p *Pool) oldest(u *upload) *upload {
	for _, l := range []*list.List{&p.large, &p.small} {
		if first := l.Front(); first != nil && first.Value != u { // u itself is the most recent
			return first.Value.(*upload)
		}
	}
	return nil
}

// grow reserves n more bytes. It returns false if there are none or the body was dropped.
func (u *upload) grow(n int64) bool {
	p := u.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if u.gone {
		return false
	}
	most, in := p.size, &p.small
	if u.held+n > smallBody {
		most, in = p.size-p.size/8, &p.large
	}
	u.enter(in)
	for p.held+n > most {
		oldest := p.oldest(u)
		if oldest == nil {
			return false
		}
		oldest.giveUp()
	}
	p.held += n
	u.held += n
	return true
}

// giveUp drops the body. The pool is locked.
func (u *upload) giveUp() {
	u.pool.held -= u.held
	u.leave()
	u.held, u.gone = 0, true
	u.stop()
}

// progress records new bytes, the last ones if complete is set. It returns false if the body was dropped.
func (u *upload) progress(complete bool) bool {
	u.pool.mu.Lock()
	defer u.pool.mu.Unlock()
	switch {
	case u.gone:
		return false
	case complete:
		u.leave()
	default:
		u.enter(u.in)
	}
	return true
}

// release frees the memory of the body.
func (u *upload) release() {
	u.pool.mu.Lock()
	defer u.pool.mu.Unlock()
	u.pool.held -= u.held
	u.held = 0
	u.leave()
}

// read reads a body of at most limit bytes; declared is its Content-Length, −1 = unknown. The buffer grows with the
// received bytes, whatever is declared.
func (u *upload) read(body io.Reader, declared, limit int64) ([]byte, error) {
	end := limit + 2 // one byte above the limit, and EOF
	if declared >= 0 {
		end = min(end, declared+1)
	}
	var text []byte
	for {
		if size := int64(cap(text)); int64(len(text)) == size {
			next := min(max(firstRead, 2*size), max(end, size+firstRead))
			if !u.grow(next - size) {
				return nil, errFull
			}
			text = append(make([]byte, 0, next), text...)
		}
		n, err := body.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		switch {
		case !u.progress(err == io.EOF):
			return nil, errFull
		case err == io.EOF:
			return text, nil
		case err != nil:
			return nil, err
		}
	}
}

// turn waits for permission to decode a body and returns the function that releases it. Small bodies need none.
func (p *Pool) turn(ctx context.Context, size int) (func(), error) {
	if size <= smallBody {
		return func() {}, nil
	}
	select {
	case p.turns <- struct{}{}:
		return func() { <-p.turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
