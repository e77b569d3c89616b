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

// Bounds of a pool.
const (
	smallBody = 64 << 10 // bytes of a body for which a part of the pool is reserved
	firstRead = 4 << 10  // bytes of the first buffer of a body
	maxTurns  = 2        // larger bodies that are looked at at once
)

// Pool bounds the memory of the bodies of all requests together, from the first byte that is read until the request was
// understood. Where it is used up, the body that has had no new byte for the longest time makes room, larger ones
// first: in order of events, not by a clock. So uploads that stall hold up no others. An eighth is for bodies of at
// most smallBody, which larger ones that are complete do not hold up either.
type Pool struct {
	size  int64
	turns chan struct{} // to look at larger bodies, which takes some times their memory

	mu   sync.Mutex
	held int64
	// Of *upload that are not complete, in front the one without news for longest.
	large, small list.List
}

// NewPool makes a pool of so many bytes.
func NewPool(size int64) *Pool { return &Pool{size: size, turns: make(chan struct{}, maxTurns)} }

// upload is a body on its way into memory.
type upload struct {
	pool *Pool
	held int64
	stop func() // ends a read that waits
	in   *list.List
	at   *list.Element // of in; nil = complete, or given up
	gone bool          // it made room for others
}

// errFull says that there is no memory for a body.
var errFull = errors.New("the requests that are being read take all of the memory for them")

func fullError() *Error {
	return &Error{Status: http.StatusServiceUnavailable, Type: Unavailable, Code: "bodies_full", Message: errFull.Error(),
		RetryAfter: time.Second}
}

// begin notes a body whose reads stop ends. It is called while the pool is locked.
func (p *Pool) begin(stop func()) *upload {
	u := &upload{pool: p, stop: stop}
	p.mu.Lock()
	defer p.mu.Unlock()
	u.enter(&p.small)
	return u
}

// enter makes the body the one with the latest news of a list. The pool is locked.
func (u *upload) enter(in *list.List) {
	u.leave()
	u.in, u.at = in, in.PushBack(u)
}

// leave takes the body out of its list: it is complete, or given up. The pool is locked.
func (u *upload) leave() {
	if u.at != nil {
		u.in.Remove(u.at)
		u.at = nil
	}
}

// oldest is the body that makes room for u; nil = there is none. The pool is locked.
func (p *Pool) oldest(u *upload) *upload {
	for _, l := range []*list.List{&p.large, &p.small} {
		if first := l.Front(); first != nil && first.Value != u { // u has the latest news
			return first.Value.(*upload)
		}
	}
	return nil
}

// grow takes n bytes more. It is false where there are none, or the body itself made room.
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

// giveUp makes room. The pool is locked.
func (u *upload) giveUp() {
	u.pool.held -= u.held
	u.leave()
	u.held, u.gone = 0, true
	u.stop()
}

// progress notes that bytes came, the last ones if the body is complete. It is false if the body made room meanwhile.
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

// release gives back what the body took.
func (u *upload) release() {
	u.pool.mu.Lock()
	defer u.pool.mu.Unlock()
	u.pool.held -= u.held
	u.held = 0
	u.leave()
}

// read reads a body of at most most bytes, of which declared are announced (−1 = it is not known how many). Its buffer
// grows with what has come, whatever is announced.
func (u *upload) read(body io.Reader, declared, most int64) ([]byte, error) {
	end := most + 2 // one more than is allowed is read, and the end
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

// turn waits until a body may be looked at, and returns what ends that.
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
