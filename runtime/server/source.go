package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/internal/mmap"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/server/schedule"
)

// Entry is a model of Options.Source.
type Entry struct {
	ID      string // the name that clients use
	Version uint64 // another one = another model, even if the ID is the same
	// Open opens the model, whose ID it need not set. It is called at most once for each version: by New for the models
	// of the start, later when a request first needs the model or the list. A model that cannot be opened is not
	// served: Options.Note gets the error, once until a version of the same ID can be opened.
	Open func() (Model, error)
}

// begin asks the source for the first time.
func (s *models) begin(list []Model, o Options) error {
	switch {
	case len(list) > 0:
		return fmt.Errorf("%w: a server has a source or a list of models", pack.ErrUnsupported)
	case o.AnyModel:
		return fmt.Errorf("%w: with a source, no model can stand for any other", pack.ErrUnsupported)
	}
	entries, err := s.source()
	if err != nil {
		return err
	}
	if err := s.update(entries); err != nil {
		return err
	}
	held, err := s.hold(context.Background(), everyModel)
	s.drop(held...)
	return err
}

// checkID refuses a name that an earlier model has, that no request can name, or that metrics cannot have as a label.
func checkID(id string, earlier map[string]bool) error {
	switch {
	case id == "" || !utf8.ValidString(id):
		return fmt.Errorf("%w: %q is not a name of a model: want UTF-8, not empty", pack.ErrUnsupported, id)
	case earlier[id]:
		return fmt.Errorf("%w: two models have the name %q", pack.ErrUnsupported, id)
	}
	earlier[id] = true
	return nil
}

// host returns the state of a model that is not open. quiet keeps the error of opening it from Options.Note.
func (s *models) host(e Entry, quiet bool) *hosted {
	h := &hosted{Model: Model{ID: e.ID}, version: e.Version, opened: make(chan struct{})}
	h.open = func() error {
		m, err := e.Open()
		if err == nil {
			err = h.describe(&m)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case err == nil:
			h.metrics = s.metricsOf(h.ID)
		case !quiet:
			s.note(fmt.Sprintf("%s is not served: %v", h.ID, err))
		}
		h.failed = err != nil
		return err
	}
	return h
}

// describe fills in what is known of an open model. After an error, which names the file, the model is closed.
func (h *hosted) describe(m *Model) error {
	err := mmap.Guard(func() (err error) {
		if h.fingerprint, err = fingerprintOf(*m); err != nil {
			return err
		}
		d, err := packed.Describe(m.File)
		if err == nil {
			h.vocab = d.Vocab
		}
		return err
	})
	err = filerr.Named(m.File.Name(), err)
	if err != nil && m.Close != nil {
		return errors.Join(err, m.Close())
	}
	h.File, h.Engine, h.Load, h.Close, h.need = m.File, m.Engine, m.Load, m.Close, m.File.Size()
	return err
}

// refresh brings the list up to date with the source.
func (s *models) refresh() {
	if s.source == nil {
		return
	}
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	entries, err := s.source()
	if err == nil {
		err = s.update(entries)
	}
	if err != nil && !s.lost {
		s.note(fmt.Sprintf("the models stay as they are: %v", err))
	}
	s.lost = err != nil
}

// update makes the list that of the entries. A model of which the version is the same stays as it is. After an error
// all do.
func (s *models) update(entries []Entry) error {
	ids := map[string]bool{}
	for _, e := range entries {
		if err := checkID(e.ID, ids); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	known := map[string]*hosted{}
	for _, h := range s.list {
		known[h.ID] = h
	}
	before := s.list
	s.list = make([]*hosted, len(entries))
	for i, e := range entries {
		if h := known[e.ID]; h != nil && h.version == e.Version {
			s.list[i] = h
		} else {
			s.list[i] = s.host(e, h != nil && h.failed)
		}
	}
	for _, h := range before {
		if !slices.Contains(s.list, h) {
			h.holders++
			s.gone = append(s.gone, h)
			s.dropped(h)
		}
	}
	return nil
}

// holdFirst returns the first model that can be opened, in a list of one, or an empty list if there is none. Models
// after it are not opened.
func (s *models) holdFirst(ctx context.Context) ([]*hosted, error) {
	for _, first := range s.listed() {
		held, err := s.hold(ctx, func(h *hosted) bool { return h == first })
		if len(held) > 0 || err != nil {
			return held, err
		}
	}
	return nil, nil
}

// everyModel is the argument of hold for all models.
func everyModel(*hosted) bool { return true }

// hold returns the models of this moment that are wanted and can be opened. Their files stay open until drop. It stops
// waiting when ctx is done, with its error.
func (s *models) hold(ctx context.Context, wanted func(*hosted) bool) ([]*hosted, error) {
	s.mu.Lock()
	var held []*hosted
	for _, h := range s.list {
		if wanted(h) {
			h.holders++
			held = append(held, h)
		}
	}
	s.mu.Unlock()
	var list []*hosted
	for i, h := range held {
		var failed *notOpened
		switch err := s.await(ctx, h); {
		case err == nil:
			list = append(list, h)
		case errors.As(err, &failed):
			s.drop(h)
		default:
			s.drop(slices.Concat(list, held[i:])...)
			return nil, err
		}
	}
	return list, nil
}

// ready returns the listed models that have been opened. It waits for no others.
func (s *models) ready() []*hosted {
	return slices.DeleteFunc(s.listed(), func(h *hosted) bool {
		select {
		case <-h.opened:
			return h.openErr != nil
		default:
			return true
		}
	})
}

// notOpened is the error of a model that cannot be opened.
type notOpened struct {
	id  string
	err error // names the file
}

func (e *notOpened) Error() string { return fmt.Sprintf("model %s cannot be opened: %v", e.id, e.err) }
func (e *notOpened) Unwrap() error { return e.err }

// await opens a model that the caller holds, or waits until somebody else has. When ctx is done it returns its error,
// and the opening goes on.
func (s *models) await(ctx context.Context, h *hosted) error {
	if err := s.beginOpening(h); err != nil {
		return err
	}
	select {
	case <-h.opened:
	case <-ctx.Done():
		return ctx.Err()
	}
	if h.openErr != nil {
		return &notOpened{h.ID, h.openErr}
	}
	return nil
}

// beginOpening begins to open a model, if nobody has. Opening holds the model: whoever waits for it may leave, and
// drain does not wait, after which the file is closed as soon as it is open.
func (s *models) beginOpening(h *hosted) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case h.begun:
		return nil
	case s.closed:
		return schedule.ErrDraining
	}
	h.begun = true
	h.holders++
	go func() {
		h.openErr = h.open()
		s.drop(h)
		close(h.opened)
	}()
	return nil
}

// drop undoes hold.
func (s *models) drop(list ...*hosted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range list {
		s.dropped(h)
	}
}

// dropped removes a holder. After the last one, a model that is not listed any more is unloaded, its file closed, and
// its metrics end unless another version has them. s.mu is held.
func (s *models) dropped(h *hosted) {
	h.holders--
	gone := slices.Index(s.gone, h)
	if h.holders > 0 || gone < 0 && !s.drained {
		return
	}
	if h.model != nil {
		s.unload(h)
	}
	if h.Close != nil {
		if err := h.Close(); err != nil {
			s.note(err.Error())
		}
		h.Close = nil
	}
	if gone < 0 {
		return
	}
	s.gone = slices.Delete(s.gone, gone, gone+1)
	if m := s.metrics[h.ID]; m != nil && !slices.ContainsFunc(s.living(),
		func(other *hosted) bool { return other.ID == h.ID }) {
		m.unregister(s.registry)
		delete(s.metrics, h.ID)
	}
}

// living returns all models that may be loaded: listed ones, and others that are held. s.mu is held.
func (s *models) living() []*hosted { return slices.Concat(s.list, s.gone) }

// metricsOf returns the metrics of an ID, which its versions share. s.mu is held.
func (s *models) metricsOf(id string) *metrics {
	m := s.metrics[id]
	if m == nil {
		m = newMetrics(s.registry, id, func() (schedule.Stats, int64) { return s.usage(id) })
		s.metrics[id] = m
	}
	return m
}
