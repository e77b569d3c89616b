package server

import (
	"net/http"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/lowpack/lowpack/runtime/server/batch"
	"github.com/lowpack/lowpack/runtime/server/internal/api"
)

// batchObject is OpenAI's batch object.
type batchObject struct {
	ID         string            `json:"id"`
	Object     string            `json:"object"`
	Endpoint   string            `json:"endpoint"`
	Errors     *batchErrors      `json:"errors"`
	Input      string            `json:"input_file_id"`
	Window     string            `json:"completion_window"`
	Status     string            `json:"status"`
	Output     *string           `json:"output_file_id"`
	Failures   *string           `json:"error_file_id"`
	Created    int64             `json:"created_at"`
	Begun      *int64            `json:"in_progress_at"`
	Expires    *int64            `json:"expires_at"` // never
	Finalizing *int64            `json:"finalizing_at"`
	Completed  *int64            `json:"completed_at"`
	Failed     *int64            `json:"failed_at"`
	Expired    *int64            `json:"expired_at"` // never
	Cancelling *int64            `json:"cancelling_at"`
	Cancelled  *int64            `json:"cancelled_at"`
	Counts     batch.Counts      `json:"request_counts"`
	Metadata   map[string]string `json:"metadata"`
}

// batchErrors lists what is wrong with an input.
type batchErrors struct {
	Object string        `json:"object"`
	Data   []batch.Fault `json:"data"`
}

// storedBatch is a batch with the client that it belongs to, and the files that its results get.
type storedBatch struct {
	batchObject
	Owner string `json:"owner"`
	Out   string `json:"out"`
	Errs  string `json:"errs"`

	// Models, of a server with a source, are those that have answered requests, by name.
	Models map[string]modelKey `json:"models,omitempty"`
}

// Values of batchObject.Status.
const (
	statusValidating = "validating"
	statusRunning    = "in_progress"
	statusFinalizing = "finalizing"
	statusCompleted  = "completed"
	statusFailed     = "failed"
	statusCancelling = "cancelling"
	statusCancelled  = "cancelled"
)

// open reports whether the batch is not yet complete.
func (b *storedBatch) open() bool {
	return slices.Contains([]string{statusValidating, statusRunning, statusFinalizing, statusCancelling}, b.Status)
}

// Limits of metadata, which are OpenAI's.
const (
	maxMetadata = 16
	maxMetaKey  = 64  // characters
	maxMetaText = 512 // characters
	window      = "24h"
)

// createBatch handles POST /v1/batches.
func (s *Server) createBatch(w http.ResponseWriter, r *http.Request) {
	b, e := s.readBatch(w, r)
	if e == nil {
		if err := s.store.put(b.ID, b); err != nil {
			s.models.note(err.Error())
			e = storeError(err)
		}
	}
	if e != nil {
		e.Write(w)
		return
	}
	s.batches.signal()
	api.WriteJSON(w, http.StatusOK, b.batchObject)
}

// readBatch reads a new batch.
func (s *Server) readBatch(w http.ResponseWriter, r *http.Request) (*storedBatch, *api.Error) {
	body, e := api.ReadBody(w, r, maxBody, s.bodies)
	if e != nil {
		return nil, e
	}
	defer body.Close()
	o := body.Origin()
	b := &storedBatch{Owner: s.ownerOf(r), Out: o.ID("file-"), Errs: o.ID("file-")}
	b.ID, b.Object, b.Status, b.Created = o.ID("batch_"), "batch", statusValidating, o.Created()
	for _, field := range []struct {
		name string
		to   *string
	}{{"input_file_id", &b.Input}, {"endpoint", &b.Endpoint}, {"completion_window", &b.Window}} {
		if !body.String(field.name, field.to) {
			body.Fail(field.name, "%s is missing", field.name)
		}
	}
	if s.batchable()[b.Endpoint] == nil {
		body.Unsupported("endpoint", "endpoint %.80q: must be one of %s", b.Endpoint, s.batchURLs())
	}
	if b.Window != window {
		body.Unsupported("completion_window", "completion_window %.40q: must be %s", b.Window, window)
	}
	readMetadata(body, &b.Metadata)
	body.Accept("output_expires_after") // files stay until they are deleted
	if names := body.Ignored(); len(names) > 0 {
		body.Unsupported(names[0], "unknown field %.40q", names[0])
	}
	if e := body.Err(); e != nil {
		return nil, e
	}
	if _, e := s.file(b.Input, b.Owner); e != nil {
		e.Param = "input_file_id"
		return nil, e
	}
	if err := s.store.room("batch_"); err != nil {
		return nil, storeError(err)
	}
	return b, nil
}

// readMetadata reads an object of strings.
func readMetadata(body *api.Body, to *map[string]string) {
	if !body.Decode("metadata", to, "an object of strings") {
		return
	}
	if len(*to) > maxMetadata {
		body.Fail("metadata", "metadata has %d keys: at most %d are allowed", len(*to), maxMetadata)
	}
	for key, value := range *to {
		if utf8.RuneCountInString(key) > maxMetaKey || utf8.RuneCountInString(value) > maxMetaText {
			body.Fail("metadata", "metadata: a key has at most %d characters, a value %d", maxMetaKey, maxMetaText)
		}
	}
}

// batch returns a batch of the client.
func (s *Server) batch(id, owner string) (*storedBatch, *api.Error) {
	b := &storedBatch{}
	ok, err := s.store.get(id, b)
	if err != nil {
		s.models.note(err.Error())
		return nil, storeError(err)
	}
	if !ok || b.Object != "batch" || b.Owner != owner {
		return nil, &api.Error{Status: http.StatusNotFound, Type: api.NotFound, Param: "id",
			Message: "no batch " + quoted(id)}
	}
	return b, nil
}

// oneBatch handles GET /v1/batches/ID.
func (s *Server) oneBatch(w http.ResponseWriter, r *http.Request) {
	b, e := s.batch(r.PathValue("id"), s.ownerOf(r))
	if e != nil {
		e.Write(w)
		return
	}
	s.batches.count(b)
	api.WriteJSON(w, http.StatusOK, b.batchObject)
}

// listBatches handles GET /v1/batches.
func (s *Server) listBatches(w http.ResponseWriter, r *http.Request) {
	listOf(s, w, r, "batch_", func(b *storedBatch) (string, int64, any, bool) {
		s.batches.count(b)
		return b.ID, b.Created, b.batchObject, b.Owner == s.ownerOf(r)
	})
}

// cancelBatch handles POST /v1/batches/ID/cancel.
func (s *Server) cancelBatch(w http.ResponseWriter, r *http.Request) {
	b, e := s.batch(r.PathValue("id"), s.ownerOf(r))
	if e != nil {
		e.Write(w)
		return
	}
	b, err := s.batches.change(b.ID, func(b *storedBatch) {
		if b.open() && b.Status != statusCancelling {
			b.Status, b.Cancelling = statusCancelling, nowPtr()
		}
	})
	if err != nil {
		s.models.note(err.Error())
		storeError(err).Write(w)
		return
	}
	if b.Cancelling == nil {
		e := api.Invalid("id", "the batch is %s", b.Status)
		e.Status = http.StatusConflict
		e.Write(w)
		return
	}
	s.batches.stop(b.ID)
	s.batches.count(b)
	api.WriteJSON(w, http.StatusOK, b.batchObject)
}

// nowPtr returns the time in Unix seconds.
func nowPtr() *int64 { t := api.Origin{}.Created(); return &t }

// pageLimit reads limit, 1 to 10,000.
func pageLimit(r *http.Request) (int, *api.Error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return 20, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxEntries {
		return 0, api.Invalid("limit", "limit %.20q: must be between 1 and %d", text, maxEntries)
	}
	return n, nil
}
