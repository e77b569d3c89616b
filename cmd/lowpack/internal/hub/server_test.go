package hub

import (
	"bytes"
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/transfer"
)

// fakeHub serves a model like the hub: a listing, and files that redirect to storage on another host.
type fakeHub struct {
	t       *testing.T
	id      string // current name of the model
	commit  string
	files   map[string][]byte
	token   string   // "" = public
	gated   bool     // for everybody
	lie     string   // file whose bytes differ from the listing
	cut     int      // storage breaks the connection after cutAt bytes of a large file, this many times
	cutAt   int      //
	grow    int      // increment of cutAt per break
	silent  bool     // storage stalls in the middle of the first response until the client leaves
	noRange bool     // storage ignores ranges
	busy    int      // number of "429 Too Many Requests" responses of the hub
	linked  string   // X-Linked-Size, if not the size
	hops    []string // origins through which a listing or large file is redirected

	front func(w http.ResponseWriter, r *http.Request) bool // true = it has handled the request
	edit  func(siblings []map[string]any) []map[string]any  // changes the listing

	hub, storage *httptest.Server
	mu           sync.Mutex
	asked        []string // paths requested from the hub
	requests     []string // paths requested from the storage, with their ranges
	visits       []visit  // of hops
	leaked       bool     // the storage saw the token
}

// visit is a request to a hop.
type visit struct {
	hop                   int
	origin, auth, referer string
}

// large is the size from which the hub stores a file in LFS, named by its SHA-256.
const large = 1000

func newHub(t *testing.T, h *fakeHub) *fakeHub {
	t.Helper()
	h.t = t
	if h.id == "" {
		h.id = "acme/tiny-model"
	}
	h.commit = strings.Repeat("c0ffee0000", 4)
	if h.files == nil {
		h.files = map[string][]byte{
			"config.json": []byte(`{"model_type": "llama"}`), "tokenizer.json": []byte(strings.Repeat("{}", 800)),
			"model.safetensors": []byte(strings.Repeat("weights ", 40_000)), "README.md": []byte("# Not needed"),
			"pytorch_model.bin": []byte(strings.Repeat("pickle", 500)), "onnx/model.onnx": []byte("onnx"),
		}
	}
	h.storage = httptest.NewServer(http.HandlerFunc(h.store))
	h.hub = httptest.NewServer(http.HandlerFunc(h.serve))
	t.Cleanup(h.hub.Close)
	t.Cleanup(h.storage.Close)
	return h
}

// client returns a client with an empty cache.
func (h *fakeHub) client() *Client {
	return &Client{Endpoint: h.hub.URL, Cache: h.t.TempDir(), Agent: "test",
		Patience: transfer.Patience{Stall: time.Minute, Pause: time.Millisecond}}
}

func refuse(w http.ResponseWriter, code int, kind string) {
	w.Header().Set("X-Error-Code", kind)
	w.WriteHeader(code)
}

func (h *fakeHub) serve(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	auth := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	h.asked = append(h.asked, r.URL.Path)
	if h.front != nil && h.front(w, r) || h.hops != nil && h.detour(w, r) {
		return
	}
	rest, api := strings.CutPrefix(r.URL.Path, "/api/models/")
	if !api {
		rest = strings.TrimPrefix(r.URL.Path, "/")
	}
	id := strings.Join(strings.SplitN(rest, "/", 3)[:2], "/")
	rest = strings.TrimPrefix(rest, id+"/")
	switch {
	case h.busy > 0:
		h.busy--
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusTooManyRequests)
	case id == "acme/old-name":
		http.Redirect(w, r, strings.Replace(r.URL.String(), id, h.id, 1), http.StatusTemporaryRedirect)
	case id != h.id || h.token != "" && auth != h.token:
		refuse(w, http.StatusUnauthorized, "RepoNotFound")
	case h.gated:
		refuse(w, http.StatusForbidden, "GatedRepo")
	case api && (strings.HasPrefix(rest, "revision/") || rest == ""):
		h.list(w, strings.TrimPrefix(rest, "revision/"))
	case api && strings.HasPrefix(rest, "tree/"):
		h.tree(w)
	case !api && strings.HasPrefix(rest, "resolve/"):
		_, name, _ := strings.Cut(strings.TrimPrefix(rest, "resolve/"), "/")
		h.resolve(w, r, name)
	default:
		refuse(w, http.StatusNotFound, "EntryNotFound")
	}
}

// blobOf returns the digest by which the hub names a file.
func blobOf(data []byte) string {
	if len(data) >= large {
		sum := sha256.Sum256(data)
		return hex.EncodeToString(sum[:])
	}
	sum := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(data)), data...))
	return hex.EncodeToString(sum[:])
}

func (h *fakeHub) list(w http.ResponseWriter, revision string) {
	if revision != "main" && revision != "" && revision != "v1" && revision != h.commit {
		refuse(w, http.StatusNotFound, "RevisionNotFound")
		return
	}
	siblings := []map[string]any{}
	for name, data := range h.files {
		s := map[string]any{"rfilename": name, "size": len(data), "blobId": strings.Repeat("ab", 20)}
		if len(data) >= large {
			s["lfs"] = map[string]any{"sha256": blobOf(data), "size": len(data), "pointerSize": 130}
		} else {
			s["blobId"] = blobOf(data)
		}
		siblings = append(siblings, s)
	}
	if h.edit != nil {
		siblings = h.edit(siblings)
	}
	json.NewEncoder(w).Encode(map[string]any{"_id": "1", "id": h.id, "modelId": h.id, "sha": h.commit, "private": false,
		"tags": []string{}, "downloads": 1, "likes": 1, "siblings": siblings})
}

func (h *fakeHub) tree(w http.ResponseWriter) {
	out := []map[string]any{}
	for name, data := range h.files {
		e := map[string]any{"type": "file", "path": name, "size": len(data), "oid": blobOf(data)}
		if len(data) >= large {
			e["oid"] = strings.Repeat("ab", 20)
			e["lfs"] = map[string]any{"oid": blobOf(data), "size": len(data), "pointerSize": 130}
		}
		out = append(out, e)
	}
	json.NewEncoder(w).Encode(out)
}

// resolve sends small files itself and redirects to the storage for large ones.
func (h *fakeHub) resolve(w http.ResponseWriter, r *http.Request, name string) {
	data, ok := h.files[name]
	if !ok {
		refuse(w, http.StatusNotFound, "EntryNotFound")
		return
	}
	w.Header().Set("X-Repo-Commit", h.commit)
	if len(data) < large {
		w.Header().Set("ETag", `"`+blobOf(data)+`"`)
		if name == h.lie {
			data = append([]byte("x"), data[1:]...)
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(data)))
		return
	}
	w.Header().Set("X-Linked-Etag", `"`+blobOf(data)+`"`)
	w.Header().Set("X-Linked-Size", cmp.Or(h.linked, fmt.Sprint(len(data))))
	http.Redirect(w, r, strings.Replace(h.storage.URL, "127.0.0.1", "localhost", 1)+"/"+name+"?signature=secret",
		http.StatusFound)
}

// stored returns a front for the storage.
func stored(answer http.HandlerFunc) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		storage := r.URL.RawQuery == "signature=secret"
		if storage {
			answer(w, r)
		}
		return storage
	}
}

// only returns a front for the storage that responds with a status.
func only(status int) func(http.ResponseWriter, *http.Request) bool {
	return stored(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
}

// text returns a front that responds with a text.
func text(body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		io.WriteString(w, body)
		return true
	}
}

// oneFile returns the files of a hub with one large file.
func oneFile() map[string][]byte {
	return map[string][]byte{"model.safetensors": []byte(strings.Repeat("weights ", 40_000))}
}

// begin leaves a text like an interrupted pull.
func (h *fakeHub) begin(c *Client, file, text string) string {
	path := filepath.Join(c.Cache, "models--acme--tiny-model", "blobs", blobOf(h.files[file])+".incomplete")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		h.t.Fatal(err)
	}
	return path
}

// refusal is an expected error of a pull.
type refusal struct {
	hub   *fakeHub
	class error // nil = any
	says  string
}

// check checks an error's class and its words.
func (r refusal) check(t *testing.T, err error, says ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if r.class != nil && !errors.Is(err, r.class) {
		t.Errorf("%v is not %v", err, r.class)
	}
	for _, text := range append(says, r.says) {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%v; it does not say %q", err, text)
		}
	}
}

// raw responds with raw bytes, which net/http would not send.
func raw(w http.ResponseWriter, text string) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		io.WriteString(conn, text)
		conn.Close()
	}
}

// detour redirects a request through the hops. It returns false where the hub itself responds.
func (h *fakeHub) detour(w http.ResponseWriter, r *http.Request) bool {
	next, path := 0, r.URL.Path
	if n, err := fmt.Sscanf(r.URL.Path, "/hop/%d/", &next); n == 1 && err == nil {
		scheme := map[bool]string{false: "http", true: "https"}[r.TLS != nil]
		auth, referer := r.Header.Get("Authorization"), r.Header.Get("Referer")
		h.visits = append(h.visits, visit{next, scheme + "://" + r.Host, auth, referer})
		path = strings.TrimPrefix(r.URL.Path, fmt.Sprintf("/hop/%d", next))
		next++
	}
	_, file, isFile := strings.Cut(path, "/resolve/"+h.commit+"/")
	switch {
	case isFile && len(h.files[file]) < large:
		return false
	case next < len(h.hops):
		http.Redirect(w, r, fmt.Sprintf("%s/hop/%d%s?%s", h.hops[next], next, path, r.URL.RawQuery), http.StatusFound)
	case isFile:
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(h.files[file]))
	default:
		h.list(w, "main")
	}
	return true
}

func (h *fakeHub) store(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := strings.TrimPrefix(r.URL.Path, "/")
	h.requests = append(h.requests, name+" "+r.Header.Get("Range"))
	h.leaked = h.leaked || r.Header.Get("Authorization") != ""
	if h.front != nil && h.front(w, r) {
		return
	}
	data := h.files[name]
	if name == h.lie {
		data = append([]byte("x"), data[1:]...)
	}
	if h.noRange {
		r.Header.Del("Range")
	}
	if h.cut > 0 || h.silent {
		w = &breaking{ResponseWriter: w, h: h, left: h.cutAt, gone: r.Context().Done()}
	}
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(data)))
}

// breaking is a response that breaks off or stalls.
type breaking struct {
	http.ResponseWriter
	h    *fakeHub
	left int
	gone <-chan struct{} // closed when the client leaves
}

func (b *breaking) Write(p []byte) (int, error) {
	n, _ := b.ResponseWriter.Write(p[:min(len(p), b.left)])
	if b.left -= n; b.left > 0 {
		return n, nil
	}
	b.ResponseWriter.(http.Flusher).Flush()
	if b.h.silent {
		b.h.silent = false
		b.h.mu.Unlock()
		<-b.gone
		b.h.mu.Lock()
	}
	b.h.cut--
	b.h.cutAt += b.h.grow
	panic(http.ErrAbortHandler)
}
