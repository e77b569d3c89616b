package loadgen

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestSummary compares with NumPy's results for 1, 2, 3, 4, 10 (mean, median, std, percentile 99).
func TestSummary(t *testing.T) {
	var list []time.Duration
	for _, ms := range []int{10, 1, 4, 2, 3} {
		list = append(list, time.Duration(ms)*time.Millisecond)
	}
	mean, median, std, p99 := summary(list)
	for i, d := range []float64{mean - 4, median - 3, std - 3.1622776601683795, p99 - 9.76} {
		if math.Abs(d) > 1e-9 {
			t.Errorf("number %d is off by %v", i, d)
		}
	}
}

// direct is a network without sockets, so that tests control the clock.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	body, answer := io.Pipe()
	go func() {
		d.ServeHTTP(writer{answer}, r)
		answer.Close()
	}()
	return &http.Response{StatusCode: http.StatusOK, Body: body, Request: r}, nil
}

type writer struct{ *io.PipeWriter }

func (writer) Header() http.Header { return http.Header{} }
func (writer) WriteHeader(int)     {}

// slow is a server that works on one request at a time, for a while.
func slow(t *testing.T, takes time.Duration) (server direct, most *atomic.Int32) {
	turn := make(chan struct{}, 1) // a mutex would stop the test clock
	var now atomic.Int32
	most = &atomic.Int32{}
	return direct{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		var body struct {
			Prompt []int
			Max    int `json:"max_tokens"`
			Stream bool
			Ignore bool `json:"ignore_eos"`
		}
		err := json.NewDecoder(r.Body).Decode(&body)
		if err != nil || len(body.Prompt) != 5 || body.Max != 3 || !body.Stream || !body.Ignore {
			t.Errorf("%+v, %v", body, err)
		}
		if key := r.Header.Get("Authorization"); key != "Bearer k" {
			t.Errorf("key %q", key)
		}
		turn <- struct{}{}
		defer func() { <-turn }()
		fmt.Fprint(w, ": keep-alive\n\n")
		for i := range 3 {
			time.Sleep(takes / 3)
			fmt.Fprintf(w, "data: {\"choices\":[{\"text\":\"x%d\",\"finish_reason\":null}]}\n\n", i)
		}
		fmt.Fprint(w, "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n"+
			"data: {\"choices\":[],\"usage\":{\"completion_tokens\":3}}\n\ndata: [DONE]\n\n")
	})}, most
}

// TestLoops: in an open loop the latencies of an overloaded server grow, because they count from the planned times; in
// a closed loop it never has more concurrent requests than configured.
func TestLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes, requests = 30 * time.Millisecond, 10
		network, most := slow(t, takes)
		o := Options{Key: "k", Requests: requests, Input: 5, Output: 3, Goodput: Limits{E2EL: 4 * takes},
			network: network}
		burst, err := Run(t.Context(), o) // all at once: answers end after 30, 60 … 300 ms
		if err != nil {
			t.Fatal(err)
		}
		if most.Load() != requests {
			t.Errorf("%d requests at once", most.Load())
		}
		if burst.Completed != requests || burst.Output != 3*requests || burst.Input != 5*requests ||
			burst.Duration != 0.3 {
			t.Errorf("%+v", burst)
		}
		if burst.MedianE2EL != 165 || burst.MedianTTFT != 145 || burst.MedianITL != 10 || burst.MedianTPOT != 10 {
			t.Errorf("%+v", burst)
		}
		if good := *burst.Goodput * burst.Duration; math.Abs(good-4) > 1e-9 {
			t.Errorf("%v good requests", good)
		}
		o.Rate, o.Goodput = 1000, Limits{} // the same, each planned a millisecond later or so
		open, err := Run(t.Context(), o)
		if err != nil || open.Goodput != nil || open.Duration != 0.3 {
			t.Fatalf("%+v, %v", open, err)
		}
		if late := burst.MeanE2EL - open.MeanE2EL; late < 1 || late > 10 {
			t.Errorf("planned %v ms later, answered %v ms after that", late, open.MeanE2EL)
		}
		most.Store(0)
		o.Rate, o.Concurrency = 0, 2
		closed, err := Run(t.Context(), o)
		if err != nil || most.Load() != 2 || closed.MedianE2EL != 60 || closed.Duration != 0.3 {
			t.Fatalf("%+v, %v, %d at once", closed, err, most.Load())
		}
	})
}

// TestFailures: an incomplete answer counts as failed.
func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		text, says string
	}{
		"status":  {429, `{"error":{"message":"busy"}}`, "status 429"},
		"error":   {200, "data: {\"error\":{\"message\":\"engine\"}}\n\n", "engine"},
		"cut":     {200, "data: {\"choices\":[{\"text\":\"x\"}]}\n\n", "without finish_reason"},
		"no JSON": {200, "data: {\n\n", "not JSON"},
		"usage":   {200, "data: {\"choices\":[{\"text\":\"x\",\"finish_reason\":\"stop\"}]}\n\n", "no usage"},
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.text)
		}))
		if _, err := Run(t.Context(), Options{URL: web.URL, Requests: 2, Input: 1, Output: 1}); err == nil ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		web.Close()
	}
}
