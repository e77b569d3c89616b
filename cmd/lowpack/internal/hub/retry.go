package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// What bounds the requests for one document or file, whatever the server does: a file takes at most maxTries
// requests, and no more than tries in a row that bring next to nothing.
const (
	tries    = 5
	maxTries = 100
	enough   = 32 << 10 // bytes that count as progress, of one request or in Client.stall
)

// maxPause bounds what a server may ask for in Retry-After.
const maxPause = time.Minute

var (
	errStalled = fmt.Errorf("the connection stalled: less than %d KiB came for long", enough>>10)
	errBroken  = errors.New("the connection broke")
)

// gaveUp is the last error of a request that was repeated in vain.
type gaveUp struct {
	error
	tries int
}

func (g *gaveUp) Error() string { return fmt.Sprintf("%v (after %d tries)", g.error, g.tries) }
func (g *gaveUp) Unwrap() error { return g.error }

// retry repeats try, which says how many bytes it brought that no earlier one had brought, with growing pauses, until
// it succeeds, fails for good, or has failed too often.
func (c *Client) retry(ctx context.Context, try func() (gained int64, err error)) error {
	pause := c.pause
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
		if gained >= enough {
			failed, pause = 0, c.pause
		}
		if failed == tries || all == maxTries {
			return &gaveUp{err, all}
		}
		wait := pause
		var s *statusError
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

// passing says whether an error may be gone at the next try: a broken connection, a busy server.
func passing(err error) bool {
	var s *statusError
	var n net.Error
	switch {
	case errors.As(err, &s):
		return s.passing()
	case errors.As(err, &n), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return true
	}
	return errors.Is(err, errStalled) || errors.Is(err, errBroken)
}

// statusError is an answer other than the one wanted.
type statusError struct {
	code  int
	kind  string // X-Error-Code of the hub: RepoNotFound, GatedRepo, RevisionNotFound, EntryNotFound …
	retry time.Duration
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("HTTP status %d %s", e.code, http.StatusText(e.code))
	if e.kind != "" {
		text += " (" + e.kind + ")"
	}
	return text
}

// passing says whether the same request may succeed later.
func (e *statusError) passing() bool {
	return e.code == http.StatusTooManyRequests || e.code == http.StatusRequestTimeout || e.code >= 500
}

func statusOf(resp *http.Response) *statusError {
	e := &statusError{code: resp.StatusCode, kind: resp.Header.Get("X-Error-Code")}
	if len(e.kind) > maxKind {
		e.kind = e.kind[:maxKind] + "…"
	}
	if s, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 63); err == nil {
		e.retry = time.Duration(min(s, uint64(maxPause/time.Second))) * time.Second
	}
	return e
}

// maxKind bounds what an error quotes of a server.
const maxKind = 64
