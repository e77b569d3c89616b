package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/internal/testkit/wait"
)

// linesOf returns n requests that name two models by turns: those of both, and those of each.
func linesOf(n int, models [2]string) (all string, each [2]string) {
	for i := range n {
		line := fmt.Sprintf(`{"custom_id": "%d", "method": "POST", "url": "/v1/completions", "body": {"model": %q, `+
			`"prompt": "The river %[1]d", "max_tokens": %[3]d, "temperature": 1}}`+"\n", i, models[i%2], 1+i%30)
		all += line
		each[i%2] += line
	}
	return all, each
}

// modelFolderOf puts two models into a folder.
func modelFolderOf(t *testing.T, models [2]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for i, template := range []string{"Once {{ messages[0].content }}", "The {{ messages[0].content }}"} {
		replace(t, filepath.Join(dir, models[i]+packedExt), tinymodel.WithTemplate(t, template))
	}
	return dir
}

// wantOf returns the results of `lowpack batch` for the requests of each model, by custom_id.
func wantOf(t *testing.T, dir string, models, each [2]string, created int64) map[string]string {
	t.Helper()
	want := map[string]string{}
	for i, model := range models {
		in, out := filepath.Join(t.TempDir(), "in.jsonl"), filepath.Join(t.TempDir(), "out.jsonl")
		write(t, in, each[i])
		if o := command(t, "batch", filepath.Join(dir, model+packedExt), in, "-o", out, "--time",
			time.Unix(created, 0).UTC().Format(time.RFC3339)); o.code != 0 {
			t.Fatal(o.out)
		}
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			want[idOf(t, line)] = line
		}
	}
	return want
}

func idOf(t testing.TB, line string) string {
	t.Helper()
	var v struct {
		ID string `json:"custom_id"`
	}
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return v.ID
}

// batchInfo is what a test reads of a batch.
type batchInfo struct {
	ID, Status string
	Output     string                          `json:"output_file_id"`
	Errors     string                          `json:"error_file_id"`
	Created    int64                           `json:"created_at"`
	Counts     struct{ Completed, Failed int } `json:"request_counts"`
}

// batch sends a request about a batch.
func (s *served) batch(method, path, body string) (b batchInfo) {
	s.t.Helper()
	status, text := s.send(method, path, body, nil)
	if err := json.Unmarshal(text, &b); err != nil || status != http.StatusOK {
		s.t.Fatalf("%d %s: %v", status, text, err)
	}
	return b
}

// upload makes a batch of requests.
func (s *served) upload(text string) batchInfo {
	s.t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	w.WriteField("purpose", "batch")
	part, err := w.CreateFormFile("file", "in.jsonl")
	if err != nil {
		s.t.Fatal(err)
	}
	part.Write([]byte(text))
	w.Close()
	status, answer := s.send(http.MethodPost, "/v1/files", form.String(),
		http.Header{"Content-Type": {w.FormDataContentType()}})
	var file struct{ ID string }
	if err := json.Unmarshal(answer, &file); err != nil || status != http.StatusOK {
		s.t.Fatalf("%d %s: %v", status, answer, err)
	}
	return s.batch(http.MethodPost, "/v1/batches", `{"input_file_id": "`+file.ID+
		`", "endpoint": "/v1/completions", "completion_window": "24h"}`)
}

// TestServeFolderBatches: a batch over the models of a folder has every result once, in the order of the requests and
// as `lowpack batch` has it, though the server is killed again and again, and the last one has ten other clients.
func TestServeFolderBatches(t *testing.T) {
	t.Parallel()
	const n = 60
	models := [2]string{"first", "second"}
	dir, store := modelFolderOf(t, models), t.TempDir()
	text, each := linesOf(n, models)
	start := func() *served {
		return serveFile(t, "", dir, "--batches", store, "--threads", "1", "--parallel", "8", "--context", "128",
			"--kv-cache-tokens", "1024")
	}
	s := start()
	b := s.upload(text)
	for answers := 10; answers <= 50; answers += 20 {
		wait.For(t, "answers", func() bool {
			b = s.batch(http.MethodGet, "/v1/batches/"+b.ID, "")
			return b.Counts.Completed >= answers
		})
		s.cmd.Process.Kill()
		s.cmd.Wait()
		<-s.end
		s = start()
	}
	var clients sync.WaitGroup
	for i := range 10 {
		clients.Go(func() {
			s.ask("/v1/completions", fmt.Sprintf(`{"model": %q, "prompt": "A clock", "max_tokens": 20, "seed": %d}`,
				models[i%2], i))
		})
	}
	clients.Wait()
	wait.For(t, "the end", func() bool {
		b = s.batch(http.MethodGet, "/v1/batches/"+b.ID, "")
		return b.Status == "completed"
	})
	if b.Errors != "" || b.Counts.Completed != n {
		t.Errorf("%+v", b)
	}
	s.wantResults(b, wantOf(t, dir, models, each, b.Created))
}

// wantResults compares the results of a batch with those wanted, whose custom_ids count from 0.
func (s *served) wantResults(b batchInfo, want map[string]string) {
	s.t.Helper()
	_, out := s.send(http.MethodGet, "/v1/files/"+b.Output+"/content", "", nil)
	i := 0
	for line := range strings.Lines(string(out)) {
		if id := idOf(s.t, line); id != fmt.Sprint(i) || line != want[id] {
			s.t.Errorf("line %d: %s\nwant %s", i, line, want[fmt.Sprint(i)])
		}
		i++
	}
	if i != len(want) {
		s.t.Errorf("%d lines, want %d", i, len(want))
	}
}

// TestServeFolderBatchUnbounded: without a bound on their memory and the size of their caches, a batch loads each model
// of a folder once, and has the results of `lowpack batch`.
func TestServeFolderBatchUnbounded(t *testing.T) {
	t.Parallel()
	const n = 16
	models := [2]string{"first", "second"}
	dir := modelFolderOf(t, models)
	text, each := linesOf(n, models)
	s := serveFile(t, "", dir, "--batches", t.TempDir(), "--threads", "1")
	b := s.upload(text)
	wait.For(t, "the end", func() bool {
		b = s.batch(http.MethodGet, "/v1/batches/"+b.ID, "")
		return b.Status == "completed"
	})
	s.wantResults(b, wantOf(t, dir, models, each, b.Created))
	_, metrics := s.send(http.MethodGet, "/metrics", "", nil)
	for _, model := range models {
		for _, want := range []string{`loads_total{engine="0",model_name=%q} 1`, `unloads_total{engine="0",model_name=%q} 0`} {
			if want = fmt.Sprintf("lowpack:model_"+want, model); !strings.Contains(string(metrics), want) {
				t.Errorf("no %s in\n%s", want, metrics)
			}
		}
	}
}
