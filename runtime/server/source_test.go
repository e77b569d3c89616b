package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/pack"
)

// shelf is a source whose models a test changes.
type shelf struct {
	t  *testing.T
	mu sync.Mutex // guards everything below

	entries []Entry
	err     error
	version uint64
	open    map[string]int // files that are open, by path
	notes   []string
	calls   int            // of list
	at      map[int]func() // called first by the call with this number, from 1
}

// put adds a model, or replaces the one with this ID by another version.
func (s *shelf) put(id, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	e := Entry{ID: id, Version: s.version, Open: func() (Model, error) { return s.openFile(path) }}
	if i := s.index(id); i >= 0 {
		s.entries[i] = e
		return
	}
	s.entries = append(s.entries, e)
}

func (s *shelf) index(id string) int {
	return slices.IndexFunc(s.entries, func(e Entry) bool { return e.ID == id })
}

func (s *shelf) remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = slices.Delete(s.entries, s.index(id), s.index(id)+1)
}

func (s *shelf) list() ([]Entry, error) {
	s.mu.Lock()
	s.calls++
	first := s.at[s.calls]
	s.mu.Unlock()
	if first != nil {
		first()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.entries), s.err
}

func (s *shelf) openFile(path string) (m Model, err error) {
	f, err := packed.Open(path)
	if err != nil {
		return m, err
	}
	s.count(path, 1)
	m, err = modelIn(f, small)
	m.Close = func() error {
		s.count(path, -1)
		return f.Close()
	}
	return m, err
}

func (s *shelf) count(path string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[path] += n
}

// opened returns how often a file is open.
func (s *shelf) opened(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[path]
}

// noted returns the notes so far that have a text.
func (s *shelf) noted(text string) (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, note := range s.notes {
		if strings.Contains(note, text) {
			list = append(list, note)
		}
	}
	return list
}

func (s *shelf) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, text)
}

// shelved starts a server of an empty shelf. At the end all files are closed.
func shelved(t *testing.T, o Options) (*shelf, *Server, *httptest.Server) {
	t.Helper()
	from := &shelf{t: t, open: map[string]int{}}
	o.Queue, o.Source, o.Note = 100, from.list, from.note
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		s.Drain(t.Context())
		web.Close()
		for path, n := range from.open {
			if n != 0 {
				t.Errorf("%s is open %d times", path, n)
			}
		}
	})
	return from, s, web
}

// twoFiles returns packed files that answer greet differently, and the answers of servers of each alone under the name
// a.
func twoFiles(t *testing.T) (files, answers [2]string) {
	t.Helper()
	files = [2]string{tinymodel.WithTemplate(t, "Once {{ messages[0].content }}"),
		tinymodel.WithTemplate(t, "The {{ messages[0].content }}")}
	for i, path := range files {
		_, web := serveOf(t, modelOf(t, path, "a", small), Options{Queue: 10})
		_, _, text := post(t, web, "/v1/chat/completions", greet("a"))
		answers[i] = essence(t, text)
	}
	if answers[0] == answers[1] {
		t.Fatal("both files answer the same")
	}
	return files, answers
}

func greet(model string) string {
	return fmt.Sprintf(`{"model": %q, "messages": [{"role": "user", "content": "river"}], "max_tokens": 6, "seed": 1}`,
		model)
}

// namesOf returns the names in GET /v1/models.
func namesOf(t *testing.T, web *httptest.Server) (names []string) {
	t.Helper()
	_, _, text := do(t, web, http.MethodGet, "/v1/models", "")
	data, _ := at(object(t, text), "data").([]any)
	for _, info := range data {
		names = append(names, fmt.Sprint(at(info, "id")))
	}
	return names
}

// TestSource: models that are added, replaced or removed are seen by the next request, in lists too; one that cannot be
// opened is told once and not served, and the others go on; so they do when the source has an error.
func TestSource(t *testing.T) {
	files, answers := twoFiles(t)
	from, _, web := shelved(t, Options{})
	asks := func(model string, status int, answer string) {
		t.Helper()
		got, _, text := post(t, web, "/v1/chat/completions", greet(model))
		if got != status || status == http.StatusOK && essence(t, text) != answer {
			t.Errorf("%d %s", got, text)
		}
	}
	lists := func(names ...string) {
		t.Helper()
		if got := namesOf(t, web); !slices.Equal(got, names) {
			t.Errorf("%q, want %q", got, names)
		}
	}
	lists()
	asks("", http.StatusNotFound, "")
	for _, path := range []string{"/version", "/openapi.json", "/health"} {
		if status, _, text := do(t, web, http.MethodGet, path, ""); status != http.StatusOK {
			t.Errorf("%s of no models: %d %s", path, status, text)
		} else if strings.Contains(text, `"enum":[]`) || strings.Contains(text, `"maximum":-1`) {
			t.Errorf("%s of no models: %s", path, text)
		}
	}
	from.put("a", files[0])
	asks("a", http.StatusOK, answers[0])
	asks("", http.StatusOK, answers[0])
	from.put("a", files[1])
	asks("a", http.StatusOK, answers[1])
	if n := from.opened(files[0]); n != 0 {
		t.Errorf("the old file is open %d times", n)
	}
	_, _, text := do(t, web, http.MethodGet, "/metrics", "")
	if line := `lowpack:model_loads_total{engine="0",model_name="a"} 2`; !strings.Contains(text, line) {
		t.Errorf("/metrics lacks %s", line)
	}
	for range 2 {
		from.put("broken", files[0]+".none")
		lists("a")
		asks("broken", http.StatusNotFound, "")
	}
	if got := from.noted("broken is not served"); len(got) != 1 {
		t.Errorf("%q", got)
	}
	from.put("broken", files[1])
	lists("a", "broken")
	from.put("broken", files[0]+".none")
	lists("a")
	if got := from.noted("broken is not served"); len(got) != 2 {
		t.Errorf("%q", got)
	}
	from.err = pack.ErrCorrupt
	lists("a")
	asks("a", http.StatusOK, answers[1])
	if got := from.noted("stay as they are"); len(got) != 1 {
		t.Errorf("%q", got)
	}
	from.err = nil
	from.remove("a")
	asks("a", http.StatusNotFound, "")
	lists()
	if _, _, text := do(t, web, http.MethodGet, "/metrics", ""); strings.Contains(text, `model_name="a"`) {
		t.Errorf("metrics of a model that was removed: %s", text)
	}
}

// TestSourceInUse: a request that has begun keeps its file when it is replaced or removed, and is counted in the
// metrics.
func TestSourceInUse(t *testing.T) {
	files, answers := twoFiles(t)
	from, s, web := shelved(t, Options{})
	from.put("a", files[0])
	old, e := s.find(t.Context(), "a")
	if e != nil {
		t.Fatal(e)
	}
	m, err := s.models.acquire(t.Context(), old)
	if err != nil {
		t.Fatal(err)
	}
	from.put("a", files[1])
	if _, _, text := post(t, web, "/v1/chat/completions", greet("a")); essence(t, text) != answers[1] {
		t.Errorf("%s", text)
	}
	from.remove("a")
	if names := namesOf(t, web); len(names) > 0 {
		t.Errorf("%q", names)
	}
	if from.opened(files[0]) != 1 || from.opened(files[1]) != 0 || old.model != m {
		t.Errorf("%v, loaded %t", from.open, old.model == m)
	}
	if _, bytes := s.models.usage("a"); bytes != old.bytes || bytes == 0 || bytes != s.models.bytes {
		t.Errorf("metrics tell %d bytes of %d", bytes, old.bytes)
	}
	s.models.release(old)
	s.models.drop(old)
	if from.opened(files[0]) != 0 || len(s.models.gone) != 0 || s.models.bytes != 0 {
		t.Errorf("%v, %d bytes", from.open, s.models.bytes)
	}
}

// TestSourceAtOnce: while a model is replaced over and over, every request for it is answered by one of its files, and
// the first that begins after a replacement by the new one.
func TestSourceAtOnce(t *testing.T) {
	files, answers := twoFiles(t)
	from, s, web := shelved(t, Options{})
	from.put("a", files[0])
	var wait sync.WaitGroup
	done := make(chan struct{})
	for range 6 {
		wait.Go(func() {
			for {
				status, _, text := post(t, web, "/v1/chat/completions", greet("a"))
				if status != http.StatusOK || !slices.Contains(answers[:], essence(t, text)) {
					t.Errorf("%d %s", status, text)
				}
				namesOf(t, web)
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := range 12 {
		from.put("a", files[i%2])
		if status, _, text := post(t, web, "/v1/chat/completions", greet("a")); status != http.StatusOK ||
			essence(t, text) != answers[i%2] {
			t.Errorf("%d %s, want %s", status, text, answers[i%2])
		}
	}
	close(done)
	wait.Wait()
	if n := from.opened(files[0]) + from.opened(files[1]); n != 1 || len(s.models.gone) != 0 {
		t.Errorf("%d files are open, %d are not listed", n, len(s.models.gone))
	}
}

// TestSourceNames: a list with equal names, or with one that no request can name, changes nothing and is told once.
func TestSourceNames(t *testing.T) {
	files, _ := twoFiles(t)
	from, _, web := shelved(t, Options{})
	from.put("a", files[0])
	for _, id := range []string{"a", "", "\xff"} {
		from.put("b", files[1])
		from.mu.Lock()
		from.entries[1].ID = id
		from.mu.Unlock()
		for range 2 {
			if names := namesOf(t, web); id != "a" && !slices.Equal(names, []string{"a"}) {
				t.Errorf("%q: %q", id, names)
			}
		}
		from.mu.Lock()
		from.entries = from.entries[:1]
		from.mu.Unlock()
		if names := namesOf(t, web); !slices.Equal(names, []string{"a"}) {
			t.Errorf("%q", names)
		}
	}
	if got := from.noted("stay as they are"); len(got) != 3 {
		t.Errorf("%q", got)
	}
}

// TestSourceFirst: a request without a model opens no model after the first that can be opened.
func TestSourceFirst(t *testing.T) {
	files, answers := twoFiles(t)
	from, _, web := shelved(t, Options{})
	from.put("broken", files[0]+".none")
	from.put("a", files[0])
	from.put("b", files[1])
	if _, _, text := post(t, web, "/v1/chat/completions", greet("")); essence(t, text) != answers[0] {
		t.Errorf("%s", text)
	}
	if from.opened(files[0]) != 1 || from.opened(files[1]) != 0 {
		t.Errorf("%v", from.open)
	}
}

// TestSourceRefused: a source goes neither with a list of models nor with what needs models that stay.
func TestSourceRefused(t *testing.T) {
	source := func() ([]Entry, error) { return nil, nil }
	if _, err := New(Options{Source: source}, tiny(t, "a", small)); !errors.Is(err, pack.ErrUnsupported) {
		t.Errorf("with a list: %v", err)
	}
	if _, err := New(Options{Source: source, AnyModel: true}); !errors.Is(err, pack.ErrUnsupported) {
		t.Errorf("with any model: %v", err)
	}
	s, err := New(Options{Source: source})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.RunBatch(t.Context(), Batch{}); !errors.Is(err, pack.ErrUnsupported) {
		t.Errorf("a batch: %v", err)
	}
	lost := func() ([]Entry, error) { return nil, pack.ErrCorrupt }
	if _, err := New(Options{Source: lost}); !errors.Is(err, pack.ErrCorrupt) {
		t.Errorf("a source that cannot be read: %v", err)
	}
}
