package server

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// slowly makes Open of a model wait: begun is closed when it has been called, and it goes on when ends is closed.
func (s *shelf) slowly(id string) (begun, ends chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun, ends = make(chan struct{}), make(chan struct{})
	e := &s.entries[s.index(id)]
	open := e.Open
	e.Open = func() (Model, error) {
		close(begun) // a second call would panic
		<-ends
		return open()
	}
	return begun, ends
}

// leaves is a client that asks for model "a", whose opening it does not wait for.
func leaves(t *testing.T, s *Server, begun <-chan struct{}) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-begun
		leave()
	}()
	if _, e := s.find(ctx, "a"); e == nil {
		t.Error("a client that left got a model")
	}
}

// TestOpeningLeft: a client that leaves does not wait for a file that is being opened. Others get the model, which is
// opened once.
func TestOpeningLeft(t *testing.T) {
	files, answers := twoFiles(t)
	from, s, web := shelved(t, Options{})
	from.put("a", files[0])
	begun, ends := from.slowly("a")
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-begun
		leave()
	}()
	for _, name := range []string{"a", ""} {
		if _, e := s.find(ctx, name); e == nil {
			t.Errorf("a client that left got model %q", name)
		}
	}
	if _, e := s.all(ctx); e == nil {
		t.Error("a client that left got all models")
	}
	answer := make(chan string)
	go func() {
		_, _, text := post(t, web, "/v1/chat/completions", greet("a"))
		answer <- text
	}()
	close(ends)
	if text := <-answer; essence(t, text) != answers[0] {
		t.Errorf("%s", text)
	}
}

// TestOpeningReplaced: a file that is replaced while it is opened, and that nobody waits for any more, is closed when
// it is open.
func TestOpeningReplaced(t *testing.T) {
	files, _ := twoFiles(t)
	from, s, web := shelved(t, Options{})
	from.put("a", files[0])
	begun, ends := from.slowly("a")
	leaves(t, s, begun)
	first := s.models.list[0]
	from.put("a", files[1])
	if names := namesOf(t, web); !slices.Equal(names, []string{"a"}) {
		t.Errorf("%q", names)
	}
	close(ends)
	<-first.opened
	if from.opened(files[0]) != 0 || len(s.models.gone) != 0 {
		t.Errorf("%v, %d models that are not listed", from.open, len(s.models.gone))
	}
}

// TestOpeningDrained: shutting down does not wait for a file that is being opened, which is closed when it is open.
func TestOpeningDrained(t *testing.T) {
	files, _ := twoFiles(t)
	from, s, _ := shelved(t, Options{})
	from.put("a", files[0])
	begun, ends := from.slowly("a")
	leaves(t, s, begun)
	first := s.models.list[0]
	s.Drain(t.Context())
	close(ends)
	<-first.opened
	if from.opened(files[0]) != 0 {
		t.Errorf("%v", from.open)
	}
}

// asked returns the status of a request that comes without a network, and how long it took.
func asked(s *Server, method, path, body string) (status int, took time.Duration) {
	w, start := httptest.NewRecorder(), time.Now()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	s.ServeHTTP(w, r)
	return w.Code, time.Since(start)
}

// TestOneDeadline: opening the file and loading the model share the time of a request.
func TestOneDeadline(t *testing.T) {
	files, _ := twoFiles(t)
	synctest.Test(t, func(t *testing.T) {
		from := &shelf{t: t, open: map[string]int{}}
		s, err := New(Options{Queue: 1, Source: from.list, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		from.put("a", files[0])
		open := from.entries[0].Open
		from.entries[0].Open = func() (Model, error) {
			time.Sleep(40 * time.Second)
			m, err := open()
			m.Load = func() (*tokenizer.Tokenizer, *engine.Engine, error) {
				time.Sleep(40 * time.Second)
				return nil, nil, errors.New("too late for the test")
			}
			return m, err
		}
		if status, took := asked(s, http.MethodPost, "/v1/completions", `{"model": "a", "prompt": "a"}`); status !=
			http.StatusGatewayTimeout || took != time.Minute {
			t.Errorf("%d after %v", status, took)
		}
		time.Sleep(time.Minute) // the load has ended
		if status, took := asked(s, http.MethodPost, "/models/load", `{"model": "a"}`); status !=
			http.StatusServiceUnavailable || took != 40*time.Second {
			t.Errorf("%d after %v", status, took)
		}
		s.Drain(t.Context())
	})
}

// TestOpeningTime: a request waits no longer than its time for a file that is being opened, whatever it asks for, and
// gets 504; while the server shuts down no file is opened.
func TestOpeningTime(t *testing.T) {
	files, _ := twoFiles(t)
	synctest.Test(t, func(t *testing.T) {
		from := &shelf{t: t, open: map[string]int{}}
		s, err := New(Options{Queue: 1, Source: from.list, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		from.put("a", files[0])
		_, ends := from.slowly("a")
		for _, path := range []string{"/v1/models/a", "/v1/models", "/v1/models/a"} {
			if status, took := asked(s, http.MethodGet, path, ""); status != http.StatusGatewayTimeout ||
				took != time.Minute {
				t.Errorf("%s: %d after %v", path, status, took)
			}
		}
		close(ends)
		list, e := s.all(t.Context())
		if e != nil || len(list) != 1 {
			t.Errorf("%v, %v", list, e)
		}
		s.models.drop(list...)
		s.Drain(t.Context())
		from.put("b", files[1])
		s.models.list = append(s.models.list, s.models.host(from.entries[1], false))
		if _, e := s.find(t.Context(), "b"); e == nil || e.Status != http.StatusServiceUnavailable {
			t.Errorf("%v", e)
		}
		if from.open[files[0]]+from.open[files[1]] != 0 {
			t.Errorf("%v", from.open)
		}
	})
}
