package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/server/schedule"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// modelIn returns the model of an open file.
func modelIn(f *packed.File, o engine.Options, template ...string) (m Model, err error) {
	m.File = f
	m.Engine, err = o.For(f)
	m.Load = func() (*tokenizer.Tokenizer, *engine.Engine, error) {
		tok, err := tokenizer.Load(f.Embedded)
		if err != nil {
			return nil, nil, err
		}
		for _, source := range template {
			if err := tok.SetTemplate(source); err != nil {
				return nil, nil, err
			}
		}
		e, err := engine.New(f, m.Engine)
		return tok, e, err
	}
	return m, err
}

// stats returns the scheduler's state of a model, zero if it is not loaded.
func (s *models) stats(h *hosted) (state schedule.Stats, loaded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.model == nil {
		return schedule.Stats{}, false
	}
	return h.model.Stats(), true
}

// several starts a server of models with the same weights under different names, with memory for fit of them.
func several(t *testing.T, fit int, o Options, names ...string) (*Server, *httptest.Server, *[]string) {
	t.Helper()
	var list []Model
	for _, name := range names {
		list = append(list, tiny(t, name, small))
	}
	alone, err := New(Options{}, tiny(t, "alone", small))
	if err != nil {
		t.Fatal(err)
	}
	one := alone.models.bytes
	alone.Drain(t.Context())
	var (
		mu    sync.Mutex
		notes []string
	)
	o.Memory = one*int64(fit) + one/2
	o.Note = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		notes = append(notes, strings.Join(strings.Fields(text)[:2], " "))
	}
	s, err := New(o, list...)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		s.Drain(t.Context())
		web.Close()
		if s.models.bytes != 0 || s.models.list[0].model != nil {
			t.Error("not drained")
		}
	})
	return s, web, &notes
}

func ask(model string) string {
	return fmt.Sprintf(`{"model": %q, "prompt": "The river", "max_tokens": 8, "temperature": 1, "seed": 3, "logprobs": 2}`,
		model)
}

// TestModels: a model is loaded at its first request, and the least recently used one is unloaded to make room. The
// output does not depend on it. Every model is listed and has its own metrics.
func TestModels(t *testing.T) {
	s, web, notes := several(t, 2, Options{Queue: 10, PrefixCache: true}, "a", "b", "c")
	if len(*notes) != 0 {
		t.Fatalf("before any request: %v", *notes)
	}
	_, _, text := do(t, web, http.MethodGet, "/v1/models", "")
	for i, id := range []string{"a", "b", "c"} {
		if info := at(object(t, text), "data", i); at(info, "id") != id ||
			fmt.Sprint(at(info, "max_model_len")) != "256" {
			t.Errorf("model %d: %s", i, text)
		}
		if status, _, one := do(t, web, http.MethodGet, "/v1/models/"+id, ""); status != http.StatusOK ||
			at(object(t, one), "id") != id {
			t.Errorf("%d %s", status, one)
		}
	}
	want := map[string]string{}
	for i, c := range []struct{ ask, notes string }{
		{"a", "loaded a"},
		{"b", "loaded b"},
		{"a", ""},
		{"c", "unloaded b,loaded c"}, // b is the least recently used
		{"", ""},                     // the first model
		{"b", "unloaded c,loaded b"},
		{"c", "unloaded a,loaded c"},
	} {
		before := len(*notes)
		status, _, text := post(t, web, "/v1/completions", ask(c.ask))
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		name := c.ask
		if name == "" {
			name = "a"
		}
		if at(object(t, text), "model") != name {
			t.Errorf("asked for %q: %s", c.ask, text)
		}
		got := strings.Join((*notes)[before:], ",")
		if !sameNotes(got, c.notes) {
			t.Errorf("request %d for %q: %s, want %s", i, c.ask, got, c.notes)
		}
		text = essence(t, text)
		if want[name] == "" {
			want[name] = text
		} else if text != want[name] {
			t.Errorf("%s\nwant\n%s", text, want[name])
		}
	}
	if s.models.bytes > s.models.limit {
		t.Errorf("%d bytes of %d", s.models.bytes, s.models.limit)
	}
	for name, says := range map[string]string{"d": "is not served here", "A": "is not served here"} {
		status, _, text := post(t, web, "/tokenize", `{"content": "a", "model": "`+name+`"}`)
		if status != http.StatusNotFound || !strings.Contains(text, says) ||
			at(object(t, text), "error", "code") != "model_not_found" {
			t.Errorf("%d %s", status, text)
		}
	}
	_, _, text = do(t, web, http.MethodGet, "/metrics", "")
	for _, line := range []string{
		`vllm:generation_tokens_total{engine="0",model_name="a"} 24`,
		`vllm:generation_tokens_total{engine="0",model_name="b"} 16`,
		`lowpack:model_loads_total{engine="0",model_name="c"} 2`,
		`lowpack:model_unloads_total{engine="0",model_name="a"} 1`,
		`lowpack:model_loaded{engine="0",model_name="a"} 0`,
		`lowpack:model_loaded{engine="0",model_name="c"} 1`,
		`vllm:num_requests_running{engine="0",model_name="a"} 0`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("/metrics lacks %s", line)
		}
	}
	_, _, text = do(t, web, http.MethodGet, "/version", "")
	if at(object(t, text), "models", "b") != at(object(t, text), "system_fingerprint") {
		t.Errorf("%s", text)
	}
}

// sameNotes compares notes. A load is noted at its end, so before or after the unloads that made room for it.
func sameNotes(got, want string) bool {
	a, b, _ := strings.Cut(want, ",")
	return got == want || got == b+","+a
}

// TestModelsInUse: a model in use is not unloaded; a request for another one gets 503 and Retry-After.
func TestModelsInUse(t *testing.T) {
	s, web, notes := several(t, 1, Options{Queue: 10}, "a", "b")
	a, err := s.models.acquire(t.Context(), s.models.list[0])
	if err != nil {
		t.Fatal(err)
	}
	status, h, text := post(t, web, "/v1/completions", ask("b"))
	if status != http.StatusServiceUnavailable || h.Get("Retry-After") == "" ||
		at(object(t, text), "error", "code") != "model_not_loaded" {
		t.Errorf("%d %v %s", status, h, text)
	}
	if status, _, text := post(t, web, "/v1/completions", ask("a")); status != http.StatusOK ||
		s.models.list[0].model != a {
		t.Errorf("%d %s", status, text)
	}
	s.models.release(s.models.list[0])
	if status, _, text := post(t, web, "/v1/completions", ask("b")); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	if got := strings.Join(*notes, ","); !strings.HasPrefix(got, "loaded a,") ||
		!sameNotes(strings.TrimPrefix(got, "loaded a,"), "unloaded a,loaded b") {
		t.Errorf("%s", got)
	}
}

// TestModelsAtOnce: concurrent requests for all models, with memory for one: requests share a load, and every response
// equals that of a server of this model alone, or says when to retry.
func TestModelsAtOnce(t *testing.T) {
	_, alone, _ := several(t, 3, Options{Queue: 100}, "a", "b", "c")
	want := map[string]string{}
	for _, name := range []string{"a", "b", "c"} {
		_, _, text := post(t, alone, "/v1/completions", ask(name))
		want[name] = essence(t, text)
	}
	s, web, _ := several(t, 1, Options{Queue: 100}, "a", "b", "c")
	var wait sync.WaitGroup
	var answered atomic.Int32
	for i := range 12 {
		wait.Go(func() {
			for range 5 {
				name := string("abc"[i%3])
				switch status, _, text := post(t, web, "/v1/completions", ask(name)); {
				case status == http.StatusOK && essence(t, text) != want[name]:
					t.Errorf("%s\nwant\n%s", text, want[name])
				case status == http.StatusOK:
					answered.Add(1)
				case status != http.StatusServiceUnavailable:
					t.Errorf("%d %s", status, text)
				}
			}
		})
	}
	wait.Wait()
	if answered.Load() == 0 {
		t.Error("no request was answered")
	}
	for _, h := range s.models.list {
		if h.users != 0 || h.loading != nil {
			t.Errorf("%s: %d users", h.ID, h.users)
		}
	}
	if s.models.bytes > s.models.limit {
		t.Errorf("%d bytes of %d", s.models.bytes, s.models.limit)
	}
}

// TestModelNotOpened: the error of a file that is damaged before the server reads it names the model, the file and the
// reason.
func TestModelNotOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.safetensors")
	data, err := os.ReadFile(tinymodel.Path(t))
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	damaged := modelOf(t, path, "b", small)
	if err := os.Truncate(path, 100); err != nil {
		t.Skip(err) // Windows keeps a file that is mapped
	}
	_, err = New(Options{}, tiny(t, "a", small), damaged)
	want := "model b cannot be opened: " + path + ": changed or truncated"
	if !errors.Is(err, pack.ErrCorrupt) || !strings.HasPrefix(fmt.Sprint(err), want) {
		t.Errorf("%v\nwant %s", err, want)
	}
}

// TestModelFails: a model that fails to load fails its own requests only, without exposing the reason, and is tried
// again. If memory is short, it is tried again at once after an idle model is unloaded, and later if all are in use.
func TestModelFails(t *testing.T) {
	good, bad, full := tiny(t, "good", small), tiny(t, "bad", small), tiny(t, "full", small)
	load, tries := bad.Load, 0
	bad.Load = func() (*tokenizer.Tokenizer, *engine.Engine, error) {
		if tries++; tries == 1 {
			return nil, nil, fmt.Errorf("/secret/path: %w", pack.ErrCorrupt)
		}
		return load()
	}
	var s *Server
	full.Load = func() (*tokenizer.Tokenizer, *engine.Engine, error) {
		for _, h := range s.models.list {
			if _, loaded := s.models.stats(h); loaded {
				return nil, nil, fmt.Errorf("%w: a KV cache", pack.ErrLimit)
			}
		}
		return load()
	}
	s, err := New(Options{Queue: 10}, good, bad, full)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	defer web.Close()
	defer s.Drain(t.Context())
	for _, c := range []struct {
		name   string
		status int
	}{{"good", 200}, {"bad", 503}, {"bad", 200}, {"full", 200}, {"good", 200}} {
		if status, _, text := post(t, web, "/v1/completions", ask(c.name)); status != c.status ||
			strings.Contains(text, "secret") {
			t.Errorf("%s: %d %s", c.name, status, text)
		}
	}
	if _, loaded := s.models.stats(s.models.list[1]); loaded {
		t.Error("what was in the way is still loaded")
	}
	used := s.models.list[0]
	if _, err := s.models.acquire(t.Context(), used); err != nil {
		t.Fatal(err)
	}
	s.models.mu.Lock()
	s.models.unload(s.models.list[2])
	s.models.mu.Unlock()
	status, header, text := post(t, web, "/v1/completions", ask("full"))
	if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Errorf("beside a model in use: %d %s", status, text)
	}
	s.models.release(used)
	broken := tiny(t, "broken", small)
	broken.Load = func() (*tokenizer.Tokenizer, *engine.Engine, error) { return nil, nil, pack.ErrCorrupt }
	if _, err := New(Options{}, broken); err == nil {
		t.Error("a single model is loaded at once")
	}
}

// TestModelLoads: models that are asked for at once are loaded one after another.
func TestModelLoads(t *testing.T) {
	var s *Server
	var now atomic.Int32
	waiting := func() (n int) {
		s.models.mu.Lock()
		defer s.models.mu.Unlock()
		for _, h := range s.models.list {
			if h.users > 0 || h.model != nil {
				n++
			}
		}
		return n
	}
	var list []Model
	for _, name := range []string{"a", "b", "c", "d"} {
		m := tiny(t, name, small)
		load := m.Load
		m.Load = func() (*tokenizer.Tokenizer, *engine.Engine, error) {
			if now.Add(1) > 1 {
				t.Error("two loads at the same time")
			}
			defer now.Add(-1)
			for waiting() < 4 {
				runtime.Gosched()
			}
			return load()
		}
		list = append(list, m)
	}
	s, err := New(Options{Queue: 10}, list...)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Drain(t.Context())
	var all sync.WaitGroup
	for _, h := range s.models.list {
		all.Go(func() {
			if _, err := s.models.acquire(t.Context(), h); err != nil {
				t.Error(err)
				return
			}
			s.models.release(h)
		})
	}
	all.Wait()
}

// TestModelList: a server has at least one model, and all have different names that requests can name.
func TestModelList(t *testing.T) {
	a, none, bytes := tiny(t, "a", small), tiny(t, "", small), tiny(t, "\xff", small)
	for _, list := range [][]Model{nil, {a, a}, {none}, {bytes}} {
		if _, err := New(Options{}, list...); !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%d models: %v", len(list), err)
		}
	}
}
