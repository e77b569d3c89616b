package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
)

// TestTruncatedUnderUse cuts a packed file to one page while a command has it mapped, at many moments: while it loads,
// in the workers' assembly, in single-goroutine reads. The command reports what happened to which file, with exit code
// 1, and leaves nothing behind; a command that had finished before is fine, and is run again if all had.
func TestTruncatedUnderUse(t *testing.T) {
	t.Parallel()
	packed := tinymodel.Path(t)
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, bytes.Repeat([]byte("Once upon a time there was a fox. "), 2000), 0o600); err != nil {
		t.Fatal(err)
	}
	moments := []time.Duration{0, 5, 40, 150}
	if long.All {
		moments = []time.Duration{0, 2, 5, 10, 20, 40, 80, 150, 300}
	}
	for name, args := range map[string][]string{
		"run":     {"run", "FILE", "-p", "Once", "-n", "-1", "--threads", "2"},
		"eval":    {"eval", "FILE", "--text", text, "--threads", "2"},
		"against": {"eval", packed, "--against", "FILE", "--text", text, "--threads", "2"},
		"bench": {"bench", "FILE", "--prompt", "64", "--generate", "16", "--batch", "1,4", "--context", "64",
			"--threads", "2"},
		"repack": {"repack", "FILE", "--layout", "i2", "-o", "TARGET"},
		"verify": {"verify", "FILE", "--threads", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := 0
			for _, moment := range moments {
				if cutAt(t, moment*time.Millisecond, packed, args) {
					seen++
				}
			}
			for again := 0; seen == 0 && again < 100; again++ {
				if cutAt(t, 0, packed, args) {
					seen++
				}
			}
			if t.Logf("%d times", seen); seen == 0 {
				t.Error("nobody noticed")
			}
		})
	}
}

// cutAt cuts a copy of a packed file some time after a command has mapped it, and reports whether the command noticed.
func cutAt(t *testing.T, moment time.Duration, packed string, args []string) bool {
	t.Helper()
	dir := t.TempDir()
	file, target := filepath.Join(dir, "model"), filepath.Join(dir, "target")
	if err := copyFile(packed, file); err != nil {
		t.Fatal(err)
	}
	o := whileMapped(t, file, moment, strings.NewReplacer("FILE", file, "TARGET", target), args...)
	entries, _ := os.ReadDir(dir)
	trace, complete := strings.Contains(o.out, "goroutine "), strings.Contains(o.out, "were written")
	switch {
	case strings.Contains(o.out, file+": "+file), strings.Contains(o.out, packed+": "+file):
		t.Errorf("after %v: the file is named twice\n%s", moment, o.out)
	case o.code == 0:
	case o.code != 1 || !strings.Contains(o.out, file) || trace || complete || len(entries) != 1:
		t.Errorf("after %v: exit code %d, %d files\n%s", moment, o.code, len(entries), o.out)
	}
	return strings.Contains(o.out, file+": changed or truncated while in use") ||
		strings.Contains(o.out, "the file became shorter while it was read") // verify reads before it maps
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
	return stoppedWhen(t, func(pid int) bool { return hasMapped(pid, path) }, wait,
		func() error { return os.Truncate(path, int64(os.Getpagesize())) }, args...)
}

// hasMapped reports whether a process has a file mapped, or has ended.
func hasMapped(pid int, path string) bool {
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	return err != nil || len(list) == 0 || bytes.Contains(list, []byte(path))
}
