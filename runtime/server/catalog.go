package server

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/lowpack/lowpack/runtime/server/internal/api"
	"github.com/lowpack/lowpack/runtime/server/schedule"
)

// find returns the model with the given name, which the caller drops. An empty name means the first model, as in vLLM;
// with Options.AnyModel any unknown name does too.
func (s *Server) find(ctx context.Context, name string) (*hosted, *api.Error) {
	list, e := s.named(ctx, name)
	if e == nil && len(list) == 0 && (s.o.AnyModel || name == "") {
		var err error
		if list, err = s.models.holdFirst(ctx); err != nil {
			e = apiError(err)
		}
	}
	switch {
	case e != nil:
		return nil, e
	case len(list) == 0:
		return nil, unknownModel(name)
	}
	return list[0], nil
}

func unknownModel(name string) *api.Error {
	return &api.Error{Status: http.StatusNotFound, Type: api.NotFound, Code: "model_not_found", Param: "model",
		Message: "model " + quoted(name) + " is not served here; GET /v1/models lists the served models"}
}

// named returns the model of this moment with an ID, in a list of one, which the caller drops, or an empty list.
func (s *Server) named(ctx context.Context, id string) ([]*hosted, *api.Error) {
	return s.wanted(ctx, func(h *hosted) bool { return h.ID == id })
}

// all returns the models of this moment, which the caller drops.
func (s *Server) all(ctx context.Context) ([]*hosted, *api.Error) {
	return s.wanted(ctx, everyModel)
}

// wanted returns models of this moment, which the caller drops. Files may have to be opened, until ctx is done.
func (s *Server) wanted(ctx context.Context, wanted func(*hosted) bool) ([]*hosted, *api.Error) {
	s.models.refresh()
	list, err := s.models.hold(ctx, wanted)
	if err != nil {
		return nil, apiError(err)
	}
	return list, nil
}

// modelInfo is OpenAI's model object with vLLM's max_model_len, llama-server's status and Ollama's size.
type modelInfo struct {
	ID      string      `json:"id"`
	Object  string      `json:"object"`
	Created int64       `json:"created"`
	OwnedBy string      `json:"owned_by"`
	Context int         `json:"max_model_len"`
	Status  modelStatus `json:"status"`
	Size    int64       `json:"size"`             // of the file, in bytes
	Memory  int64       `json:"memory,omitempty"` // of a loaded model: file, KV cache and buffers, in bytes
}

type modelStatus struct {
	Value string `json:"value"` // unloaded, loading or loaded
}

func (s *Server) info(h *hosted) modelInfo {
	status, memory := s.models.state(h)
	return modelInfo{h.ID, "model", s.created, "lowpack", h.Engine.Context, modelStatus{status}, h.File.Size(), memory}
}

// state returns the state of a model, and its memory if it is loaded.
func (s *models) state(h *hosted) (status string, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case h.model != nil:
		return "loaded", h.bytes
	case h.loading != nil:
		return "loading", 0
	}
	return "unloaded", 0
}

// listModels handles GET /v1/models.
func (s *Server) listModels(w http.ResponseWriter, r *http.Request) {
	list, e := s.all(r.Context())
	if e != nil {
		e.Write(w)
		return
	}
	defer s.models.drop(list...)
	data := make([]modelInfo, len(list))
	for i, h := range list {
		data[i] = s.info(h)
	}
	api.WriteJSON(w, http.StatusOK, map[string]any{"object": "list", "data": data})
}

// oneModel handles GET /v1/models/ID.
func (s *Server) oneModel(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	list, e := s.named(r.Context(), id)
	if e == nil && len(list) == 0 {
		e = unknownModel(id)
	}
	if e != nil {
		e.Write(w)
		return
	}
	defer s.models.drop(list...)
	api.WriteJSON(w, http.StatusOK, s.info(list[0]))
}

// managed returns the handler of a request that loads or unloads a model, in the form of llama-server. The answer is
// the model in its new state.
func (s *Server) managed(do func(*http.Request, *hosted) *api.Error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		b, e := api.ReadBody(w, r, maxBody, s.bodies)
		if e != nil {
			e.Write(w)
			return
		}
		defer b.Close()
		name := ""
		if b.String("model", &name); name == "" {
			b.Fail("model", "model is missing")
		}
		if b.Err() != nil {
			b.Err().Write(w)
			return
		}
		h, e := s.find(r.Context(), name)
		if e == nil {
			defer s.models.drop(h)
			e = do(r, h)
		}
		if e != nil {
			e.Write(w)
			return
		}
		api.WriteJSON(&ignoring{ResponseWriter: w, body: b}, http.StatusOK, struct {
			Success bool `json:"success"`
			modelInfo
		}{true, s.info(h)})
	}
}

// loadModel handles POST /models/load. It waits until the model is loaded; requests at the same time share a load.
func (s *Server) loadModel(r *http.Request, h *hosted) *api.Error {
	if _, err := s.models.acquire(r.Context(), h); err != nil {
		return loadError(h, err)
	}
	s.models.release(h)
	return nil
}

// unloadModel handles POST /models/unload. A model in use stays loaded: it may have no moment without a request.
func (s *Server) unloadModel(_ *http.Request, h *hosted) *api.Error {
	s.models.mu.Lock()
	defer s.models.mu.Unlock()
	switch {
	case s.models.closed:
		return loadError(h, schedule.ErrDraining)
	case h.loading != nil:
		return inUse("model " + h.ID + " is being loaded")
	case h.users == 1:
		return inUse("model " + h.ID + " is in use by a request")
	case h.users > 0:
		return inUse(fmt.Sprintf("model %s is in use by %d requests", h.ID, h.users))
	case h.model != nil:
		s.models.unload(h)
	}
	return nil
}

// inUse is the error of a request to unload a model that cannot be unloaded now.
func inUse(message string) *api.Error {
	return &api.Error{Status: http.StatusConflict, Type: api.InvalidRequest, Code: "model_in_use", Param: "model",
		RetryAfter: time.Second, Message: message}
}
