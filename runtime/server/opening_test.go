package server

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"
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
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-begun
		leave()
	}()
	if _, e := s.find(ctx, "a"); e == nil {
		t.Error("a client that left got a model")
	}
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
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-begun
		leave()
	}()
	if _, e := s.find(ctx, "a"); e == nil {
		t.Error("a client that left got a model")
	}
	first := s.models.list[0]
	s.Drain(t.Context())
	close(ends)
	<-first.opened
	if from.opened(files[0]) != 0 {
		t.Errorf("%v", from.open)
	}
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
		for range 2 {
			start := time.Now()
			if _, e := s.find(t.Context(), "a"); e == nil || e.Status != http.StatusGatewayTimeout {
				t.Errorf("%v", e)
			}
			if _, e := s.all(t.Context()); e == nil || e.Status != http.StatusGatewayTimeout {
				t.Errorf("%v", e)
			}
			if took := time.Since(start); took != 2*time.Minute {
				t.Errorf("two requests took %v", took)
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
