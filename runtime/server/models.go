package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/server/internal/api"
	"github.com/lowpack/lowpack/runtime/server/schedule"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// Model is a model to serve.
type Model struct {
	ID     string         // the name that clients use
	File   *packed.File   // the caller closes it, after Drain has returned
	Engine engine.Options // with defaults filled in, as engine.Options.For returns them
	// Load makes tokenizer and engine of File, with the options Engine. The server is the only user of both, and closes
	// the engine. Load is called again when the model was unloaded meanwhile.
	Load func() (*tokenizer.Tokenizer, *engine.Engine, error)
}

// hosted is a Model with its state in the server.
type hosted struct {
	Model
	fingerprint string
	vocab       int
	metrics     *metrics

	// Guarded by models.mu.
	model   *model // nil = not loaded
	bytes   int64  // memory while loaded
	users   int    // requests that use the model or wait for it
	used    uint64 // value of models.clock at the last request
	loading *loading
}

// loading is a load in progress.
type loading struct {
	done chan struct{}
	err  error // valid after done is closed
}

// models loads a model at its first request and unloads the least recently used idle models when another one needs
// their memory. A model in use stays loaded.
type models struct {
	list    []*hosted
	limit   int64 // bytes of all loaded models; a single model may exceed it
	options schedule.Options
	note    func(string)

	mu     sync.Mutex
	clock  uint64
	bytes  int64
	closed bool
	loads  sync.WaitGroup
}

// errNoMemory: the model does not fit beside the models in use.
var errNoMemory = errors.New("the models in use leave no memory for this one")

// acquire returns the loaded model, which stays loaded until release.
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
		s.note(fmt.Sprintf("loaded %s in %.1f s", h.ID, time.Since(start).Seconds()))
		h.metrics.loads.Inc()
	case m != nil:
		m.close()
	default:
		s.note(fmt.Sprintf("%s could not be loaded: %v", h.ID, err))
	}
	h.loading, l.err = nil, err
	close(l.done)
}

// open opens a model. It unloads idle models if the model is known not to fit, or if opening it runs out of memory.
func (s *models) open(h *hosted) (*model, error) {
	s.mu.Lock()
	fits := s.room(h.File.Whole().Size())
	s.mu.Unlock()
	if !fits {
		return nil, errNoMemory
	}
	for {
		t, e, err := h.Load()
		if err == nil {
			return newModel(h, t, e, s.scheduling(h))
		}
		s.mu.Lock()
		more := errors.Is(err, pack.ErrLimit) && s.unload()
		s.mu.Unlock()
		if !more {
			return nil, err
		}
	}
}

// scheduling returns the scheduler options of a model.
func (s *models) scheduling(h *hosted) schedule.Options {
	o := s.options
	o.Observe, o.Step, o.Gap = h.metrics.observe, h.metrics.step, h.metrics.gap
	return o
}

// place registers an opened model if it fits within the limit. s.mu is held.
func (s *models) place(h *hosted, m *model) error {
	bytes := h.File.Whole().Size() + int64(m.engine.MemoryBytes())
	if !s.room(bytes) {
		return errNoMemory
	}
	h.model, h.bytes = m, bytes
	s.bytes += bytes
	return nil
}

// room unloads idle models until bytes more fit within the limit or nothing is loaded. s.mu is held.
func (s *models) room(bytes int64) bool {
	for s.bytes+bytes > s.limit && s.bytes > 0 {
		if !s.unload() {
			return false
		}
	}
	return true
}

// unload unloads the least recently used idle model; false = there is none. s.mu is held.
func (s *models) unload() bool {
	var oldest *hosted
	for _, h := range s.list {
		if h.model != nil && h.users == 0 && (oldest == nil || h.used < oldest.used) {
			oldest = h
		}
	}
	if oldest == nil {
		return false
	}
	oldest.model.close()
	s.bytes -= oldest.bytes
	oldest.model = nil
	oldest.metrics.unloads.Inc()
	s.note("unloaded " + oldest.ID)
	return true
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

// drain rejects new requests, waits for running ones until ctx is done, and unloads all models.
func (s *models) drain(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.loads.Wait()
	var all sync.WaitGroup
	for _, h := range s.list {
		if m := h.model; m != nil { // loads and unloads have ended
			all.Go(func() {
				m.Drain(ctx)
				m.close()
			})
		}
	}
	all.Wait()
}

// draining reports whether new requests are rejected.
func (s *models) draining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// find returns the model with the given name. An empty name means the first model, as in vLLM; with Options.AnyModel
// any unknown name does too.
func (s *Server) find(name string) (*hosted, *api.Error) {
	list := s.models.list
	if i := slices.IndexFunc(list, func(h *hosted) bool { return h.ID == name }); i >= 0 {
		return list[i], nil
	}
	if s.o.AnyModel || name == "" {
		return list[0], nil
	}
	return nil, unknownModel(name)
}

func unknownModel(name string) *api.Error {
	return &api.Error{Status: http.StatusNotFound, Type: api.NotFound, Code: "model_not_found", Param: "model",
		Message: "model " + quoted(name) + " is not served here; GET /v1/models lists the served models"}
}

// loadError returns the error of a request whose model could not be loaded.
func loadError(h *hosted, err error) *api.Error {
	e := &api.Error{Status: http.StatusServiceUnavailable, Type: api.Unavailable, Code: "model_not_loaded",
		Param:   "model",
		Message: "model " + h.ID + " could not be loaded; see the server's log"}
	if errors.Is(err, errNoMemory) || errors.Is(err, schedule.ErrDraining) {
		e.Message, e.RetryAfter = err.Error(), time.Second
	}
	return e
}

// newModels checks the models without loading them.
func newModels(list []Model, o Options, r *prometheus.Registry) (*models, error) {
	s := &models{limit: o.Memory, note: o.Note,
		options: schedule.Options{Queue: o.Queue, ITLTarget: o.ITLTarget, PrefixCache: o.PrefixCache}}
	if s.limit == 0 {
		s.limit = math.MaxInt64
	}
	if s.note == nil {
		s.note = func(string) {}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: a server without a model", pack.ErrUnsupported)
	}
	for i, m := range list {
		if slices.ContainsFunc(list[:i], func(other Model) bool { return other.ID == m.ID }) {
			return nil, fmt.Errorf("%w: two models have the name %q", pack.ErrUnsupported, m.ID)
		}
		h := &hosted{Model: m}
		var err error
		if h.fingerprint, err = fingerprintOf(m); err != nil {
			return nil, err
		}
		d, err := packed.Describe(m.File)
		if err != nil {
			return nil, err
		}
		h.vocab = d.Vocab
		h.metrics = newMetrics(r, m.ID, func() (schedule.Stats, bool) { return s.stats(h) })
		s.list = append(s.list, h)
	}
	return s, nil
}
