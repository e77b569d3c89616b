package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/server/internal/api"
	"github.com/lowpack/lowpack/runtime/server/schedule"
)

// errNoMemory: the model does not fit beside the models in use.
var errNoMemory = errors.New("the models in use leave no memory for this one")

// tooLarge is the error of a model that does not fit even if no other one is loaded. All are numbers of bytes.
type tooLarge struct {
	id                string
	need, file, limit int64
}

func (e *tooLarge) Error() string {
	text := fmt.Sprintf("model %s takes %d bytes", e.id, e.need)
	if e.need > e.file { // it was loaded once
		text += fmt.Sprintf(" (file %d, KV cache and buffers %d)", e.file, e.need-e.file)
	}
	return text + fmt.Sprintf("; the loaded models of this server take at most %d together", e.limit)
}

func (e *tooLarge) Unwrap() error { return pack.ErrLimit }

// codeTooLarge is the error code of a model that can never be loaded.
const codeTooLarge = "model_too_large"

// room unloads idle models until what h needs fits within the limit, or nothing is loaded. s.mu is held.
func (s *models) room(h *hosted) error {
	if s.strict && h.need > s.limit {
		return &tooLarge{h.ID, h.need, h.File.Size(), s.limit}
	}
	for s.bytes+h.need > s.limit && s.bytes > 0 {
		if !s.unloadOldest(nil) {
			return errNoMemory
		}
	}
	return nil
}

// unloadOldest unloads the least recently used idle model, of those that are meant; nil = any. It returns false if
// there is none. s.mu is held.
func (s *models) unloadOldest(meant func(*model) bool) bool {
	var oldest *hosted
	for _, h := range s.living() {
		idle := h.model != nil && h.users == 0 && (meant == nil || meant(h.model))
		if idle && (oldest == nil || h.used < oldest.used) {
			oldest = h
		}
	}
	if oldest == nil {
		return false
	}
	s.unload(oldest)
	return true
}

// unload unloads an idle model. s.mu is held.
func (s *models) unload(h *hosted) {
	h.model.close()
	s.bytes -= h.bytes
	h.model, h.bytes = nil, 0
	h.metrics.unloads.Inc()
	s.note("unloaded " + h.ID)
}

// loadError returns the error of a request whose model could not be loaded.
func loadError(h *hosted, err error) *api.Error {
	e := &api.Error{Status: http.StatusServiceUnavailable, Type: api.Unavailable, Code: "model_not_loaded",
		Param:   "model",
		Message: "model " + h.ID + " could not be loaded; see the server's log"}
	var large *tooLarge
	switch {
	case errors.Is(err, context.DeadlineExceeded): // of the request: a load has no time limit
		e = apiError(err)
	case errors.Is(err, errNoMemory) || errors.Is(err, schedule.ErrDraining):
		e.Message, e.RetryAfter = err.Error(), time.Second
	case errors.As(err, &large):
		e = api.Invalid("model", "%v", large)
		e.Code = codeTooLarge
	}
	return e
}
