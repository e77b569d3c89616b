package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/requests"
	"github.com/lowpack/lowpack/internal/testkit/seed"
	"github.com/lowpack/lowpack/runtime/engine"
)

// TestLoad: a request gets the same bytes alone and among 8 and 32 other clients in random order, some of which
// disconnect; with and without prefix cache; with one and two threads; from another server of the same file; and as a
// stream.
func TestLoad(t *testing.T) {
	list := requests.Mixed(66)
	_, alone := serveModel(t, small, Options{Queue: 1000}, requests.Template)
	want := make([]string, len(list))
	for i, r := range list {
		status, _, text := post(t, alone, r.Path, r.Body)
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", r.Body, status, text)
		}
		want[i] = essence(t, text)
	}
	numbers := seed.Rand(t)
	for _, c := range []struct {
		clients int
		eo      engine.Options
		o       Options
	}{
		{1, engine.Options{Threads: 2, Context: 256, Sequences: 3}, Options{Queue: 1000, PrefixCache: true}},
		{8, engine.Options{Threads: 2, Context: 256, Sequences: 6, Page: 32},
			Options{Queue: 1000, PrefixCache: true, ITLTarget: 5 * time.Millisecond}},
		{32, engine.Options{Threads: 1, Context: 256, Sequences: 32, Page: 32, CacheTokens: 1024, Batch: 48},
			Options{Queue: 1000, PrefixCache: true}},
		{8, engine.Options{Threads: 2, Context: 256, Sequences: 4, Batch: 24}, Options{Queue: 1000}},
	} {
		_, web := serveModel(t, c.eo, c.o, requests.Template)
		var wait sync.WaitGroup
		order := make(chan int, len(list))
		for _, i := range numbers.Perm(len(list)) {
			order <- i
		}
		close(order)
		for client := range c.clients {
			wait.Go(func() {
				for i := range order {
					r := list[i]
					if i%4 == client%4 {
						r.HangUp(t, web.Client(), web.URL, 5*time.Millisecond)
					}
					if _, _, text := post(t, web, r.Path, r.Body); essence(t, text) != want[i] {
						t.Errorf("%d clients, %s:\n%s\nwant\n%s", c.clients, r.Body, essence(t, text), want[i])
					}
					if i%3 == client%3 && r.Path != "/v1/responses" {
						compareStream(t, web, r.Path, r.Body, want[i])
					}
				}
			})
		}
		wait.Wait()
	}
}

// compareStream repeats a request with streaming and compares the output.
func compareStream(t testing.TB, web *httptest.Server, path, body, want string) {
	status, h, text := post(t, web, path,
		strings.Replace(body, "{", `{"stream": true, "stream_options": {"include_usage": true}, `, 1))
	if status == http.StatusTooManyRequests {
		return
	}
	if kind := h.Get("Content-Type"); kind != "text/event-stream; charset=utf-8" {
		t.Errorf("%s %s", kind, text)
		return
	}
	whole := object(t, want)
	texts, reasons, scores := map[string]string{}, map[string]any{}, map[string][]any{}
	all := frames(t, text)
	for _, f := range all[:len(all)-1] {
		i := fmt.Sprint(at(f, "choices", 0, "index"))
		for _, part := range []any{at(f, "choices", 0, "text"), at(f, "choices", 0, "delta", "content")} {
			if part, ok := part.(string); ok {
				texts[i] += part
			}
		}
		if reason := at(f, "choices", 0, "finish_reason"); reason != nil {
			reasons[i] = reason
		}
		lists, _ := at(f, "choices", 0, "logprobs").(map[string]any)
		for key, list := range lists {
			list, _ := list.([]any)
			scores[i+key] = append(scores[i+key], list...)
		}
	}
	for _, c := range whole["choices"].([]any) {
		i := fmt.Sprint(at(c, "index"))
		text, _ := at(c, "text").(string)
		if message := at(c, "message", "content"); message != nil {
			text = message.(string)
		}
		if texts[i] != text || reasons[i] != at(c, "finish_reason") {
			t.Errorf("%s: stream %q (%v), want %q (%v)", body, texts[i], reasons[i], text, at(c, "finish_reason"))
		}
		lists, _ := at(c, "logprobs").(map[string]any)
		for key, list := range lists {
			if list, _ := list.([]any); !reflect.DeepEqual(scores[i+key], list) {
				t.Errorf("%s: %s of the stream %v, want %v", body, key, scores[i+key], list)
			}
		}
	}
	last := all[len(all)-1]
	if choices, ok := last["choices"].([]any); !ok || len(choices) != 0 ||
		at(last, "usage", "total_tokens") != at(whole, "usage", "total_tokens") {
		t.Errorf("%s: last frame %v", body, last)
	}
}
