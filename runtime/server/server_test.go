package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/requests"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/internal/testkit/wait"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/server/schedule"
)

// serve starts a server of the bundled model.
func serve(t *testing.T, eo engine.Options, o Options) *httptest.Server {
	t.Helper()
	_, web := serveModel(t, eo, o)
	return web
}

// serveModel is serve with an optional chat template.
func serveModel(t *testing.T, eo engine.Options, o Options, template ...string) (*Server, *httptest.Server) {
	t.Helper()
	return serveOf(t, tiny(t, "tiny", eo, template...), o)
}

// serveOf starts a server of a model.
func serveOf(t *testing.T, m Model, o Options) (*Server, *httptest.Server) {
	t.Helper()
	s, err := New(o, m)
	if err != nil {
		t.Fatal(err)
	}
	return s, webOf(t, s)
}

// webOf serves until the test ends.
func webOf(t *testing.T, s *Server) *httptest.Server {
	t.Helper()
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Drain(ctx)
		web.Close()
	})
	return web
}

// tiny is the bundled model.
func tiny(t *testing.T, id string, o engine.Options, template ...string) Model {
	t.Helper()
	return modelOf(t, tinymodel.Path(t), id, o, template...)
}

// modelOf returns the model of a packed file.
func modelOf(t *testing.T, path, id string, o engine.Options, template ...string) Model {
	t.Helper()
	f, err := packed.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	m, err := modelIn(f, o, template...)
	if err != nil {
		t.Fatal(err)
	}
	m.ID = id
	return m
}

// stats returns the scheduler's state of the first model.
func stats(s *Server) schedule.Stats {
	state, _ := s.models.stats(s.models.list[0])
	return state
}

var small = engine.Options{Threads: 1, Context: 256, Sequences: 4}

// post sends a request and returns status, headers and body.
func post(t testing.TB, web *httptest.Server, path, body string, header ...string) (int, http.Header, string) {
	t.Helper()
	return do(t, web, http.MethodPost, path, body, header...)
}

func do(t testing.TB, web *httptest.Server, method, path, body string, header ...string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequest(method, web.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	answer, err := web.Client().Do(r)
	if err != nil {
		t.Error(err)
		return 0, nil, ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Error(err)
	}
	checkDeclared(t, method, path, answer.StatusCode)
	checkSchema(t, path, body, answer.StatusCode, string(text))
	return answer.StatusCode, answer.Header, string(text)
}

// object decodes JSON and keeps the digits of numbers.
func object(t testing.TB, text string) (v map[string]any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// at follows keys and indices into decoded JSON.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// essence returns the part of a response that must not depend on load.
func essence(t testing.TB, text string) string {
	t.Helper()
	out, err := requests.Essence([]byte(text))
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// frames returns the data of a stream, without the last frame, which must be [DONE].
func frames(t testing.TB, text string) (list []map[string]any) {
	t.Helper()
	done := false
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		data, ok := strings.CutPrefix(s.Text(), "data: ")
		switch {
		case !ok:
		case done:
			t.Errorf("a frame after [DONE]: %s", data)
		case data == "[DONE]":
			done = true
		default:
			list = append(list, object(t, data))
		}
	}
	if !done {
		t.Errorf("a stream without [DONE]: %s", text)
	}
	return list
}

// TestSeed: a response to a request without a seed names the seed that reproduces it, and n choices have different
// seeds.
func TestSeed(t *testing.T) {
	web := serve(t, small, Options{Queue: 10})
	body := `{"prompt": "Once", "temperature": 1.5, "max_tokens": 12, "n": 3, "top_k": 0, "top_p": 1`
	_, h, text := post(t, web, "/v1/completions", body+"}")
	first := object(t, text)
	seed := fmt.Sprint(first["seed"])
	if seed != h.Get("X-Lowpack-Seed") {
		t.Errorf("seed %s in the body, %s in the header", seed, h.Get("X-Lowpack-Seed"))
	}
	_, h, _ = post(t, web, "/v1/completions", body+`, "seed": -9223372036854775808}`)
	if got := h.Get("X-Lowpack-Seed"); got != "-9223372036854775808" {
		t.Errorf("seed %s", got)
	}
	_, _, again := post(t, web, "/v1/completions", body+`, "seed": `+seed+"}")
	if essence(t, again) != essence(t, text) {
		t.Errorf("%s\n%s", text, again)
	}
	var texts []any
	for i := range 3 {
		texts = append(texts, at(first, "choices", i, "text"))
	}
	if texts[0] == texts[1] || texts[1] == texts[2] {
		t.Errorf("choices are equal: %q", texts)
	}
}

// TestPrefix: usage reports how many tokens of a repeated prompt came from the cache.
func TestPrefix(t *testing.T) {
	web := serve(t, small, Options{Queue: 10, PrefixCache: true})
	body := `{"messages": [{"role": "user", "content": "What is the capital of the country?"}], "max_tokens": 2, ` +
		`"temperature": 0}`
	cached := func() string {
		_, _, text := post(t, web, "/v1/chat/completions", body)
		return fmt.Sprint(at(object(t, text), "usage", "prompt_tokens_details", "cached_tokens"))
	}
	if first, second := cached(), cached(); first != "0" || second == "0" {
		t.Errorf("%s and %s cached tokens", first, second)
	}
}

// TestFields: every field is supported, or rejected by name.
func TestFields(t *testing.T) {
	web := serve(t, small, Options{Queue: 10})
	long := strings.Repeat("word ", 300)
	for _, c := range []struct{ path, body, param, says string }{
		{"completions", `{`, "", "not a JSON object"},
		{"completions", `[]`, "", "not a JSON object"},
		{"completions", `{}`, "prompt", "prompt is missing"},
		{"completions", `{"prompt": 5}`, "prompt", "a string, a list of strings"},
		{"completions", `{"prompt": [1, "a"]}`, "prompt", "a list of token ids"},
		{"completions", `{"prompt": [99999]}`, "prompt", "token id 99999"},
		{"completions", `{"prompt": []}`, "prompt", "no tokens"},
		{"completions", `{"prompt": "a", "temperature": -1}`, "temperature", "between 0 and 2"},
		{"completions", `{"prompt": "a", "temperature": "hot"}`, "temperature", "a number"},
		{"completions", `{"prompt": "a", "top_p": 1.5}`, "top_p", "between 0 and 1"},
		{"completions", `{"prompt": "a", "top_k": -2}`, "top_k", "between -1 and"},
		{"completions", `{"prompt": "a", "n": 0}`, "n", "between 1 and"},
		{"completions", `{"prompt": "a", "n": 5}`, "prompt", "5 texts of one prompt"},
		{"completions", `{"prompt": "a", "best_of": 2}`, "best_of", "best_of is 2"},
		{"completions", `{"prompt": "a", "seed": 1.5}`, "seed", "64-bit"},
		{"completions", `{"prompt": "a", "seed": 9223372036854775808}`, "seed", "64-bit"},
		{"completions", `{"prompt": "a", "max_tokens": 0}`, "max_tokens", "at least 1 without echo"},
		{"completions", `{"prompt": "a", "stop": [""]}`, "stop", "an empty string"},
		{"completions", `{"prompt": "a", "logprobs": 21}`, "logprobs", "between 0 and 20"},
		{"completions", `{"prompt": "a", "logit_bias": {"x": 1}}`, "logit_bias", `"x" is not a token id`},
		{"completions", `{"prompt": "a", "logit_bias": {"1": 101}}`, "logit_bias", "between -100 and 100"},
		{"completions", `{"prompt": "a", "logit_bias": {"5": 100, "05": -100}}`, "logit_bias",
			`"05" is not a token id`},
		{"completions", `{"prompt": "a", "logit_bias": {"+5": 1}}`, "logit_bias", `"+5" is not a token id`},
		{"completions", `{"prompt": "a", "logit_bias": {"-0": 1}}`, "logit_bias", `"-0" is not a token id`},
		{"completions", `{"prompt": "a", "logit_bias": {"5.0": 1}}`, "logit_bias", `"5.0" is not a token id`},
		{"completions", `{"prompt": "a", "logit_bias": {"9999": 1}}`, "logit_bias", `"9999" is not a token id`},
		{"completions", `{"prompt": "a", "logit_bias": {"5": null}}`, "logit_bias", "null where a number"},
		{"completions", `{"prompt": "a", "suffix": "b"}`, "suffix", "not supported"},
		{"completions", `{"prompt": "a", "stream_options": {"include_usage": true}}`, "stream_options", "needs stream"},
		{"completions", `{"prompt": "a", "repetition_penalty": 0}`, "repetition_penalty", "above 0"},
		{"completions", `{"prompt": "a", "use_beam_search": true}`, "use_beam_search", "not supported"},
		{"completions", `{"prompt": "a", "include_stop_str_in_output": true}`, "include_stop_str_in_output",
			"not supported"},
		{"completions", `{"prompt": "a", "stop_token_ids": [-1]}`, "stop_token_ids", "token id -1"},
		{"chat/completions", `{}`, "messages", "missing"},
		{"chat/completions", `{"messages": []}`, "messages", "between 1 and"},
		{"chat/completions", `{"messages": [5]}`, "messages", "messages[0]: want an object"},
		{"chat/completions", `{"messages": [{"role": "king", "content": "a"}]}`, "messages", `role "king"`},
		{"chat/completions", `{"messages": [{"role": "user"}]}`, "messages", "content is missing"},
		{"chat/completions", `{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}`, "messages",
			`part 0 of type "image_url"`},
		{"chat/completions", `{"messages": [{"role": "user", "content": "a"}], "top_logprobs": 3}`, "top_logprobs",
			"needs logprobs"},
		{"chat/completions", `{"messages": [{"role": "user", "content": "a"}], "response_format": {"type": "yaml"}}`,
			"response_format", "yaml"},
		{"chat/completions", `{"messages": [{"role": "user", "content": "a"}], "echo": true}`, "echo", "not supported"},
		{"chat/completions", `{"messages": [{"role": "user", "content": "a"}], "functions": [{"name": "f"}]}`,
			"functions",
			"not supported"},
		{"chat/completions", `{"messages": [{"role": "user", "content": "` + long + `"}]}`, "prompt",
			"the context holds 256"},
	} {
		status, _, text := post(t, web, "/v1/"+c.path, c.body)
		e := at(object(t, text), "error")
		param, _ := at(e, "param").(string)
		if says, _ := at(e, "message").(string); status != http.StatusBadRequest || param != c.param ||
			!strings.Contains(says, c.says) || at(e, "type") != "invalid_request_error" {
			t.Errorf("%s: %d %s; want 400, param %q, %q", c.body, status, text, c.param, c.says)
		}
		if strings.Contains(c.says, "holds 256") != (at(e, "code") == "context_length_exceeded") {
			t.Errorf("%s: code %v", c.body, at(e, "code"))
		}
	}
	status, h, _ := post(t, web, "/v1/completions",
		`{"prompt": "a", "max_tokens": 1, "user": "me", "zz": 1, "foo\n": 2, "best_of": 1, "suffix": null}`)
	if got := h.Get("X-Lowpack-Ignored"); status != http.StatusOK || got != "foo?, zz" {
		t.Errorf("%d, ignored %q", status, got)
	}
}

// TestLogitBias: a bias of 100 forces a token, −100 bans it; logprobs are the model's own.
func TestLogitBias(t *testing.T) {
	web := serve(t, small, Options{Queue: 10})
	ask := func(more string) map[string]any {
		_, _, text := post(t, web, "/v1/completions",
			`{"prompt": "The", "temperature": 0, "max_tokens": 2, "logprobs": 1`+more+"}")
		return object(t, text)
	}
	plain := ask("")
	top := at(plain, "choices", 0, "logprobs", "top_logprobs", 0)
	biased := ask(`, "logit_bias": {"40": 100}`)
	if tokens := fmt.Sprint(at(biased, "choices", 0, "logprobs", "tokens")); strings.Count(tokens, "I") == 0 &&
		tokens == fmt.Sprint(at(plain, "choices", 0, "logprobs", "tokens")) {
		t.Errorf("a bias of 100 changes nothing: %v", tokens)
	}
	first := fmt.Sprint(at(biased, "choices", 0, "logprobs", "tokens", 0))
	alternatives := at(biased, "choices", 0, "logprobs", "top_logprobs", 0).(map[string]any)
	for name, p := range top.(map[string]any) {
		if alternatives[name] != p {
			t.Errorf("%q has the logprob %v with a bias on %q, %v without", name, alternatives[name], first, p)
		}
	}
}

// TestGuard: keys, hosts, origins, methods and paths.
func TestGuard(t *testing.T) {
	web := serve(t, small, Options{Queue: 10, Keys: []string{"one", "two"}, Loopback: true,
		Hosts: []string{"lowpack.test"}, Origins: []string{"http://page.test"}})
	const ask, key = `{"prompt": "a", "max_tokens": 1, "model": "tiny"}`, "Bearer two"
	for _, c := range []struct {
		method, path, body string
		header             []string
		status             int
	}{
		{"GET", "/health", "", nil, 200},
		{"GET", "/ready", "", nil, 200},
		{"GET", "/", "", nil, 200},
		{"POST", "/", "", []string{"Authorization", key}, 405},
		{"GET", "/", "", []string{"Host", "evil.test"}, 403},
		{"HEAD", "/health", "", nil, 200},
		{"POST", "/v1/completions", ask, nil, 401},
		{"POST", "/v1/completions", ask, []string{"Authorization", "Bearer three"}, 401},
		{"POST", "/v1/completions", ask, []string{"Authorization", "Bearer "}, 401},
		{"GET", "/metrics", "", nil, 401},
		{"POST", "/v1/completions", ask, []string{"Authorization", key}, 200},
		{"POST", "/v1/completions", ask, []string{"X-Api-Key", "one"}, 200},
		{"POST", "/v1/completions", strings.Replace(ask, "tiny", "big", 1), []string{"X-Api-Key", "one"}, 404},
		{"POST", "/v1/completions", ask, []string{"Authorization", key, "Host", "evil.test"}, 403},
		{"POST", "/v1/completions", ask, []string{"Authorization", key, "Host", "lowpack.test:8080"}, 200},
		{"GET", "/health", "", []string{"Host", "localhost:1"}, 200},
		{"GET", "/health", "", []string{"Host", "[::1]:1"}, 200},
		{"GET", "/health", "", []string{"Host", "[::1]"}, 200},
		{"GET", "/health", "", []string{"Host", "LOCALHOST"}, 200},
		{"GET", "/health", "", []string{"Host", "Localhost:8080"}, 200},
		{"GET", "/health", "", []string{"Host", "localhost.:8080"}, 200},
		{"GET", "/health", "", []string{"Host", "LowPack.Test."}, 200},
		{"GET", "/health", "", []string{"Host", "localhost.evil.test"}, 403},
		{"GET", "/health", "", []string{"Host", ".localhost"}, 403},
		{"GET", "/health", "", []string{"Host", "localhost:8080", "Origin", "http://LOCALHOST:8080"}, 200},
		{"POST", "/v1/completions", ask,
			[]string{"Authorization", key, "Content-Type", "application/json; charset=latin1"}, 415},
		{"POST", "/v1/completions", ask,
			[]string{"Authorization", key, "Content-Type", "application/json; charset=UTF-8"}, 200},
		{"POST", "/v1/completions", ask,
			[]string{"Authorization", key, "Content-Type", "application/json; charset="}, 415},
		{"POST", "/v1/completions", ask, []string{"Authorization", key, "Content-Type", ""}, 200},
		{"POST", "/v1/completions", ask, []string{"Authorization", key, "Content-Type", "text/plain"}, 200},
		{"POST", "/v1/completions", ask, []string{"Authorization", key, "Content-Encoding", "gzip"}, 415},
		{"GET", "/health", "", []string{"Host", "127.0.0.1.evil.test"}, 403},
		{"POST", "/v1/completions", ask, []string{"Authorization", key, "Origin", "http://evil.test"}, 403},
		{"POST", "/v1/completions", ask, []string{"Authorization", key, "Origin", "null"}, 403},
		{"POST", "/v1/completions", ask, []string{"Authorization", key, "Origin", "http://page.test"}, 200},
		{"OPTIONS", "/v1/completions", "", []string{"Origin", "http://page.test"}, 204},
		{"OPTIONS", "/v1/completions", "", []string{"Origin", "http://evil.test"}, 403},
		{"GET", "/v1/completions", "", []string{"Authorization", key}, 405},
		{"TRACE", "/health", "", []string{"Authorization", key}, 405},
		{"GET", "/v1/nothing", "", []string{"Authorization", key}, 404},
		{"GET", "/v1/models/tiny", "", []string{"Authorization", key}, 200},
		{"GET", "/v1/models/big", "", []string{"Authorization", key}, 404},
		{"POST", "/v1/completions", strings.Repeat(" ", maxBody+1), []string{"Authorization", key}, 413},
	} {
		status, h, text := do(t, web, c.method, c.path, c.body, c.header...)
		if status != c.status {
			t.Errorf("%s %s %v: %d %s, want %d", c.method, c.path, c.header, status, text, c.status)
		}
		if status >= 400 && c.method != "HEAD" && at(object(t, text), "error", "message") == nil {
			t.Errorf("%s %s: an error without a message: %s", c.method, c.path, text)
		}
		if h.Get("X-Request-Id") == "" || (status == 405) != (h.Get("Allow") != "") ||
			(status == 401) != (h.Get("WWW-Authenticate") != "") {
			t.Errorf("%s %s: header %v", c.method, c.path, h)
		}
		if slices.Contains(c.header,
			"http://page.test") != (h.Get("Access-Control-Allow-Origin") == "http://page.test") ||
			h.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s %s: CORS %v", c.method, c.path, h)
		}
	}
}

// TestBusy: with a full queue requests get 429 and Retry-After, while /health answers at once; a client that
// disconnects frees its place.
func TestBusy(t *testing.T) {
	s, web := serveModel(t, engine.Options{Threads: 1, Context: 256, Sequences: 1}, Options{Queue: 1})
	ctx, leave := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for range 2 {
		clients.Go(func() {
			for ctx.Err() == nil {
				r, _ := http.NewRequestWithContext(ctx, http.MethodPost, web.URL+"/v1/completions",
					strings.NewReader(`{"prompt": "a", "max_tokens": 250, "ignore_eos": true}`))
				if answer, err := web.Client().Do(r); err == nil {
					io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
				}
			}
		})
	}
	wait.For(t, "the queue is full", func() bool {
		status, h, text := post(t, web, "/v1/completions", `{"prompt": "a", "max_tokens": 1}`)
		if status != http.StatusTooManyRequests {
			return false
		}
		if at(object(t, text), "error", "code") != "queue_full" || h.Get("Retry-After") == "" ||
			h.Get("Retry-After-Ms") == "" {
			t.Errorf("%v %s", h, text)
		}
		return true
	})
	if status, _, _ := do(t, web, http.MethodGet, "/health", ""); status != http.StatusOK {
		t.Errorf("/health: %d", status)
	}
	leave()
	clients.Wait()
	wait.For(t, "no work goes on for clients that have left",
		func() bool { return stats(s).Running+stats(s).Waiting == 0 })
}

// TestHealthUnderLoad: probes do not wait: with 200 streams running and queued, /health answers before any of them has
// ended, because the scheduler's state is available while it computes.
func TestHealthUnderLoad(t *testing.T) {
	s, web := serveModel(t, small, Options{Queue: 1000})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var clients sync.WaitGroup
	for range 200 {
		clients.Go(func() {
			for ctx.Err() == nil {
				r, _ := http.NewRequestWithContext(ctx, http.MethodPost, web.URL+"/v1/completions",
					strings.NewReader(`{"prompt": "a", "max_tokens": 250, "ignore_eos": true, "stream": true}`))
				if answer, err := web.Client().Do(r); err == nil {
					io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
				}
			}
		})
	}
	open := func() int { return stats(s).Running + stats(s).Waiting }
	wait.For(t, "190 requests are open", func() bool { return open() >= 190 })
	for range 21 {
		if status, _, _ := do(t, web, http.MethodGet, "/health", ""); status != http.StatusOK || open() == 0 {
			t.Errorf("/health: %d with %d requests", status, open())
		}
	}
	leave()
	clients.Wait()
}

// TestDrain: a server that shuts down finishes running requests and rejects new ones.
func TestDrain(t *testing.T) {
	s, web := serveModel(t, small, Options{Queue: 10})
	running := make(chan string, 1)
	go func() {
		_, _, text := post(t, web, "/v1/completions", `{"prompt": "a", "max_tokens": 200, "ignore_eos": true}`)
		running <- text
	}()
	wait.For(t, "the request runs", func() bool { return stats(s).Running > 0 || len(running) > 0 })
	drained := make(chan bool)
	go func() { s.Drain(context.Background()); close(drained) }()
	wait.For(t, "the server drains", func() bool { return stats(s).Draining })
	if status, _, _ := do(t, web, http.MethodGet, "/ready", ""); status != http.StatusServiceUnavailable {
		t.Errorf("/ready: %d", status)
	}
	if status, h, _ := post(t, web, "/v1/completions", `{"prompt": "a"}`); status != http.StatusServiceUnavailable ||
		h.Get("Retry-After") == "" {
		t.Errorf("a new request: %d", status)
	}
	if text := <-running; fmt.Sprint(at(object(t, text), "usage", "completion_tokens")) != "200" {
		t.Errorf("the running request: %s", text)
	}
	<-drained
}

// TestTimeout: a request that exceeds the time limit fails.
func TestTimeout(t *testing.T) {
	web := serve(t, small, Options{Queue: 10, Timeout: time.Nanosecond})
	status, _, text := post(t, web, "/v1/completions", `{"prompt": "a", "max_tokens": 200}`)
	if status != http.StatusGatewayTimeout {
		t.Errorf("%d %s", status, text)
	}
}

// TestOthers: models, version and metrics.
func TestOthers(t *testing.T) {
	web := serve(t, small, Options{Queue: 10})
	for path, says := range map[string]string{"/v1/models": `"id":"tiny"`, "/version": "system_fingerprint",
		"/metrics": `vllm:num_requests_waiting{engine="0",model_name="tiny"} 0`} {
		if status, _, text := do(t, web, http.MethodGet, path, ""); status != http.StatusOK ||
			!strings.Contains(text, says) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	post(t, web, "/v1/completions", `{"prompt": "a", "max_tokens": 3, "ignore_eos": true}`)
	lines := []string{
		`vllm:generation_tokens_total{engine="0",model_name="tiny"} 3`,
		`vllm:request_success_total{engine="0",finished_reason="length",model_name="tiny"} 1`,
		`vllm:inter_token_latency_seconds_count{engine="0",model_name="tiny"} 2`,
		`vllm:time_to_first_token_seconds_count{engine="0",model_name="tiny"} 1`,
	}
	text := ""
	missing := func(line string) bool { return !strings.Contains(text, line) }
	wait.For(t, fmt.Sprintf("/metrics says %q", lines), func() bool { // counters are updated shortly after the response
		_, _, text = do(t, web, http.MethodGet, "/metrics", "")
		return !slices.ContainsFunc(lines, missing)
	})
}

// TestSlowReader: a client that does not read is dropped, and delays nobody before.
func TestSlowReader(t *testing.T) {
	web := serve(t, small, Options{Queue: 10})
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+"/v1/completions",
		strings.NewReader(`{"prompt": "a", "max_tokens": 200, "stream": true, "ignore_eos": true}`))
	answer, err := web.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if status, _, _ := post(t, web, "/v1/completions", `{"prompt": "a", "max_tokens": 2}`); status != http.StatusOK {
		t.Error(status)
	}
	var text bytes.Buffer
	io.Copy(&text, answer.Body)
	if n := len(frames(t, text.String())); n < 2 {
		t.Errorf("%d frames", n)
	}
}
