package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/wait"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/server/internal/api"
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
	if loads := f.from.noted("loaded a in"); len(loads) > 4 { // once for each server
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
	halted := make(chan struct{})
	f.from.at = map[int]func(){ // the list is asked for at each start, and at each request, of which two run at once
		10: func() {
			f.from.put("a", files[1])
			f.from.remove("b")
		},
		20: func() {
			f.s.batches.cancel()
			close(halted)
		},
		30: func() { f.from.put("a", files[0]) },
	}
	id := startBatch(t, f.web, text.String())
	<-halted
	f.stop()
	f.start()
	out, errs, _ := f.ended(id, "completed")
	changed := 0
	for i := range n + 5 {
		name := fmt.Sprint(i)
		switch {
		case i >= n && strings.Contains(errs[name], "model_not_found"):
		case strings.Contains(errs[name], "model_changed") && strings.Contains(errs[name], `"status_code":409`):
			changed++
		case i >= n || out[name] == "":
			t.Errorf("%d: %s%s", i, out[name], errs[name])
		}
	}
	k, lines, last := len(fingerprints(t, out)), len(out)+len(errs), out[fmt.Sprint(n-1)]
	if k != 1 || changed < 12 || last == "" || lines != n+5 {
		t.Errorf("%d files, %d failures, %d lines, the last one %s", k, changed, lines, last)
	}
}

// fingerprints returns the system_fingerprint of results.
func fingerprints(t *testing.T, out map[string]string) map[string]bool {
	t.Helper()
	seen := map[string]bool{}
	for _, line := range out {
		seen[fmt.Sprint(at(object(t, line), "response", "body", "system_fingerprint"))] = true
	}
	return seen
}

// TestBatchesOtherServer: a batch fails on a server of other models, which keeps its answers. The client sees no path.
func TestBatchesOtherServer(t *testing.T) {
	files, _ := twoFiles(t)
	f := newBatchFolder(t, files)
	halted := make(chan struct{})
	f.from.at = map[int]func(){8: func() {
		f.s.batches.cancel()
		close(halted)
	}}
	var text strings.Builder
	for i := range 20 {
		text.WriteString(river(i, "a"))
	}
	id := startBatch(t, f.web, text.String())
	<-halted
	f.stop()
	one, web := serveOf(t, modelOf(t, files[0], "a", small), Options{Queue: 10, Batches: f.o.Batches})
	wait.For(t, "the end", func() bool { return batchState(t, web, id)["status"] == "failed" })
	message := fmt.Sprint(at(batchState(t, web, id), "errors", "data", 0, "message"))
	one.Drain(t.Context())
	kept := slices.ContainsFunc(left(t, f.o.Batches),
		func(name string) bool { return strings.HasSuffix(name, ".resume") })
	if !kept || !strings.Contains(message, "of another model") || strings.Contains(message, f.o.Batches) {
		t.Errorf("%v: %s", kept, message)
	}
	f.start()
}

// TestBatchesModelRepaired: a file that has answered nothing can be replaced: its refusals are not results.
func TestBatchesModelRepaired(t *testing.T) {
	files, _ := twoFiles(t)
	f := newBatchFolder(t, files)
	f.from.at = map[int]func(){6: func() { f.from.put("a", files[1]) }}
	const n = 10
	var text strings.Builder
	for i := range n {
		text.WriteString(batchLine(fmt.Sprint("wrong ", i), "/v1/completions",
			`{"model": "a", "prompt": "The river", "temperature": -1, "unknown": 1}`))
	}
	for i := range n {
		text.WriteString(river(i, "a"))
	}
	text.WriteString(batchLine("absent", "/v1/completions", `{"model": "c", "prompt": "The river"}`))
	out, errs, _ := f.ended(startBatch(t, f.web, text.String()), "completed")
	if len(out) != n || len(errs) != n+1 || len(fingerprints(t, out)) != 1 {
		t.Errorf("%d results, failures %v", len(out), errs)
	}
	for name, line := range errs { // nobody has read the fields of the last one
		if strings.Contains(line, "x_lowpack_ignored") != strings.HasPrefix(name, "wrong") {
			t.Errorf("%s", line)
		}
	}
}

// TestBatchesFirstAnswer: of two files that answer at the same time, the one that is first gives the results.
func TestBatchesFirstAnswer(t *testing.T) {
	files, _ := twoFiles(t)
	f := newBatchFolder(t, files)
	b := &storedBatch{}
	b.ID, b.Status = api.Origin{}.ID("batch_"), statusCompleted
	if err := f.s.store.put(b.ID, b); err != nil {
		t.Fatal(err)
	}
	admit := f.s.batches.admit(b)
	first, second := &hosted{Model: Model{ID: "a"}, fingerprint: "1"}, &hosted{Model: Model{ID: "a"}, fingerprint: "2"}
	for i, c := range []struct {
		h        *hosted
		answered bool
		refused  bool
	}{
		{first, false, false}, {second, false, false}, {second, true, false}, {first, true, true},
		{second, true, false},
	} {
		e, err := admit(c.h, c.answered)
		if err != nil || (e != nil) != c.refused {
			t.Errorf("%d: %v, %v", i, e, err)
		}
	}
	if _, err := f.s.store.get(b.ID, b); err != nil || b.Models["a"].Fingerprint != "2" {
		t.Errorf("%v, %v", b.Models, err)
	}
}

// TestBatchesModelFails: a model whose engine fails ends no batch of others, and its own requests are failures.
func TestBatchesModelFails(t *testing.T) {
	files, _ := twoFiles(t)
	f := newBatchFolder(t, files)
	f.stop()
	f.o.Memory = 0
	f.start()
	if status, _, text := post(t, f.web, "/v1/completions", ask("b")); status != http.StatusOK {
		t.Fatal(text)
	}
	if err := os.Truncate(files[1], 0); err != nil {
		t.Fatal(err)
	}
	id := startBatch(t, f.web, river(0, "b")+river(1, "a")+river(2, "b")+river(3, "a"))
	out, errs, _ := f.ended(id, "completed")
	if f.s.models.fault(f.s.models.listed()...) == nil {
		t.Error("no engine has failed")
	}
	for i := range 4 {
		name := fmt.Sprint(i)
		if i%2 == 1 && out[name] == "" || i%2 == 0 && !strings.Contains(errs[name], `"status_code":500`) {
			t.Errorf("%d: %s%s", i, out[name], errs[name])
		}
	}
}

// TestBatchesSlowFile: a batch does not wait for a file that none of its requests needs.
func TestBatchesSlowFile(t *testing.T) {
	files, _ := twoFiles(t)
	f := newBatchFolder(t, files)
	opened := make(chan struct{})
	t.Cleanup(func() { close(opened) })
	f.from.mu.Lock()
	f.from.entries = append(f.from.entries, Entry{ID: "c", Open: func() (Model, error) {
		<-opened
		return Model{}, pack.ErrCorrupt
	}})
	f.from.mu.Unlock()
	if out, _, _ := f.ended(startBatch(t, f.web, river(0, "a")+river(1, "b")), "completed"); len(out) != 2 {
		t.Errorf("%v", out)
	}
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
