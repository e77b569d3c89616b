package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/mmap"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/server/schedule"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// Model is a model to serve.
type Model struct {
	ID     string         // the name that clients use
	File   *packed.File   // stays open until Close is called, or until Drain has returned
	Engine engine.Options // with defaults filled in, as engine.Options.For returns them
	// Load makes tokenizer and engine of File, with the options Engine. The server is the only user of both, and closes
	// the engine. Load is called again when the model was unloaded meanwhile.
	Load func() (*tokenizer.Tokenizer, *engine.Engine, error)
	// Close is called once when the server has no more use for File; nil = the caller closes it.
	Close func() error
}

// hosted is a Model with its state in the server.
type hosted struct {
	Model       // besides ID, filled in by open
	version     uint64
	open        func() error  // opens the model; await calls it once
	opened      chan struct{} // is closed when open has returned
	openErr     error         // of open; valid after opened is closed
	fingerprint string
	vocab       int
	metrics     *metrics // of this ID

	// Guarded by models.mu.
	model   *model // nil = not loaded
	bytes   int64  // memory while loaded
	need    int64  // memory that it will take when it is loaded; the size of the file until it was loaded once
	holders int    // requests and loads that need File
	users   int    // requests that use the model or wait for it
	used    uint64 // value of models.clock at the last request
	loading *loading
	begun   bool // is open, or being opened
	failed  bool // could not be opened
}

// loading is a load in progress.
type loading struct {
	done chan struct{}
	err  error // valid after done is closed
}

// models loads a model at its first request and unloads the least recently used idle models when another one needs
// their memory. A model in use stays loaded.
type models struct {
	registry *prometheus.Registry
	source   func() ([]Entry, error) // nil = the list stays as it is
	limit    int64                   // bytes of all loaded models
	strict   bool                    // a single model does not exceed the limit either
	options  schedule.Options
	note     func(string)

	refreshing sync.Mutex // held while the source is asked
	lost       bool       // the last answer of the source was an error; guarded by refreshing

	// opening is held during a load. What a model takes beside its file is known when it is loaded, so loads at the
	// same time could exceed the limit many times.
	opening sync.Mutex

	mu      sync.Mutex
	list    []*hosted
	gone    []*hosted           // no longer listed, but held
	metrics map[string]*metrics // by ID
	clock   uint64
	bytes   int64
	closed  bool           // no new requests
	drained bool           // no loaded models any more
	loads   sync.WaitGroup // and openings
}

// acquire returns the loaded model of a caller that holds h. It stays loaded until release.
func (s *models) acquire(ctx context.Context, h *hosted) (*model, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock++
	h.used = s.clock
	h.users++ // counts waiting requests too
	for h.model == nil {
		if err := s.wait(ctx, h); err != nil {
			h.users--
			return nil, err
		}
	}
	return h.model, nil
}

// wait starts a load if necessary and waits for its result. s.mu is held on entry and return, not in between.
func (s *models) wait(ctx context.Context, h *hosted) error {
	if s.closed {
		return schedule.ErrDraining
	}
	l := h.loading
	if l == nil {
		l = &loading{done: make(chan struct{})}
		h.loading = l
		h.holders++
		s.loads.Go(func() { s.load(h, l) })
	}
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *models) release(h *hosted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.users--
}

// load loads a model on behalf of all requests that wait for it.
func (s *models) load(h *hosted, l *loading) {
	s.opening.Lock()
	defer s.opening.Unlock()
	start := time.Now()
	m, err := s.open(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.closed {
		err = schedule.ErrDraining
	}
	if err == nil {
		err = s.place(h, m)
	}
	switch {
	case err == nil:
		s.note(fmt.Sprintf("loaded %s in %.1f s%s", h.ID, time.Since(start).Seconds(), m.division()+m.residence()))
		h.metrics.loads.Inc()
	case m != nil:
		m.close()
	case !errors.Is(err, schedule.ErrDraining) && !errors.Is(err, errNoMemory): // those pass
		s.note(fmt.Sprintf("%s could not be loaded: %v", h.ID, err))
	}
	h.loading, l.err = nil, err
	close(l.done)
	s.dropped(h)
}

// open opens a model. It unloads idle models if the model is known not to fit, if opening it runs out of memory, or if
// they leave a device no room for all of its layers.
func (s *models) open(h *hosted) (m *model, err error) {
	s.mu.Lock()
	if err = s.room(h); s.closed { // while it waited for another load
		err = schedule.ErrDraining
	}
	s.mu.Unlock()
	for err == nil {
		err = mmap.Guard(func() error {
			t, e, err := h.Load()
			if err == nil {
				m, err = newModel(h, t, e, s.scheduling(h))
			}
			return err
		})
		if err == nil && s.makeRoom(m) {
			m.close()
			continue
		}
		if err == nil {
			return m, nil
		}
		s.mu.Lock()
		switch short := errors.Is(err, pack.ErrLimit); {
		case short && s.unloadOldest(nil):
			err = nil // again
		case short && s.bytes > 0: // there may be room when the models in use are idle
			err = errNoMemory
		}
		s.mu.Unlock()
	}
	return nil, err
}

// scheduling returns the scheduler options of a model.
func (s *models) scheduling(h *hosted) schedule.Options {
	o := s.options
	o.Observe, o.Step, o.Gap = h.metrics.observe, h.metrics.step, h.metrics.gap
	return o
}

// place registers an opened model if it fits within the limit. s.mu is held.
func (s *models) place(h *hosted, m *model) error {
	h.need = h.File.Size() + int64(m.engine.MemoryBytes())
	if err := s.room(h); err != nil {
		return err
	}
	h.model, h.bytes = m, h.need
	s.bytes += h.bytes
	return nil
}

// usage returns the scheduler's state and the memory of a model in all versions of it that are loaded.
func (s *models) usage(id string) (state schedule.Stats, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.living() {
		if h.ID != id || h.model == nil {
			continue
		}
		one := h.model.Stats()
		state.Running, state.Waiting = state.Running+one.Running, state.Waiting+one.Waiting
		state.Cache = max(state.Cache, one.Cache)
		bytes += h.bytes
	}
	return state, bytes
}

// fault returns the error of a model of a list whose engine has failed; nil = there is none.
func (s *models) fault(list ...*hosted) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range list {
		if h.model != nil {
			if err := h.model.Stats().Failed; err != nil {
				return err
			}
		}
	}
	return nil
}

// listed returns the models of this moment.
func (s *models) listed() []*hosted {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// drain rejects new requests, waits for running ones until ctx is done, unloads all models, and
// closes their files.
func (s *models) drain(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.loads.Wait()
	s.mu.Lock()
	list := s.living()
	for _, h := range list {
		h.holders++ // nobody else unloads it
	}
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, h := range list {
		if m := h.model; m != nil { // loads and unloads have ended
			all.Go(func() {
				m.Drain(ctx)
				m.close()
			})
		}
	}
	all.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drained, s.bytes = true, 0
	for _, h := range list {
		h.model, h.bytes = nil, 0
		s.dropped(h)
	}
}

// draining reports whether new requests are rejected.
func (s *models) draining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// newModels checks the models without loading them.
func newModels(list []Model, o Options, r *prometheus.Registry) (*models, error) {
	s := &models{registry: r, source: o.Source, limit: o.Memory, strict: o.MemoryBound,
		metrics: map[string]*metrics{},
		options: schedule.Options{Queue: o.Queue, ITLTarget: o.ITLTarget, PrefixCache: o.PrefixCache}}
	if s.limit == 0 {
		s.limit = math.MaxInt64
	}
	var noting sync.Mutex
	s.note = func(text string) {
		noting.Lock()
		defer noting.Unlock()
		if o.Note != nil {
			o.Note(text)
		}
	}
	if s.source != nil {
		return s, s.begin(list, o)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: a server without a model", pack.ErrUnsupported)
	}
	ids := map[string]bool{}
	for _, m := range list {
		if err := checkID(m.ID, ids); err != nil {
			return nil, err
		}
		h := s.host(Entry{ID: m.ID, Open: func() (Model, error) { return m, nil }}, true)
		s.list = append(s.list, h)
		if err := s.await(context.Background(), h); err != nil {
			return nil, err
		}
	}
	return s, nil
}
