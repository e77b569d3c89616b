package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// batchResult is a line of results.
type batchResult struct {
	CustomID string `json:"custom_id"`
	Response struct {
		Status int32           `json:"status_code"`
		Body   json.RawMessage `json:"body"`
	} `json:"response"`
}

// TestBatchTables: a table of requests gets tables of results, whose rows are those of lines.
func TestBatchTables(t *testing.T) {
	type request struct {
		CustomID string `parquet:"custom_id"`
		Method   string `parquet:"method"`
		URL      string `parquet:"url"`
		Body     string `parquet:"body"`
	}
	type result struct {
		CustomID string `parquet:"custom_id"`
		Response struct {
			Status int32  `parquet:"status_code"`
			Body   string `parquet:"body"`
		} `parquet:"response"`
	}
	requests := []request{
		{"a", "POST", "/v1/completions", `{"prompt":"One","max_tokens":4}`},
		{"b", "POST", "/v1/completions", `{"prompt":"Two","max_tokens":-1}`},
	}
	dir, lines := t.TempDir(), ""
	for _, r := range requests {
		line, err := json.Marshal(map[string]any{"custom_id": r.CustomID, "method": r.Method, "url": r.URL,
			"body": json.RawMessage(r.Body)})
		if err != nil {
			t.Fatal(err)
		}
		lines += string(line) + "\n"
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(path("in.jsonl"), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := parquet.WriteFile(path("in.parquet"), requests); err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{"jsonl", "parquet"} {
		code, said := inPlace("batch", tinymodel.Path(t), path("in."+form), "-o", path("out."+form), "--any-model")
		if code != 0 || !strings.Contains(said, "2 requests: 1 answered, 1 failed") {
			t.Fatalf("%s: %d %s", form, code, said)
		}
	}
	for _, kind := range []string{"out", "out.errors"} {
		rows, err := parquet.ReadFile[result](path(kind + ".parquet"))
		if err != nil || len(rows) != 1 {
			t.Fatal(kind, rows, err)
		}
		text, err := os.ReadFile(path(kind + ".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		var line batchResult
		if err := json.Unmarshal(text, &line); err != nil {
			t.Fatal(err)
		}
		if r := rows[0]; r.CustomID != line.CustomID || r.Response.Status != line.Response.Status ||
			r.Response.Body != string(line.Response.Body) {
			t.Errorf("%s: %+v, want %s", kind, r, text)
		}
	}
}
