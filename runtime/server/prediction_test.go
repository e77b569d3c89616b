package server

import (
	"encoding/json"
	"net/http"
	"regexp"
	"testing"
)

// TestPrediction: a predicted output does not change the response. usage counts its tokens in the response, /metrics
// the draft tokens. A malformed prediction is rejected.
func TestPrediction(t *testing.T) {
	web := serve(t, small, Options{Queue: 10})
	ask := func(more string) (string, any) {
		status, _, text := post(t, web, "/v1/chat/completions",
			`{"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 60, "temperature": 0, "seed": 1`+more+
				`}`)
		if status != http.StatusOK {
			t.Fatal(status, text)
		}
		v := object(t, text)
		return at(v, "choices", 0, "message", "content").(string), at(v, "usage", "completion_tokens_details")
	}
	want, none := ask("")
	if none != nil {
		t.Errorf("without a prediction: %v", none)
	}
	content, _ := json.Marshal(want)
	half, _ := json.Marshal(want[:len(want)/2] + " and the rest of it is quite another story, which nobody expects")
	for name, p := range map[string]string{
		"right":   `{"type": "content", "content": ` + string(content) + `}`,
		"half":    `{"type": "content", "content": ` + string(half) + `}`,
		"parts":   `{"type": "content", "content": [{"type": "text", "text": ` + string(content) + `}]}`,
		"wrong":   `{"type": "content", "content": "zzzz"}`,
		"nothing": `{"type": "content", "content": ""}`,
	} {
		got, usage := ask(`, "prediction": ` + p)
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		accepted, _ := at(usage, "accepted_prediction_tokens").(json.Number).Int64()
		rejected, _ := at(usage, "rejected_prediction_tokens").(json.Number).Int64()
		if fits := map[string]bool{
			"right":   accepted >= 30 && rejected <= 10,
			"parts":   accepted >= 30 && rejected <= 10,
			"half":    accepted >= 10 && rejected >= 10,
			"wrong":   accepted == 0 && rejected > 0,
			"nothing": accepted == 0 && rejected == 0,
		}[name]; !fits {
			t.Errorf("%s: %d accepted, %d rejected", name, accepted, rejected)
		}
	}
	for _, p := range []string{`"text"`, `{"type": "text", "content": "a"}`, `{"content": "a"}`, `{"type": "content"}`,
		`{"type": "content", "content": 1}`, `{"type": "content", "content": [{"type": "image"}]}`} {
		status, _, text := post(t, web, "/v1/completions", `{"prompt": "a", "prediction": `+p+`}`)
		if status != http.StatusBadRequest || at(object(t, text), "error", "param") != "prediction" {
			t.Errorf("%s: %d %s", p, status, text)
		}
	}
	_, _, metrics := do(t, web, http.MethodGet, "/metrics", "")
	for _, name := range []string{"vllm:spec_decode_num_draft_tokens_total",
		"vllm:spec_decode_num_accepted_tokens_total"} {
		if !regexp.MustCompile(`(?m)^` + name + `\{.*\} [1-9]`).MatchString(metrics) {
			t.Errorf("%s: %s", name, metrics)
		}
	}
}
