package schedule

import (
	"context"
	"io"
	"sync"
)

// Call is some requests that were submitted together. Its events wait in memory for Next, so that a slow reader never
// holds a step; there are at most as many as tokens, which the context bounds.
type Call struct {
	ctx    context.Context
	cancel context.CancelFunc
	left   int // requests that have not ended; belongs to the scheduler

	mu     sync.Mutex
	events []Event
	ended  bool
	err    error
	wake   chan struct{} // holds a token when there is something new
}

func newCall(ctx context.Context, requests int) *Call {
	c := &Call{left: requests, wake: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancel(ctx)
	return c
}

// Next returns the events since the last call of it, and waits while there are none. After the last of them the error
// is io.EOF; it is another one if the call failed, and what there was until then is lost.
func (c *Call) Next(ctx context.Context) ([]Event, error) {
	for {
		c.mu.Lock()
		events, ended, err := c.events, c.ended, c.err
		c.events = nil
		c.mu.Unlock()
		switch {
		case err != nil:
			return nil, err
		case len(events) > 0:
			return events, nil
		case ended:
			return nil, io.EOF
		}
		select {
		case <-c.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close ends the call: nothing more is computed for it from the next step on.
func (c *Call) Close() { c.cancel() }

func (c *Call) post(e ...Event) {
	c.mu.Lock()
	c.events = append(c.events, e...)
	c.mu.Unlock()
	c.signal()
}

// end ends the call, with an error if it is not nil. Only the first end counts.
func (c *Call) end(err error) {
	c.mu.Lock()
	if !c.ended {
		c.ended, c.err = true, err
	}
	c.mu.Unlock()
	c.cancel()
	c.signal()
}

func (c *Call) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
