package batch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/pack"
)

// request is a row of a table of requests.
type request struct {
	Body     *string `parquet:"body,optional"` // columns may stand in any order
	CustomID *string `parquet:"custom_id,optional"`
	Method   string  `parquet:"method,dict"`
	URL      string  `parquet:"url,dict"`
}

// requestsOf returns the rows of lines.
func requestsOf(t testing.TB, text string) (rows []request) {
	t.Helper()
	for line := range strings.Lines(text) {
		var v struct {
			ID     string          `json:"custom_id"`
			Method string          `json:"method"`
			URL    string          `json:"url"`
			Body   json.RawMessage `json:"body"`
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		body := string(v.Body)
		rows = append(rows, request{&body, &v.ID, v.Method, v.URL})
	}
	return rows
}

// tableOf writes rows in groups of 40.
func tableOf[T any](t testing.TB, path string, rows []T) {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, parquet.MaxRowsPerRowGroup(40), parquet.PageBufferSize(500),
		parquet.SkipPageBounds("body"))
	_, err := w.Write(rows)
	if err = errors.Join(err, w.Close(), os.WriteFile(path, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// tables are the options of a batch whose files are tables.
func tables[T any](t testing.TB, rows []T) Options {
	t.Helper()
	dir := t.TempDir()
	o := Options{Input: filepath.Join(dir, "in.parquet"), Output: filepath.Join(dir, "out.parquet"),
		Errors: filepath.Join(dir, "errors.parquet"), URLs: urls, Answer: answer, Parallel: 3, Key: "k"}
	tableOf(t, o.Input, rows)
	return o
}

// linesOf returns the rows of a table of results as lines of the output.
func linesOf(t testing.TB, path string) string {
	t.Helper()
	rows, err := parquet.ReadFile[resultRow](path)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, r := range rows {
		line, err := json.Marshal(result{ID: r.ID, CustomID: r.CustomID, Response: response{int(r.Response.Status),
			r.Response.RequestID, json.RawMessage(r.Response.Body), r.Response.Ignored}})
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	return b.String()
}

// TestTables: a table of requests has the answers of the lines with the same requests, and results are the same as a
// table and as lines.
func TestTables(t *testing.T) {
	text := input(130)
	text += strings.Replace(text[:strings.Index(text, "\n")+1], "id 0", `ü\"\\ \u0007\n`, 1)
	list := files(t, text)
	list.Answer = ignoring
	if _, err := Run(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	o := tables(t, requestsOf(t, text))
	o.Answer = ignoring
	counts, err := Run(t.Context(), o)
	if err != nil || counts.Total != 131 {
		t.Fatal(counts, err)
	}
	for got, want := range map[string]string{o.Output: list.Output, o.Errors: list.Errors} {
		lines, err := os.ReadFile(want)
		if err != nil {
			t.Fatal(err)
		}
		if linesOf(t, got) != string(lines) {
			t.Errorf("%s has other results than %s", got, want)
		}
	}
	sum := sha256.New()
	for _, path := range []string{o.Output, o.Errors} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(b)
	}
	const want = "7a659643851c63e3590a6ca9ff825efecb3125f5beeb7c069e14750c5f8650ba" // on every CPU
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		t.Errorf("the tables have digest %s, not %s", got, want)
	}
}

// ignoring answers like answer, with fields that nobody knows.
func ignoring(ctx context.Context, q *Request) (Answer, error) {
	a, err := answer(ctx, q)
	if q.Line%3 == 0 {
		a.Ignored = []string{"one", "two"}[:1+q.Line%2]
	}
	return a, err
}

// TestTablesRefused: what is no table of requests is named, and a row that is no request is refused as a line is.
func TestTablesRefused(t *testing.T) {
	type more struct {
		request
		Model string `parquet:"model"`
	}
	type fewer struct {
		CustomID string `parquet:"custom_id"`
		Method   string `parquet:"method"`
		URL      string `parquet:"url"`
	}
	type numbers struct {
		fewer
		Body int64 `parquet:"body"`
	}
	text := func(s string) *string { return &s }
	good := request{text("{}"), text("a"), "POST", urls[0]}
	rows := func(bad ...request) Options { return tables(t, append([]request{good}, bad...)) }
	long := "{" + strings.Repeat(" ", maxLine) + "}"
	for says, o := range map[string]Options{
		"column model":                    tables(t, []more{{good, "m"}}),
		"column body is missing":          tables(t, []fewer{{"a", "POST", urls[0]}}),
		"column body is not of strings":   tables(t, []numbers{{fewer{"a", "POST", urls[0]}, 1}}),
		"the file has no requests":        tables(t, []request{}),
		"line 2: body is missing":         rows(request{nil, text("b"), "POST", urls[0]}),
		"line 2: custom_id is missing":    rows(request{text("{}"), nil, "POST", urls[0]}),
		"line 2: body: not a JSON object": rows(request{text(`{},"custom_id":"c"`), text("b"), "POST", urls[0]}),
		"line 2: the custom_id of line 1": rows(request{text("{\n}"), text("a"), "POST", urls[0]}),
		"line 2: not a JSON object":       rows(request{text("{}"), text("\xff"), "POST", urls[0]}),
		"line 2: more than":               rows(request{&long, text("b"), "POST", urls[0]}),
	} {
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want %q", err, says)
		}
		if _, err := os.Stat(o.Output); err == nil {
			t.Errorf("%s: there are results", says)
		}
	}
	o := rows()
	b, err := os.ReadFile(o.Input)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.Input, b[:len(b)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), o); !errors.Is(err, pack.ErrCorrupt) {
		t.Errorf("a table that ends early: %v", err)
	}
}

// TestTableMemory: a table of results takes memory for a group of rows, whatever their number.
func TestTableMemory(t *testing.T) {
	var m runtime.MemStats
	heap := func() uint64 {
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	line := fmt.Appendf(nil, `{"response":{"body":{"text":"%x"}}}`, noise(1<<20))
	before := heap()
	w := newResultTable(io.Discard)
	for i := range 24 {
		if err := w.add(line); err != nil {
			t.Fatal(err)
		}
		if i%8 == 7 && heap() > before+6*groupBytes {
			t.Fatalf("%d bytes after %d lines of %d, %d before", m.HeapAlloc, i+1, len(line), before)
		}
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
}

// TestTableSize: bodies are stored once, compressed, and not in headers too; groups of rows have about the same size.
func TestTableSize(t *testing.T) {
	var b bytes.Buffer
	w := newResultTable(&b)
	for range 30 {
		text := strings.Repeat("again ", 200_000)
		if err := w.add(fmt.Appendf(nil, `{"response":{"body":{"text":%q}}}`, text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	if b.Len() > 100_000 {
		t.Errorf("%d bytes", b.Len())
	}
	f, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(f.RowGroups()); n != 3 {
		t.Errorf("%d groups of rows", n)
	}
}

// noise returns n bytes that cannot be compressed.
func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

// TestInteropTables: a table that pyarrow writes gives one that pyarrow reads, with the results of the same requests as
// lines.
func TestInteropTables(t *testing.T) {
	list := files(t, input(60))
	want := whole(t, list)
	o := tables(t, []request{})
	interop.Python(t, "lm-eval", "testdata/tables.py", "write", list.Input, o.Input)
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	got := string(interop.Python(t, "lm-eval", "testdata/tables.py", "read", o.Output)) + "errors:\n" +
		string(interop.Python(t, "lm-eval", "testdata/tables.py", "read", o.Errors))
	if got != want {
		t.Errorf("other results:\n%s\nwant\n%s", got, want)
	}
}
