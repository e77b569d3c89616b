package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/wait"
)

// river is a request of a batch for a model.
func river(i int, model string) string {
	return batchLine(fmt.Sprint(i), "/v1/completions",
		fmt.Sprintf(`{"model": %q, "prompt": "The river %d", "max_tokens": 12, "temperature": 1}`, model, i))
}

// batchFolder is a server of a shelf with a folder of batches, which can be replaced by another one.
type batchFolder struct {
	t    *testing.T
	from *shelf
	o    Options
	s    *Server
	web  *httptest.Server
}

// newBatchFolder serves two models, of which one has room in memory.
func newBatchFolder(t *testing.T, files [2]string) *batchFolder {
	t.Helper()
	from := &shelf{t: t, open: map[string]int{}}
	from.put("a", files[0])
	from.put("b", files[1])
	f := &batchFolder{t: t, from: from, o: Options{Queue: 100, Memory: 1, Source: from.list, Note: from.note,
		Batches: t.TempDir()}}
	f.start()
	t.Cleanup(f.stop)
	return f
}

func (f *batchFolder) start() {
	f.t.Helper()
	var err error
	if f.s, err = New(f.o); err != nil {
		f.t.Fatal(err)
	}
	f.web = httptest.NewServer(f.s)
}

// stop interrupts what runs.
func (f *batchFolder) stop() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f.s.Drain(ctx)
	f.web.Close()
}

// answered returns how many requests of a batch have an answer.
func (f *batchFolder) answered(id string) (n int) {
	f.t.Helper()
	counts := at(batchState(f.t, f.web, id), "request_counts")
	for _, name := range []string{"completed", "failed"} {
		k, err := at(counts, name).(json.Number).Int64()
		if err != nil {
			f.t.Fatal(err)
		}
		n += int(k)
	}
	return n
}

// ended waits for the end of a batch and returns its results and failures by custom_id, each once.
func (f *batchFolder) ended(id, status string) (out, errs map[string]string, created time.Time) {
	f.t.Helper()
	wait.For(f.t, "the end", func() bool { return batchState(f.t, f.web, id)["status"] == status })
	b := batchState(f.t, f.web, id)
	read := func(key string) map[string]string {
		lines := map[string]string{}
		if b[key] == nil {
			return lines
		}
		_, _, text := do(f.t, f.web, http.MethodGet, fmt.Sprintf("/v1/files/%s/content", b[key]), "")
		for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
			name := fmt.Sprint(object(f.t, line)["custom_id"])
			if lines[name] != "" {
				f.t.Errorf("%s: %s twice", key, name)
			}
			lines[name] = line
		}
		return lines
	}
	seconds, err := b["created_at"].(json.Number).Int64()
	if err != nil {
		f.t.Fatal(err)
	}
	return read("output_file_id"), read("error_file_id"), time.Unix(seconds, 0)
}

// TestBatchesOfModels: each request of a batch is answered by the model that it names, as a server of that model alone
// answers it, whatever the order of the requests, with room for one model at a time, and while the server is replaced
// again and again. One that names no model, or none that there is, is a failure.
func TestBatchesOfModels(t *testing.T) {
	files, _ := twoFiles(t)
	var text strings.Builder
	const n = 40
	for i := range n {
		text.WriteString(river(i, string("ab"[i%2])))
	}
	text.WriteString(river(n, "c"))
	text.WriteString(batchLine("nameless", "/v1/completions", `{"prompt": "The river"}`))
	f := newBatchFolder(t, files)
	id := startBatch(t, f.web, text.String())
	for answers := 5; answers < n; answers += 15 {
		wait.For(t, "answers", func() bool { return f.answered(id) >= answers })
		f.stop()
		f.start()
	}
	out, errs, created := f.ended(id, "completed")
	for k, path := range files {
		one, _ := serveOf(t, modelOf(t, path, string("ab"[k]), small), Options{Queue: BatchQueue})
		var lines strings.Builder
		for i := k; i < n; i += 2 {
			lines.WriteString(river(i, string("ab"[k])))
		}
		want, failed, err := batchOn(t, one, lines.String(), created)
		if err != nil || failed != "" {
			t.Fatal(err, failed)
		}
		for i, line := range strings.Split(strings.TrimSpace(want), "\n") {
			if got := out[fmt.Sprint(k+2*i)]; got != line {
				t.Errorf("request %d: %s\nwant %s", k+2*i, got, line)
			}
		}
	}
	if len(out) != n || len(errs) != 2 || !strings.Contains(errs[fmt.Sprint(n)], "model_not_found") ||
		!strings.Contains(errs["nameless"], "each request of a batch names its own") {
		t.Errorf("%d results, failures %v", len(out), errs)
	}
	if loads := f.from.noted("loaded a"); len(loads) > 4 { // once for each server
		t.Errorf("%d loads of one model: %q", len(loads), f.from.notes)
	}
	for _, e := range left(t, f.o.Batches) {
		if strings.Contains(e, ".resume") || strings.Contains(e, ".partial") {
			t.Errorf("%s is left", e)
		}
	}
}

// left returns the names of a folder.
func left(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestBatchesModelChanged: all results of a model are those of one file. What follows when it is replaced fails, also
// on another server, until the file is back; so does what a model that was removed has not answered.
func TestBatchesModelChanged(t *testing.T) {
	files, _ := twoFiles(t)
	var text strings.Builder
	const n = 60
	for i := range n {
		text.WriteString(river(i, "a"))
	}
	for i := range 5 {
		text.WriteString(river(n+i, "b"))
	}
	f := newBatchFolder(t, files)
	id := startBatch(t, f.web, text.String())
	wait.For(t, "answers", func() bool { return f.answered(id) >= 3 })
	f.stop()
	f.from.put("a", files[1])
	f.from.remove("b")
	before := f.answeredIn(id)
	if before == n {
		t.Skip("the model had answered everything")
	}
	f.start()
	wait.For(t, "failures", func() bool { return f.answered(id) >= min(n, before+5) })
	f.from.put("a", files[0])
	out, errs, _ := f.ended(id, "completed")
	changed, fingerprints := 0, map[string]bool{}
	for i := range n + 5 {
		name := fmt.Sprint(i)
		switch {
		case i >= n && strings.Contains(errs[name], "model_not_found"):
		case strings.Contains(errs[name], "model_changed") && strings.Contains(errs[name], `"status_code":409`):
			changed++
		case i < n && out[name] != "":
			fingerprints[fmt.Sprint(at(object(t, out[name]), "response", "body", "system_fingerprint"))] = true
		default:
			t.Errorf("%d: %s%s", i, out[name], errs[name])
		}
	}
	if len(fingerprints) != 1 || changed == 0 || len(out)+len(errs) != n+5 {
		t.Errorf("%d files, %d failures, %d lines", len(fingerprints), changed, len(out)+len(errs))
	}
}

// answeredIn counts the answers that a server which has ended leaves of its only batch.
func (f *batchFolder) answeredIn(id string) (n int) {
	f.t.Helper()
	names := left(f.t, f.o.Batches)
	at := slices.IndexFunc(names, func(name string) bool { return strings.HasSuffix(name, ".resume") })
	if at < 0 {
		f.t.Fatalf("%s left no answers: %v", id, names)
	}
	text, err := os.ReadFile(filepath.Join(f.o.Batches, names[at]))
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.Count(string(text), "\n") - 1 // the header
}

// TestBatchesWaiting: requests for a model that finds no room beside one in use wait; a batch that is cancelled
// meanwhile ends with the results so far.
func TestBatchesWaiting(t *testing.T) {
	files, _ := twoFiles(t)
	f := newBatchFolder(t, files)
	a, e := f.s.find(t.Context(), "a")
	if e != nil {
		t.Fatal(e)
	}
	defer f.s.models.drop(a)
	if _, err := f.s.models.acquire(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	id := startBatch(t, f.web, river(0, "a")+river(1, "b"))
	wait.For(t, "an answer", func() bool { return f.answered(id) == 1 })
	if status, _, text := post(t, f.web, "/v1/batches/"+id+"/cancel", ""); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	out, errs, _ := f.ended(id, "cancelled")
	if len(out) != 1 || len(errs) != 0 {
		t.Errorf("%v, %v", out, errs)
	}
	id = startBatch(t, f.web, river(2, "b"))
	wait.For(t, "a batch that waits", func() bool { return batchState(t, f.web, id)["status"] == "in_progress" })
	f.s.models.release(a)
	if out, _, _ := f.ended(id, "completed"); len(out) != 1 {
		t.Errorf("%v", out)
	}
}
