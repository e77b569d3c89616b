package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lowpack/lowpack/formats/pooling"
	"github.com/lowpack/lowpack/internal/testkit/requests"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/server/batch"
	"github.com/lowpack/lowpack/runtime/server/internal/api"
	"github.com/lowpack/lowpack/runtime/server/schedule"
)

// batchLine returns a request of a batch.
func batchLine(id, url, body string) string {
	text, _ := json.Marshal(map[string]any{"custom_id": id, "method": "POST", "url": url,
		"body": json.RawMessage(body)})
	return string(text) + "\n"
}

// runBatch answers requests with a new server, and returns the answers, the errors and what became of it.
func runBatch(t *testing.T, eo engine.Options, text string, when time.Time, template ...string) (out, errs string,
	err error) {
	t.Helper()
	s, _ := serveModel(t, eo, Options{Queue: BatchQueue, PrefixCache: true}, template...)
	return batchOn(t, s, text, when)
}

func batchOn(t *testing.T, s *Server, text string, when time.Time) (string, string, error) {
	t.Helper()
	dir := t.TempDir()
	b := Batch{Input: filepath.Join(dir, "in"), Output: filepath.Join(dir, "out"), Errors: filepath.Join(dir, "errors"),
		Time: when}
	if err := os.WriteFile(b.Input, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RunBatch(t.Context(), b); err != nil {
		return "", "", err
	}
	out, err := os.ReadFile(b.Output)
	errs, err2 := os.ReadFile(b.Errors)
	if err = errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return string(out), string(errs), nil
}

// mixedBatch are requests of every kind, of which some have no seed and some cannot be answered.
func mixedBatch(n int) (lines []string, list []requests.Request) {
	list = requests.Mixed(n)
	for i := range list {
		switch r := &list[i]; {
		case i%7 == 1:
			r.Body = strings.Replace(r.Body, `"seed":`, `"unknown":`, 1)
		case i%17 == 3:
			r.Body = strings.Replace(r.Body, `"model":"tiny"`, `"model":"huge"`, 1)
		case i%17 == 4:
			r.Body = strings.Replace(r.Body, `"seed":`, `"typical_p":0.5,"seed":`, 1)
		}
		lines = append(lines, batchLine(fmt.Sprint("request ", i), list[i].Path, list[i].Body))
	}
	return lines, list
}

// TestBatchEmbeddings: a file of requests for embeddings gets those of a server, in the order of the requests.
func TestBatchEmbeddings(t *testing.T) {
	file := tinymodel.Pooled(t, pooling.Pooling{Mode: pooling.Mean})
	s, web := serveOf(t, modelOf(t, file, "tiny", small), Options{Queue: BatchQueue})
	text, want := "", []string{}
	for i, input := range embedded {
		body := fmt.Sprintf(`{"input": %q, "encoding_format": "base64"}`, input)
		text += batchLine(fmt.Sprint(i), "/v1/embeddings", body)
		_, _, answer := post(t, web, "/v1/embeddings", body)
		want = append(want, strings.TrimSpace(answer))
	}
	out, errs, err := batchOn(t, s, text, time.Time{})
	if err != nil || errs != "" {
		t.Fatal(err, errs)
	}
	for i, line := range strings.Split(strings.TrimSpace(out), "\n") {
		if !strings.Contains(line, `"custom_id":"`+fmt.Sprint(i)+`"`) || !strings.Contains(line, want[i]) {
			t.Errorf("line %d: %.300s\nwant %.300s", i, line, want[i])
		}
	}
}

// TestBatch: the answers to a file of requests have the same bytes at every width, with other threads and another KV
// cache, and in parts; and they are those of a server that is sent the requests.
func TestBatch(t *testing.T) {
	lines, list := mixedBatch(110)
	text := strings.Join(lines, "")
	want, wrong, err := runBatch(t, engine.Options{Threads: 1, Context: 256, Sequences: 4}, text, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, eo := range []engine.Options{
		{Threads: 1, Context: 256, Sequences: 1},
		{Threads: 2, Context: 256, Sequences: 16},
		{Threads: 2, Context: 256, Sequences: 3, CacheTokens: 256},
	} {
		if out, errs, err := runBatch(t, eo, text, time.Time{}); err != nil || out != want || errs != wrong {
			t.Errorf("%d at once: other results (%v)", eo.Sequences, err)
		}
	}
	var out, errs string
	for _, part := range [][]string{lines[:1], lines[1:40], lines[40:]} {
		o, e, err := runBatch(t, engine.Options{Threads: 1, Context: 256, Sequences: 2}, strings.Join(part, ""),
			time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		out, errs = out+o, errs+e
	}
	if out != want || errs != wrong {
		t.Error("parts have other results")
	}
	_, web := serveModel(t, engine.Options{Threads: 1, Context: 256, Sequences: 4}, Options{Queue: 10})
	answers, failed := strings.Split(want, "\n"), strings.Split(wrong, "\n")
	for i, r := range list {
		from := &answers
		if strings.Contains(failed[0], fmt.Sprintf(`"custom_id":"request %d"`, i)) {
			from = &failed
		}
		line := (*from)[0]
		*from = (*from)[1:]
		sameAnswer(t, fmt.Sprint("request ", i), line, func(seed string) (int, http.Header, string) {
			body := r.Body
			if seed != "" && !strings.Contains(body, `"seed":`) {
				body = strings.Replace(body, "{", `{"seed":`+seed+",", 1)
			}
			return post(t, web, r.Path, body)
		})
	}
	if len(answers) != 1 || len(failed) != 1 || strings.Count(wrong, "\n") < 10 {
		t.Errorf("%d answers and %d errors are left of %d", len(answers)-1, len(failed)-1, strings.Count(wrong, "\n"))
	}
}

// sameAnswer compares a line with what a server answers to the same request with the seed of the line.
func sameAnswer(t *testing.T, id, line string, ask func(seed string) (int, http.Header, string)) {
	t.Helper()
	v := object(t, line)
	body, _ := at(v, "response", "body").(map[string]any)
	seed := ""
	if body["seed"] != nil {
		seed = fmt.Sprint(body["seed"])
	}
	status, header, text := ask(seed)
	own, _ := json.Marshal(body)
	if v["custom_id"] != id || v["error"] != nil ||
		fmt.Sprint(at(v, "response", "status_code")) != fmt.Sprint(status) || essence(t, string(own)) !=
		essence(t, text) {
		t.Errorf("%s: %s\nthe server answers %d %s", id, line, status, text)
	}
	ignored := ""
	if list, _ := at(v, "response", "x_lowpack_ignored").([]any); len(list) == 1 {
		ignored = fmt.Sprint(list[0])
	}
	if ignored != header.Get("X-Lowpack-Ignored") {
		t.Errorf("%s: ignored %q and %q", id, ignored, header.Get("X-Lowpack-Ignored"))
	}
}

// TestBatchIDs: ids are derived from custom_id, url and body, and differ between requests and between calls of
// functions; created is the time of the batch.
func TestBatchIDs(t *testing.T) {
	const body = `{"prompt": "The", "max_tokens": 2, "temperature": 1}`
	when := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	out, _, err := runBatch(t, small,
		batchLine("a", "/v1/completions", body)+batchLine("b", "/v1/completions", body), when)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		v := object(t, line)
		for _, id := range []any{v["id"], at(v, "response", "request_id"), at(v, "response", "body", "id"),
			at(v, "response", "body", "seed")} {
			seen[fmt.Sprint(id)] = true
		}
		if c := fmt.Sprint(at(v, "response", "body", "created")); c != fmt.Sprint(when.Unix()) {
			t.Errorf("created %s, want %d", c, when.Unix())
		}
	}
	if len(seen) != 8 {
		t.Errorf("ids %v", seen)
	}
	o, c := api.Derived([32]byte{1}, time.Time{}), &choice{}
	c.origin = o
	first := c.callID()
	c.calls = append(c.calls, toolCall{})
	other := &choice{index: 1, origin: o}
	if second := c.callID(); first == second || first == other.callID() || len(first) != 9 {
		t.Errorf("calls %s and %s", first, second)
	}
}

// TestBatchTime: a template that writes the date needs the time of the batch, which decides what it writes.
func TestBatchTime(t *testing.T) {
	const template = `{{ bos_token }}{{ strftime_now('%d %b %Y') }}{% for m in messages %}{{ m['content'] }}{% endfor %}`
	line := batchLine("a", "/v1/chat/completions",
		`{"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 20, "logprobs": true}`)
	if _, _, err := runBatch(t, small, line, time.Time{}, template); !errors.Is(err, ErrNoTime) {
		t.Errorf("%v", err)
	}
	_, web := serveModel(t, small, Options{Queue: 10}, template)
	texts := map[string]bool{}
	for _, day := range []int{3, 17} {
		when := time.Date(2026, 1, day, 12, 0, 0, 0, time.UTC)
		out, _, err := runBatch(t, small, line, when, template)
		if err != nil {
			t.Fatal(err)
		}
		sameAnswer(t, "a", strings.TrimSpace(out), func(seed string) (int, http.Header, string) {
			return post(t, web, "/v1/chat/completions", `{"messages": [{"role": "user", "content": "Hello"}], `+
				`"max_tokens": 20, "logprobs": true, "seed": `+seed+"}", api.TimeHeader, when.Format(time.RFC3339))
		})
		texts[fmt.Sprint(at(object(t, out), "response", "body", "choices", 0, "logprobs"))] = true
	}
	if len(texts) != 2 {
		t.Error("the day changes nothing")
	}
}

// TestBatchRefused: a batch has no streams, and no bodies that a server would not take; what the machine cannot answer
// now ends the batch and is not a result.
func TestBatchRefused(t *testing.T) {
	s, _ := serveModel(t, small, Options{Queue: BatchQueue})
	long := `{"prompt": "` + strings.Repeat("a", maxBody) + `"}`
	text := batchLine("stream", "/v1/completions", `{"prompt": "a", "stream": true}`) +
		batchLine("long", "/v1/completions", long)
	out, errs, err := batchOn(t, s, text, time.Time{})
	if err != nil || out != "" {
		t.Fatalf("%s: %v", out, err)
	}
	lines := strings.Split(errs, "\n")
	for i, want := range []struct{ status, param any }{{"400", "stream"}, {"413", nil}} {
		v := object(t, lines[i])
		if got := fmt.Sprint(at(v, "response", "status_code")); got != want.status ||
			at(v, "response", "body", "error", "param") != want.param {
			t.Errorf("%s", lines[i])
		}
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	s.Drain(done)
	_, _, err = batchOn(t, s, batchLine("a", "/v1/completions", `{"prompt": "a"}`), time.Time{})
	if !errors.Is(err, batch.ErrInterrupted) || !strings.Contains(err.Error(), "line 1: status 503") {
		t.Errorf("%v", err)
	}
}

// TestBatchRoom: a KV cache that cannot hold every text is refused before it decides a result.
func TestBatchRoom(t *testing.T) {
	_, _, err := runBatch(t, engine.Options{Threads: 1, Context: 256, Sequences: 2, CacheTokens: 255},
		batchLine("a", "/v1/completions", `{"prompt": "a"}`), time.Time{})
	if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), "KV cache of 255") {
		t.Errorf("%v", err)
	}
}

// TestPlaceless: the error of an answer with values that are not finite does not depend on the place in the batch.
func TestPlaceless(t *testing.T) {
	texts := map[string]bool{}
	for chunk := range 3 {
		e := apiError(fmt.Errorf("%w: %w", schedule.ErrFailed,
			&engine.NonFinite{Chunk: chunk, Position: 7, Step: "output head"}))
		if texts[e.Message] = true; e.Status != http.StatusInternalServerError ||
			!strings.Contains(e.Message, "position 7") {
			t.Errorf("%d %s", e.Status, e.Message)
		}
	}
	if len(texts) != 1 {
		t.Errorf("%v", texts)
	}
}
