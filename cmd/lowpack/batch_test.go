//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/internal/testkit/requests"
	"github.com/lowpack/lowpack/internal/testkit/seed"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/internal/testkit/wait"
)

// batchFile writes n requests of every kind.
func batchFile(t *testing.T, n int) string {
	t.Helper()
	var b strings.Builder
	for i, r := range requests.Mixed(n) {
		line, err := json.Marshal(map[string]any{"custom_id": fmt.Sprint(i), "method": "POST", "url": r.Path,
			"body": json.RawMessage(r.Body)})
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	path := filepath.Join(t.TempDir(), "in.jsonl")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// batchResults reads answers and errors.
func batchResults(t *testing.T, out string) string {
	t.Helper()
	var all strings.Builder
	for _, path := range []string{out, strings.TrimSuffix(out, ".jsonl") + ".errors.jsonl"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%d bytes: %s", len(text), text)
	}
	return all.String()
}

// TestBatchKilled: a batch that is killed at random moments, and started again each time with another width, has the
// results of one that was not.
func TestBatchKilled(t *testing.T) {
	t.Parallel()
	const n = 150
	file, in, dir := tinymodel.Path(t), batchFile(t, n), t.TempDir()
	whole := filepath.Join(dir, "whole.jsonl")
	if o := command(t, "batch", file, in, "-o", whole, "--model-name", "tiny"); o.code != 0 ||
		!strings.Contains(o.out, fmt.Sprintf("%d requests: ", n)) {
		t.Fatalf("%d %s", o.code, o.out)
	}
	want, random := batchResults(t, whole), seed.Rand(t)
	size := len(want)
	for round := range soak(t, "LOWPACK_KILLS", 3) {
		out := filepath.Join(dir, fmt.Sprintf("killed%d.jsonl", round))
		journal, kills := atomicfile.ResumePath(out), 0
		for {
			cmd := exec.Command(probe, "batch", file, in, "-o", out, "--model-name", "tiny", "--quiet",
				"--parallel", fmt.Sprint(1+random.IntN(16)))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			more, before := int64(random.IntN(size/3)), sizeOf(journal)
			var end error
			over := false
			wait.For(t, "the batch", func() bool {
				select {
				case end = <-ended:
					over = true
				default:
				}
				return over || sizeOf(journal) > before+more
			})
			if !over {
				cmd.Process.Kill()
				if end = <-ended; end != nil {
					kills++
					continue
				}
			}
			if end != nil {
				t.Fatal(end)
			}
			if kills > 0 {
				break
			}
			if err := os.Remove(out); err != nil { // over before it could be killed: once more
				t.Fatal(err)
			}
		}
		if got := batchResults(t, out); got != want {
			t.Errorf("%d kills: other results", kills)
		}
		if sizeOf(journal) > 0 {
			t.Errorf("%s is left", journal)
		}
	}
}

// TestBatchExamples runs the commands of docs/BATCH.md: the parts of a file have the results of the file.
func TestBatchExamples(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("split"); err != nil {
		t.Skip(err)
	}
	in, dir := batchFile(t, 25), t.TempDir()
	for name, path := range map[string]string{"model.safetensors": tinymodel.Path(t), "requests.jsonl": in} {
		if err := os.Rename(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	scripts := codeBlocks(t, "../../docs/BATCH.md")["sh"]
	if len(scripts) != 2 {
		t.Fatalf("%d scripts", len(scripts))
	}
	var results []string
	for _, script := range scripts {
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		results = append(results, batchResults(t, filepath.Join(dir, "answers.jsonl")))
	}
	if results[0] != results[1] {
		t.Error("the parts have other results")
	}
}

// sizeOf returns the size of a file, 0 if there is none.
func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// TestBatchSignal: a batch that gets a signal says that it can go on, and does.
func TestBatchSignal(t *testing.T) {
	t.Parallel()
	file, in := tinymodel.Path(t), batchFile(t, 150)
	out := filepath.Join(t.TempDir(), "out.jsonl")
	args := []string{"batch", file, in, "-o", out, "--model-name", "tiny"}
	cmd := exec.Command(probe, args...)
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the first answers", func() bool { return sizeOf(atomicfile.ResumePath(out)) > 2000 })
	cmd.Process.Signal(os.Interrupt)
	cmd.Wait()
	code := cmd.ProcessState.ExitCode()
	if code != 130 || !strings.Contains(said.String(), "the same command line continues") {
		t.Errorf("exit code %d: %s", code, said.String())
	}
	if o := command(t, args...); o.code != 0 || !strings.Contains(o.out, "150 requests: ") {
		t.Errorf("%d %s", o.code, o.out)
	}
}

// TestBatchFlags: wrong command lines, files and times are refused before anything is written.
func TestBatchFlags(t *testing.T) {
	file, in := tinymodel.Path(t), batchFile(t, 1)
	dir := filepath.Dir(in)
	own := filepath.Join(dir, "x.errors.jsonl")
	if err := os.Rename(in, own); err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(dir, "bad.jsonl")
	if err := os.WriteFile(bad, []byte("{}\n[]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "y.jsonl")
	for _, c := range []struct {
		args, says string
		code       int
	}{
		{file + " " + own, "needs -o", 2},
		{file + " -o " + out, "needs FILE and IN.jsonl", 2},
		{file + " " + own + " -o " + filepath.Join(dir, "x.jsonl"), "is the same file as", 2},
		{file + " " + own + " -o " + own, "is the same file as", 2},
		{file + " " + own + " -o " + out + " --errors " + out, "two outputs", 2},
		{file + " " + own + " -o " + out + " --time yesterday", "--time", 2},
		{file + " " + own + " -o " + out + " --parallel 0", "--parallel", 2},
		{file + " " + bad + " -o " + out, "line 1: custom_id is missing", 1},
		{file + " " + filepath.Join(dir, "absent") + " -o " + out, "absent", 1},
		{own + " " + own + " -o " + out, own, 1},
	} {
		code, said := inPlace(append([]string{"batch"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("%s: %d, want %d: %s", c.args, code, c.code, said)
		}
		if left, _ := os.ReadDir(dir); len(left) != 2 {
			t.Fatalf("%s: left behind %v", c.args, left)
		}
	}
}
