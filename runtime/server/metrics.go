package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lowpack/lowpack/runtime/server/internal/api"
	"github.com/lowpack/lowpack/runtime/server/schedule"
)

// vLLM's histogram buckets, so that its dashboards work unchanged.
var (
	firstTokenBuckets = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
		160, 640, 2560}
	gapBuckets     = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	requestBuckets = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960,
		1920, 7680}
	tokenBuckets = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000}
)

// metrics has vLLM's metric names and labels.
type metrics struct {
	prompt, generated, queries, hits, cancelled, failed prometheus.Counter
	drafted, accepted, loads, unloads                   prometheus.Counter
	finished                                            *prometheus.CounterVec
	first, between, whole, queued, prefill, decode      prometheus.Histogram
	promptTokens, generatedTokens, stepTokens, stepTime prometheus.Histogram
	all                                                 []prometheus.Collector
}

// newRegistry returns a registry with the Go runtime and process metrics.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// newMetrics registers the metrics of a model. usage returns the scheduler's state and the memory of the model, 0 if it
// is not loaded.
func newMetrics(r *prometheus.Registry, model string, usage func() (schedule.Stats, int64)) *metrics {
	m := &metrics{}
	labels := prometheus.Labels{"model_name": model, "engine": "0"}
	add := func(c prometheus.Collector) {
		r.MustRegister(c)
		m.all = append(m.all, c)
	}
	gauge := func(name, help string, value func(schedule.Stats, int64) float64) {
		add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels},
			func() float64 { return value(usage()) }))
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels})
		add(c)
		return c
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, ConstLabels: labels,
			Buckets: buckets})
		add(h)
		return h
	}
	gauge("vllm:num_requests_running", "Running requests.",
		func(s schedule.Stats, _ int64) float64 { return float64(s.Running) })
	gauge("vllm:num_requests_waiting", "Requests waiting in the queue.",
		func(s schedule.Stats, _ int64) float64 { return float64(s.Waiting) })
	gauge("vllm:kv_cache_usage_perc", "Share of the KV cache used by running requests, 0 to 1.",
		func(s schedule.Stats, _ int64) float64 { return s.Cache })
	gauge("lowpack:model_loaded", "1 = the model is in memory.", func(_ schedule.Stats, bytes int64) float64 {
		return float64(min(bytes, 1))
	})
	gauge("lowpack:model_memory_bytes", "Memory of the model: file, KV cache and buffers; 0 = it is not loaded.",
		func(_ schedule.Stats, bytes int64) float64 { return float64(bytes) })
	m.loads = counter("lowpack:model_loads_total", "Times the model was loaded.")
	m.unloads = counter("lowpack:model_unloads_total",
		"Times the model was unloaded: for others, by request, or because its file was replaced or removed.")
	m.drafted = counter("vllm:spec_decode_num_draft_tokens_total",
		"Draft tokens.")
	m.accepted = counter("vllm:spec_decode_num_accepted_tokens_total", "Draft tokens that were accepted.")
	m.prompt = counter("vllm:prompt_tokens_total", "Prompt tokens.")
	m.generated = counter("vllm:generation_tokens_total", "Generated tokens.")
	m.queries = counter("vllm:prefix_cache_queries_total",
		"Prompt tokens looked up in the prefix cache.")
	m.hits = counter("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.")
	m.cancelled = counter("lowpack:requests_cancelled_total", "Requests whose client disconnected, or that timed out.")
	m.failed = counter("lowpack:requests_failed_total", "Requests that failed.")
	m.finished = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "vllm:request_success_total",
		Help: "Finished choices by finish reason.", ConstLabels: labels}, []string{"finished_reason"})
	add(m.finished)
	m.first = histogram("vllm:time_to_first_token_seconds", "Time from arrival to end of prefill.", firstTokenBuckets)
	m.between = histogram("vllm:inter_token_latency_seconds", "Time between two tokens of a choice.", gapBuckets)
	m.whole = histogram("vllm:e2e_request_latency_seconds", "Time from arrival to last token.", requestBuckets)
	m.queued = histogram("vllm:request_queue_time_seconds", "Time from arrival to admission.", requestBuckets)
	m.prefill = histogram("vllm:request_prefill_time_seconds", "Time from admission to end of prefill.", requestBuckets)
	m.decode = histogram("vllm:request_decode_time_seconds", "Time from end of prefill to last token.", requestBuckets)
	m.promptTokens = histogram("vllm:request_prompt_tokens", "Prompt tokens of a request.", tokenBuckets)
	m.generatedTokens = histogram("vllm:request_generation_tokens", "Generated tokens of a request.", tokenBuckets)
	m.stepTokens = histogram("vllm:iteration_tokens_total", "Tokens of a forward pass.", tokenBuckets)
	m.stepTime = histogram("lowpack:iteration_time_seconds", "Time of a forward pass.", gapBuckets)
	return m
}

// unregister ends the series of a model that is not served any more.
func (m *metrics) unregister(r *prometheus.Registry) {
	for _, c := range m.all {
		r.Unregister(c)
	}
}

func metricsHandler(r *prometheus.Registry) http.HandlerFunc {
	write := promhttp.HandlerFor(r, promhttp.HandlerOpts{DisableCompression: true})
	return func(w http.ResponseWriter, r *http.Request) {
		api.LimitWrite(w)
		write.ServeHTTP(w, r)
	}
}

func (m *metrics) step(took time.Duration, tokens int) {
	m.stepTime.Observe(took.Seconds())
	m.stepTokens.Observe(float64(tokens))
}

func (m *metrics) gap(between time.Duration) { m.between.Observe(between.Seconds()) }

// observe records a finished request.
func (m *metrics) observe(t schedule.Timing) {
	switch {
	case t.Err != nil && len(t.Reasons) == 0 && isCancelled(t.Err):
		m.cancelled.Inc()
	case t.Err != nil:
		m.failed.Inc()
	}
	m.generated.Add(float64(t.Tokens))
	m.drafted.Add(float64(t.Drafted))
	m.accepted.Add(float64(t.Accepted))
	for _, r := range t.Reasons {
		m.finished.WithLabelValues(reasonOf(r)).Inc()
	}
	if t.Prefilled.IsZero() {
		return
	}
	m.prompt.Add(float64(t.PromptTokens))
	m.queries.Add(float64(t.PromptTokens))
	m.hits.Add(float64(t.CachedTokens))
	m.first.Observe(t.Prefilled.Sub(t.Arrived).Seconds())
	m.queued.Observe(t.Admitted.Sub(t.Arrived).Seconds())
	m.prefill.Observe(t.Prefilled.Sub(t.Admitted).Seconds())
	if t.Err == nil {
		m.whole.Observe(t.Ended.Sub(t.Arrived).Seconds())
		m.decode.Observe(t.Ended.Sub(t.Prefilled).Seconds())
		m.promptTokens.Observe(float64(t.PromptTokens))
		m.generatedTokens.Observe(float64(t.Tokens))
	}
}

// isCancelled reports whether the client left or the request timed out.
func isCancelled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
