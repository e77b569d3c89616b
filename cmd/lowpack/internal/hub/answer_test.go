package hub

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// bomb expands to a hundred times its size.
func bomb() []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(make([]byte, 320_000))
	w.Close()
	return b.Bytes()
}

// TestAnswers: storage responses that are compressed, or whose length or range contradicts the listing, end the
// download at the first request and keep earlier bytes.
func TestAnswers(t *testing.T) {
	sends := func(status int, header ...string) *fakeHub {
		return &fakeHub{front: stored(func(w http.ResponseWriter, _ *http.Request) {
			raw(w, fmt.Sprintf("HTTP/1.1 %d X\r\n%s\r\n\r\nweights ", status, strings.Join(header, "\r\n")))
		})}
	}
	part := func(r string) *fakeHub { return sends(206, "Content-Range: bytes "+r) }
	length := func(n string) *fakeHub { return sends(200, "Content-Length: "+n) }
	for what, c := range map[string]refusal{
		"compressed": {&fakeHub{front: stored(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(bomb())
		})}, pack.ErrUnsupported, `"gzip"`},
		"compressed twice": {sends(200, "Content-Encoding: identity", "Content-Encoding: br"),
			pack.ErrUnsupported, `"identity, br"`},
		"compressed part": {sends(206, "Content-Encoding: zstd", "Content-Range: bytes 8-319999/320000"),
			pack.ErrUnsupported, `"zstd"`},
		"too short":   {length("319999"), pack.ErrCorrupt, "sends 319999 bytes, but the listing requires 320000"},
		"too long":    {length("9223372036854775807"), pack.ErrCorrupt, "sends 9223372036854775807"},
		"overflow":    {length("9223372036854775808"), nil, "Content-Length"},
		"negative":    {length("-1"), nil, "Content-Length"},
		"two lengths": {sends(200, "Content-Length: 320000", "Content-Length: 5"), nil, "Content-Length"},
		"more than listed": {&fakeHub{front: stored(func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush() // no Content-Length
			w.Write(make([]byte, 320_001))
		})}, pack.ErrCorrupt, "more than the 320000 bytes"},
		"another size":      {part("8-319999/320001"), pack.ErrCorrupt, "320000 bytes"},
		"beyond the end":    {part("8-320000/320000"), pack.ErrCorrupt, "320000 bytes"},
		"backwards":         {part("8-7/320000"), pack.ErrCorrupt, "320000 bytes"},
		"beyond, size open": {part("8-9223372036854775807/*"), pack.ErrCorrupt, "320000 bytes"},
		"part of other size": {sends(206, "Content-Range: bytes 8-319999/320000", "Content-Length: 3"),
			pack.ErrCorrupt, "sends 3 bytes"},
		"linked, too long":    {&fakeHub{linked: "320001"}, pack.ErrCorrupt, `X-Linked-Size "320001"`},
		"linked, overflow":    {&fakeHub{linked: "18446744073709871616"}, pack.ErrCorrupt, "X-Linked-Size"},
		"linked, negative":    {&fakeHub{linked: "-320000"}, pack.ErrCorrupt, "X-Linked-Size"},
		"linked, not a size":  {&fakeHub{linked: "many"}, pack.ErrCorrupt, "X-Linked-Size"},
		"headers without end": {sends(200, "X: "+strings.Repeat("x", 1<<20)), nil, "header"},
		"nothing of a file":   {&fakeHub{front: only(204)}, nil, "204"},
	} {
		t.Run(what, func(t *testing.T) {
			c.hub.files = oneFile()
			h := newHub(t, c.hub)
			client := h.client()
			begun := h.begin(client, "model.safetensors", "weights ")
			_, err := client.Pull(t.Context(), name(t, h.id), nil)
			c.check(t, err, "model.safetensors")
			if len(h.requests) > 1 || len(h.asked) != 2 {
				t.Errorf("asked again: %v %v", h.asked, h.requests)
			}
			left, _ := filepath.Glob(filepath.Join(filepath.Dir(begun), "*"))
			if len(left) != 1 || left[0] != begun {
				t.Errorf("left behind: %v", left)
			}
			text, err := os.ReadFile(begun)
			if string(text) != "weights " && (what != "more than listed" || len(text) > 320_000) {
				t.Errorf("%d bytes are left, %v", len(text), err)
			}
		})
	}
}

// TestShortParts: a server may send less of a range than requested.
func TestShortParts(t *testing.T) {
	var h *fakeHub
	h = newHub(t, &fakeHub{files: oneFile(), front: stored(func(w http.ResponseWriter, r *http.Request) {
		from := 0
		fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
		to := min(from+100_000, 320_000)
		if from > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/*", from, to-1))
			w.WriteHeader(http.StatusPartialContent)
		}
		w.Write(h.files["model.safetensors"][from:to])
	})})
	r, err := h.client().Pull(t.Context(), name(t, h.id), nil)
	if err != nil || len(h.requests) != 4 {
		t.Fatal(err, h.requests)
	}
	h.holds(r.Path)
}

// TestTail: excess bytes in an interrupted download do not get into the cache.
func TestTail(t *testing.T) {
	h := newHub(t, &fakeHub{files: oneFile()})
	c := h.client()
	h.begin(c, "model.safetensors", string(h.files["model.safetensors"])+"and more")
	r, err := c.Pull(t.Context(), name(t, h.id), nil)
	if err != nil || len(h.requests) != 0 {
		t.Fatal(err, h.requests)
	}
	h.holds(r.Path)
}
