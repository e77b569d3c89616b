package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// TestTruncatedUnderUse cuts a packed file to one page while a command has it mapped, at many moments: while it loads, in
// the workers' assembly, in what one goroutine reads alone. The command says what happened to which file, with exit code 1,
// and leaves nothing behind; one that was done before is fine.
func TestTruncatedUnderUse(t *testing.T) {
	packed := filepath.Join(t.TempDir(), "packed")
	if o := command(t, "convert", shared.Testdata(t, "tiny-bitnet"), "--layout", "vnni4i", "--golden", "none", "-o", packed); o.code != 0 {
		t.Fatal(o.out)
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, bytes.Repeat([]byte("Once upon a time there was a fox. "), 2000), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"run":     {"run", "FILE", "-p", "Once", "-n", "-1", "--threads", "2"},
		"eval":    {"eval", "FILE", "--text", text, "--threads", "2"},
		"against": {"eval", packed, "--against", "FILE", "--text", text, "--threads", "2"},
		"bench":   {"bench", "FILE", "--prompt", "64", "--generate", "16", "--batch", "1,4", "--context", "64", "--threads", "2"},
		"repack":  {"repack", "FILE", "--layout", "i2", "-o", "TARGET"},
		"verify":  {"verify", "FILE", "--threads", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			seen := 0
			for _, wait := range []time.Duration{0, 2, 5, 10, 20, 40, 80, 150, 300} {
				dir := t.TempDir()
				file, target := filepath.Join(dir, "model"), filepath.Join(dir, "target")
				if err := copyFile(packed, file); err != nil {
					t.Fatal(err)
				}
				o := whileMapped(t, file, wait*time.Millisecond, strings.NewReplacer("FILE", file, "TARGET", target), args...)
				entries, _ := os.ReadDir(dir)
				switch changed := strings.Contains(o.out, file+": changed or truncated while in use"); {
				case strings.Contains(o.out, file+": "+file), strings.Contains(o.out, packed+": "+file):
					t.Errorf("after %d ms: the file is named twice\n%s", wait, o.out)
				case o.code == 0:
				case o.code != 1 || !strings.Contains(o.out, file) || strings.Contains(o.out, "goroutine ") || strings.Contains(o.out, "were written") || len(entries) != 1:
					t.Errorf("after %d ms: exit code %d, %d files\n%s", wait, o.code, len(entries), o.out)
				case changed:
					seen++
				}
			}
			if t.Logf("%d of 9 times", seen); seen == 0 {
				t.Error("nobody noticed")
			}
		})
	}
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}

// whileMapped runs a command and truncates a file some time after the command has mapped it.
func whileMapped(t *testing.T, path string, wait time.Duration, words *strings.Replacer, args ...string) outcome {
	t.Helper()
	args = slices.Clone(args)
	for i := range args {
		args[i] = words.Replace(args[i])
	}
	var out bytes.Buffer
	cmd := exec.Command("lowpack", args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(hangs, func() { cmd.Process.Kill() })
	defer timer.Stop()
	for !hasMapped(cmd.Process.Pid, path) {
	}
	time.Sleep(wait)
	cmd.Process.Signal(syscall.SIGSTOP)
	if err := os.Truncate(path, int64(os.Getpagesize())); err != nil {
		t.Error(err)
	}
	cmd.Process.Signal(syscall.SIGCONT)
	cmd.Wait()
	return outcome{code: cmd.ProcessState.ExitCode(), out: out.String()}
}

// hasMapped reports whether a process has a file mapped, or has ended.
func hasMapped(pid int, path string) bool {
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	return err != nil || len(list) == 0 || bytes.Contains(list, []byte(path))
}
