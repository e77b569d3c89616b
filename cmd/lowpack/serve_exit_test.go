package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// TestServeExit: a server ended by a signal has the exit code 0 if every request was answered, and otherwise the
// signal's exit code.
func TestServeExit(t *testing.T) {
	t.Parallel()
	prompts := strings.Repeat(`"The", `, 127) + `"A"`
	endless := fmt.Sprintf(`{"prompt": [%s], "max_tokens": 240, "ignore_eos": true, "stream": true}`, prompts)
	for _, c := range []struct {
		signal os.Signal
		body   string
		drain  string
		code   int
		words  string
	}{
		{os.Interrupt, "", "30s", 0, "finishing requests, for at most 30s"},
		{syscall.SIGTERM, "", "0s", 0, "finishing requests"},
		{syscall.SIGTERM, endless, "0s", 143, "1 request cut off; --drain lets them run for longer"},
		{os.Interrupt, endless, "1ms", 130, "1 request cut off"},
	} {
		s := serveFile(t, "", tinymodel.Path(t), "--drain", c.drain, "--parallel", "1")
		if c.body != "" {
			answer, err := http.Post(s.url+"/v1/completions", "", strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			begin := make([]byte, 200)
			// it is running
			if n, err := io.ReadFull(answer.Body, begin); err != nil || answer.StatusCode != http.StatusOK {
				t.Fatalf("%v: %s", err, begin[:n])
			}
		}
		if err := s.cmd.Process.Signal(c.signal); err != nil {
			t.Skip(err)
		}
		<-s.end
		s.cmd.Wait()
		if code, log := s.cmd.ProcessState.ExitCode(), s.log.String(); code != c.code ||
			!strings.Contains(log, c.words) {
			t.Errorf("%v, --drain %s: exit code %d, want %d and %q\n%s", c.signal, c.drain, code, c.code, c.words, log)
		}
	}
}
