package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/hostile"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// TestWhileRead stops a command that has the weights open, changes them as in cases D09, and lets it continue: it
// reports the change, and leaves nothing behind. A command that had already read everything was too fast and is run
// again.
func TestWhileRead(t *testing.T) {
	t.Parallel()
	model, packed := shared.Testdata(t, "tiny-bitnet-packed"), tinymodel.Path(t)
	tried := 0
	for _, c := range hostile.In(hostile.Directory) {
		if c.During == nil {
			continue
		}
		tried++
		for _, name := range []string{"convert", "verify"} {
			t.Run(c.ID+" "+name, func(t *testing.T) {
				seen := false
				for range 500 {
					dir, out := filepath.Join(t.TempDir(), "model"), t.TempDir()
					if err := os.CopyFS(dir, os.DirFS(model)); err != nil {
						t.Fatal(err)
					}
					args := []string{"verify", packed, "--level", "source", "--source", dir}
					if name == "convert" {
						args = []string{"convert", dir, "--golden", "none", "-o", filepath.Join(out, "target")}
					}
					o := whileRead(t, filepath.Join(dir, "model.safetensors"),
						func() error { return c.During(dir) }, args...)
					entries, _ := os.ReadDir(out)
					switch {
					case o.code == 0:
						continue
					case o.code != 1 || len(entries) != 0 || !strings.Contains(o.out, "model.safetensors") ||
						strings.Contains(o.out, "goroutine "):
						t.Errorf("exit code %d, left behind %v\n%s", o.code, entries, o.out)
					}
					seen = true
					t.Log(o.out)
					break
				}
				if !seen {
					t.Errorf("%s: nobody noticed", c.Note)
				}
			})
		}
	}
	if tried == 0 {
		t.Error("no case changes files while they are read")
	}
}

// whileRead runs a command, and stops it for the time of a change as soon as it has the file open.
func whileRead(t *testing.T, path string, change func() error, args ...string) outcome {
	t.Helper()
	return stoppedWhen(t, func(pid int) bool { return opens(pid, path) }, 0, change, args...)
}

// stoppedWhen runs a command, and stops it for the time of a change some time after a moment. Until then it runs in
// steps: on a busy machine it would have ended before this process looks.
func stoppedWhen(t *testing.T, moment func(pid int) bool, wait time.Duration, change func() error,
	args ...string) outcome {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(untilDeadline(t), "lowpack", args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	runFor := func(d time.Duration) {
		cmd.Process.Signal(syscall.SIGCONT)
		time.Sleep(d)
		cmd.Process.Signal(syscall.SIGSTOP)
	}
	for !moment(cmd.Process.Pid) {
		runFor(100 * time.Microsecond)
	}
	if wait > 0 {
		runFor(wait)
	}
	cmd.Process.Signal(syscall.SIGSTOP)
	if err := change(); err != nil {
		t.Error(err)
	}
	cmd.Process.Signal(syscall.SIGCONT)
	cmd.Wait()
	return outcome{code: cmd.ProcessState.ExitCode(), out: out.String()}
}

// opens reports whether a process has a file open, or has ended.
func opens(pid int, path string) bool {
	fds := fmt.Sprintf("/proc/%d/fd", pid)
	entries, _ := os.ReadDir(fds)
	for _, e := range entries {
		if to, _ := os.Readlink(filepath.Join(fds, e.Name())); to == path {
			return true
		}
	}
	return len(entries) == 0
}
