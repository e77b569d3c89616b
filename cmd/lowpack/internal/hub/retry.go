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

// Limits of requests per document or file: at most maxTries in total, and at most tries in a row without progress.
const (
	tries    = 5
	maxTries = 100
	enough   = 32 << 10 // bytes that count as progress, per request or per Client.stall
)

// maxPause limits the server's Retry-After.
const maxPause = time.Minute

var (
	errStalled = fmt.Errorf("the connection stalled: less than %d KiB arrived in time", enough>>10)
	errBroken  = errors.New("the connection broke")
)

// gaveUp is the last error after all retries.
type gaveUp struct {
	error
	tries int
}

func (g *gaveUp) Error() string { return fmt.Sprintf("%v (after %d tries)", g.error, g.tries) }
func (g *gaveUp) Unwrap() error { return g.error }

// retry repeats try with growing pauses until it succeeds, fails permanently or has failed too often. gained is the
// number of bytes that no earlier try has received.
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

// passing reports whether an error may be temporary: a broken connection, a busy server.
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

// statusError is an unexpected HTTP status.
type statusError struct {
	code  int
	kind  string // the hub's X-Error-Code: RepoNotFound, GatedRepo, RevisionNotFound, EntryNotFound …
	retry time.Duration
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("HTTP status %d %s", e.code, http.StatusText(e.code))
	if e.kind != "" {
		text += " (" + e.kind + ")"
	}
	return text
}

// passing reports whether the same request may succeed later.
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

// maxKind limits what an error quotes from a server.
const maxKind = 64
