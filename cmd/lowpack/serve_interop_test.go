package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// TestInteropOpenAI: the openai package understands answers, streams and errors, and gets structured output.
func TestInteropOpenAI(t *testing.T) {
	const key = "secret"
	s := serveFile(t, "", tinymodel.Path(t), "--api-key", key, "--strict-model")
	if out := interop.Python(t, "openai", "testdata/openai_client.py", s.url, key); !bytes.Equal(out, []byte("done\n")) {
		t.Errorf("%s", out)
	}
}

// TestInteropSchemathesis: /openapi.json declares what the server does. The program makes requests from the document, right and
// wrong ones, and finds no status, no content type and no acceptance that it does not declare.
func TestInteropSchemathesis(t *testing.T) {
	s := serveFile(t, "", tinymodel.Path(t), "--request-timeout", "20s")
	out := interop.Python(t, "schemathesis", "testdata/schemathesis_run.py", s.url, "1")
	if n := regexp.MustCompile(`(\d+) generated`).FindSubmatch(out); n == nil || len(n[1]) < 3 {
		t.Errorf("hardly a request was made: %s", out)
	}
}

// TestInteropPage: a conversation in Chromium, with errors, stop, copy, reload, the link that repeats an answer, dark and narrow.
func TestInteropPage(t *testing.T) {
	const key = "secret"
	s := serveFile(t, "", tinymodel.Path(t), "--api-key", key)
	if out := interop.Node(t, "browser", "testdata/page.mjs", s.url, key, t.TempDir()); !bytes.Equal(out, []byte("done\n")) {
		t.Errorf("%s", out)
	}
}

// TestDeterminism: an independent program finds no answer that differs from that of the idle server: under load, with clients
// that hang up, as streams, and after a restart with other threads and another instruction set.
func TestDeterminism(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("sends a thousand requests")
	}
	judge := shared.Path(t, "prototypes/interop/load_determinism.py")
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	file, answers := tinymodel.Path(t), filepath.Join(t.TempDir(), "answers.json")
	isas := kernel.Available()
	for i, flags := range [][]string{{"--threads", "1"}, {"--threads", "2", "--parallel", "3", "--no-prefix-cache"}} {
		s := serveFile(t, string(isas[i%len(isas)]), file, flags...)
		args := []string{judge, s.url, "tiny-bitnet", "--conc", "1,8,32", "--stream", "--noise", "2", "--scale", "0.15", "--max-tokens", "8", "--n", "36"}
		if i == 0 {
			args = append(args, "--out", answers)
		} else {
			args = append(args, "--ref", answers)
		}
		cmd := exec.CommandContext(t.Context(), python, args...)
		cmd.Stderr = os.Stderr
		if out, err := cmd.Output(); err != nil || !bytes.Contains(out, []byte("IDENTICAL 0")) {
			t.Errorf("%v: %v\n%s", flags, err, out)
		}
	}
}
