package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/manifest"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/requests"
	"github.com/lowpack/lowpack/internal/testkit/seed"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// served is a server in a separate process.
type served struct {
	t   testing.TB
	cmd *exec.Cmd
	url string
	log *bytes.Buffer
	end chan struct{} // its standard error has ended
}

// serveFile starts a server and waits until it listens.
func serveFile(t testing.TB, isa, file string, flags ...string) *served {
	t.Helper()
	return serveBy(t, exec.Command(probe, append([]string{"serve", file, "--port", "0"}, flags...)...), isa)
}

// serveBy is serveFile with a command line.
func serveBy(t testing.TB, cmd *exec.Cmd, isa string) *served {
	t.Helper()
	s := &served{t: t, cmd: cmd, log: &bytes.Buffer{}, end: make(chan struct{})}
	if s.cmd.Env == nil {
		s.cmd.Env = append(os.Environ(), usualGC, kernel.EnvISA+"="+isa)
	}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.cmd.Process.Kill(); s.cmd.Wait() })
	address := make(chan string, 1)
	go func() {
		defer close(s.end)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			s.log.WriteString(lines.Text() + "\n")
			if m := regexp.MustCompile(`http://[0-9.:[\]]+`).FindString(lines.Text()); m != "" {
				address <- m
			}
		}
	}()
	select {
	case s.url = <-address:
	case <-s.end:
		t.Fatalf("the server ended: %s", s.log)
	}
	return s
}

// ask sends a request and returns the part of the answer that must be the same everywhere.
func (s *served) ask(path, body string) string {
	s.t.Helper()
	status, text := s.send(http.MethodPost, path, body, http.Header{"Content-Type": {"application/json"}})
	answer, err := requests.Essence(text)
	if err != nil || status != http.StatusOK {
		s.t.Errorf("%s: %d %s", body, status, text)
	}
	return answer
}

// send sends a request and returns status and body of the answer.
func (s *served) send(method, path, body string, header http.Header) (int, []byte) {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header = header
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, text
}

// TestServeAgain: another process, with other threads, another instruction set and other memory, answers with the same
// bytes; a signal ends it with the signal's exit code.
func TestServeAgain(t *testing.T) {
	t.Parallel()
	file := tinymodel.Path(t)
	requests := [][2]string{
		{"/v1/completions",
			`{"prompt": "Once upon a time", "max_tokens": 20, "logprobs": 3, "temperature": 0, "seed": 1}`},
		{"/v1/completions",
			`{"prompt": ["The river", "A clock"], "max_tokens": 12, "logprobs": 1, "echo": true, "temperature": 1.3, "seed": 7, "n": 2}`},
		{"/v1/chat/completions",
			`{"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 20, "seed": -5, "logprobs": true, "top_logprobs": 2, "frequency_penalty": 0.5}`},
	}
	var want []string
	isas := kernel.Available()
	for i, flags := range [][]string{{"--threads", "1", "--no-prefix-cache"}, {"--threads", "2", "--parallel", "4"},
		{"--threads", "2", "--kv-cache-tokens", "256", "--parallel", "4", "--context", "128"}} {
		s := serveFile(t, string(isas[i%len(isas)]), file, flags...)
		for j, r := range requests {
			got := s.ask(r[0], r[1])
			if i == 0 {
				want = append(want, got)
			} else if got != want[j] {
				t.Errorf("%v on %s: %s\n%s\nwant\n%s", flags, isas[i%len(isas)], r[1], got, want[j])
			}
		}
		if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-s.end
		if s.cmd.Wait(); s.cmd.ProcessState.ExitCode() != 0 {
			t.Errorf("exit code %d: %s", s.cmd.ProcessState.ExitCode(), s.log)
		}
	}
}

// TestServeMixed: requests of every kind get the same bytes one by one and among 8 and 32 others in random order, next
// to clients that hang up, with and without prefix cache, from other processes with other threads and another
// instruction set. Each kind is sent four times, with LOWPACK_LONG 27 times.
func TestServeMixed(t *testing.T) {
	t.Parallel()
	n := 44
	if long.All {
		n = 300
	}
	file, list, isas := tinymodel.WithTemplate(t, requests.Template), requests.Mixed(n), kernel.Available()
	want, numbers := make([]string, n), seed.Rand(t)
	for i, c := range []struct {
		clients int
		flags   []string
	}{
		{1, []string{"--threads", "1", "--no-prefix-cache"}},
		{1, []string{"--threads", "2"}},
		{8, []string{"--threads", "2", "--parallel", "6", "--kv-cache-tokens", "1024"}},
		{32, []string{"--threads", "1", "--parallel", "32", "--no-prefix-cache"}},
		{32, []string{"--threads", "2", "--parallel", "32", "--itl-target", "5ms"}},
	} {
		isa := isas[i%len(isas)]
		s, order := serveFile(t, string(isa), file, append(c.flags, "--model-name", "tiny")...), numbers.Perm(n)
		if isa == kernel.Generic {
			order = order[:n/20] // generic kernels are slow
		}
		var group sync.WaitGroup
		for client := range c.clients {
			group.Go(func() {
				for k := client; k < len(order); k += c.clients {
					j := order[k]
					if k%4 == 1 {
						list[j].HangUp(t, http.DefaultClient, s.url, 10*time.Millisecond)
					}
					got := s.ask(list[j].Path, list[j].Body)
					if i == 0 {
						want[j] = got
					} else if got != want[j] {
						t.Errorf("%d clients, %v on %s: %s\n%s\nwant\n%s", c.clients, c.flags, isa, list[j].Body,
							got, want[j])
					}
				}
			})
		}
		group.Wait()
		s.cmd.Process.Kill()
	}
}

// TestServeDrain: a client that reads slowly gets all of an answer that was complete when the server received the
// signal.
func TestServeDrain(t *testing.T) {
	t.Parallel()
	s := serveFile(t, "", tinymodel.Path(t), "--threads", "1")
	prompts, most := strings.Repeat(`"The", `, 15)+`"A"`, 240
	body := fmt.Sprintf(`{"prompt": [%s], "n": 2, "max_tokens": %d, "ignore_eos": true, "logprobs": 20, "seed": 1}`,
		prompts, most)
	// returns when the header of the answer has arrived
	answer, err := http.Post(s.url+"/v1/completions", "", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	time.Sleep(grace + leave) // the whole time, unless the command extends its grace
	var v any
	if err := json.NewDecoder(answer.Body).Decode(&v); err != nil ||
		fmt.Sprint(manifest.Find(v, "usage", "completion_tokens")) != strconv.Itoa(32*most) {
		t.Errorf("%v", err)
	}
}

// TestServeSeveral: two files in one process, by their configured names, each loaded on first use.
func TestServeSeveral(t *testing.T) {
	t.Parallel()
	s := serveFile(t, "", tinymodel.Path(t), tinymodel.Path(t), "--model-name", "a", "--model-name", "b")
	b := s.ask("/v1/completions", `{"model": "b", "prompt": "The river", "max_tokens": 5, "seed": 1}`)
	if !strings.Contains(b, `"model":"b"`) {
		t.Errorf("%s", b)
	}
	a := s.ask("/v1/completions", `{"model": "a", "prompt": "The river", "max_tokens": 5, "seed": 1}`)
	if strings.Replace(b, `"model":"b"`, `"model":"a"`, 1) != a {
		t.Errorf("%s, want the same of %s", a, b)
	}
	if status, text := s.send(http.MethodPost, "/v1/completions", `{"model": "c", "prompt": "a"}`,
		nil); status != http.StatusNotFound {
		t.Errorf("%d %s", status, text)
	}
	if status, text := s.get("/v1/models", ""); status != http.StatusOK || !strings.Contains(text, `"id":"a"`) ||
		!strings.Contains(text, `"id":"b"`) {
		t.Errorf("%d %s", status, text)
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-s.end
	if log := s.log.String(); !strings.Contains(log, "loaded b in") ||
		strings.Index(log, "loaded a in") < strings.Index(log, "loaded b in") {
		t.Errorf("%s", log)
	}
}

// TestBenchServe measures a server: every token is counted, in both loops.
func TestBenchServe(t *testing.T) {
	t.Parallel()
	s := serveFile(t, "", tinymodel.Path(t), "--api-key", "secret")
	for _, loop := range [][]string{{"--concurrency", "3"}, {"--rate", "200"}} {
		args := append([]string{s.url, "--requests", "9", "--input-len", "20", "--output-len", "7",
			"--api-key", "secret",
			"--goodput", "ttft:60000,e2el:60000", "--json"}, loop...)
		stdout, stderr, code := runApp(t, benchServeCommand(), args...)
		var r struct {
			Completed, Failed int
			Input             int     `json:"total_input_tokens"`
			Output            int     `json:"total_output_tokens"`
			TTFT              float64 `json:"median_ttft_ms"`
			E2EL              float64 `json:"p99_e2el_ms"`
			Rate              float64 `json:"request_throughput"`
			Good              float64 `json:"request_goodput"`
			Model             string  `json:"model_id"`
		}
		if err := json.Unmarshal([]byte(stdout), &r); code != 0 || err != nil || r.Completed != 9 || r.Input != 180 ||
			r.Output != 63 || r.TTFT <= 0 || r.E2EL < r.TTFT || r.Good != r.Rate || r.Model != "tiny-bitnet" {
			t.Errorf("%v: code %d, %v: %s%s", loop, code, err, stdout, stderr)
		}
	}
	for says, args := range map[string][]string{
		"status 401":         {s.url},
		"is not the URL":     {"127.0.0.1:8080"},
		"cannot be combined": {s.url, "--rate", "1", "--concurrency", "1"},
		"invalid --goodput":  {s.url, "--goodput", "itl:5"},
		"context holds":      {s.url, "--api-key", "secret", "--input-len", "2000"},
	} {
		if _, stderr, code := runApp(t, benchServeCommand(), args...); code == 0 || !strings.Contains(stderr, says) {
			t.Errorf("%v: code %d, %s; want %q", args, code, stderr, says)
		}
	}
}

// TestServeRefuses: requests without a key are refused, and invalid flags are wrong usage.
func TestServeRefuses(t *testing.T) {
	file, folder := tinymodel.Path(t), t.TempDir()
	for _, c := range []struct {
		says  string
		flags []string
	}{
		{"it is served alone", []string{folder}},
		{"--memory: \"much\" is not a size", []string{"--memory", "much"}},
		{"needs --api-key", []string{"--host", "0.0.0.0"}},
		{"needs --api-key", []string{"--host", "::"}},
		{"needs --api-key", []string{"--host", ""}},
		{"want a text", []string{"--api-key", ""}},
		{"invalid --port", []string{"--port", "65536"}},
		{"invalid --parallel", []string{"--parallel", "0"}},
		{"invalid --drain", []string{"--drain", "-1s"}},
		{"made for 256 positions", []string{"--context", "1000"}},
		{"two models have the name", []string{file}},
		{"--any-model cannot be combined with 2 files", []string{file, "--any-model"}},
		{"--model-name names 1 models, but there are 2 files", []string{tinymodel.Path(t), "--model-name", "a"}},
		{"two models have the name \"a\"", []string{tinymodel.Path(t), "--model-name", "a", "--model-name", "a"}},
	} {
		_, stderr, code := runApp(t, serveCommand(), append([]string{file, "--port", "0"}, c.flags...)...)
		if code != 2 ||
			!strings.Contains(stderr, c.says) {
			t.Errorf("%v: code %d, %s; want %q", c.flags, code, stderr, c.says)
		}
	}
	_, stderr, code := runApp(t, serveCommand(), file, "--port", "0", "--memory", "1kB")
	if says := "loaded models of this server take at most 1000 together"; code != 1 || !strings.Contains(stderr, says) {
		t.Errorf("code %d, %s; want %q", code, stderr, says)
	}
	for _, flags := range [][]string{{"--model-name", "a"}, {"--any-model"}} {
		_, stderr, code := runApp(t, serveCommand(), append([]string{folder, "--port", "0"}, flags...)...)
		if says := flags[0] + " cannot be combined with a folder"; code != 2 || !strings.Contains(stderr, says) {
			t.Errorf("%v: code %d, %s; want %q", flags, code, stderr, says)
		}
	}
}
