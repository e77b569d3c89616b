package server

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lowpack/lowpack/runtime/engine"
)

// mixed makes n requests of many kinds.
func mixed(n int) (paths, bodies []string) {
	r := rand.New(rand.NewPCG(5, 5))
	words := strings.Fields("river stone light winter paper engine garden music cloud bread silver window forest letter harbor clock")
	say := func(k int) string {
		list := make([]string, k)
		for i := range list {
			list[i] = words[r.IntN(len(words))]
		}
		return strings.Join(list, " ")
	}
	common := say(14)
	for i := range n {
		text := say(1 + r.IntN(14))
		if i%3 == 0 {
			text = common + " " + text
		}
		b := map[string]any{"model": "tiny", "max_tokens": 1 + r.IntN(14), "seed": i, "temperature": float64(i%3) * 0.6}
		switch i % 5 {
		case 1:
			b["n"], b["top_p"], b["top_k"] = 2, 0.9, 0
		case 2:
			b["frequency_penalty"], b["presence_penalty"], b["logit_bias"] = 0.7, -0.3, map[string]int{"17": 5, "40": -100}
		case 3:
			b["stop"], b["min_tokens"] = []string{"e", " the"}, 2
		case 4:
			b["repetition_penalty"], b["min_p"], b["ignore_eos"] = 1.3, 0.05, true
		}
		if i%2 == 0 {
			b["prompt"] = text
			if i%4 == 0 {
				b["logprobs"], b["echo"] = i%6, i%8 == 0
			}
			paths = append(paths, "/v1/completions")
		} else {
			b["messages"] = []map[string]any{{"role": "user", "content": text}}
			if i%4 == 1 {
				b["logprobs"], b["top_logprobs"] = true, i%6
			}
			paths = append(paths, "/v1/chat/completions")
		}
		body, _ := json.Marshal(b)
		bodies = append(bodies, string(body))
	}
	return paths, bodies
}

// TestLoad: the same request gets the same bytes, one by one and among 8 and 32 others in random order with some that hang up,
// with and without a cache of prefixes, with one thread and with two, of another server of the same file; and a stream has
// the same text.
func TestLoad(t *testing.T) {
	paths, bodies := mixed(40)
	alone := serve(t, small, Options{Queue: 1000})
	want := make([]string, len(paths))
	for i := range paths {
		status, _, text := post(t, alone, paths[i], bodies[i])
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", bodies[i], status, text)
		}
		want[i] = essence(t, text)
	}
	for _, c := range []struct {
		clients int
		eo      engine.Options
		o       Options
	}{
		{1, engine.Options{Threads: 2, Context: 256, Sequences: 3}, Options{Queue: 1000, PrefixCache: true}},
		{8, engine.Options{Threads: 2, Context: 256, Sequences: 6, Page: 32}, Options{Queue: 1000, PrefixCache: true, ITLTarget: 5 * time.Millisecond}},
		{32, engine.Options{Threads: 1, Context: 256, Sequences: 32, Page: 32, CacheTokens: 1024, Batch: 48}, Options{Queue: 1000, PrefixCache: true}},
		{8, engine.Options{Threads: 2, Context: 256, Sequences: 4, Batch: 24}, Options{Queue: 1000}},
	} {
		web := serve(t, c.eo, c.o)
		var wait sync.WaitGroup
		order := make(chan int, len(paths))
		for _, i := range rand.Perm(len(paths)) {
			order <- i
		}
		close(order)
		for client := range c.clients {
			wait.Go(func() {
				for i := range order {
					if i%4 == client%4 {
						hangUp(t, web, paths[i], bodies[i])
					}
					if _, _, text := post(t, web, paths[i], bodies[i]); essence(t, text) != want[i] {
						t.Errorf("%d clients, %s:\n%s\nwant\n%s", c.clients, bodies[i], essence(t, text), want[i])
					}
					if i%3 == client%3 {
						compareStream(t, web, paths[i], bodies[i], want[i])
					}
				}
			})
		}
		wait.Wait()
	}
}

// hangUp sends a request and leaves.
func hangUp(t testing.TB, web *httptest.Server, path, body string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(5000))*time.Microsecond)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, web.URL+path, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	if answer, err := web.Client().Do(r); err == nil {
		answer.Body.Close()
	}
}

// compareStream asks for the same as a stream.
func compareStream(t testing.TB, web *httptest.Server, path, body, want string) {
	_, h, text := post(t, web, path, strings.Replace(body, "{", `{"stream": true, "stream_options": {"include_usage": true}, `, 1))
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
	if choices, ok := last["choices"].([]any); !ok || len(choices) != 0 || at(last, "usage", "total_tokens") != at(whole, "usage", "total_tokens") {
		t.Errorf("%s: last frame %v", body, last)
	}
}
