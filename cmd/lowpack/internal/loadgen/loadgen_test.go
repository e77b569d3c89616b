package loadgen

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestSummary compares with what NumPy says of 1, 2, 3, 4, 10 (mean, median, std, percentile 99).
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

// slow is a server that works on one request at a time, for a while.
func slow(t *testing.T, takes time.Duration) (url string, most *atomic.Int32) {
	var mu sync.Mutex
	var now atomic.Int32
	most = &atomic.Int32{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Prompt) != 5 || body.Max != 3 || !body.Stream || !body.Ignore || r.Header.Get("Authorization") != "Bearer k" {
			t.Errorf("%+v, %v", body, err)
		}
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprint(w, ": keep-alive\n\n")
		for i := range 3 {
			time.Sleep(takes / 3)
			fmt.Fprintf(w, "data: {\"choices\":[{\"text\":\"x%d\",\"finish_reason\":null}]}\n\n", i)
			w.(http.Flusher).Flush()
		}
		fmt.Fprint(w, "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"completion_tokens\":3}}\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(web.Close)
	return web.URL, most
}

// TestLoops: in an open loop a server that cannot keep up is told so by latencies that grow, because they count from the
// planned moments; in a closed loop it never has more requests than asked for.
func TestLoops(t *testing.T) {
	const takes, requests = 30 * time.Millisecond, 10
	url, most := slow(t, takes)
	o := Options{URL: url, Key: "k", Requests: requests, Input: 5, Output: 3, Rate: 1000, Goodput: Limits{E2EL: 4 * takes}}
	open, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ms := float64(takes / time.Millisecond)
	if open.Completed != requests || open.Output != 3*requests || open.Input != 5*requests || open.MedianE2EL < ms*(requests/2-1) || open.P99E2EL < ms*(requests-1.5) {
		t.Errorf("%+v", open)
	}
	if good := *open.Goodput * open.Duration; good < 0 || good > 4.5 {
		t.Errorf("%v good requests", good)
	}
	if open.MedianITL < ms/4 || open.MedianTPOT < ms/4 || open.MedianTTFT >= open.MedianE2EL {
		t.Errorf("%+v", open)
	}
	most.Store(0)
	o.Rate, o.Concurrency, o.Goodput = 0, 2, Limits{}
	closed, err := Run(t.Context(), o)
	if err != nil || closed.Goodput != nil || most.Load() > 2 {
		t.Fatalf("%+v, %v, %d at once", closed, err, most.Load())
	}
	if closed.MedianE2EL > open.MedianE2EL {
		t.Errorf("closed loop %v ms, open loop %v ms", closed.MedianE2EL, open.MedianE2EL)
	}
}

// TestFailures: what is not a whole answer is counted as failed.
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
		if _, err := Run(t.Context(), Options{URL: web.URL, Requests: 2, Input: 1, Output: 1}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		web.Close()
	}
}
