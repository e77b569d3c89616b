//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// newBatchJob returns a job with a model, n requests and their answers from one machine.
func newBatchJob(t *testing.T, n int) *job {
	t.Helper()
	j := newJob(t)
	examples, err := filepath.Abs("../../docs/examples")
	if err != nil {
		t.Fatal(err)
	}
	j.env = append(j.env, "EXAMPLES="+examples)
	files := map[string]string{"model.safetensors": tinymodel.Path(t), "requests.jsonl": batchFile(t, n)}
	for name, path := range files {
		if err := os.Rename(path, filepath.Join(j.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	j.run("lowpack batch model.safetensors requests.jsonl -o whole.jsonl --any-model && mkdir requests")
	return j
}

// sameAnswers demands that the files in answers, one after another, are those of one machine.
func (j *job) sameAnswers() {
	j.t.Helper()
	for whole, part := range map[string]string{"whole.jsonl": "part.??.jsonl",
		"whole.errors.jsonl": "part.??.errors.jsonl"} {
		if j.run("cat answers/"+part) != j.read(whole) {
			j.t.Errorf("the files %s have other results than %s", part, whole)
		}
	}
}

// answersOf returns status and body by custom_id of the answers from one machine.
func (j *job) answersOf() map[string]string {
	j.t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(j.read("whole.jsonl") + j.read("whole.errors.jsonl")) {
		var v batchResult
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			j.t.Fatal(err)
		}
		all[v.CustomID] = fmt.Sprint(v.Response.Status, " ", string(v.Response.Body))
	}
	return all
}

// runExample runs an example on four workers, of which one is killed, and compares its answers with those of one
// machine.
func runExample(t *testing.T, name string) {
	t.Helper()
	const n = 60
	j := newBatchJob(t, n)
	program, err := exec.LookPath("lowpack")
	if err != nil {
		t.Fatal(err)
	}
	j.write("lowpack", fmt.Sprintf(`#!/bin/sh
mkdir %s/killed 2>/dev/null && kill -9 $PPID && exit 1
exec %s "$@"
`, j.dir, program))
	j.run("chmod +x lowpack")
	python, err := filepath.Abs("../../packaging/python")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", j.dir+":"+os.Getenv("PATH"))
	t.Setenv("PYTHONPATH", python)
	example := filepath.Join("../../docs/examples", name, "batch.py")
	printed := interop.Python(t, name, "testdata/engine.py", name, example, filepath.Join(j.dir, "model.safetensors"),
		filepath.Join(j.dir, "requests.jsonl"), j.dir)
	got := map[string]string{}
	for line := range bytes.Lines(printed) {
		var v [3]any
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatal(err)
		}
		got[v[0].(string)] = fmt.Sprint(v[1], " ", v[2])
	}
	if len(got) != n || bytes.Count(printed, []byte("\n")) != n || !maps.Equal(got, j.answersOf()) {
		t.Errorf("%d rows of %d requests, with other answers than one machine has: %v", len(got), n,
			slices.Sorted(maps.Keys(got)))
	}
	if _, err := os.Stat(filepath.Join(j.dir, "killed")); err != nil {
		t.Error("no worker was killed")
	}
}

// TestInteropRay: the example for Ray Data has the answers of one machine, though a worker is killed.
func TestInteropRay(t *testing.T) { runExample(t, "ray") }

// TestInteropSpark: the example for Spark too.
func TestInteropSpark(t *testing.T) { runExample(t, "spark") }
