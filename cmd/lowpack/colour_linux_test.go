package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// onTerminal runs do with a terminal as its output and returns what was written to it.
func onTerminal(t *testing.T, do func(terminal *os.File)) string {
	t.Helper()
	terminal, shown := openTerminal(t)
	do(terminal)
	terminal.Close()
	return shown()
}

// TestProgressTerminal demands that short work draws nothing, and that long work leaves a clean line.
func TestProgressTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	draw := func(took time.Duration) string {
		return onTerminal(t, func(terminal *os.File) {
			p := newProgress(newScreen(terminal, "output"), "convert")
			p.now = func() time.Time { return p.began.Add(took) }
			p.set(1, 4, "tensor")
			p.done()
		})
	}
	if text := draw(drawAfter - time.Millisecond); text != "" {
		t.Errorf("short work drew %q", text)
	}
	text := draw(drawAfter)
	line := "convert  1 B of 4 B  tensor  25%  █████░░░░░░░░░░░░░░░   "
	if want := "\r" + line + "\r" + strings.Repeat(" ", utf8.RuneCountInString(line)) + "\r"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
	t.Setenv("TERM", "dumb")
	if text := draw(drawAfter); text != "" {
		t.Errorf("a dumb terminal got %q", text)
	}
}

// TestChatStatistics demands the speed of prefill and decode after each answer on a terminal, dimmed, and none in a
// pipe.
func TestChatStatistics(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	path := filepath.Join(t.TempDir(), "chat")
	if o := command(t, "convert", shared.Testdata(t, "tiny-bitnet"), "--golden", "none", "-o", path); o.code != 0 {
		t.Fatal(o.out)
	}
	args := []string{"lowpack", "run", "--chat", "-n", "4", path}
	talk := func(stderr io.Writer) { Main(args, strings.NewReader("Hello.\nGo on.\n"), io.Discard, stderr) }
	text := onTerminal(t, func(terminal *os.File) { talk(terminal) })
	line := regexp.MustCompile(`\x1b\[2mprefill \d+ tokens, [0-9.]+ tokens/s; decode \d tokens, [0-9.]+ tokens/s \(\w+\)\x1b\[0m\r\n`)
	if n := len(line.FindAllString(text, -1)); n != 2 {
		t.Errorf("%d lines of statistics after 2 answers:\n%q", n, text)
	}
	var pipe strings.Builder
	if talk(&pipe); pipe.String() != "" {
		t.Errorf("a pipe got %q", pipe.String())
	}
}

// TestColours demands styles on terminals that show them, and nowhere else.
func TestColours(t *testing.T) {
	good := filepath.Join(t.TempDir(), "good")
	if o := command(t, "convert", shared.Testdata(t, "tiny-bitnet"), "--golden", "none", "-o", good); o.code != 0 {
		t.Fatal(o.out)
	}
	for _, c := range []struct {
		name, term, noColour string
		coloured             bool
	}{{"terminal", "xterm", "", true}, {"NO_COLOR", "xterm", "1", false}, {"dumb", "dumb", "", false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("TERM", c.term)
			t.Setenv("NO_COLOR", c.noColour)
			for path, want := range map[string]string{good: "\x1b[32mPASS\x1b[0m  ",
				filepath.Join(t.TempDir(), "none"): ""} {
				text := onTerminal(t, func(terminal *os.File) {
					Main([]string{"lowpack", "verify", "--level", "file", path}, strings.NewReader(""),
						terminal, terminal)
				})
				has := strings.Contains(text, want) && strings.Contains(text, "\x1b[")
				if has != (c.coloured && want != "") {
					t.Errorf("%q", text)
				}
			}
			text := onTerminal(t, func(terminal *os.File) {
				err := paintReport(newScreen(terminal, "output"), "FAIL  evil\x1b[2J: 1 failed\nnote: \x1b[2Jx\n")
				if err != nil {
					t.Error(err)
				}
			})
			want := "FAIL  evil\\u001b[2J: 1 failed\r\nnote: \\u001b[2Jx\r\n"
			if c.coloured {
				want = "\x1b[31mFAIL\x1b[0m  evil\\u001b[2J: 1 failed\r\n\x1b[2mnote: \\u001b[2Jx\x1b[0m\r\n"
			}
			if text != want {
				t.Errorf("%q, want %q", text, want)
			}
		})
	}
	var pipe strings.Builder
	if err := paintReport(io.Writer(&pipe), "PASS  x\n"); err != nil || pipe.String() != "PASS  x\n" {
		t.Errorf("a pipe got %q, %v", pipe.String(), err)
	}
}

// TestBegin: lowpack without arguments prints three introductory lines on a terminal; in a pipe it prints the help.
func TestBegin(t *testing.T) {
	t.Setenv("TERM", "xterm")
	text := onTerminal(t, func(terminal *os.File) {
		Main([]string{"lowpack"}, strings.NewReader(""), terminal, io.Discard)
	})
	if strings.Count(text, "\n") != 3 || !strings.Contains(text, "lowpack run ") ||
		!strings.Contains(text, "lowpack --help") {
		t.Errorf("%q", text)
	}
	if code, out := inPlace(); code != 0 || strings.Count(out, "\n") < 20 {
		t.Errorf("%d: %s", code, out)
	}
}
