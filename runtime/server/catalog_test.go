package server

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/server/batch"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// TestManaged: models are loaded and unloaded by request, and lists tell state, size and memory.
func TestManaged(t *testing.T) {
	s, web, notes := several(t, 2, Options{Queue: 10, Keys: []string{"key"}}, "a", "b")
	key := []string{"Authorization", "Bearer key"}
	h := s.models.list[0]
	shows := func(text, state string) {
		t.Helper()
		v := object(t, text)
		memory, size := at(v, "memory"), fmt.Sprint(at(v, "size"))
		loaded := state == "loaded"
		if at(v, "id") != "a" || at(v, "status", "value") != state || size != fmt.Sprint(h.File.Size()) ||
			(memory != nil) != loaded || loaded && fmt.Sprint(memory) != fmt.Sprint(h.bytes) {
			t.Errorf("%s, want it %s", text, state)
		}
	}
	for _, c := range []struct{ path, state, notes string }{
		{"/models/unload", "unloaded", ""},
		{"/models/load", "loaded", "loaded a"},
		{"/models/load", "loaded", "loaded a"},
		{"/models/unload", "unloaded", "loaded a,unloaded a"},
	} {
		if status, _, text := post(t, web, c.path, `{"model": "a"}`); status != http.StatusUnauthorized {
			t.Errorf("without a key: %d %s", status, text)
		}
		status, _, text := post(t, web, c.path, `{"model": "a"}`, key...)
		if status != http.StatusOK || at(object(t, text), "success") != true {
			t.Errorf("%s: %d %s", c.path, status, text)
		}
		shows(text, c.state)
		if got := strings.Join(*notes, ","); got != c.notes {
			t.Errorf("%s: %s, want %s", c.path, got, c.notes)
		}
		_, _, text = do(t, web, http.MethodGet, "/v1/models/a", "", key...)
		shows(text, c.state)
	}
	for _, path := range []string{"/models/load", "/models/unload"} {
		for body, want := range map[string]int{`{"model": "c"}`: 404, `{}`: 400, `{"model": ""}`: 400,
			`{"model": 1}`: 400} {
			if status, _, text := post(t, web, path, body, key...); status != want {
				t.Errorf("%s %s: %d %s", path, body, status, text)
			}
		}
	}
	if _, err := s.models.acquire(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	status, header, text := post(t, web, "/models/unload", `{"model": "a"}`, key...)
	if status != http.StatusConflict || header.Get("Retry-After") == "" ||
		at(object(t, text), "error", "code") != "model_in_use" || h.model == nil {
		t.Errorf("in use: %d %s", status, text)
	}
	s.models.release(h)
	if status, _, text := post(t, web, "/models/unload", `{"model": "a"}`, key...); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	s.Drain(t.Context())
	for _, path := range []string{"/models/load", "/models/unload"} {
		if status, _, text := post(t, web, path, `{"model": "a"}`, key...); status != http.StatusServiceUnavailable {
			t.Errorf("after the end: %d %s", status, text)
		}
	}
}

// TestLoadOnce: requests to load a model share one load, which lists tell; meanwhile it cannot be unloaded.
func TestLoadOnce(t *testing.T) {
	slow := tiny(t, "slow", small)
	load, begun, proceed := slow.Load, make(chan struct{}), make(chan struct{})
	slow.Load = func() (*tokenizer.Tokenizer, *engine.Engine, error) {
		begun <- struct{}{} // a second load would wait for ever
		<-proceed
		return load()
	}
	s, err := New(Options{Queue: 10}, slow, tiny(t, "other", small))
	if err != nil {
		t.Fatal(err)
	}
	web := webOf(t, s)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if status, _, text := post(t, web, "/models/load", `{"model": "slow"}`); status != http.StatusOK ||
				!strings.Contains(text, `"value":"loaded"`) {
				t.Errorf("%d %s", status, text)
			}
		})
	}
	<-begun
	if _, _, text := do(t, web, http.MethodGet, "/v1/models", ""); at(object(t, text), "data", 0, "status",
		"value") != "loading" {
		t.Errorf("%s", text)
	}
	if status, _, text := post(t, web, "/models/unload", `{"model": "slow"}`); status != http.StatusConflict {
		t.Errorf("%d %s", status, text)
	}
	close(proceed)
	all.Wait()
}

// TestMemoryBound: a model that can never be loaded is refused with the numbers, at the start if it is the only one. It
// is known after the first attempt, and no other model is unloaded for it again. It ends a batch without a result.
func TestMemoryBound(t *testing.T) {
	s, web, notes := several(t, 1, Options{Queue: 10}, "a", "b")
	if status, _, text := post(t, web, "/v1/completions", ask("a")); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	need, size := s.models.bytes, s.models.list[1].File.Size()
	s.models.limit, s.models.strict = need-1, true
	for range 2 {
		status, h, text := post(t, web, "/v1/completions", ask("b"))
		message := fmt.Sprint(at(object(t, text), "error", "message"))
		if status != http.StatusBadRequest || at(object(t, text), "error", "code") != codeTooLarge ||
			h.Get("Retry-After") != "" || message != fmt.Sprintf("model b takes %d bytes (file %d, KV cache and "+
			"buffers %d); the loaded models of this server take at most %d together", need, size, need-size, need-1) {
			t.Errorf("%d %s", status, text)
		}
		if status, _, text := post(t, web, "/models/load", `{"model": "b"}`); status != http.StatusBadRequest {
			t.Errorf("%d %s", status, text)
		}
	}
	s.models.limit = size - 1
	if status, _, text := post(t, web, "/models/load", `{"model": "b"}`); status != http.StatusBadRequest {
		t.Errorf("%d %s", status, text)
	}
	_, _, err := batchOn(t, s, batchLine("a", "/v1/completions", `{"model": "b", "prompt": "a"}`), time.Time{})
	if !errors.Is(err, batch.ErrInterrupted) || !errors.Is(err, pack.ErrLimit) {
		t.Errorf("a batch: %v", err)
	}
	if got := strings.Join(*notes, ","); strings.Count(got, "unloaded a") > 1 || strings.Contains(got, "loaded b") {
		t.Errorf("%s", got)
	}
	for _, limit := range []int64{need - 1, size - 1} {
		_, err := New(Options{Memory: limit, MemoryBound: true}, tiny(t, "a", small))
		if !errors.Is(err, pack.ErrLimit) || !strings.Contains(err.Error(), fmt.Sprintf("at most %d together", limit)) {
			t.Errorf("%v", err)
		}
	}
	if exact, err := New(Options{Memory: need, MemoryBound: true}, tiny(t, "a", small)); err != nil {
		t.Error(err)
	} else {
		exact.Drain(t.Context())
	}
}
