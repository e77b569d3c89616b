package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/wait"
	"github.com/lowpack/lowpack/runtime/engine"
)

// form returns an upload with its type.
func form(t *testing.T, purpose, text string) (body, kind string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	w.WriteField("purpose", purpose)
	part, err := w.CreateFormFile("file", "in.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	part.Write([]byte(text))
	w.Close()
	return b.String(), w.FormDataContentType()
}

// startBatch uploads requests and makes a batch of them.
func startBatch(t *testing.T, web *httptest.Server, text string) (id string) {
	t.Helper()
	body, kind := form(t, "batch", text)
	status, _, answer := post(t, web, "/v1/files", body, "Content-Type", kind)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, answer)
	}
	_, _, answer = post(t, web, "/v1/batches", fmt.Sprintf(`{"input_file_id": %q, "endpoint": "/v1/completions", `+
		`"completion_window": "24h"}`, object(t, answer)["id"]))
	id, _ = object(t, answer)["id"].(string)
	return id
}

// batchState returns the state of a batch.
func batchState(t *testing.T, web *httptest.Server, id string) map[string]any {
	t.Helper()
	_, _, text := do(t, web, http.MethodGet, "/v1/batches/"+id, "")
	return object(t, text)
}

// TestBatchesRestart: a batch goes on when its server is replaced in the midst of it, as often as that happens, and
// answers nothing twice; two servers cannot use a folder.
func TestBatchesRestart(t *testing.T) {
	var text strings.Builder
	for i := range 60 {
		text.WriteString(batchLine(fmt.Sprint(i), "/v1/completions", `{"prompt": "The river", "max_tokens": 12}`))
	}
	dir, id := t.TempDir(), ""
	var results []string
	eo := engine.Options{Threads: 1, Context: 256, Sequences: 4}
	for round := 0; ; round++ {
		m := tiny(t, "tiny", eo)
		s, err := New(Options{Queue: 10, Batches: dir}, m)
		if err != nil {
			t.Fatal(err)
		}
		_, err = New(Options{Queue: 10, Batches: dir}, m)
		if err == nil || !strings.Contains(err.Error(), "another server") {
			t.Errorf("a second server: %v", err)
		}
		web := httptest.NewServer(s)
		if id == "" {
			id = startBatch(t, web, text.String())
		}
		answered := func() (n int) {
			fmt.Sscan(fmt.Sprint(at(batchState(t, web, id), "request_counts", "completed")), &n)
			return n
		}
		before := answered()
		wait.For(t, "more answers", func() bool { return answered() >= min(60, max(before, 15*round)+10) })
		b := batchState(t, web, id)
		if round < 3 && b["status"] == "in_progress" {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			s.Drain(ctx)
			web.Close()
			continue
		}
		wait.For(t, "the end", func() bool { return batchState(t, web, id)["status"] == "completed" })
		b = batchState(t, web, id)
		_, _, out := do(t, web, http.MethodGet, fmt.Sprintf("/v1/files/%s/content", b["output_file_id"]), "")
		results = strings.Split(strings.TrimSpace(out), "\n")
		s.Drain(t.Context())
		web.Close()
		if round > 0 {
			break
		}
		dir, id, round = t.TempDir(), "", -1 // over before the server could be replaced: once more
	}
	if len(results) != 60 {
		t.Fatalf("%d results", len(results))
	}
	for i, line := range results {
		if got := object(t, line)["custom_id"]; got != fmt.Sprint(i) {
			t.Errorf("line %d: %v", i, got)
		}
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.Contains(e.Name(), ".resume") || strings.Contains(e.Name(), ".partial") {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// TestBatchesOfLists: a server that lets nobody wait answers lists and several texts as `lowpack batch` does.
func TestBatchesOfLists(t *testing.T) {
	list := jsonOf(slices.Repeat([]string{"The river", "A clock"}, 8))
	text := batchLine("list", "/v1/completions", fmt.Sprintf(`{"prompt": %s, "max_tokens": 3}`, list)) +
		batchLine("texts", "/v1/completions", `{"prompt": "The river", "n": 9, "temperature": 1, "max_tokens": 3}`)
	s, web := serveModel(t, engine.Options{Threads: 1, Context: 256, Sequences: 2}, Options{Batches: t.TempDir()})
	id := startBatch(t, web, text)
	wait.For(t, "the end", func() bool { return batchState(t, web, id)["completed_at"] != nil })
	b := batchState(t, web, id)
	_, _, got := do(t, web, http.MethodGet, fmt.Sprintf("/v1/files/%s/content", b["output_file_id"]), "")
	created, err := b["created_at"].(json.Number).Int64()
	if err != nil {
		t.Fatal(err)
	}
	want, errs, err := batchOn(t, s, text, time.Unix(created, 0))
	if err != nil || errs != "" || got != want || strings.Count(want, `"index"`) != 25 {
		t.Errorf("%s\nwant %s%s (%v)", got, want, errs, err)
	}
}

// TestBatchesOff: without a folder there are no such endpoints.
func TestBatchesOff(t *testing.T) {
	web := serve(t, small, Options{Queue: 10})
	if status, _, text := do(t, web, http.MethodGet, "/v1/batches", ""); status != http.StatusNotFound {
		t.Errorf("%d %s", status, text)
	}
}
