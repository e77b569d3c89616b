package loadgen

import (
	"math"
	"slices"
	"time"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/bench"
)

// Report has the names of the result files of vLLM.
type Report struct {
	Model       string  `json:"model_id"`
	Requests    int     `json:"num_prompts"`
	Rate        float64 `json:"request_rate"` // 0 = all at once
	Concurrency int     `json:"max_concurrency"`
	Duration    float64 `json:"duration"` // seconds
	Completed   int     `json:"completed"`
	Failed      int     `json:"failed"`
	Error       string  `json:"error,omitempty"` // of the first request that failed
	Input       int     `json:"total_input_tokens"`
	Output      int     `json:"total_output_tokens"`

	RequestThroughput float64  `json:"request_throughput"` // per second
	Goodput           *float64 `json:"request_goodput"`    // of requests within all limits; null without limits
	OutputThroughput  float64  `json:"output_throughput"`
	TotalThroughput   float64  `json:"total_token_throughput"`

	MeanTTFT   float64 `json:"mean_ttft_ms"`
	MedianTTFT float64 `json:"median_ttft_ms"`
	StdTTFT    float64 `json:"std_ttft_ms"`
	P99TTFT    float64 `json:"p99_ttft_ms"`
	MeanTPOT   float64 `json:"mean_tpot_ms"`
	MedianTPOT float64 `json:"median_tpot_ms"`
	StdTPOT    float64 `json:"std_tpot_ms"`
	P99TPOT    float64 `json:"p99_tpot_ms"`
	MeanITL    float64 `json:"mean_itl_ms"`
	MedianITL  float64 `json:"median_itl_ms"`
	StdITL     float64 `json:"std_itl_ms"`
	P99ITL     float64 `json:"p99_itl_ms"`
	MeanE2EL   float64 `json:"mean_e2el_ms"`
	MedianE2EL float64 `json:"median_e2el_ms"`
	StdE2EL    float64 `json:"std_e2el_ms"`
	P99E2EL    float64 `json:"p99_e2el_ms"`
}

// newReport sums up a load.
func newReport(o Options, results []result, took time.Duration) *Report {
	r := &Report{Model: o.Model, Requests: o.Requests, Rate: o.Rate, Concurrency: o.Concurrency,
		Duration: took.Seconds()}
	var ttft, tpot, itl, e2el []time.Duration
	good := 0
	for i := range results {
		x := &results[i]
		if x.err != nil {
			if r.Failed++; r.Error == "" {
				r.Error = x.err.Error()
			}
			continue
		}
		r.Completed++
		r.Input, r.Output = r.Input+o.Input, r.Output+x.output
		ttft, itl, e2el = append(ttft, x.ttft), append(itl, x.itl...), append(e2el, x.e2el)
		if x.output > 1 {
			tpot = append(tpot, x.tpot())
		}
		if o.Goodput.hold(x) {
			good++
		}
	}
	r.RequestThroughput = float64(r.Completed) / r.Duration
	r.OutputThroughput = float64(r.Output) / r.Duration
	r.TotalThroughput = float64(r.Input+r.Output) / r.Duration
	if o.Goodput != (Limits{}) {
		rate := float64(good) / r.Duration
		r.Goodput = &rate
	}
	r.MeanTTFT, r.MedianTTFT, r.StdTTFT, r.P99TTFT = summary(ttft)
	r.MeanTPOT, r.MedianTPOT, r.StdTPOT, r.P99TPOT = summary(tpot)
	r.MeanITL, r.MedianITL, r.StdITL, r.P99ITL = summary(itl)
	r.MeanE2EL, r.MedianE2EL, r.StdE2EL, r.P99E2EL = summary(e2el)
	return r
}

// hold reports whether a request is within all limits.
func (l Limits) hold(r *result) bool {
	within := func(d, limit time.Duration) bool { return limit == 0 || d <= limit }
	return within(r.ttft, l.TTFT) && within(r.tpot(), l.TPOT) && within(r.e2el, l.E2EL)
}

// summary returns milliseconds. Percentiles are linearly interpolated, and the standard deviation is the population's,
// as in NumPy, which vLLM uses.
func summary(list []time.Duration) (mean, median, std, p99 float64) {
	if len(list) == 0 {
		return 0, 0, 0, 0
	}
	ms := make([]float64, len(list))
	for i, d := range list {
		ms[i] = float64(d) / float64(time.Millisecond)
		mean += ms[i] / float64(len(list))
	}
	for _, x := range ms {
		std += (x - mean) * (x - mean) / float64(len(ms))
	}
	slices.Sort(ms)
	return mean, bench.Quantile(ms, 0.5), math.Sqrt(std), bench.Quantile(ms, 0.99)
}
