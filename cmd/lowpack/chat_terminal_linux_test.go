package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/thinking"
	"github.com/lowpack/lowpack/runtime/engine"
)

// person simulates a user at a terminal in which lowpack runs.
type person struct {
	*testing.T
	keyboard *os.File
	cmd      *exec.Cmd

	mu    sync.Mutex
	more  *sync.Cond
	shown []byte // since the last time that something was awaited
	ended bool
}

// sitDown starts lowpack as the leader of a session at a new terminal, as a shell does.
func sitDown(t *testing.T, args ...string) *person {
	t.Helper()
	master, terminal := openBoth(t)
	p := &person{T: t, keyboard: master, cmd: exec.CommandContext(untilDeadline(t), "lowpack", args...)}
	p.more = sync.NewCond(&p.mu)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = terminal, terminal, terminal
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	terminal.Close()
	go p.watch()
	return p
}

func (p *person) watch() {
	b := make([]byte, 4096)
	for {
		n, err := p.keyboard.Read(b)
		p.mu.Lock()
		p.shown = append(p.shown, b[:n]...)
		p.ended = err != nil
		p.more.Broadcast()
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// types types keys, and sees reads output until a text appears.
func (p *person) types(keys string) {
	p.Helper()
	if _, err := p.keyboard.WriteString(keys); err != nil {
		p.Fatal(err)
	}
}

func (p *person) sees(text string) {
	p.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if i := bytes.Index(p.shown, []byte(text)); i >= 0 {
			p.shown = p.shown[i+len(text):]
			return
		}
		if p.ended {
			p.Fatalf("%q is never shown, after\n%s", text, p.shown)
		}
		p.more.Wait()
	}
}

// leaves waits for the program to exit, which must succeed.
func (p *person) leaves() {
	p.Helper()
	if err := p.cmd.Wait(); err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.Errorf("%v, after\n%s", err, p.shown)
	}
}

// TestConversation: at a terminal a model alone is enough for a conversation. Ctrl-C discards a line, and pressed twice
// it ends the program; so does Ctrl-D. Commands are completed and executed, a message may have several lines, a saved
// conversation can be loaded, and messages are in the history of the next run.
func TestConversation(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", dir)
	t.Setenv("TERM", "xterm")
	path, talk := filepath.Join(dir, "model"), filepath.Join(dir, "talk.json")
	if o := command(t, "convert", shared.Testdata(t, "tiny-bitnet"), "--golden", "none", "-o", path); o.code != 0 {
		t.Fatal(o.out)
	}
	p := sitDown(t, "run", path)
	p.sees("> ")
	p.types("/sy\t")
	p.sees("/system ")
	p.types("\x03")
	p.sees("Ctrl-C again")
	p.sees("> ")
	p.types("/help\r")
	p.sees("/regenerate")
	p.types("/set temp 1\r")
	p.sees(`did you mean temperature`)
	p.types("/set temperature -1\r")
	p.sees("temperature")
	p.types("/set tokens 5\r")
	p.sees("tokens is 5")
	p.types("Hello.\r")
	p.sees("tokens/s")
	p.types("\"\"\"one\r")
	p.sees("h. ")
	p.types("two\"\"\"\r")
	p.sees("tokens/s")
	p.types("/regenerate\r")
	p.sees("tokens/s")
	p.types("/set temperature 0\r")
	p.sees("temperature is 0")
	p.types("/regenerate\r")
	p.sees("the same answer again")
	p.sees("tokens/s")
	p.types("/save " + path + "\r")
	p.sees("not overwritten")
	p.types("/save " + talk + "\r")
	p.sees("4 messages in ")
	p.types("/clear\r")
	p.types("/load " + talk + "\r")
	p.sees("4 messages of ")
	p.sees("> ")
	p.types("\x04")
	p.leaves()
	saved, err := os.ReadFile(talk)
	if err != nil || !bytes.Contains(saved, []byte(`one\ntwo`)) {
		t.Errorf("%s, %v", saved, err)
	}

	p = sitDown(t, "run", path, "--context", "64", "-n", "24")
	p.types("/set think maybe\r")
	p.sees("must be one of")
	p.types("Hello, who are you?\r")
	p.sees("tokens/s")
	p.types("And who am I?\r")
	p.sees("the oldest 1 turn left the conversation")
	p.sees("tokens/s")
	p.types("/bye\r")
	p.leaves()

	p = sitDown(t, "run", path, "--no-stats")
	p.sees("> ")
	p.types("\x1b[A\x1b[A")
	p.sees("And who am I?")
	p.types("\x03\x03")
	p.leaves()
	if o := command(t, "run", path, "--chat", "-n", "4", "-p", "Hello."); o.code != 0 ||
		strings.Contains(o.out, "/help") {
		t.Errorf("without a terminal: %s", o.out)
	}
}

// TestInterruptedAnswer: Ctrl-C stops an answer, however often it is pressed, and nothing else; SIGTERM ends the
// program.
func TestInterruptedAnswer(t *testing.T) {
	ctx, stop := notify(t.Context(), io.Discard)
	defer stop()
	app := cli.NewContext(&cli.App{ErrWriter: io.Discard}, nil, nil)
	app.Context = ctx
	talk := &talk{c: app}
	end := talk.ownInterrupt()
	for range 2 {
		err := talk.answering(func(answer context.Context) error {
			if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
				return err
			}
			<-answer.Done()
			return answer.Err()
		})
		if err != nil || ctx.Err() != nil {
			t.Fatalf("%v, %v", err, ctx.Err())
		}
	}
	end()
	err := talk.answering(func(answer context.Context) error {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			return err
		}
		<-answer.Done()
		return answer.Err()
	})
	if interrupted(ctx) == nil {
		t.Errorf("%v after SIGTERM", err)
	}
}

// TestThoughts: the model's thinking is dimmed on a terminal. If it is to be hidden it is left out, also in a pipe,
// which otherwise gets everything.
func TestThoughts(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	const answer = "<think>\nHm.\n</think>\n\nYes."
	show := func(screen *screen, as string) {
		p := &parts{writer: &writer{w: dataOf(screen)}, thinking: thinking.New(""), as: as, screen: screen,
			first: func() {}}
		p.piece(engine.Piece{Text: answer[:5]})
		p.piece(engine.Piece{Text: answer[5:]})
		p.end()
	}
	for as, want := range map[string]string{thinkOn: answer + "\n", thinkHide: "Yes.\n"} {
		var b bytes.Buffer
		if show(newScreen(&b, "output"), as); b.String() != want {
			t.Errorf("%s in a pipe: %q", as, b.String())
		}
	}
	for as, want := range map[string]string{thinkOn: "\x1b[2mHm.\x1b[0m\r\n\r\nYes.\r\n", thinkHide: "Yes.\r\n"} {
		if got := onTerminal(t, func(terminal *os.File) { show(newScreen(terminal, "output"), as) }); got != want {
			t.Errorf("%s on a terminal: %q, want %q", as, got, want)
		}
	}
}
