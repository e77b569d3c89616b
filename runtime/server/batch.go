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

// errChanging: the results of a batch depend on the models.
var errChanging = fmt.Errorf("%w: batches need models that stay the same", pack.ErrUnsupported)

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
// endpoints answer, with ids, seeds and times that depend on nothing but the batch.
func (s *Server) RunBatch(ctx context.Context, b Batch) (batch.Counts, error) {
	return s.runBatch(ctx, s.batchOptions(b))
}

// runBatch runs a batch unless the KV cache is too small for some request.
func (s *Server) runBatch(ctx context.Context, o batch.Options) (batch.Counts, error) {
	if s.o.Source != nil {
		return batch.Counts{}, errChanging
	}
	for _, h := range s.models.list {
		if n := h.Engine.CacheTokens; n > 0 && n < h.Engine.Context {
			return batch.Counts{}, fmt.Errorf("%w: a KV cache of %d tokens: a batch needs room for a context of %d, "+
				"so that no result depends on it", pack.ErrUnsupported, n, h.Engine.Context)
		}
	}
	return batch.Run(ctx, o)
}

func (s *Server) batchOptions(b Batch) batch.Options {
	parallel := 1
	for _, h := range s.models.list {
		parallel = max(parallel, h.Engine.Sequences)
	}
	return batch.Options{
		Input: b.Input, Output: b.Output, Errors: b.Errors,
		URLs: slices.Sorted(maps.Keys(s.batchable())), OneModel: len(s.models.list) > 1,
		Answer: func(ctx context.Context, q *batch.Request) (batch.Answer, error) {
			return s.answerOne(ctx, q, b.Time)
		},
		Parallel: 2 * parallel, // the next requests wait while those before them are computed
		Key:      s.batchKey(b.Time), Time: b.Time, Progress: b.Progress,
	}
}

// batchKey says what results depend on besides the requests.
func (s *Server) batchKey(now time.Time) string {
	type key struct {
		ID          string `json:"id"`
		Fingerprint string `json:"system_fingerprint"`
		Context     int    `json:"context"`
	}
	models := make([]key, len(s.models.list))
	for i, h := range s.models.list {
		models[i] = key{h.ID, h.fingerprint, h.Engine.Context}
	}
	return string(jsonOf(map[string]any{"models": models, "any_model": s.o.AnyModel, "time": now.Unix()}))
}

// answerOne answers a request as its endpoint does. What another machine could answer, or the same at another time, is
// an error instead.
func (s *Server) answerOne(ctx context.Context, q *batch.Request, now time.Time) (a batch.Answer, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, q.URL, nil)
	if err != nil {
		return a, err
	}
	w := &recorder{header: http.Header{}}
	b, e := api.NewBody(q.Body, api.Derived(q.Digest(), now))
	if e == nil {
		e = checkBatched(b, len(q.Body))
	}
	if e != nil {
		e.Write(w)
	} else {
		defer b.Close()
		s.handle(w, r, b, s.batchable()[q.URL])
		a.Ignored = b.Ignored()
	}
	if ctx.Err() != nil {
		return a, ctx.Err()
	}
	if e == nil && b.Untimed() {
		return a, fmt.Errorf("%w: %w", pack.ErrUnsupported, ErrNoTime)
	}
	a.Status, a.Body = w.status, bytes.TrimSuffix(w.body.Bytes(), []byte("\n"))
	a.PromptTokens, a.Tokens = usageOf(a.Body)
	return a, s.passing(&a, w.header)
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

// passing returns the error of an answer that says more about the machine than about the request.
func (s *Server) passing(a *batch.Answer, header http.Header) error {
	switch a.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		err := fmt.Errorf("status %d: %s", a.Status, a.Body)
		if header.Get("Retry-After") != "" {
			err = fmt.Errorf("%w (%w)", err, errLater)
		}
		return err
	}
	if a.Status == http.StatusBadRequest && bytes.Contains(a.Body, []byte(`"code":"`+codeTooLarge+`"`)) {
		return fmt.Errorf("%w: status %d: %s", pack.ErrLimit, a.Status, a.Body)
	}
	return s.models.fault()
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
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header            { return w.header }
func (w *recorder) WriteHeader(status int)         { w.status = status }
func (w *recorder) Write(text []byte) (int, error) { return w.body.Write(text) }
