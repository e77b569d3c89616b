package schedule

import (
	"context"
	"io"
	"sync"
)

// Call is a set of requests submitted together. Events wait in memory for Next, so a slow reader never delays a step.
// There are at most as many events as tokens, which the context length bounds.
type Call struct {
	ctx    context.Context
	cancel context.CancelFunc
	left   int     // unfinished requests; owned by the scheduler
	held   []*task // requests that follow those which end; owned by the scheduler

	mu     sync.Mutex
	events []Event
	ended  bool
	err    error
	wake   chan struct{} // signals new events
}

func newCall(ctx context.Context, requests int) *Call {
	c := &Call{left: requests, wake: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancel(ctx)
	return c
}

// Next returns the events since the last call, and waits if there are none. After the last event it returns io.EOF. If
// the call failed, it returns that error and drops pending events.
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

// Close cancels the call: the next step no longer computes it.
func (c *Call) Close() { c.cancel() }

func (c *Call) post(e ...Event) {
	c.mu.Lock()
	c.events = append(c.events, e...)
	c.mu.Unlock()
	c.signal()
}

// end ends the call, with an error if err is not nil. Further calls have no effect.
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
