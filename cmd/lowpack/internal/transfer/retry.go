package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Limits of requests per document or file: at most MaxTries in total, and at most Tries in a row without progress.
const (
	Tries    = 5
	MaxTries = 100
	Enough   = 32 << 10 // bytes that count as progress, per request or per Patience.Stall
)

// maxPause limits the server's Retry-After.
const maxPause = time.Minute

// Patience says how long a server is waited for.
type Patience struct {
	Stall time.Duration // a connection without progress for this long is broken
	Pause time.Duration // before the first retry
}

// Usual is the patience with servers on the internet.
func Usual() Patience { return Patience{Stall: 30 * time.Second, Pause: time.Second} }

var (
	// ErrStalled: the connection was cut because too little arrived.
	ErrStalled = fmt.Errorf("the connection stalled: less than %d KiB arrived in time", Enough>>10)
	// ErrBroken: the connection ended before the answer did.
	ErrBroken = errors.New("the connection broke")
)

// GaveUp is the last error after all retries.
type GaveUp struct {
	error
	tries int
}

func (g *GaveUp) Error() string { return fmt.Sprintf("%v (after %d tries)", g.error, g.tries) }
func (g *GaveUp) Unwrap() error { return g.error }

// Retry repeats try with growing pauses until it succeeds, fails permanently or has failed too often. gained is the
// number of bytes that no earlier try has moved.
func (p Patience) Retry(ctx context.Context, try func() (gained int64, err error)) error {
	pause := p.Pause
	for all, failed := 1, 1; ; all, failed = all+1, failed+1 {
		gained, err := try()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !passing(err):
			return err
		}
		if gained >= Enough {
			failed, pause = 0, p.Pause
		}
		if failed == Tries || all == MaxTries {
			return &GaveUp{err, all}
		}
		wait := pause
		var s *StatusError
		if errors.As(err, &s) {
			wait = max(wait, s.retry)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		pause *= 2
	}
}

// passing reports whether an error may be temporary: a broken connection, a busy server.
func passing(err error) bool {
	var s *StatusError
	var n net.Error
	switch {
	case errors.As(err, &s):
		return s.passing()
	case errors.As(err, &n), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return true
	}
	return errors.Is(err, ErrStalled) || errors.Is(err, ErrBroken)
}

// Watch returns a context that is cancelled, with the cause ErrStalled, unless alive is called in time. stop releases
// it and returns ErrStalled in the place of the error of a connection that was cut.
func (p Patience) Watch(ctx context.Context) (watched context.Context, alive func(), stop func(error) error) {
	watched, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(p.Stall, func() { cancel(ErrStalled) })
	return watched, func() { timer.Reset(p.Stall) }, func(err error) error {
		timer.Stop()
		if err != nil && errors.Is(context.Cause(watched), ErrStalled) {
			err = ErrStalled
		}
		cancel(nil)
		return err
	}
}

// StatusError is an unexpected HTTP status.
type StatusError struct {
	Code  int
	Kind  string // what the server calls it
	retry time.Duration
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("HTTP status %d %s", e.Code, http.StatusText(e.Code))
	if e.Kind != "" {
		text += " (" + e.Kind + ")"
	}
	return text
}

// passing reports whether the same request may succeed later.
func (e *StatusError) passing() bool {
	return e.Code == http.StatusTooManyRequests || e.Code == http.StatusRequestTimeout || e.Code >= 500
}

// Status returns the error of a status that the server calls so.
func Status(code int, kind string) *StatusError {
	if len(kind) > maxKind {
		kind = kind[:maxKind] + "…"
	}
	return &StatusError{Code: code, Kind: kind}
}

// StatusOf is Status for an answer, with its Retry-After.
func StatusOf(resp *http.Response, kind string) *StatusError {
	e := Status(resp.StatusCode, kind)
	if s, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 63); err == nil {
		e.retry = time.Duration(min(s, uint64(maxPause/time.Second))) * time.Second
	}
	return e
}

// maxKind limits what an error quotes from a server.
const maxKind = 64

// Plain removes method and URL, which may contain a signature, from a net/http error.
func Plain(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var n *net.OpError
	switch {
	case !errors.As(err, &n):
		return err
	case n.Addr == nil: // DNS failure
		return n.Err
	}
	return fmt.Errorf("%s: %w", n.Addr, n.Err)
}
