//go:build linux || darwin

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/manual"
	"github.com/lowpack/lowpack/internal/testkit/wait"
)

// TestShells types command lines with tabs into interactive shells, as a user does, and compares what the shells run.
func TestShells(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, shell string
		args        []string
		load        string
	}{
		{"bash", "bash", []string{"--norc", "--noprofile", "-i"},
			`bind 'set bell-style none' 'set enable-bracketed-paste off'; source <(lowpack completion bash)`},
		{"zsh", "zsh", []string{"-f", "-i"},
			`unsetopt PROMPT_SP; unset zle_bracketed_paste; autoload -Uz compinit; compinit -u -D; source <(lowpack completion zsh)`},
		{"zsh from a folder", "zsh", []string{"-f", "-i"},
			`unsetopt PROMPT_SP; unset zle_bracketed_paste; lowpack completion zsh >$HOME/_lowpack; fpath=($HOME $fpath); autoload -Uz compinit; compinit -u -D`},
		{"fish", "fish", []string{"--no-config", "-i"}, `lowpack completion fish | source`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(c.shell); err != nil {
				t.Skipf("%s is not installed", c.shell)
			}
			s := startShell(t, c.shell, c.args, c.load)
			for _, line := range []struct{ typed, want string }{
				{"lowpack conv\tche\t --lay\tvnni4i-\t-o out --hea\tint8\t",
					"convert|checkpoint/|--layout|vnni4i-64|-o|out|--head|int8"},
				{"lowpack convert checkpoint --head=sc\t--res\t", "convert|checkpoint|--head=screen|--resume"},
				{"lowpack verify mod\t--report ju\tver\t", "verify|model file.safetensors|--report|junit:verify.xml"},
				{"lowpack unpack mod\t-o che\t --form u\t", "unpack|model file.safetensors|-o|checkpoint/|--form|u8"},
				{"lowpack bench ker\t--lay\ttl1 --toke\t1", "bench|kernels|--layout|tl1|--tokens|1"},
				{"lowpack layouts tmac4\t--sv\tver\t", "layouts|tmac4|--svg|verify.xml"},
			} {
				got := s.run(line.typed)
				// Shells differ in whether a folder ends with a slash.
				if strings.ReplaceAll(got, "/|", "|") != strings.ReplaceAll(line.want, "/|", "|") {
					t.Errorf("%q ran %q; %q expected\n%s", line.typed, got, line.want, s.screen())
				}
			}
		})
	}
}

// shell is an interactive shell on its own terminal, in a folder with a few files.
type shell struct {
	t    *testing.T
	tty  *os.File
	dir  string
	mu   sync.Mutex
	seen bytes.Buffer
}

func startShell(t *testing.T, name string, args []string, load string) *shell {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &shell{t: t, dir: t.TempDir()}
	bin := t.TempDir()
	// lowpack answers the shell, and otherwise notes how it was called.
	script := fmt.Sprintf("#!/bin/sh\ncase $1 in\n%s|completion) LOWPACK_MAIN=1 exec %s \"$@\" ;;\nesac\n(IFS='|'; "+
		"echo \"$*\") >called.tmp && mv called.tmp called\n", manual.CompleteWord, self)
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(bin, "lowpack"), script)
	write(filepath.Join(s.dir, "model file.safetensors"), "")
	write(filepath.Join(s.dir, "verify.xml"), "")
	if err := os.Mkdir(filepath.Join(s.dir, "checkpoint"), 0o777); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "TERM=xterm",
		"HOME=" + t.TempDir(), "LC_ALL=C.UTF-8", "PS1=> ", "COLUMNS=200"}
	if s.tty, err = pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 200}); err != nil {
		t.Skipf("no terminal: %v", err)
	}
	read := make(chan struct{})
	go s.read(read)
	t.Cleanup(func() {
		s.tty.Close()
		_ = cmd.Process.Kill() // a shell that has ended with its terminal is fine
		_ = cmd.Wait()
		<-read
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("on the screen:\n%q", s.screen())
		}
	})
	s.typeIn(load + "; echo loa''ded\r")
	wait.For(t, "the script to be loaded", func() bool { return strings.Contains(s.screen(), "loaded") })
	return s
}

func (s *shell) read(done chan struct{}) {
	defer close(done)
	buf := make([]byte, 4096)
	for {
		n, err := s.tty.Read(buf)
		s.mu.Lock()
		s.seen.Write(buf[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *shell) screen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.String()
}

func (s *shell) typeIn(text string) {
	s.t.Helper()
	if _, err := s.tty.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// run types a line and returns the words that lowpack was called with.
func (s *shell) run(line string) string {
	s.t.Helper()
	s.typeIn(line + "\r")
	called := filepath.Join(s.dir, "called")
	wait.For(s.t, "lowpack to be called by "+line, func() bool { _, err := os.Stat(called); return err == nil })
	text, err := os.ReadFile(called)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.Remove(called); err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}
