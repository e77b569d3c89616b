package server

import (
	"cmp"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lowpack/lowpack/runtime/server/internal/api"
)

// fileObject is OpenAI's file object.
type fileObject struct {
	ID       string `json:"id"`
	Object   string `json:"object"`
	Bytes    int64  `json:"bytes"`
	Created  int64  `json:"created_at"`
	Expires  *int64 `json:"expires_at"` // never
	Filename string `json:"filename"`
	Purpose  string `json:"purpose"`
	Status   string `json:"status"`
}

// storedFile is a file with the client that it belongs to.
type storedFile struct {
	fileObject
	Owner string `json:"owner"`
}

// Purposes of files.
const (
	purposeInput  = "batch"
	purposeOutput = "batch_output"
)

// uploadFile handles POST /v1/files.
func (s *Server) uploadFile(w http.ResponseWriter, r *http.Request) {
	f, e := s.upload(w, r)
	if e != nil {
		e.Write(w)
		return
	}
	api.WriteJSON(w, http.StatusOK, f.fileObject)
}

// upload reads a form with the fields purpose and file, which is written as it arrives. Fields of expires_after are
// read and have no effect: files stay until they are deleted.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) (*storedFile, *api.Error) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" {
		return nil, &api.Error{Status: http.StatusUnsupportedMediaType, Type: api.InvalidRequest,
			Message: "the body must be multipart/form-data with the fields purpose and file"}
	}
	if err := s.store.room("file-"); err != nil {
		return nil, storeError(err)
	}
	f := &storedFile{Owner: s.ownerOf(r)}
	f.fileObject = fileObject{ID: api.Origin{}.ID("file-"), Object: "file", Created: api.Origin{}.Created(),
		Status: "processed"}
	form := multipart.NewReader(http.MaxBytesReader(w, r.Body, maxUpload+maxBody), params["boundary"])
	var e *api.Error
	over := api.WithinTime(w, r, func() { e = s.readForm(form, f) })
	switch {
	case e != nil && over:
		e = api.TooLate()
	case e == nil && f.Filename == "":
		e = api.Invalid("file", "file is missing")
	case e == nil && f.Purpose != purposeInput:
		e = api.Invalid("purpose", "purpose %.40q: must be %s", f.Purpose, purposeInput)
	case e == nil:
		if err := s.store.put(f.ID, f); err != nil {
			s.models.note(err.Error())
			e = storeError(err)
		}
	}
	if e != nil {
		os.Remove(s.store.path(f.ID)) // it may not be there
		return nil, e
	}
	return f, nil
}

// readForm reads the parts of an upload.
func (s *Server) readForm(form *multipart.Reader, f *storedFile) *api.Error {
	for {
		part, err := form.NextPart()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return uploadError(err)
		}
		switch name := part.FormName(); {
		case name == "purpose":
			text, err := io.ReadAll(io.LimitReader(part, 64))
			if f.Purpose = string(text); err != nil {
				return uploadError(err)
			}
		case name == "file" && f.Filename == "":
			f.Filename = cmp.Or(filepath.Base(part.FileName()), "file")
			counted := &counter{from: part}
			if err := s.store.write(s.store.path(f.ID), counted); err != nil {
				return uploadError(err)
			}
			f.Bytes = counted.n
		case name != "expires_after[anchor]" && name != "expires_after[seconds]":
			return api.Invalid(name, "unknown field %.40q: must be one of purpose, file", name)
		}
	}
}

// errUpload: a file is larger than maxUpload.
var errUpload = errors.New("the file is too large")

// counter counts the bytes of a file and ends it with errUpload.
type counter struct {
	from io.Reader
	n    int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if c.n += int64(n); c.n > maxUpload {
		return 0, errUpload
	}
	return n, err
}

// uploadError maps an error of an upload to an API error.
func uploadError(err error) *api.Error {
	var long *http.MaxBytesError
	if errors.Is(err, errUpload) || errors.As(err, &long) {
		return &api.Error{Status: http.StatusRequestEntityTooLarge, Type: api.InvalidRequest, Param: "file",
			Message: "a file has at most 200 MiB; split it"}
	}
	var place interface{ File() string }
	if errors.As(err, &place) {
		return storeError(err)
	}
	return api.Invalid("", "the form could not be read: %v", err)
}

// storeError is the error of a store that cannot be read or written.
func storeError(err error) *api.Error {
	if errors.Is(err, errFull) {
		return &api.Error{Status: http.StatusTooManyRequests, Type: api.RateLimit, Code: "store_full",
			Message: err.Error(), RetryAfter: time.Minute}
	}
	return &api.Error{Status: http.StatusInternalServerError, Type: api.ServerError,
		Message: "the folder of files and batches failed; see the server's log"}
}

// file returns a file of the client.
func (s *Server) file(id, owner string) (*storedFile, *api.Error) {
	f := &storedFile{}
	ok, err := s.store.get(id, f)
	if err != nil {
		s.models.note(err.Error())
		return nil, storeError(err)
	}
	if !ok || f.Object != "file" || f.Owner != owner {
		return nil, &api.Error{Status: http.StatusNotFound, Type: api.NotFound, Param: "id",
			Message: "no file " + quoted(id)}
	}
	return f, nil
}

// oneFile handles GET /v1/files/ID.
func (s *Server) oneFile(w http.ResponseWriter, r *http.Request) {
	f, e := s.file(r.PathValue("id"), s.ownerOf(r))
	if e != nil {
		e.Write(w)
		return
	}
	api.WriteJSON(w, http.StatusOK, f.fileObject)
}

// fileContent handles GET /v1/files/ID/content.
func (s *Server) fileContent(w http.ResponseWriter, r *http.Request) {
	f, e := s.file(r.PathValue("id"), s.ownerOf(r))
	if e != nil {
		e.Write(w)
		return
	}
	data, err := os.Open(s.store.path(f.ID))
	if err != nil {
		storeError(err).Write(w)
		return
	}
	defer data.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Unix(f.Created, 0), data)
}

// deleteFile handles DELETE /v1/files/ID.
func (s *Server) deleteFile(w http.ResponseWriter, r *http.Request) {
	f, e := s.file(r.PathValue("id"), s.ownerOf(r))
	if e == nil && s.batches.uses(f.ID) {
		e = &api.Error{Status: http.StatusConflict, Type: api.InvalidRequest, Param: "id",
			Message: "a batch that is not complete uses the file; cancel it first"}
	}
	if e == nil {
		if err := s.store.remove(f.ID); err != nil {
			e = storeError(err)
		}
	}
	if e != nil {
		e.Write(w)
		return
	}
	api.WriteJSON(w, http.StatusOK, map[string]any{"id": f.ID, "object": "file", "deleted": true})
}

// listFiles handles GET /v1/files.
func (s *Server) listFiles(w http.ResponseWriter, r *http.Request) {
	listOf(s, w, r, "file-", func(f *storedFile) (string, int64, any, bool) {
		purpose := r.URL.Query().Get("purpose")
		return f.ID, f.Created, f.fileObject, f.Owner == s.ownerOf(r) && (purpose == "" || purpose == f.Purpose)
	})
}

// listOf answers with a page of entries, the newest first, as OpenAI's lists do: limit, and after = an id.
func listOf[T any](s *Server, w http.ResponseWriter, r *http.Request, prefix string,
	look func(*T) (id string, created int64, shown any, own bool)) {
	limit, e := pageLimit(r)
	if e != nil {
		e.Write(w)
		return
	}
	type item struct {
		id      string
		created int64
		shown   any
	}
	ids, err := s.store.ids(prefix)
	var all []item
	for _, id := range ids {
		v := new(T)
		ok, failed := s.store.get(id, v)
		if err = errors.Join(err, failed); !ok {
			continue
		}
		if id, created, shown, own := look(v); own {
			all = append(all, item{id, created, shown})
		}
	}
	if err != nil {
		s.models.note(err.Error())
		storeError(err).Write(w)
		return
	}
	slices.SortFunc(all, func(a, b item) int {
		return cmp.Or(cmp.Compare(b.created, a.created), cmp.Compare(a.id, b.id))
	})
	if after := r.URL.Query().Get("after"); after != "" {
		i := slices.IndexFunc(all, func(x item) bool { return x.id == after })
		if i < 0 {
			api.Invalid("after", "after %.40q: no such entry", after).Write(w)
			return
		}
		all = all[i+1:]
	}
	page := map[string]any{"object": "list", "data": []any{}, "has_more": len(all) > limit, "first_id": nil,
		"last_id": nil}
	if all = all[:min(len(all), limit)]; len(all) > 0 {
		shown := make([]any, len(all))
		for i := range all {
			shown[i] = all[i].shown
		}
		page["data"], page["first_id"], page["last_id"] = shown, all[0].id, all[len(all)-1].id
	}
	api.WriteJSON(w, http.StatusOK, page)
}
