package hub

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// TestWanted: a download has the files that a conversion reads, and no others.
func TestWanted(t *testing.T) {
	for name, want := range map[string]bool{
		"config.json": true, "tokenizer.model": true, indexName: true, "model-00001-of-00002.safetensors": true,
		"1_Pooling/config.json": true, "sentence_xlm-roberta_config.json": true, "quanto_qmap.json": true,
		"README.md": false, "onnx/config.json": false, "original/model.safetensors": false, "pytorch_model.bin": false,
	} {
		if got := wanted(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// TestListings: listings that are compressed, endless or inconsistent are rejected at once, before any download.
func TestListings(t *testing.T) {
	const model, other = "model.safetensors", "model-2.safetensors"
	digest, digest2 := blobOf(oneFile()[model]), strings.Repeat("a", 64)
	of := func(name string, size any, digest any) map[string]any {
		return map[string]any{"rfilename": name, "size": size, "lfs": map[string]any{"sha256": digest, "size": size}}
	}
	small := func(name string, size any, digest any) map[string]any {
		return map[string]any{"rfilename": name, "size": size, "blobId": digest}
	}
	listed := func(files ...map[string]any) *fakeHub {
		return &fakeHub{edit: func([]map[string]any) []map[string]any { return files }}
	}
	named := func(name string) *fakeHub { return listed(of(model, 5, digest), of(name, 5, digest)) }
	twoSizes := of(model, 5, digest)
	twoSizes["size"] = 6
	for what, c := range map[string]refusal{
		"compressed": {&fakeHub{front: func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Encoding", "gzip")
			return false
		}}, pack.ErrUnsupported, `"gzip"`},
		"without end": {&fakeHub{front: func(w http.ResponseWriter, r *http.Request) bool {
			endless(w, r)
			return true
		}}, pack.ErrLimit, "16777216 bytes"},
		"many files":      {listed(make([]map[string]any, maxFiles+1)...), pack.ErrLimit, "65536 files"},
		"not a listing":   {&fakeHub{front: text("<html>")}, pack.ErrCorrupt, "not what a hub sends"},
		"not a list":      {&fakeHub{front: text(`{"siblings": 3}`)}, pack.ErrCorrupt, "not a list"},
		"negative":        {listed(of(model, -5, digest)), pack.ErrCorrupt, "lists no size"},
		"no size":         {listed(small("config.json", nil, digest[:40])), pack.ErrCorrupt, "lists no size"},
		"overflow":        {listed(of(model, uint64(1)<<63, digest)), pack.ErrCorrupt, "9223372036854775808"},
		"huge number":     {listed(of(model, 1e300, digest)), pack.ErrCorrupt, "e+300"},
		"fraction":        {listed(of(model, 1.5, digest)), pack.ErrCorrupt, "1.5"},
		"beyond the disk": {listed(of(model, int64(1)<<62, digest)), syscall.ENOSPC, "HF_HUB_CACHE"},
		"two sizes":       {listed(twoSizes), pack.ErrCorrupt, "two sizes, 6 and 5"},
		"sizes of a digest": {listed(of(model, 5, digest), of(other, 6, digest)), pack.ErrCorrupt,
			"5 and 6 for one digest"},
		"sum": {listed(of(model, int64(1)<<62, digest), of(other, int64(1)<<62, digest2)),
			pack.ErrCorrupt, "63 bits"},
		"long index": {listed(of(model, 5, digest), of(indexName, maxListing+1, digest2)), pack.ErrLimit, indexName},

		"path as digest": {listed(of(model, 5, "../../"+digest[6:])), pack.ErrCorrupt, "no digest"},
		"path as blob id": {listed(of(model, 5, digest), small("config.json", 5, "../"+digest[:37])),
			pack.ErrCorrupt, "no digest"},
		"digest in capitals":   {listed(of(model, 5, strings.ToUpper(digest))), pack.ErrCorrupt, "no digest"},
		"short digest":         {listed(of(model, 5, digest[:40])), pack.ErrCorrupt, "no digest"},
		"outside":              {named("../model.safetensors"), pack.ErrCorrupt, "not a name inside"},
		"outside, unwanted":    {named("../README.md"), pack.ErrCorrupt, "not a name inside"},
		"outside, from within": {named("a/../../model.safetensors"), pack.ErrCorrupt, "not a name inside"},
		"absolute":             {named("/model.safetensors"), pack.ErrCorrupt, "not a name inside"},
		"drive":                {named(`C:\model.safetensors`), pack.ErrCorrupt, "not a name inside"},
		"drive, relative":      {named("C:model.safetensors"), pack.ErrCorrupt, "name"},
		"backslashes":          {named(`..\model.safetensors`), pack.ErrCorrupt, "not a name inside"},
		"NUL":                  {named("a\x00.safetensors"), pack.ErrCorrupt, "not a name inside"},
		"no name":              {named(""), pack.ErrCorrupt, "not a name inside"},
		"the folder":           {named("."), pack.ErrCorrupt, "not a name inside"},
		"two slashes":          {named("a//model.safetensors"), pack.ErrCorrupt, "not a name inside"},
		"long name":            {named(strings.Repeat("a/", 5000) + "b"), pack.ErrCorrupt, "not a name inside"},
		"control character":    {named("a\x1b[2J.safetensors"), pack.ErrCorrupt, "on every system"},
		"twice":                {named(model), pack.ErrCorrupt, "the same name"},
		"case":                 {named("Model.safetensors"), pack.ErrCorrupt, `"model.safetensors" too`},
		"composition": {listed(of("e\u0301.safetensors", 5, digest), of("\u00c9.safetensors", 5, digest)),
			pack.ErrCorrupt, "the same name"},
	} {
		t.Run(what, func(t *testing.T) {
			h := newHub(t, c.hub)
			client := h.client()
			_, err := client.Pull(t.Context(), name(t, h.id), nil)
			c.check(t, err, h.id)
			if len(err.Error()) > 1000 {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
			if len(h.asked) != 1 || len(h.requests) > 0 {
				t.Errorf("asked for more: %v %v", h.asked, h.requests)
			}
			filepath.Walk(client.Cache, func(path string, info os.FileInfo, _ error) error {
				if !info.IsDir() {
					t.Errorf("left behind: %s", path)
				}
				return nil
			})
		})
	}
}

// endless responds without end until the client leaves.
func endless(w http.ResponseWriter, _ *http.Request) {
	for chunk := []byte(strings.Repeat("weights ", 1<<13)); ; {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// TestPinned: a request for a commit gets that commit.
func TestPinned(t *testing.T) {
	h := newHub(t, &fakeHub{})
	pinned := h.commit
	h.commit = strings.Repeat("0", 40)
	h.front = func(w http.ResponseWriter, r *http.Request) bool {
		h.list(w, "main")
		return true
	}
	_, err := h.client().Pull(t.Context(), name(t, h.id+"@"+pinned), nil)
	refusal{class: pack.ErrCorrupt}.check(t, err, "another commit")
}

// TestNextPages: a listing is a single document; a next page, at the same or another origin, is not requested.
func TestNextPages(t *testing.T) {
	h := newHub(t, &fakeHub{})
	h.front = func(w http.ResponseWriter, r *http.Request) bool {
		const links = `<%s/next>; rel="next", <%s%s?cursor=2>; rel="next"`
		w.Header().Set("Link", fmt.Sprintf(links, h.storage.URL, h.hub.URL, r.URL.Path))
		return false
	}
	c := h.client()
	c.Token = "hf_secret"
	r, err := c.Pull(t.Context(), name(t, h.id), nil)
	if err != nil {
		t.Fatal(err)
	}
	h.holds(r.Path)
	listings := 0
	for _, path := range h.asked {
		if strings.HasPrefix(path, "/api/") {
			listings++
		}
	}
	if listings != 1 || h.leaked || strings.Contains(strings.Join(h.requests, " "), "next") {
		t.Errorf("asked for %v and %v", h.asked, h.requests)
	}
}

// TestEtag: names in response headers are not used.
func TestEtag(t *testing.T) {
	h := newHub(t, &fakeHub{front: func(w http.ResponseWriter, r *http.Request) bool {
		for _, key := range []string{"ETag", "X-Linked-Etag"} {
			w.Header().Set(key, `"../../../../evil"`)
		}
		w.Header().Set("Content-Disposition", `attachment; filename="../../evil"`)
		w.Header().Set("X-Repo-Commit", "../../evil")
		return false
	}})
	r, err := h.client().Pull(t.Context(), name(t, h.id), nil)
	if err != nil {
		t.Fatal(err)
	}
	h.holds(r.Path)
}
