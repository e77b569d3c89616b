// Package server serves packed models through an OpenAI-compatible HTTP API.
//
// The output of a request does not depend on the load: the same request to the same file gets the same bytes, except id
// and created (docs/SERVER.md).
package server

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lowpack/lowpack/internal/version"
	"github.com/lowpack/lowpack/runtime/server/internal/api"
	"github.com/lowpack/lowpack/runtime/server/internal/openapi"
	"github.com/lowpack/lowpack/runtime/server/internal/page"
	"github.com/lowpack/lowpack/runtime/server/schedule"
)

// Options configures a server. With the zero value there are no API keys and no queue: a request beyond
// engine.Options.Sequences is refused.
type Options struct {
	Keys     []string      // API keys, one of which a client must send; none = no authentication
	Loopback bool          // the server listens on a loopback address: requests for other hosts are refused
	Hosts    []string      // names of this host besides localhost, where Loopback is set
	Origins  []string      // of pages that browsers may send requests from, besides the server's own; "*" = all
	AnyModel bool          // requests that name an unknown model get the first one instead of an error
	Timeout  time.Duration // of a whole request, which then ends with status 504; 0 = none

	Queue       int           // maximum number of requests waiting for a sequence; further ones get status 429
	ITLTarget   time.Duration // prefill is chunked to keep the inter-token latency of others below it; 0 = no target
	PrefixCache bool          // keeps the KV cache of texts for requests with the same beginning

	// Batches is the folder of files and batches, which continue when a server starts; "" = no such endpoints.
	Batches string

	Memory      int64 // bytes of all loaded models together; the least recently used makes room. 0 = no limit
	MemoryBound bool  // a model that takes more than Memory alone is refused; otherwise it is loaded alone

	// Source, in the place of a list of models, returns the models of the moment, with different IDs. It is called by
	// one goroutine at a time, before a request that names a model or asks for the list is answered. Requests for a
	// model that is no longer returned, or in another version, end with the file that they began with. After an error
	// the models stay those of the call before.
	Source func() ([]Entry, error)

	// Note is called when a model is loaded, unloaded, not served, or cannot be loaded or closed, when Source begins to
	// fail, and when a batch or one of its files fails; by one goroutine at a time. It must not call the server. nil =
	// is not.
	Note func(string)
}

// Server is an http.Handler with the endpoints of docs/SERVER.md. Drain shuts it down.
type Server struct {
	o        Options
	models   *models
	created  int64
	registry *prometheus.Registry
	bodies   *api.Pool
	store    *store      // nil = no files and batches
	batches  *batchQueue // of the store
	http.Handler
}

// New returns a server for one or more models with different names, or for those of Options.Source, which may be none.
// A single model is loaded at once; several, and those of a source, are loaded when they are first requested. It
// returns pack.ErrUnsupported if there is neither a model nor a source, a name is empty or not UTF-8, or two have the
// same name, the error of Load for a single model, pack.ErrLimit if that one exceeds the bound of memory, and an error
// of the source.
func New(o Options, list ...Model) (*Server, error) {
	s := &Server{o: o, created: time.Now().Unix(), registry: newRegistry(), bodies: api.NewPool(maxBodies)}
	var err error
	if s.models, err = newModels(list, o, s.registry); err != nil {
		return nil, err
	}
	if len(list) == 1 {
		h := s.models.list[0]
		if _, err := s.models.acquire(context.Background(), h); err != nil {
			return nil, err
		}
		s.models.release(h)
	}
	if o.Batches != "" {
		if err := s.openBatches(o.Batches); err != nil {
			s.models.drain(context.Background()) // nothing runs
			return nil, err
		}
	}
	s.Handler = s.guard(s.routes())
	return s, nil
}

// Drain interrupts the batches, refuses new requests with status 503, waits until the running ones have ended or ctx is
// done, and unloads all models. The server cannot be used afterwards; the caller closes the files.
func (s *Server) Drain(ctx context.Context) {
	if s.batches != nil {
		s.batches.close()
	}
	s.models.drain(ctx)
}

// Registry returns the registry of the metrics.
func (s *Server) Registry() *prometheus.Registry { return s.registry }

// route is an endpoint with its handler.
type route struct {
	openapi.Route
	handle http.HandlerFunc
}

func (s *Server) routes() []route {
	list := []route{
		{openapi.Route{Method: http.MethodGet, Path: "/{$}", Kind: openapi.Page}, page.Serve},
		{openapi.Route{Method: http.MethodGet, Path: "/health", Kind: openapi.Probe}, s.health},
		{openapi.Route{Method: http.MethodGet, Path: "/v1/health", Kind: openapi.Probe}, s.health},
		{openapi.Route{Method: http.MethodGet, Path: "/ready", Kind: openapi.Probe}, s.health},
		{openapi.Route{Method: http.MethodGet, Path: "/metrics", Kind: openapi.Texts}, metricsHandler(s.registry)},
		{openapi.Route{Method: http.MethodGet, Path: "/openapi.json", Kind: openapi.Facts}, s.openAPI},
		{openapi.Route{Method: http.MethodGet, Path: "/version", Kind: openapi.Facts}, s.version},
		{openapi.Route{Method: http.MethodGet, Path: "/v1/models", Kind: openapi.Facts}, s.listModels},
		{openapi.Route{Method: http.MethodGet, Path: "/v1/models/{id...}", Kind: openapi.Named}, s.oneModel},
		{openapi.Route{Method: http.MethodPost, Path: "/models/load", Kind: openapi.Managed}, s.managed(s.loadModel)},
		{openapi.Route{Method: http.MethodPost, Path: "/models/unload", Kind: openapi.Managed},
			s.managed(s.unloadModel)},
		{openapi.Route{Method: http.MethodPost, Path: "/v1/completions", Kind: openapi.Generate},
			s.withBody(s.completions)},
		{openapi.Route{Method: http.MethodPost, Path: "/v1/chat/completions", Kind: openapi.Generate},
			s.withBody(s.chat)},
		{openapi.Route{Method: http.MethodPost, Path: "/v1/responses", Kind: openapi.Generate},
			s.withBody(s.responses)},
		{openapi.Route{Method: http.MethodPost, Path: "/v1/embeddings", Kind: openapi.Whole}, s.withBody(s.embeddings)},
		{openapi.Route{Method: http.MethodPost, Path: "/tokenize", Kind: openapi.Tokens}, s.withBody(s.tokenize)},
		{openapi.Route{Method: http.MethodPost, Path: "/detokenize", Kind: openapi.Tokens}, s.withBody(s.detokenize)},
		{openapi.Route{Method: http.MethodPost, Path: "/apply-template", Kind: openapi.Tokens},
			s.withBody(s.applyTemplate)},
	}
	for _, path := range openapi.RerankPaths {
		list = append(list, route{openapi.Route{Method: http.MethodPost, Path: path, Kind: openapi.Whole},
			s.withBody(s.rerank)})
	}
	for _, path := range openapi.ScorePaths {
		list = append(list, route{openapi.Route{Method: http.MethodPost, Path: path, Kind: openapi.Whole},
			s.withBody(s.score)})
	}
	if s.store != nil {
		list = append(list, s.storeRoutes()...)
	}
	return list
}

// storeRoutes are the endpoints of files and batches.
func (s *Server) storeRoutes() []route {
	kind := openapi.Stored
	return []route{
		{openapi.Route{Method: http.MethodPost, Path: "/v1/files", Kind: kind}, s.uploadFile},
		{openapi.Route{Method: http.MethodGet, Path: "/v1/files", Kind: kind}, s.listFiles},
		{openapi.Route{Method: http.MethodGet, Path: "/v1/files/{id}", Kind: kind}, s.oneFile},
		{openapi.Route{Method: http.MethodDelete, Path: "/v1/files/{id}", Kind: kind}, s.deleteFile},
		{openapi.Route{Method: http.MethodGet, Path: "/v1/files/{id}/content", Kind: openapi.Content}, s.fileContent},
		{openapi.Route{Method: http.MethodPost, Path: "/v1/batches", Kind: kind}, s.createBatch},
		{openapi.Route{Method: http.MethodGet, Path: "/v1/batches", Kind: kind}, s.listBatches},
		{openapi.Route{Method: http.MethodGet, Path: "/v1/batches/{id}", Kind: kind}, s.oneBatch},
		{openapi.Route{Method: http.MethodPost, Path: "/v1/batches/{id}/cancel", Kind: kind}, s.cancelBatch},
	}
}

// bodyHandler answers a request with a body.
type bodyHandler func(http.ResponseWriter, *http.Request, *model, *api.Body)

// withBody reads the body and calls handle.
func (s *Server) withBody(handle bodyHandler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		b, e := api.ReadBody(w, r, maxBody, s.bodies)
		if e != nil {
			e.Write(w)
			return
		}
		defer b.Close()
		s.handle(w, r, b, handle)
	}
}

// handle answers with the model that a request names.
func (s *Server) handle(w http.ResponseWriter, r *http.Request, b *api.Body, handle bodyHandler) {
	name := ""
	if b.String("model", &name); b.Err() != nil {
		b.Err().Write(w)
		return
	}
	h, e := s.find(r.Context(), name)
	if e != nil {
		e.Write(w)
		return
	}
	defer s.models.drop(h)
	s.handleBy(h, w, r, b, handle)
}

// handleBy acquires a model and calls handle. A response header lists the unknown fields.
func (s *Server) handleBy(h *hosted, w http.ResponseWriter, r *http.Request, b *api.Body, handle bodyHandler) {
	m, err := s.models.acquire(r.Context(), h)
	if err != nil {
		loadError(h, err).Write(w)
		return
	}
	defer s.models.release(h)
	if err := b.Begin(r.Context()); err != nil {
		apiError(err).Write(w)
		return
	}
	handle(&ignoring{ResponseWriter: w, body: b}, r, m, b)
}

// ignoring is a ResponseWriter that adds headers: the ignored fields, and the time that the chat template used.
type ignoring struct {
	http.ResponseWriter
	body *api.Body
}

// WriteHeader adds the headers: up to 20 names of up to 40 ASCII characters.
func (w *ignoring) WriteHeader(status int) {
	names := w.body.Ignored()
	names = names[:min(len(names), 20)]
	for i, name := range names {
		names[i] = strings.Map(func(r rune) rune {
			if r <= ' ' || r >= 0x7f || r == ',' {
				return '?'
			}
			return r
		}, name[:min(len(name), 40)])
	}
	if len(names) > 0 {
		w.Header().Set("X-Lowpack-Ignored", strings.Join(names, ", "))
	}
	if told := w.body.Told(); told != "" {
		w.Header().Set(api.TimeHeader, told)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap serves http.ResponseController.
func (w *ignoring) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// health reports an error if a loaded model has failed or the server is draining.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if err := s.models.fault(s.models.listed()...); err != nil {
		(&api.Error{Status: http.StatusServiceUnavailable, Type: api.Unavailable, Message: err.Error()}).Write(w)
		return
	}
	if s.models.draining() {
		(&api.Error{Status: http.StatusServiceUnavailable, Type: api.Unavailable, Message: schedule.ErrDraining.Error(),
			RetryAfter: time.Second}).Write(w)
		return
	}
	api.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// limits returns the bounds of requests for /openapi.json. context and vocab are the largest of all models.
func limits(context, vocab int, example string) openapi.Limits {
	return openapi.Limits{
		Context:  context,
		Vocab:    vocab,
		Choices:  maxTexts,
		Stops:    maxStops,
		Top:      maxTop,
		Biases:   maxBiases,
		MaxBias:  maxBias,
		Prompts:  maxPrompts,
		Messages: maxMessages,
		Tools:    maxTools,
		Integer:  biggestInt,
		Penalty:  maxPenalty,
		Example:  example,
	}
}

// openAPI handles GET /openapi.json.
func (s *Server) openAPI(w http.ResponseWriter, r *http.Request) {
	var routes []openapi.Route
	for _, one := range s.routes() {
		routes = append(routes, one.Route)
	}
	context, vocab, names, example := 0, 0, []string{}, ""
	list, e := s.all(r.Context())
	if e != nil {
		e.Write(w)
		return
	}
	defer s.models.drop(list...)
	for _, h := range list {
		context, vocab, names = max(context, h.Engine.Context), max(vocab, h.vocab), append(names, h.ID)
		example = names[0]
	}
	l := limits(context, vocab, example)
	if !s.o.AnyModel {
		l.Models = names
	}
	api.WriteJSON(w, http.StatusOK, openapi.Document(routes, l))
}

// version handles GET /version. The top-level system_fingerprint is the first model's.
func (s *Server) version(w http.ResponseWriter, r *http.Request) {
	list, e := s.all(r.Context())
	if e != nil {
		e.Write(w)
		return
	}
	defer s.models.drop(list...)
	first, fingerprints := "", map[string]string{}
	for i, h := range list {
		if fingerprints[h.ID] = h.fingerprint; i == 0 {
			first = h.fingerprint
		}
	}
	api.WriteJSON(w, http.StatusOK,
		map[string]any{"version": version.Version, "system_fingerprint": first, "models": fingerprints})
}
