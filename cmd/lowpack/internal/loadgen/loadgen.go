// Package loadgen measures an OpenAI-compatible server under load, by the definitions of vLLM's `bench serve`.
package loadgen

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Options of a load.
type Options struct {
	URL         string // of the server, without /v1
	Key         string // "" = none
	Model       string
	Requests    int
	Rate        float64 // open loop: requests per second on average, in a Poisson process; 0 = all at once
	Concurrency int     // closed loop: requests at once; 0 = open loop
	Input       int     // tokens of a prompt
	Output      int     // tokens to generate
	Seed        uint64
	Goodput     Limits
	Progress    func(done int) // may be nil

	network http.RoundTripper // nil = a new one
}

// Limits of a request that counts as good; 0 = none.
type Limits struct{ TTFT, TPOT, E2EL time.Duration }

// The tokens of prompts are random ids of a range that every vocabulary has.
const firstID, lastID = 256, 1000

// Run sends the load and waits for all answers. Errors: ctx has ended, or no request was answered.
//
// Each request has a time at which it is planned to be sent. In an open loop latency counts from that time: a slow
// server does not delay later requests (no coordinated omission). In a closed loop a request is planned for the end of
// the previous one.
func Run(ctx context.Context, o Options) (*Report, error) {
	r := rand.New(rand.NewPCG(o.Seed, 0))
	prompts, planned := make([][]int, o.Requests), make([]time.Duration, o.Requests)
	var at time.Duration
	for i := range prompts {
		prompts[i] = make([]int, o.Input)
		for j := range prompts[i] {
			prompts[i][j] = firstID + r.IntN(lastID-firstID)
		}
		planned[i] = at
		if o.Rate > 0 {
			at += time.Duration(r.ExpFloat64() / o.Rate * float64(time.Second))
		}
	}
	if o.network == nil {
		o.network = &http.Transport{MaxIdleConnsPerHost: o.Requests}
	}
	c := &client{Options: o, http: &http.Client{Transport: o.network}}
	defer c.http.CloseIdleConnections()
	results := make([]result, o.Requests)
	start := time.Now()
	c.sendAll(ctx, func(i int) {
		from := time.Now()
		if o.Concurrency == 0 {
			from = start.Add(planned[i])
			wait(ctx, from)
		}
		results[i] = c.ask(ctx, prompts[i], from)
	})
	took := time.Since(start)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	report := newReport(o, results, took)
	if report.Completed == 0 {
		return nil, fmt.Errorf("no request was answered: %w", results[0].err)
	}
	return report, nil
}

// wait waits for a time.
func wait(ctx context.Context, until time.Time) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// sendAll calls send for each request: in a separate goroutine, or in the goroutines of a closed loop.
func (c *client) sendAll(ctx context.Context, send func(i int)) {
	workers := c.Concurrency
	if workers == 0 {
		workers = c.Requests
	}
	next := make(chan int)
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		done  int
	)
	for range min(workers, c.Requests) {
		group.Go(func() {
			for i := range next {
				send(i)
				mu.Lock()
				if done++; c.Progress != nil {
					c.Progress(done)
				}
				mu.Unlock()
			}
		})
	}
	for i := 0; i < c.Requests && ctx.Err() == nil; i++ {
		next <- i
	}
	close(next)
	group.Wait()
}
