package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/manifest"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/testkit/interop"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// TestInteropOpenAI: the openai package understands answers, streams and errors, and gets structured output.
func TestInteropOpenAI(t *testing.T) {
	const key = "secret"
	s := serveFile(t, "", tinymodel.Path(t), "--api-key", key)
	if out := interop.Python(t, "openai", "testdata/openai_client.py", s.url, key); !bytes.Equal(out,
		[]byte("done\n")) {
		t.Errorf("%s", out)
	}
}

// TestInteropBatches: the openai package uploads requests, runs batches, cancels them and reads their results, which
// are those of `lowpack batch`.
func TestInteropBatches(t *testing.T) {
	file, dir := tinymodel.Path(t), t.TempDir()
	in, out := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl")
	var text strings.Builder
	for i := range 30 {
		fmt.Fprintf(&text, `{"custom_id": "%d", "method": "POST", "url": "/v1/completions", "body": `+
			`{"prompt": "The river %d", "max_tokens": %d, "temperature": 1, "n": %d}}`+"\n", i, i, 1+i%20, 1+i%3)
	}
	if err := os.WriteFile(in, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if o := command(t, "batch", file, in, "-o", out); o.code != 0 {
		t.Fatal(o.out)
	}
	s := serveFile(t, "", file, "--api-key", "secret", "--api-key", "other", "--batches", filepath.Join(dir, "batches"))
	if got := interop.Python(t, "openai", "testdata/openai_batch.py", s.url, "secret", "other", in, out,
		t.TempDir()); !bytes.Equal(got, []byte("done\n")) {
		t.Errorf("%s", got)
	}
}

// TestInteropFolderBatches: the openai package runs a batch over the models of a folder, whose results are those of
// `lowpack batch` for each model.
func TestInteropFolderBatches(t *testing.T) {
	models := [2]string{"first", "second"}
	dir, in := modelFolderOf(t, models), filepath.Join(t.TempDir(), "in.jsonl")
	text, each := linesOf(30, models)
	write(t, in, text)
	s := serveFile(t, "", dir, "--batches", t.TempDir())
	text = string(interop.Python(t, "openai", "testdata/openai_batch_models.py", s.url, in))
	created, out, _ := strings.Cut(text, "\n")
	seconds, err := strconv.ParseInt(created, 10, 64)
	if err != nil || strings.Count(out, "\n") != 30 {
		t.Fatalf("%v: %s", err, out)
	}
	want := wantOf(t, dir, models, each, seconds)
	for line := range strings.Lines(out) {
		if line != want[idOf(t, line)] {
			t.Errorf("%s\nwant %s", line, want[idOf(t, line)])
		}
	}
}

// TestInteropNode: the openai package of npm understands answers, streams and errors.
func TestInteropNode(t *testing.T) {
	const key = "secret"
	s := serveFile(t, "", tinymodel.Path(t), "--api-key", key)
	if out := interop.Node(t, "openai-node", "testdata/openai_client.mjs", s.url, key); !bytes.Equal(out,
		[]byte("done\n")) {
		t.Errorf("%s", out)
	}
}

// TestInteropLangchain: langchain-openai and llm get answers, streams, usage and structured output.
func TestInteropLangchain(t *testing.T) {
	const key = "secret"
	s := serveFile(t, "", tinymodel.Path(t), "--api-key", key)
	if out := interop.Python(t, "openai", "testdata/langchain_client.py", s.url, key, t.TempDir()); !bytes.Equal(out,
		[]byte("done\n")) {
		t.Errorf("%s", out)
	}
}

// TestInteropLMEval: the loglikelihoods of lm-eval equal `lowpack eval`'s, to the last digit.
func TestInteropLMEval(t *testing.T) {
	const begin = 2552 // <|begin_of_text|>
	file := tinymodel.Path(t)
	s := serveFile(t, "", file)
	texts := []string{"The river ran down to the old mill.",
		"A clock is a thing that tells the time of day, and it hangs on the wall."}
	args := append([]string{s.url, "../../testdata/tiny-bitnet", strconv.Itoa(begin), t.TempDir()}, texts...)
	lines := strings.Split(strings.TrimSpace(string(interop.Python(t, "lm-eval", "testdata/lm_eval_client.py",
		args...))),
		"\n")
	if len(lines) != 3*len(texts) {
		t.Fatalf("%q", lines)
	}
	for i, text := range texts {
		path := filepath.Join(t.TempDir(), "text")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		stdout, stderr, code := runApp(t, evalCommand(), file, "--text", path, "--bos", "yes", "--json")
		var want struct {
			Tokens int
			NLL    float64 `json:"mean_nll"`
		}
		if err := json.Unmarshal([]byte(stdout), &want); code != 0 || err != nil {
			t.Fatal(code, err, stderr)
		}
		got, err := strconv.ParseFloat(lines[i], 64)
		if err != nil || -got/float64(want.Tokens) != want.NLL {
			t.Errorf("%q: lm-eval %v of %d tokens, lowpack eval %v a token", text, got, want.Tokens, want.NLL)
		}
		choices := regexp.MustCompile(`(-[0-9.]+):(True|False)`).FindAllStringSubmatch(lines[len(texts)+i], -1)
		if len(choices) != 2 || choices[0][1] == choices[1][1] {
			t.Errorf("choices %q", lines[len(texts)+i])
		}
		var tokens struct{ Tokens json.RawMessage }
		var answer any
		json.Unmarshal([]byte(s.ask("/tokenize", fmt.Sprintf(`{"content": %q}`, text))), &tokens)
		json.Unmarshal([]byte(s.ask("/v1/completions",
			fmt.Sprintf(`{"prompt": %s, "max_tokens": 6, "temperature": 0, "stop": ["\n\n"]}`, tokens.Tokens))),
			&answer)
		if said := manifest.Find(answer, "choices", 0, "text"); fmt.Sprintf("%q", said) != lines[2*len(texts)+i] {
			t.Errorf("generation: lm-eval got %s, want %q", lines[2*len(texts)+i], said)
		}
	}
}

// TestInteropSchemathesis: /openapi.json declares what the server does. Schemathesis generates valid and invalid
// requests from the document, and finds no undeclared status or content type, and no invalid request that is accepted.
func TestInteropSchemathesis(t *testing.T) {
	s := serveFile(t, "", tinymodel.Path(t), "--request-timeout", "20s")
	out := interop.Python(t, "schemathesis", "testdata/schemathesis_run.py", s.url, "1")
	if n := regexp.MustCompile(`(\d+) generated`).FindSubmatch(out); n == nil || len(n[1]) < 3 {
		t.Errorf("hardly a request was made: %s", out)
	}
}

// TestInteropPage: a conversation in Chromium with a server that requires a key: answers, the link that regenerates
// one, and an endless answer, whose computation stops when it is cancelled. TestInteropChat and others
// (runtime/server/internal/page) have the rest of the page.
func TestInteropPage(t *testing.T) {
	const key = "secret"
	s := serveFile(t, "", longContext(t), "--api-key", key, "--parallel", "1", "--context", "32768")
	if out := interop.Node(t, "browser", "testdata/page.mjs", s.url, key, t.TempDir()); !bytes.Equal(out,
		[]byte("done\n")) {
		t.Errorf("%s", out)
	}
}

// longContext is the tiny model with a context that takes long to fill.
func longContext(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(shared.Testdata(t, "tiny-bitnet-packed"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "config.json")
	config, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	config = bytes.Replace(config, []byte(`"max_position_embeddings": 256`),
		[]byte(`"max_position_embeddings": 32768`), 1)
	if err := os.WriteFile(path, config, 0o600); err != nil {
		t.Fatal(err)
	}
	return tinymodel.Converted(t, dir, packed.Recipe{Golden: "none"})
}

// TestDeterminism: an independent program finds no answer that differs from an idle server's: under load, with clients
// that hang up, as streams, and after a restart with other threads and another instruction set. With LOWPACK_LONG the
// load is ten times as long.
func TestDeterminism(t *testing.T) {
	t.Parallel()
	clients, prompts := "1,16", "8"
	if long.All {
		clients, prompts = "1,8,32", "36"
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
		args := []string{judge, s.url, "tiny-bitnet", "--conc", clients, "--n", prompts,
			"--stream", "--noise", "2", "--scale", "0.15", "--max-tokens", "8"}
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
