//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/seed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/internal/testkit/wait"
)

// soak returns the number of rounds of a randomized test, larger if `make kills` sets it.
func soak(t testing.TB, variable string, usual int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s=%q", variable, text)
	}
	return n
}

// task is a command that writes a target.
type task struct {
	args   []string // and "-o", target
	target string
	old    string // previous content of the target; "" = none
}

// pieces are the input files of the tasks, by name; they are made once.
var pieces = sync.OnceValues(func() (map[string][]byte, error) {
	dir, err := os.MkdirTemp("", "lowpack")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	list := map[string][]byte{}
	for name, flags := range map[string][]string{"packed": nil, "part1": {"--part", "1/2"},
		"part2": {"--part", "2/2"}} {
		path := filepath.Join(dir, name)
		args := append([]string{"convert", "../../testdata/tiny-bitnet", "--golden", "kernel", "-o", path}, flags...)
		if code, said := inPlace(args...); code != 0 {
			return nil, errors.New(said)
		}
		if list[name], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	return list, nil
})

// tasks are one of each kind, each with an empty directory for its target. A target of unpack must not exist.
func tasks(t testing.TB) []task {
	t.Helper()
	model, dir := shared.Testdata(t, "tiny-bitnet"), t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	files, err := pieces()
	for name, data := range files {
		err = errors.Join(err, os.WriteFile(in(name), data, 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	list := []task{
		{args: []string{"convert", model, "--golden", "kernel"}, old: "old"},
		{args: []string{"repack", in("packed"), "--layout", "i2"}, old: "old"},
		{args: []string{"merge", in("part1"), in("part2")}, old: "old"},
		{args: []string{"unpack", in("packed")}},
	}
	for i := range list {
		list[i].target = filepath.Join(t.TempDir(), "target")
	}
	return list
}

// reset puts the old state at the target.
func (j *task) reset(t testing.TB) {
	t.Helper()
	if err := os.RemoveAll(j.target); err != nil {
		t.Fatal(err)
	}
	if j.old != "" {
		if err := os.WriteFile(j.target, []byte(j.old), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func (j *task) command(args ...string) []string {
	return append(append(append([]string(nil), j.args...), args...), "-o", j.target)
}

// state returns "old", "complete" or a description of the target directory.
func (j *task) state(t testing.TB, complete string) string {
	t.Helper()
	entries, _ := os.ReadDir(filepath.Dir(j.target))
	for _, e := range entries {
		if e.Name() != filepath.Base(j.target) {
			return fmt.Sprint("left behind: ", entries)
		}
	}
	switch now := j.contents(t); now {
	case j.old:
		return "old"
	case complete:
		return "complete"
	default:
		return fmt.Sprintf("%d bytes, neither old nor complete", len(now))
	}
}

// contents returns the contents of the target, a file or a directory, as one text; "" if there is nothing.
func (j *task) contents(t testing.TB) string {
	t.Helper()
	if info, err := os.Stat(j.target); err == nil && info.IsDir() {
		entries, _ := os.ReadDir(j.target)
		var all strings.Builder
		for _, e := range entries {
			b, _ := os.ReadFile(filepath.Join(j.target, e.Name()))
			fmt.Fprintln(&all, e.Name(), len(b), string(b))
		}
		return all.String()
	}
	b, _ := os.ReadFile(j.target)
	return string(b)
}

// TestSignals interrupts commands at random moments until some were in the middle of their work: they end with the exit
// code of the signal, the target is old or complete, and nothing is left behind. `make kills` does it more often. On a
// disk that takes longer than grace and leave for a sync and a removal, what is left is swept by the next command;
// TestStuck checks that they end in time.
func TestSignals(t *testing.T) {
	t.Parallel()
	rounds, numbers := soak(t, "LOWPACK_TERMS", 24), seed.Rand(t)
	counts := map[string]int{}
	list := tasks(t)
	whole, complete := make([]time.Duration, len(list)), make([]string, len(list))
	for i := range list {
		list[i].reset(t)
		start := time.Now()
		if o := command(t, list[i].command()...); o.code != 0 {
			t.Fatal(o.out)
		}
		whole[i], complete[i] = time.Since(start), list[i].contents(t)
	}
	for round := 0; round < rounds || counts["old"] == 0 && round < 50*rounds; round++ {
		i := round % len(list)
		j := &list[i]
		signal, code := syscall.SIGTERM, 143
		if round/len(list)%2 == 1 {
			signal, code = syscall.SIGINT, 130
		}
		j.reset(t)
		var out bytes.Buffer
		cmd := exec.Command("lowpack", j.command()...)
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Before main has registered its handler, a signal ends the process at once: then it has written nothing.
		time.Sleep(time.Duration(numbers.Int64N(int64(whole[i] * 11 / 10))))
		sent := time.Now()
		cmd.Process.Signal(signal)
		cmd.Wait()
		took := time.Since(sent)
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		state := j.state(t, complete[i])
		if left := strings.HasPrefix(state, "left behind"); left && took > grace+leave {
			j.reset(t)
			if o := command(t, j.command()...); o.code != 0 || j.state(t, complete[i]) != "complete" {
				t.Errorf("%q after %s: %s\n%s", j.args, state, j.state(t, complete[i]), o.out)
			}
			state = "old"
		}
		switch {
		case state == "complete", state == "old" && (cmd.ProcessState.ExitCode() == code || status.Signaled()):
			counts[state]++
		default:
			t.Errorf("%v after a signal to %q: %v, %s\n%s", cmd.ProcessState, j.args, took, state, out.String())
		}
	}
	t.Log(counts)
	if counts["old"] == 0 {
		t.Error("no command was interrupted")
	}
}

// late reports, with LOWPACK_LONG, whether something took longer than the two seconds of SECURITY.md plus the delay of
// the machine: other work delays a command that does nothing just as well.
func late(t testing.TB, took time.Duration) bool {
	t.Helper()
	if !long.All || took <= 2*time.Second {
		return false
	}
	start := time.Now()
	command(t, "version")
	idle := 20 * time.Millisecond
	return took > 2*time.Second+10*max(time.Since(start)-idle, 0)
}

// TestStuck: a command that does not stop is ended, and leaves nothing behind.
func TestStuck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.CommandContext(untilDeadline(t), stuck, filepath.Join(dir, "target"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	mustEnd(t, cmd, out, "begun\n", syscall.SIGTERM, 143)
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// mustEnd sends a signal to a command that has written the first word, and demands an exit code.
func mustEnd(t *testing.T, cmd *exec.Cmd, out io.Reader, first string, signal syscall.Signal, code int) {
	t.Helper()
	word := make([]byte, len(first))
	if _, err := io.ReadFull(out, word); err != nil || string(word) != first {
		t.Fatalf("%q, %v, want %q", word, err, first)
	}
	sent := time.Now()
	cmd.Process.Signal(signal)
	io.Copy(io.Discard, out)
	cmd.Wait()
	if took := time.Since(sent); cmd.ProcessState.ExitCode() != code || late(t, took) {
		t.Errorf("%v after %v, want exit code %d within 2 s", cmd.ProcessState, took, code)
	}
}

// TestSignalWhileWaiting: a command that reads from an idle pipe ends as quickly.
func TestSignalWhileWaiting(t *testing.T) {
	packed := tinymodel.Path(t)
	for signal, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(untilDeadline(t), "lowpack", "run", packed, "--chat", "--temperature",
				"0", "-n", "3")
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			io.WriteString(in, "Hello\n")
			mustEnd(t, cmd, out, "A certain man\n", signal, code)
		})
	}
}

// TestTwoCommands lets four conversions to two layouts write one target at once: each succeeds, and the target is one
// of the results.
func TestTwoCommands(t *testing.T) {
	t.Parallel()
	j := tasks(t)[0]
	layouts := []string{"vnni4i", "i2"}
	var results []string
	for _, l := range layouts {
		j.reset(t)
		if o := command(t, j.command("--layout", l)...); o.code != 0 {
			t.Fatal(o.out)
		}
		results = append(results, j.contents(t))
	}
	j.reset(t)
	done := make(chan outcome)
	for i := range 4 {
		go func() { done <- command(t, j.command("--layout", layouts[i%2])...) }()
	}
	for range 4 {
		if o := <-done; o.code != 0 {
			t.Errorf("exit code %d\n%s", o.code, o.out)
		}
	}
	if a, b := j.state(t, results[0]), j.state(t, results[1]); a != "complete" && b != "complete" {
		t.Error(a, b)
	}
}

// TestVanishingDirectory removes the directory of the target, or puts a directory in the place of the target, while it
// is written: the command fails and names the place, or had finished before.
func TestVanishingDirectory(t *testing.T) {
	t.Parallel()
	for _, j := range tasks(t) {
		dir := filepath.Join(filepath.Dir(j.target), "inner")
		j.target = filepath.Join(dir, "target")
		for what, change := range map[string]func() error{
			"removed":  func() error { return os.RemoveAll(dir) },
			"occupied": func() error { return os.Mkdir(j.target, 0o755) },
		} {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(untilDeadline(t), "lowpack", j.command()...)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() { cmd.Wait(); close(ended) }()
			wait.For(t, "something to be written", func() bool { return !empty(dir) || closed(ended) })
			change() // fails if the target exists already
			<-ended
			code := cmd.ProcessState.ExitCode()
			// If a directory took the place of the target before the command looked, it counts as existing: no failure.
			if code != 0 && (code != 3 && (code != 1 || what == "removed") || !strings.Contains(out.String(), dir) ||
				strings.Contains(out.String(), "goroutine ")) {
				t.Errorf("%q, directory %s: exit code %d\n%s", j.args, what, code, out.String())
			}
			entries, _ := os.ReadDir(dir)
			if len(entries) > 1 || len(entries) == 1 && entries[0].Name() != "target" {
				t.Errorf("%q, directory %s: left behind: %v", j.args, what, entries)
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func empty(dir string) bool {
	entries, _ := os.ReadDir(dir)
	return len(entries) == 0
}
