package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/server/batch"
	"github.com/lowpack/lowpack/runtime/server/internal/api"
	"github.com/lowpack/lowpack/runtime/server/schedule"
)

// ErrNoTime is wrapped by the error of a batch without a time, if a chat template writes the date into a prompt.
var ErrNoTime = errors.New("the chat template writes the date into the prompt, and the batch has no time")

// errChanging: the results of RunBatch depend on nothing but the batch and the models.
var errChanging = fmt.Errorf("%w: a file of requests needs models that stay the same", pack.ErrUnsupported)

// sourceParallel is the least number of sequences that a batch assumes of the models of a source, whose files are
// opened when a request names them. Of models with fewer, requests wait for a sequence.
const sourceParallel = 8

// BatchQueue is the Options.Queue of a server that answers batches alone: no request is refused for want of room.
const BatchQueue = math.MaxInt32

// Batch is a file of requests with the places of its results.
type Batch struct {
	Input, Output, Errors string

	// Time is what chat templates write into prompts and what answers have as created. Zero: created is 0, and a
	// template that writes the time ends the batch with ErrNoTime. The results depend on it, so it must be the same for
	// all parts of a file.
	Time     time.Time
	Progress func(batch.Progress) // is called at the start and after every answer; nil = is not
}

// batchable returns the endpoints that answer requests of a batch.
func (s *Server) batchable() map[string]bodyHandler {
	return map[string]bodyHandler{
		"/v1/chat/completions": s.chat,
		"/v1/completions":      s.completions,
		"/v1/embeddings":       s.embeddings,
		"/v1/rerank":           s.rerank,
		"/v1/responses":        s.responses,
		"/v1/score":            s.score,
	}
}

// RunBatch answers the requests of a file with the models of the server; see batch.Run. The results are what the
// endpoints answer, with ids, seeds and times that depend on nothing but the batch. A server with a Source has no such
// results: pack.ErrUnsupported.
func (s *Server) RunBatch(ctx context.Context, b Batch) (batch.Counts, error) {
	if s.o.Source != nil {
		return batch.Counts{}, errChanging
	}
	o, err := s.batchOptions(b, func(*hosted, bool) (*api.Error, error) { return nil, nil })
	if err != nil {
		return batch.Counts{}, err
	}
	return batch.Run(ctx, o)
}

// admission refuses a model for a request: before it is answered, and again once it is, with status 200. An error ends
// the batch.
type admission func(h *hosted, answered bool) (*api.Error, error)

// batchOptions returns the options of a batch. An error is returned if the KV cache of a model that stays is too small
// for some request.
func (s *Server) batchOptions(b Batch, admit admission) (o batch.Options, err error) {
	list := s.models.ready()
	parallel := 1
	if s.o.Source != nil {
		parallel = sourceParallel
	}
	for _, h := range list {
		parallel = max(parallel, h.Engine.Sequences)
		if err := tooSmall(h); err != nil && s.o.Source == nil {
			return o, err
		}
	}
	return batch.Options{
		Input: b.Input, Output: b.Output, Errors: b.Errors,
		URLs: s.batchURLs(), ByModel: len(list) > 1 || s.o.Source != nil,
		Answer: func(ctx context.Context, q *batch.Request) (batch.Answer, error) {
			return s.answerOne(ctx, q, b.Time, admit)
		},
		Parallel: 2 * parallel, // the next requests wait while those before them are computed
		Key:      s.batchKey(b.Time), Time: b.Time, Progress: b.Progress,
	}, nil
}

// batchURLs are the endpoints of requests of a batch.
func (s *Server) batchURLs() []string { return slices.Sorted(maps.Keys(s.batchable())) }

// tooSmall returns the error of a model whose KV cache does not hold a text of the whole context.
func tooSmall(h *hosted) error {
	if n := h.Engine.CacheTokens; n > 0 && n < h.Engine.Context {
		return fmt.Errorf("%w: model %s has a KV cache of %d tokens: a batch needs room for a context of %d, so that "+
			"no result depends on it", pack.ErrUnsupported, h.ID, n, h.Engine.Context)
	}
	return nil
}

// modelKey is what the answers of a model depend on besides the request.
type modelKey struct {
	ID          string `json:"id"`
	Fingerprint string `json:"system_fingerprint"`
	Context     int    `json:"context"`
}

func keyOf(h *hosted) modelKey { return modelKey{h.ID, h.fingerprint, h.Engine.Context} }

// batchKey says what results depend on besides the requests. Models of a source are not among it: each has a key of its
// own (storedBatch.Models).
func (s *Server) batchKey(now time.Time) string {
	var models []modelKey
	if s.o.Source == nil {
		for _, h := range s.models.list {
			models = append(models, keyOf(h))
		}
	}
	return string(jsonOf(map[string]any{"models": models, "any_model": s.o.AnyModel, "time": now.Unix()}))
}

// answerOne answers a request as its endpoint does. What another machine could answer, or the same at another time, is
// an error instead.
func (s *Server) answerOne(
	ctx context.Context, q *batch.Request, now time.Time, admit admission,
) (a batch.Answer, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, q.URL, nil)
	if err != nil {
		return a, err
	}
	w := &recorder{header: http.Header{}}
	b, e := api.NewBody(q.Body, api.Derived(q.Digest(), now))
	if e == nil {
		e = checkBatched(b, len(q.Body))
	}
	if e == nil {
		defer b.Close()
		if e, err = s.answerBody(w, r, b, admit); err != nil {
			return a, err
		}
	}
	if e != nil {
		w = &recorder{header: http.Header{}}
		e.Write(w)
	}
	if ctx.Err() != nil {
		return a, ctx.Err()
	}
	if e == nil && b.Untimed() {
		return a, fmt.Errorf("%w: %w", pack.ErrUnsupported, ErrNoTime)
	}
	a.Status, a.Body, a.Ignored = w.status, bytes.TrimSuffix(w.body.Bytes(), []byte("\n")), w.ignored
	a.PromptTokens, a.Tokens = usageOf(a.Body)
	return a, s.passing(&a, w.header)
}

// answerBody answers with the model that a body names, or returns why that cannot be: to the client, or as an error
// that ends the batch. That a model of a source has failed is a result: the others go on.
func (s *Server) answerBody(w *recorder, r *http.Request, b *api.Body, admit admission) (*api.Error, error) {
	name := ""
	if b.String("model", &name); name == "" && s.o.Source != nil {
		b.Unsupported("model", "model is missing: which one is the first of this server may change, so each request "+
			"of a batch names its own")
	}
	if b.Err() != nil {
		return b.Err(), nil
	}
	h, e := s.find(r.Context(), name)
	if e != nil {
		return e, nil
	}
	defer s.models.drop(h)
	if e, err := admit(h, false); e != nil || err != nil {
		return e, err
	}
	s.handleBy(h, w, r, b, func(to http.ResponseWriter, r *http.Request, m *model, b *api.Body) {
		s.batchable()[r.URL.Path](to, r, m, b)
		w.ignored = b.Ignored()
	})
	if r.Context().Err() != nil {
		return nil, r.Context().Err()
	}
	if err := s.models.fault(h); err != nil && s.o.Source == nil {
		return nil, err
	}
	if w.status != http.StatusOK {
		return nil, nil
	}
	return admit(h, true)
}

// checkBatched refuses what only a client that waits can have, and too large bodies.
func checkBatched(b *api.Body, size int) *api.Error {
	if size > maxBody {
		return &api.Error{Status: http.StatusRequestEntityTooLarge, Type: api.InvalidRequest,
			Message: fmt.Sprintf("the request body is larger than %d bytes", maxBody)}
	}
	if stream := false; b.Bool("stream", &stream) && stream {
		b.Unsupported("stream", "stream is true: a batch has no streams")
	}
	return b.Err()
}

// errLater is wrapped by the error of a request that can be answered later.
var errLater = errors.New("the server has no room now")

// passing returns the error of an answer that says more about the machine than about the request. That a model of a
// source cannot be loaded is a result: the others go on.
func (s *Server) passing(a *batch.Answer, header http.Header) error {
	large := a.Status == http.StatusBadRequest && bytes.Contains(a.Body, []byte(`"code":"`+codeTooLarge+`"`))
	switch {
	case header.Get("Retry-After") != "":
		return fmt.Errorf("status %d: %s (%w)", a.Status, a.Body, errLater)
	case s.o.Source == nil && large:
		return fmt.Errorf("%w: status %d: %s", pack.ErrLimit, a.Status, a.Body)
	case s.o.Source == nil && a.Status == http.StatusServiceUnavailable:
		return fmt.Errorf("status %d: %s", a.Status, a.Body)
	}
	return nil
}

// usageOf returns the token counts of an answer.
func usageOf(body []byte) (prompt, generated int) {
	var a struct {
		Usage struct {
			Prompt    int `json:"prompt_tokens"`
			Input     int `json:"input_tokens"`
			Completed int `json:"completion_tokens"`
			Output    int `json:"output_tokens"`
		} `json:"usage"`
	}
	if json.Unmarshal(body, &a) != nil { // an answer of this server
		return 0, 0
	}
	return a.Usage.Prompt + a.Usage.Input, a.Usage.Completed + a.Usage.Output
}

// spread makes every text of the job a request of its own. A request of several texts needs a server that computes as
// many at once, and room for all of them in the KV cache; the prefix cache shares their prompt.
func (j *job) spread() {
	var requests []schedule.Request
	var echo []string
	for i, q := range j.requests {
		texts := q.Texts
		for k := range j.n {
			if q.Texts = nil; len(texts) > 0 {
				q.Texts = texts[k : k+1]
			}
			requests = append(requests, q)
			if j.echo != nil {
				echo = append(echo, j.echo[i])
			}
		}
	}
	j.requests, j.echo, j.copies, j.n = requests, echo, j.n, 1
}

// recorder is a ResponseWriter that keeps the response.
type recorder struct {
	header  http.Header
	status  int
	body    bytes.Buffer
	ignored []string // fields of the request that its endpoint does not know
}

func (w *recorder) Header() http.Header            { return w.header }
func (w *recorder) WriteHeader(status int)         { w.status = status }
func (w *recorder) Write(text []byte) (int, error) { return w.body.Write(text) }
