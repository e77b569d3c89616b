package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// limited runs `lowpack version` after a script that sets limits.
func limited(t *testing.T, exe, script string, user uint32) (code int, out string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", script+`; exec "$0" version`, exe)
	cmd.Env = append(os.Environ(), "LOWPACK_MAIN=1")
	if user != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	}
	text, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), string(text)
}

// TestLimits: process limits that are too low end in a message, not in a stack trace of the Go runtime.
func TestLimits(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ script, says string }{
		{"ulimit -n 8", "ulimit -n"},
		{"ulimit -n 12", "ulimit -n"},
		{"ulimit -v 2000000", "ulimit -v"},
		{"ulimit -v 3000000", "ulimit -v"},
	} {
		if code, out := limited(t, exe, c.script, 0); code != 3 || !strings.Contains(out, c.says) ||
			strings.Contains(out, "goroutine") {
			t.Errorf("%s: exit code %d\n%s", c.script, code, out)
		}
	}
	for _, script := range []string{":", "ulimit -n 64", "ulimit -v 4000000"} {
		if code, out := limited(t, exe, script, 0); code != 0 {
			t.Errorf("%s: exit code %d\n%s", script, code, out)
		}
	}
}

// TestThreadLimit runs as somebody who is not root, for whom the limit does not count.
func TestThreadLimit(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a user without other processes: the limit counts all of them")
	}
	code, out := limited(t, readable(t, exe), "ulimit -u 14 2>/dev/null || ulimit -p 14", 65533)
	if code != 3 || !strings.Contains(out, "ulimit -u") || strings.Contains(out, "goroutine") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// readable copies a program to where every user can start it.
func readable(t *testing.T, exe string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lowpack")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "lowpack")
	program, err := os.ReadFile(exe)
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o755), os.WriteFile(path, program, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}
