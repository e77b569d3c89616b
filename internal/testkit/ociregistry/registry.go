// Package ociregistry is a small OCI registry in memory, for tests: it keeps blobs and manifests, asks for credentials
// if it should, and lies where a test tells it to.
package ociregistry

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Registry is a registry with all of its repositories.
type Registry struct {
	*httptest.Server
	Host string // with port

	// Front answers a request in the place of the registry, if it returns true. It is called by one request at a time.
	Front func(w http.ResponseWriter, r *http.Request) bool
	// Login is USER:PASSWORD that Basic authentication wants; with Token, the same for a token of the endpoint /token.
	Login string
	Token string

	mu        sync.Mutex
	blobs     map[string][]byte // by REPOSITORY@DIGEST
	manifests map[string][]byte // by REPOSITORY:TAG and by REPOSITORY@DIGEST
	requests  []string
	uploads   int
}

// New starts an empty registry on localhost, until the test ends.
func New(t testing.TB) *Registry {
	t.Helper()
	r := &Registry{blobs: map[string][]byte{}, manifests: map[string][]byte{}}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	r.Host = strings.TrimPrefix(r.URL, "http://")
	return r
}

// Digest returns sha256:HEX.
func Digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

// Put adds a manifest under a tag, and by its digest, which it returns.
func (r *Registry) Put(repository, tag string, manifest []byte) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	digest := Digest(manifest)
	r.manifests[repository+":"+tag], r.manifests[repository+"@"+digest] = manifest, manifest
	return digest
}

// Manifest returns a manifest by its tag; nil if there is none.
func (r *Registry) Manifest(repository, tag string) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.manifests[repository+":"+tag]
}

// Blobs returns the digests of a repository.
func (r *Registry) Blobs(repository string) (list []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.blobs)) {
		if digest, ok := strings.CutPrefix(name, repository+"@"); ok {
			list = append(list, digest)
		}
	}
	return list
}

// Requests returns the requests so far, METHOD PATH and the range, and forgets them.
func (r *Registry) Requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.requests
	r.requests = nil
	return list
}

// Drop is the number of bytes that Trickle sends at once.
const Drop = 4 << 10

// Trickle answers a request of a blob in drops, as long as more is true. It is for Front.
func (r *Registry) Trickle(w http.ResponseWriter, req *http.Request, more func() bool) {
	repository, digest, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/v2/"), "/blobs/")
	data, from := r.blobs[repository+"@"+digest], 0
	if _, err := fmt.Sscanf(req.Header.Get("Range"), "bytes=%d-", &from); err == nil && from < len(data) {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(data)-1, len(data)))
		w.WriteHeader(http.StatusPartialContent)
	}
	for drop := range slices.Chunk(data[from:], Drop) {
		if !more() {
			return
		}
		if _, err := w.Write(drop); err != nil {
			return
		}
		w.(http.Flusher).Flush()
	}
}

// SetFront changes Front while requests may be on their way.
func (r *Registry) SetFront(front func(w http.ResponseWriter, r *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Front = front
}

// Refuse answers with a status and an error in the form of registries.
func Refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"errors": []map[string]string{{"code": code, "message": message}}})
}

func (r *Registry) serve(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body) // before the lock: several uploads may be slow
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, strings.TrimSpace(req.Method+" "+req.URL.Path+" "+req.Header.Get("Range")))
	if r.Front != nil && r.Front(w, req) {
		return
	}
	if req.URL.Path == "/token" {
		r.token(w, req)
		return
	}
	if !r.authorized(req) {
		challenge := `Basic realm="test"`
		if r.Token != "" {
			scheme := "http"
			if req.TLS != nil {
				scheme = "https"
			}
			challenge = fmt.Sprintf(`Bearer realm="%s://%s/token",service="test"`, scheme, req.Host)
		}
		w.Header().Set("WWW-Authenticate", challenge)
		Refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
		return
	}
	path := strings.TrimPrefix(req.URL.Path, "/v2/")
	for _, kind := range []struct {
		part  string
		serve func(w http.ResponseWriter, req *http.Request, at place)
	}{{"/blobs/uploads/", r.upload}, {"/blobs/", r.blob}, {"/manifests/", r.manifest}} {
		if repository, name, ok := strings.Cut(path, kind.part); ok {
			kind.serve(w, req, place{repository, name, body})
			return
		}
	}
	http.NotFound(w, req)
}

// place is what a request is about.
type place struct {
	repository, name string
	body             []byte
}

func (r *Registry) token(w http.ResponseWriter, req *http.Request) {
	if user, password, _ := req.BasicAuth(); user+":"+password != r.Login {
		Refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "incorrect username or password")
		return
	}
	fmt.Fprintf(w, `{"token":%q}`, r.Token)
}

func (r *Registry) authorized(req *http.Request) bool {
	if r.Token != "" {
		return req.Header.Get("Authorization") == "Bearer "+r.Token
	}
	user, password, _ := req.BasicAuth()
	return r.Login == "" || user+":"+password == r.Login
}

func (r *Registry) upload(w http.ResponseWriter, req *http.Request, at place) {
	switch digest := req.URL.Query().Get("digest"); {
	case req.Method == http.MethodPost:
		r.uploads++
		w.Header().Set("Location", fmt.Sprintf("/v2/%s/blobs/uploads/%d", at.repository, r.uploads))
		w.WriteHeader(http.StatusAccepted)
	case req.Method != http.MethodPut:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case digest != Digest(at.body):
		Refuse(w, http.StatusBadRequest, "DIGEST_INVALID", "provided digest did not match uploaded content")
	default:
		r.blobs[at.repository+"@"+digest] = at.body
		w.WriteHeader(http.StatusCreated)
	}
}

func (r *Registry) blob(w http.ResponseWriter, req *http.Request, at place) {
	data, ok := r.blobs[at.repository+"@"+at.name]
	if !ok {
		Refuse(w, http.StatusNotFound, "BLOB_UNKNOWN", "blob unknown to registry")
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(data))
}

func (r *Registry) manifest(w http.ResponseWriter, req *http.Request, at place) {
	name := at.repository + ":" + at.name
	if strings.HasPrefix(at.name, "sha256:") {
		name = at.repository + "@" + at.name
	}
	if req.Method == http.MethodPut {
		digest := Digest(at.body)
		r.manifests[name], r.manifests[at.repository+"@"+digest] = at.body, at.body
		w.Header().Set("Docker-Content-Digest", digest)
		w.WriteHeader(http.StatusCreated)
		return
	}
	data, ok := r.manifests[name]
	if !ok {
		Refuse(w, http.StatusNotFound, "MANIFEST_UNKNOWN", "manifest unknown")
		return
	}
	w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
	w.Header().Set("Docker-Content-Digest", Digest(data))
	w.Write(data)
}
